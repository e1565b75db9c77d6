"""What a comparison found, in sentences: its headline, the verdict about a point and that of a gate, and what would
decide where there is none."""

from __future__ import annotations

import math

import numpy as np

from volley.benchmarks import named
from volley.command.commandline import declared
from volley.compare.comparison import Comparison, Side
from volley.compare.environment import fact_in_words
from volley.compare.options import FailOn
from volley.errors import EXIT_FAILED, EXIT_GOOD, EXIT_UNDECIDED
from volley.records.command_again import command_again
from volley.report.cells import LARGEST_PERCENT
from volley.statistics.launches import FEASIBLE, MIN_LAUNCHES
from volley.statistics.two_runs import Integers, min_beside, min_to_decide
from volley.text import count, join_few, join_words
from volley.units import SizeError, format_sig, parse_size, slower_or_faster


def headline(comparison: Comparison) -> str:
    """Return the finding; ``TWO WAYS (in place): allreduce host is …`` where no change could be one of the machine."""
    if not comparison.ways:
        return f"{'CHANGED: ' if comparison.of('changed').size else ''}{_finding(comparison)}"
    return f"TWO WAYS ({join_words(map(fact_in_words, comparison.ways))}): {_finding(comparison)}"


def _finding(comparison: Comparison) -> str:
    changed, same, points = comparison.of("changed"), comparison.of("same"), len(comparison.at)
    what = "DIFFERENCE" if comparison.ways else "CHANGE"
    if not comparison.first.repeats:
        ratios = comparison.differences.ratio
        middles = [
            f"{series} {format_sig(float(np.median(ratios[those])), 3)}"
            for series, those in comparison.by_series().items()
        ]
        return (
            f"NO VERDICT: {comparison.first.name} has no repeats, so there are only ratios; time of "
            f"{comparison.letter} / time of A: {join_few(middles)} (medians of {count(points, 'point')})"
        )
    if not comparison.possible:
        return f"NO VERDICT: {too_few(comparison)}"
    if not changed.size:
        widest = int(comparison.same_within[same].max(initial=0))
        if same.size == points:
            return f"SAME: {count(points, 'point')} {_are(points)} the same within {widest} %"
        if not same.size:
            return f"NO {what} SHOWN: {count(points, 'point')} {_are(points)} undecided"
        shown, left = f"{same.size} of {count(points, 'point')}", points - same.size
        return f"NO {what} SHOWN: {shown} {_are(same.size)} the same within {widest} %, {left} {_are(left)} undecided"
    parts = [_series_headline(name, those, comparison) for name, those in comparison.by_series(changed).items()]
    return join_few(parts, 3)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _series_headline(series: str, changed: Integers, comparison: Comparison) -> str:
    """``aware is 1.6 to 5.1 % slower at 7 of 9 points (8 B to 64 MiB)``, or ``slower at 1 and faster at 2 of 9``."""
    at = [comparison.at[point] for point in changed.tolist()]
    try:
        sizes = sorted(at, key=parse_size)
        where = " to ".join(dict.fromkeys((sizes[0], sizes[-1])))
    except SizeError:
        where = join_few(at, 2)
    points = comparison.by_series()[series].size
    of = f"of {points} points ({where})"
    ratios = comparison.differences.ratio[changed]
    slower = np.count_nonzero(ratios > 1)
    if slower not in (0, changed.size):
        return f"{series} is slower at {slower} and faster at {changed.size - slower} {of}"
    ends = sorted((float(np.min(ratios)), float(np.max(ratios))), key=lambda ratio: max(ratio, 1 / ratio))
    least, most = map(slower_or_faster, ends)
    number, _, unit = least.partition(" ")
    least = number if most.endswith(f" {unit}") else least.rpartition(" ")[0]  # the unit stands once
    how = f"{series} is {most if most.startswith(f'{least} ') else f'{least} to {most}'}"
    return f"{how} at {changed.size} {of}" if points > 1 else f"{how} at {where}" if where else how


def point_words(comparison: Comparison, point: int) -> str:
    """Name a point with its ratio and interval: ``aware at 8 B takes 1.051 times as long (95 % CI 1.047 to 1.055)``."""
    found = comparison.differences
    low, high, kind = (each[point] for each in found.shown)
    bounds = f"{low:.3f} to {high:.3f}"
    how = {"ci": f"95 % CI {bounds}", "range": f"no CI, {bounds} in all launches", "single": "no CI, one launch"}
    return f"{comparison.point_name(point)} takes {found.ratio[point]:.3f} times as long ({how[kind]})"


def verdict_words(comparison: Comparison, point: int) -> str:
    """Return the verdict in words: ``5.1 % slower``, ``same within 2 %``, ``undecided: needs about 14 launches``."""
    verdict, ratio = comparison.verdicts[point], float(comparison.differences.ratio[point])
    if verdict == "changed" or not comparison.first.repeats:
        return slower_or_faster(ratio)
    if verdict == "same":
        return f"same within {comparison.same_within[point]:.0f} %"
    if point in comparison.drifted:
        return f"undecided: {slower_or_faster(ratio)}, or drift"
    needed = comparison.launches_needed[point]
    launches = f"more than {FEASIBLE}" if np.isnan(needed) else f"about {needed:.0f}"
    return f"undecided: needs {launches} launches"


def gate(comparison: Comparison, condition: FailOn) -> tuple[int, str]:
    """Return the exit code of ``--fail-on``, and a line: passed, failed or undecided, and what the gate can see.

    Of several comparisons the line names the run.
    """
    code, words = _judged(comparison, condition)
    return code, words if comparison.comparisons == 1 else f"{comparison.letter} {words}"


def _judged(comparison: Comparison, condition: FailOn) -> tuple[int, str]:
    failing, undecided, points = comparison.failing(condition), comparison.undecided(condition), len(comparison.at)
    sees = f"; these launches can show {_detectable(comparison, condition)}" if condition.share else ""
    if comparison.lost or failing.size:
        reasons = [*comparison.lost, *(point_words(comparison, point) for point in failing.tolist())]
        return EXIT_FAILED, f"failed: {join_few(reasons)}{sees}"
    first, blind = comparison.first, np.count_nonzero(~comparison.able)
    lacks = f"{first.name} lacks {comparison.missing(comparison.only[1])}" if comparison.only[1] else ""
    unseen = [f"{lacks}, and has {first.incomplete}"] if lacks and first.incomplete else []
    unseen += [("" if blind == points else f"{blind} of {points} points: ") + too_few(comparison)] if blind else []
    if not undecided.size and not unseen:
        return EXIT_GOOD, f"passed{sees}{f'; {lacks}' if lacks and first.repeats else ''}"
    # "undecided" is the table's verdict about --within; what the condition asks is another question.
    doubt, drifted = f"{_are(undecided.size)} undecided", np.intersect1d(undecided, comparison.drifted).size
    if condition.share:
        doubt = f"may {'differ' if condition.either_way else 'be slower'} by {condition.share * 100:g} % or more"
    doubt += f" ({drifted} perhaps because of drift: use --live)" if drifted else ""
    why = "; ".join(unseen) or f"{undecided.size} of {count(points, 'point')} {doubt}{sees}"
    if condition.undecided:
        return EXIT_FAILED, f"failed: {why}"
    if unseen or undecided.size == points:
        return EXIT_UNDECIDED, f"undecided: {why}"
    return EXIT_GOOD, f"passed, {why}"


def _detectable(comparison: Comparison, condition: FailOn) -> str:
    """``slowdowns of 6 % or more``; ``changes of 6 % or more at half of the points, of 9 % or more at all of them``."""
    what = "changes" if condition.either_way else "slowdowns"
    seen = np.sort(comparison.detectable(condition.share or 0.0))
    known = seen[np.isfinite(seen)]
    if not known.size:
        return "nothing with a 95 % interval"
    half, largest = map(_or_more, (known[(len(known) - 1) // 2], known[-1]))
    if known.size < seen.size:
        return f"{what} of {largest} at {known.size} of {count(seen.size, 'point')}, and none at the others"
    if half == largest:
        return f"{what} of {largest}"
    return f"{what} of {half} at half of the points, of {largest} at all of them"


def _or_more(change: float) -> str:
    per_cent = math.ceil(100 * change - 1e-9)
    return f"{per_cent} % or more" if per_cent <= LARGEST_PERCENT else f"more than {LARGEST_PERCENT} %"


def too_few(comparison: Comparison) -> str:
    repeats, letter = comparison.first.repeats, comparison.letter
    needed = min_to_decide(paired=comparison.paired, comparisons=comparison.comparisons) if repeats else MIN_LAUNCHES
    if comparison.paired:
        made = int(comparison.differences.launches[0][~comparison.able].max())
        return f"{count(made, 'pair')} {_are(made)} too few to show a change: use --launches {needed} or more"
    sides = list(comparison.sides)
    can, fewest = f"{needed} launches of each run", [int(np.min(those)) for those in comparison.differences.launches]
    more, fewer = (0, 1) if fewest[0] >= fewest[1] else (1, 0)
    beside = min_beside(fewest[more], comparisons=comparison.comparisons)
    if not repeats:
        can, sides = f"{needed} launches of {letter}", sides[1:]
    elif beside <= needed:  # the run with more launches stays
        can = f"{beside} launches of {sides[fewer][0]} beside {fewest[more]} of {sides[more][0]}"
        sides, needed = [sides[fewer]], beside
    commands = [_commands_again(comparison, side, needed) for _, side in sides]
    who, file = ("each run", "A") if len(sides) == 2 else (sides[0][0], sides[0][0])
    if any(len(each) != 1 for each in commands):  # the records are of several commands, or of volley check
        again = f"{who} again {needed} times or more and join its records (cat {file}1 {file}2 … > {file})"
    elif commands[0] == commands[-1]:
        again = f"{who} again with {commands[0][0]}"
    else:
        again = ", and ".join(f"{name} again with {line}" for (name, _), (line,) in zip(sides, commands, strict=True))
    one, other = map(launches_in_words, comparison.differences.launches)
    both, or_live = (f"A: {one}; ", ", or use --live") if repeats else ("", "")
    return f"{can} can show a change, these are too few ({both}{letter}: {other}): measure {again}{or_live}"


def _commands_again(comparison: Comparison, side: Side, launches: int) -> list[str]:
    """Return the commands that measure what is compared again; nothing where one has no ``--launches``."""
    commands: dict[str, None] = {}
    for sweep, at in comparison.firsts:
        benchmark = named(sweep[0])
        if not any(each.name == "--launches" for each in declared(benchmark.options)):
            return []
        commands[command_again(benchmark.command, side.plan_of(sweep, at), launches=launches)] = None
    return list(commands)


def launches_in_words(of_points: Integers) -> str:
    """Return how many launches measured a point: ``6 launches``, or ``3 to 17 launches per point (median 3)``."""
    fewest, usual, most = (int(reduce(of_points)) for reduce in (np.min, np.median, np.max))
    return f"{fewest} to {most} launches per point (median {usual})" if fewest < most else count(most, "launch")
