"""The groups of options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from volley.run import readers
from volley.run.commandline import Options, flag, group, option
from volley.run.launchers.launchers import NAMES
from volley.text import join_words

WHAT, HOW, WHERE, OUTPUT = "What to measure", "How to measure", "Where to run", "Output"
FORMATS = ("table", "csv", "json")
"""Every benchmark has these."""


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(Options):
    """When samples are enough, and whether they are verified."""

    ci: float = option(
        read=readers.percentage,
        default=0.01,
        shown="1%",
        metavar="PERCENT",
        panel=HOW,
        help="Take samples until the 95 % confidence interval of the median is within ± this much of it.",
    )
    point_time: float = option(
        read=readers.seconds,
        default=1.0,
        metavar="SECONDS",
        panel=HOW,
        help="Go on to the next size after this time a point, also where the confidence interval is still wider.",
    )
    tail: bool = flag(panel=HOW, help="Time every exchange by itself and show percentiles; costs the clock's time.")
    warmup: int = option(
        read=readers.number(least=0),
        default=5,
        shown="5 where --iterations is given",
        metavar="N",
        panel=HOW,
        help="Fixed sampling, as the tutorial's: this many untimed exchanges, then --iterations timed in one batch.",
    )
    iterations: int = option(
        read=readers.number(),
        default=50,
        shown="50 where --warmup is given",
        metavar="N",
        panel=HOW,
        help="Fixed sampling: this many exchanges, timed as one batch.",
    )
    budget: float | None = option(
        read=readers.seconds,
        metavar="SECONDS",
        panel=HOW,
        help="Start no further point after this time; the rest is shown as skipped.",
    )
    verify: bool = flag(
        default=True, panel=HOW, help="Check the last message of every sample, byte for byte, outside the timed region."
    )


@dataclass(frozen=True, kw_only=True)
class JobOptions(Options):
    """Where the ranks run, and how they are started."""

    launches: int = option(
        read=readers.number(),
        default=1,
        metavar="N",
        panel=HOW,
        help="Repeat the whole launch; from 6 on the interval is that of the launches' medians.",
    )
    ranks: int | None = option(
        "--ranks", "-n", read=readers.number(), shown="2", metavar="N", panel=WHERE, help="Ranks to start."
    )
    hosts: tuple[str, ...] = option(
        read=readers.names,
        default=(),
        shown="this one, or the allocation's",
        metavar="HOST,…",
        panel=WHERE,
        help="Hosts of the ranks, in their order.",
    )
    gpus: tuple[int, ...] = option(
        read=readers.numbers,
        default=(),
        shown="one a rank",
        metavar="N,…",
        panel=WHERE,
        help="GPUs of the ranks, in their order.",
    )
    share_gpu: bool = flag(panel=WHERE, help="Allow two ranks on one GPU; the records say so.")
    launcher: str = option(
        read=readers.choice(*NAMES),
        default="auto",
        metavar="NAME",
        panel=WHERE,
        help=f"What starts the ranks: {join_words(NAMES, 'or')}.",
    )
    launcher_arg: tuple[str, ...] = option(
        read=readers.texts,
        default=(),
        repeat=True,
        metavar="WORD",
        panel=WHERE,
        help="One more word for the launcher's command line, e.g. --launcher-arg=--mca; may be repeated.",
    )
    watchdog: float = option(
        read=readers.seconds,
        default=60.0,
        metavar="SECONDS",
        panel=WHERE,
        help="Abort after this long without progress, and say where the job hangs.",
    )
    dry_run: bool = flag(panel=WHERE, help="Show the plan and the launcher's command; start nothing.")


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options):
    """Where records and report go."""

    output: Path | None = option(
        "--output",
        "-o",
        read=readers.new_file,
        shown="a new file in the state folder, which is named at the end",
        metavar="FILE",
        panel=OUTPUT,
        help="Keep the records here (JSON Lines; volley show reads them).",
    )
    format: str = option(
        "--format",
        "-f",
        read=readers.choice(*FORMATS),
        default="table",
        metavar="NAME",
        panel=OUTPUT,
        help=f"{join_words(FORMATS, 'or')}. With any but table, standard output carries data only.",
    )


def format_change(special: Mapping[str, str]) -> dict[str, Any]:
    """Return what differs in ``--format`` where there are special formats: their names, and what each is."""
    names = (*FORMATS, *special)
    explained = "; ".join(f"{name}: {text}" for name, text in special.items())
    return {
        "read": readers.choice(*names),
        "help": f"{join_words(names, 'or')}; {explained}. With any but table, standard output carries data only.",
    }


def output_group(special: Mapping[str, str] | None = None) -> Any:
    """Declare the field ``output`` of a benchmark's options, with its special formats."""
    return group(OutputOptions, format=format_change(special)) if special else group(OutputOptions)


class BenchmarkOptions(Protocol):
    """What the options of every benchmark have."""

    @property
    def job(self) -> JobOptions:
        """Where the ranks run."""

    @property
    def output(self) -> OutputOptions:
        """Where records and report go."""
