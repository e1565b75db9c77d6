"""The options of ``volley compare`` and ``volley references``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from volley.command import option_values
from volley.command.commandline import Options, argument, flag, group, option
from volley.command.options import HOW, OUTPUT, WHAT, WHICH, OutputOptions
from volley.errors import UserError
from volley.statistics.two_runs import MAX_COMPARISONS

MAX_SIDES = MAX_COMPARISONS + 1


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
    """A point that may have changed by ``share`` counts too; without ``share``, one whose verdict is undecided."""


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


def _sweep(option_name: str, words: Sequence[str]) -> tuple[str, tuple[str | None, ...]]:
    name, _, values = words[-1].partition("=")
    found = tuple(value or None for value in values.split(","))
    if not name.isidentifier() or not 2 <= len(set(found)) == len(found) <= MAX_SIDES:
        raise UserError(
            f"{option_name}: {words[-1]!r} is not a variable with 2 to {MAX_SIDES} different values: write e.g. "
            f"{option_name} UCX_RNDV_THRESH=8,1k,8k"
        )
    return name, found


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    runs: tuple[str, ...] = argument(
        "RECORDS…",
        positional="*",
        help="Files of records, or ids or names of saved runs (volley list), or names of references (volley "
        "references), the baseline first; command lines with --live, one with --sweep.",
    )
    live: bool = flag(panel=WHAT, help="Run command lines of volley in turn, and compare the others with the first.")
    sweep: tuple[str, tuple[str | None, ...]] | None = option(
        read=_sweep,
        metavar="NAME=VALUE,…",
        panel=WHAT,
        help="Run one command line of volley with each value of an environment variable in turn, the baseline first; "
        "an empty value: not set.",
    )
    launches: int | None = option(
        read=option_values.number(),
        shown="8, or as many as show a change",
        panel=HOW,
        help="With --live and --sweep: launches of each command line.",
    )
    within: float = option(
        read=option_values.percentage,
        default=0.05,
        shown="5%",
        panel=HOW,
        help="Call points equal if the interval lies within ± this percentage.",
    )
    fail_on: FailOn | None = option(
        read=_fail_on,
        metavar="WHAT:PERCENT,…",
        panel=OUTPUT,
        help="Exit code 1 if a point is shown to be slower (slower:5%), or to differ (changed:5%), by this percentage "
        "with its whole 95 % interval, or if the second run has a failed point or an incomplete launch, or lacks a "
        "point of the first; with undecided (slower:5%,undecided) also if one may be, and with undecided alone if the "
        "verdict of one is undecided. Else exit code 4 if each point may be, or if one has too few launches to tell.",
    )
    page: Path | None = option(
        "--output",
        "-o",
        read=option_values.file,
        panel=OUTPUT,
        help="Also write the comparison as one HTML page (NAME.html), or its charts as NAME.svg or NAME.png.",
    )
    folder: Path | None = option(
        "--records",
        read=option_values.file,
        shown="new files in the state folder",
        metavar="FOLDER",
        panel=OUTPUT,
        help="With --live and --sweep: where the records go: a.jsonl, b.jsonl and so on.",
    )
    output: OutputOptions = group(
        OutputOptions,
        only=("force", "format", "full", "quiet"),
        force={"help": "Let records and page replace what is in their files."},
        full={"help": "Show every point and every difference of the environments."},
    )


@dataclass(frozen=True, kw_only=True)
class ReferencesOptions(Options):
    name: tuple[str, ...] = argument(
        "[NAME]", positional="*", help="Show this reference with all its figures; with --add, the file of records."
    )
    add: str | None = option(
        read=option_values.run_name, panel=WHICH, help="Keep a file of records as a reference of this name."
    )
    output: OutputOptions = group(OutputOptions, only=("format",))
