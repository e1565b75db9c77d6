"""The options that several commands share, each declared once.

What is said here is what ``--help`` and docs/cli.md say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volley.records import Sampling
from volley.report import FORMATS
from volley.sizes import VALID_FORMS
from volley.text import several

LAUNCHERS = ("auto", "openmpi", "mpich", "srun", "jsrun")

WHAT, HOW, WHERE, OUTPUT = "What to measure", "How to measure", "Where to run", "Output"
_DEFAULTS = Sampling()

Transports = Annotated[
    list[str] | None,
    typer.Option(
        "--transport",
        "-t",
        metavar="NAME,…",
        rich_help_panel=WHAT,
        help="Transports to compare, separated by commas; all: every one there is (volley transports lists them).",
        show_default="those that carry data",
    ),
]
Sizes = Annotated[
    str,
    typer.Option(
        "--sizes",
        "-s",
        metavar="SIZES",
        rich_help_panel=WHAT,
        help=f"Message sizes in bytes: {VALID_FORMS}. k, M, G mean the same as Ki, Mi, Gi: powers of 1024.",
    ),
]
Direction = Annotated[
    str,
    typer.Option(
        metavar="uni|bi",
        rich_help_panel=WHAT,
        help="uni: the first rank sends; bi: both send at once, and each direction and the total are shown.",
    ),
]
Window = Annotated[
    int,
    typer.Option(min=1, metavar="N", rich_help_panel=WHAT, help="Messages in flight before one acknowledgement."),
]
Interval = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        rich_help_panel=HOW,
        help="Take samples until the 95 % interval of the median is within ± this much of it.",
        show_default=f"{_DEFAULTS.interval * 100:g}%",
    ),
]
PointTime = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=HOW,
        help="Give up on the interval, and go on to the next size, after this time a point.",
        show_default=f"{_DEFAULTS.point_time_s:g}",
    ),
]
Warmup = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        rich_help_panel=HOW,
        help="Fixed sampling, as the tutorial's: this many untimed exchanges, then --iterations timed in one batch.",
        show_default=f"{_DEFAULTS.warmup} where --iterations is given",
    ),
]
Iterations = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        rich_help_panel=HOW,
        help="Fixed sampling: this many exchanges, timed as one batch.",
        show_default=f"{_DEFAULTS.iterations} where --warmup is given",
    ),
]
Tail = Annotated[
    bool,
    typer.Option(
        "--tail",
        rich_help_panel=HOW,
        help="Time every exchange by itself and show percentiles; costs the clock's time.",
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify",
        rich_help_panel=HOW,
        help="Check the last message of every sample, byte for byte, untimed.",
    ),
]
FreshBuffers = Annotated[
    bool,
    typer.Option(
        "--fresh-buffers", rich_help_panel=HOW, help="Allocate new buffers for every size, as the tutorial does."
    ),
]
Launches = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        rich_help_panel=HOW,
        help="Repeat the whole launch; from 6 on the interval is that of the launches' medians.",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=HOW,
        help="Start no further point after this time; what is left is shown as skipped.",
    ),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        metavar="HOST,…",
        rich_help_panel=WHERE,
        help="Hosts of the ranks, in their order.",
        show_default="this one, or the allocation's",
    ),
]
Gpus = Annotated[
    str | None,
    typer.Option(
        metavar="N,…", rich_help_panel=WHERE, help="GPUs of the ranks, in their order.", show_default="one a rank"
    ),
]
ShareGpu = Annotated[
    bool, typer.Option("--share-gpu", rich_help_panel=WHERE, help="Allow two ranks on one GPU; the records say so.")
]
Launcher = Annotated[
    str,
    typer.Option(metavar="NAME", rich_help_panel=WHERE, help=f"What starts the ranks: {several(LAUNCHERS, 'or')}."),
]
LauncherArgs = Annotated[
    list[str] | None,
    typer.Option(
        "--launcher-arg",
        metavar="WORD",
        rich_help_panel=WHERE,
        help="One more word for the launcher's command line, e.g. --launcher-arg=--mca; may be repeated.",
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option("--ranks", "-n", min=1, metavar="N", rich_help_panel=WHERE, help="Ranks to start.", show_default="2"),
]
Watchdog = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=WHERE,
        help="End the job, and say where it hangs, after so long without progress.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", rich_help_panel=WHERE, help="Show the plan and the launcher's command; start nothing."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Keep the records here (JSON Lines; volley show reads them). They are always kept somewhere.",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="NAME",
        rich_help_panel=OUTPUT,
        help=f"{several(FORMATS, 'or')}; olcf: the ping-pong tutorial's line, with its GB of 2^30 bytes; seed: "
        "the lines of NVIDIA's Jacobi example. "
        "With any but table, standard output carries data only.",
    ),
]
