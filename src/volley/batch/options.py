"""The options of ``volley batch``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from volley.batch.schedulers import SCHEDULERS
from volley.command import option_values
from volley.command.commandline import Options, argument, flag, option
from volley.command.options import LAUNCHERS
from volley.errors import UserError
from volley.text import join_words

_JOB, _SCRIPT = "What the job asks for", "What the script does"
_TIME = re.compile(r"(\d{1,4}):([0-5]\d):([0-5]\d)", re.ASCII)
_JOB_NAME = option_values.matching(
    "NAME", "[A-Za-z][A-Za-z0-9_.+-]*", "not a job name: use a letter, then letters, digits and . _ - +"
)
"""It becomes part of a file's name, and Grid Engine wants a letter first."""
_NAME = option_values.matching(
    "NAME",
    "[A-Za-z0-9_.+:@%=/~^][A-Za-z0-9_.+:@%=/~^,-]*",
    "not a name that batch systems accept: use letters, digits and . _ - + : @ / %",
)
"""What every batch system takes as a name without quotes; each quotes in its own way, or not at all."""


@option_values.reads("HH:MM:SS")
def _time(name: str, words: Sequence[str]) -> int:
    match = _TIME.fullmatch(words[-1])
    hours, minutes, seconds = map(int, match.groups()) if match else (0, 0, 0)
    if not hours + minutes + seconds:
        raise UserError(f"{name}: {words[-1]!r} is not a time limit: write HH:MM:SS, e.g. 00:15:00")
    return hours * 3600 + minutes * 60 + seconds


@option_values.reads("NAME")
def _modules(name: str, words: Sequence[str]) -> tuple[str, ...]:
    for module in words:
        if not module or module.startswith("-"):
            raise UserError(f"{name}: {module!r} is not a module")
    return tuple(words)


@option_values.reads("WORDS")
def _more_directives(name: str, words: Sequence[str]) -> tuple[str, ...]:
    if not all(directive.strip() for directive in words):
        raise UserError(f"{name}: '' is not a directive; write it as the batch system reads it, e.g. --exclusive")
    return tuple(words)


@dataclass(frozen=True, kw_only=True)
class BatchOptions(Options):
    PANEL = _JOB

    scheduler: str = option(
        read=option_values.choice(*SCHEDULERS),
        default="",
        metavar="NAME",
        help=f"The batch system: {join_words(SCHEDULERS, 'or')} (Grid Engine).",
    )
    nodes: int = option(read=option_values.number(), default=1, help="Nodes; the ranks are spread over them.")
    ranks: int | None = option("-n", read=option_values.number(), shown="the command's", help="Ranks.")
    gpus_per_node: int | None = option(
        read=option_values.number(), shown="what the site gives", help="GPUs of each node."
    )
    share_nodes: bool = flag(help="Accept nodes on which other jobs run: they may disturb what is measured.")
    time: int = option(read=_time, default=900, shown="00:15:00", help="The time limit of the job.")
    account: str | None = option(read=_NAME, help="Account, project or group that pays.")
    queue: str | None = option("--queue", "--partition", read=_NAME, help="Queue or partition.")
    job_name: str = option(read=_JOB_NAME, default="volley", help="Name of the job and of its output file.")
    node_resource: str | None = option(
        read=_NAME, help="Grid Engine: the site's name for a resource of one node, e.g. rt_AF."
    )
    directive: tuple[str, ...] = option(
        read=_more_directives,
        repeat=True,
        help="One more directive, as the batch system writes it, e.g. --directive=--constraint=a100; may be repeated.",
    )
    module: tuple[str, ...] = option(
        read=_modules, repeat=True, panel=_SCRIPT, help="A module to load; may be repeated."
    )
    launcher: str = option(
        read=option_values.choice(*LAUNCHERS),
        default="auto",
        metavar="NAME",
        panel=_SCRIPT,
        help=f"What starts the ranks: {join_words(LAUNCHERS, 'or')}. auto: srun under Slurm, jsrun under LSF, else the "
        "engine's own mpirun. Under LSF without jsrun: openmpi or mpich.",
    )
    output: Path | None = option(
        "-o",
        read=option_values.new_file,
        shown="standard output",
        panel=_SCRIPT,
        help="Write the script here.",
    )
    force: bool = flag(panel=_SCRIPT, help="Let the script replace what is in its file.")
    command: tuple[str, ...] = argument(
        "[-- COMMAND …]", positional="...", help="The command line of volley in the job, after --."
    )

    def __post_init__(self) -> None:
        if not self.scheduler:
            raise UserError(f"name the batch system: --scheduler {join_words(SCHEDULERS, 'or')}")
        if self.node_resource and self.scheduler != "age":
            raise UserError(f"--node-resource is Grid Engine's: leave it out for {self.scheduler}")
