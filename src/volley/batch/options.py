"""The options of ``volley batch``, and how they become an order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volley.errors import UserError

if TYPE_CHECKING:
    from volley.batch.script import Order

_JOB, _SCRIPT = "What the job asks for", "What the script does"
_TIME = re.compile(r"(\d{1,4}):([0-5]\d):([0-5]\d)", re.ASCII)
DEFAULT_TIME = "00:15:00"
"""A short job starts soon, and a ping-pong of all transports is over in a few minutes."""

Scheduler = Annotated[
    str,
    typer.Option(metavar="NAME", rich_help_panel=_JOB, help="The batch system: slurm, lsf, pbs or age (Grid Engine)."),
]
Nodes = Annotated[
    int, typer.Option(min=1, metavar="N", rich_help_panel=_JOB, help="Nodes; the ranks spread over them.")
]
Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks", "-n", min=1, metavar="N", rich_help_panel=_JOB, help="Ranks.", show_default="the command's"
    ),
]
GpusPerNode = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", rich_help_panel=_JOB, help="GPUs of each node.", show_default="what the site gives"
    ),
]
Time = Annotated[str, typer.Option(metavar="HH:MM:SS", rich_help_panel=_JOB, help="The job is ended after so long.")]
Account = Annotated[
    str | None, typer.Option(metavar="NAME", rich_help_panel=_JOB, help="Account, project or group that pays.")
]
Queue = Annotated[
    str | None,
    typer.Option("--queue", "--partition", "-q", metavar="NAME", rich_help_panel=_JOB, help="Queue or partition."),
]
JobName = Annotated[
    str, typer.Option(metavar="NAME", rich_help_panel=_JOB, help="The job's name, and its output file's.")
]
NodeResource = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=_JOB, help="Grid Engine: the site's resource that is one node, e.g. rt_AF."
    ),
]
Directives = Annotated[
    list[str] | None,
    typer.Option(
        "--directive",
        metavar="WORDS",
        rich_help_panel=_JOB,
        help="One more directive, as the batch system writes it, e.g. --directive=--exclusive; may be repeated.",
    ),
]
Modules = Annotated[
    list[str] | None,
    typer.Option("--module", metavar="NAME", rich_help_panel=_SCRIPT, help="A module to load; may be repeated."),
]
Launcher = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_SCRIPT,
        help="What starts the ranks: auto (srun under Slurm, jsrun under LSF, else the engine's own mpirun), "
        "openmpi, mpich, srun or jsrun.",
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        metavar="volley|launcher",
        rich_help_panel=_SCRIPT,
        help="What the last line starts: volley, which starts the launcher, or the launcher, which starts volley.",
        show_default="volley; launcher with jsrun",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", rich_help_panel=_SCRIPT, help="Write the script here.", show_default="stdout"
    ),
]
Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- [COMMAND …]", help="What volley shall do there, as on its own command line."),
]


def order(options: Mapping[str, Any]) -> Order:
    """Turn parsed options into an order.

    Raises:
        UserError: if the time is none.
    """
    from volley.batch.schedulers import Resources  # noqa: PLC0415  start-up: --help does without
    from volley.batch.script import Order  # noqa: PLC0415

    resources = Resources(
        nodes=options["nodes"],
        time_s=_seconds(options["time"]),
        gpus_per_node=options["gpus_per_node"],
        account=options["account"],
        queue=options["queue"],
        name=options["job_name"],
        node_resource=options["node_resource"],
    )
    return Order(
        scheduler=options["scheduler"],
        resources=resources,
        ranks=options["ranks"],
        modules=tuple(options["module"] or ()),
        directives=tuple(options["directive"] or ()),
        launcher=options["launcher"],
        start=options["start"],
        output=Path(options["output"]) if options["output"] else None,
    )


def _seconds(text: str) -> int:
    match = _TIME.fullmatch(text)
    seconds = (
        sum(int(number) * unit for number, unit in zip(match.groups(), (3600, 60, 1), strict=True)) if match else 0
    )
    if seconds == 0:
        raise UserError(f"--time: {text!r} is no time for a job: write HH:MM:SS, e.g. {DEFAULT_TIME}")
    return seconds
