"""The options of ``volley compare`` and ``volley references``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from volley.command import option_values
from volley.command.commandline import Options, argument, flag, group, option
from volley.command.options import HOW, OUTPUT, WHAT, OutputOptions
from volley.errors import UserError


@dataclass(frozen=True)
class FailOn:
    """When the exit code is 1."""

    typed: str
    """The option with its value, as messages name it."""
    share: float | None
    """The smallest change that counts, as a fraction; ``None``: no change counts."""
    either_way: bool = False
    """Points that are faster count too."""
    undecided: bool = False
    """Undecided points count too."""


def _fail_on(option_name: str, words: Sequence[str]) -> FailOn:
    typed, share = f"{option_name} {words[-1]}", None
    changes: list[str] = []
    conditions = words[-1].split(",")
    for condition in conditions:
        what, _, percentage = condition.partition(":")
        if what in {"slower", "changed"} and not changes:
            most = option_values.LARGEST_SLOWDOWN
            share = option_values.fraction(option_name, percentage or "1%", before=f"{what}:", most=most)
            changes.append(what)
        elif condition != "undecided":
            valid = "slower:5%, changed:5%, undecided or slower:5%,undecided"
            raise UserError(f"{option_name}: {words[-1]!r} is not a condition: write {option_name} {valid}")
    return FailOn(typed, share, either_way="changed" in changes, undecided="undecided" in conditions)


def _two_files(option_name: str, words: Sequence[str]) -> tuple[Path, Path]:
    first, second = (option_values.new_file(option_name, [word]) for word in words)
    if first == second:
        raise UserError(f"{option_name}: both files are {words[0]}: name two files, one for each command")
    return first, second


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    """What ``volley compare`` takes."""

    records: tuple[str, ...] = argument(
        "RECORDS…",
        positional="*",
        help="Two files of records, or numbers or names of kept runs (volley list), or names of references (volley "
        "references), the baseline first; one with --with; two command lines with --live.",
    )
    live: bool = flag(panel=WHAT, help="Run two command lines of volley in turn, and compare them pair by pair.")
    reference: str | None = option(
        "--with",
        "--expect",
        read=option_values.text,
        metavar="NAME",
        panel=WHAT,
        help="Compare one run with this reference or file of records, of which only the medians count.",
    )
    tolerance: float | None = option(
        read=option_values.slowdown,
        metavar="PERCENT",
        panel=OUTPUT,
        help="With --with: exit code 1 if a point is slower than the reference by this percentage with the whole 95 % "
        "interval of the run (of fewer than 3 launches: in all of them), or failed, or lacks, or a launch is "
        "incomplete.",
    )
    pairs: int = option(
        read=option_values.number(),
        default=8,
        metavar="N",
        panel=HOW,
        help="With --live: launches of each command line.",
    )
    paired: bool = flag(panel=HOW, help="The files are those of --live: compare launch 1 with launch 1, and so on.")
    within: float = option(
        read=option_values.percentage,
        default=0.05,
        shown="5%",
        metavar="PERCENT",
        panel=HOW,
        help="Call points equal if the interval lies within ± this percentage.",
    )
    fail_on: FailOn | None = option(
        read=_fail_on,
        metavar="WHAT:PERCENT,…",
        panel=OUTPUT,
        help="Exit code 1 if a point is shown to be slower (slower:5%), or to differ (changed:5%), by this percentage "
        "with its whole 95 % interval, or if the second run has a failed point or an incomplete launch, or lacks a "
        "point of the first; with undecided (slower:5%,undecided) also if a point is undecided. Exit code 4 if all "
        "points are undecided.",
    )
    keep: tuple[Path, Path] | None = option(
        "--output",
        "-o",
        read=_two_files,
        words=2,
        shown="new files in the state folder",
        metavar="FILE FILE",
        panel=OUTPUT,
        help="With --live: files for the records of the first and of the second command line.",
    )
    output: OutputOptions = group(
        OutputOptions,
        only=("format", "full", "quiet"),
        full={"help": "Show every point and every difference of the environments."},
    )


@dataclass(frozen=True, kw_only=True)
class ReferencesOptions(Options):
    """What ``volley references`` takes."""

    name: tuple[str, ...] = argument(
        "[NAME]", positional="*", help="Show this reference with all its figures; with --add, the file of records."
    )
    add: str | None = option(
        read=option_values.text, metavar="NAME", panel=WHAT, help="Keep a file of records as a reference of this name."
    )
    output: OutputOptions = group(OutputOptions, only=("format",))
