"""The report of a comparison: the finding first, then what changed, then the counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from volley.benchmarks import named
from volley.compare.comparison import Compared, Comparison
from volley.compare.environment import EnvironmentDifference, environment_differences
from volley.compare.runs import Side
from volley.grouping import grouped
from volley.report.model import Cell, Column, ColumnRows, Data, Note, Report, Row, Style, Table
from volley.run.command_again import command_again
from volley.run.commandline import declared
from volley.run.launch_series import Key
from volley.run.report_parts import hosts_of
from volley.statistics.estimates import median
from volley.statistics.two_runs import min_to_decide
from volley.text import count, join_words, mpi_name
from volley.units import format_sig

MAX_CHANGED = 12
"""Rows of the table of changed points, the largest changes first; --full shows all."""
MAX_DIFFERENCES = 8
"""Lines about the environments; --full shows all."""
MAX_LETTERS = 60
"""Letters of a value in a line about the environments; --full shows all."""

COLUMNS = (
    "benchmark", "series", "at", "verdict", "ratio", "ratio_low", "ratio_high", "interval", "same_within_percent",
    "launches_needed", "first_s", "second_s", "first_launches", "second_launches",
)  # fmt: skip
"""The columns of CSV.  ``ratio`` is the time of the second run / that of the first; its ``interval`` is a 95 %
confidence interval over launches (``ci``), or the ``range`` of too few of them."""


def report(comparison: Comparison, *, full: bool) -> Report:
    """Return the report; without ``full`` it fits on a screen."""
    environments = environment_differences(comparison.first.logs, comparison.second.logs)
    return Report(
        heading=[finding(comparison), *_sides(comparison)],
        tables=[
            *([_points(comparison, full=full)] if full or comparison.of("changed") else []),
            _counts(comparison),
        ],
        notes=[*_notes(comparison), *_environment_notes(environments, full=full)],
        data=Data(COLUMNS, COLUMNS[:3], ColumnRows(len(comparison.points), lambda: [_columns(comparison.points)])),
        extra={
            "sides": [{"name": side.name, "launches": side.launches} for side in (comparison.first, comparison.second)],
            "within": comparison.within,
            "paired": comparison.paired,
            "environment": environments,
            "only": comparison.only,
        },
    )


# ------------------------------------------------------------------------------------------------------- finding


def finding(comparison: Comparison) -> str:
    """Return what was found, in one sentence."""
    changed, same = comparison.of("changed"), comparison.of("same")
    rest = len(comparison.points) - len(changed)
    if not comparison.possible:
        return f"NO VERDICT: {too_few(comparison)}"
    if not changed:
        widest = max((point.same_within for point in same), default=0)
        if len(same) == len(comparison.points):
            return f"SAME: all {count(len(same), 'point')} are the same within {widest} %"
        shown = (
            f"{len(same)} of {count(rest, 'point')} are the same within {widest} %"
            if same
            else "no point is shown to be the same"
        )
        left = rest - len(same)
        return f"NO CHANGE SHOWN: {shown}, {left} {'is' if left == 1 else 'are'} undecided"
    parts = [_series_finding(series, points, comparison) for series, points in grouped(changed, _series).items()]
    more = f", and {len(parts) - 3} more" if len(parts) > 3 else ""
    return f"CHANGED: {join_words(parts[:3]) if not more else ', '.join(parts[:3]) + more}"


def _series(point: Compared) -> str:
    return point.key[1]


def _series_finding(series: str, changed: Sequence[Compared], comparison: Comparison) -> str:
    """``aware is 5.1 % slower at 7 of 9 points (8 B … 64 MiB)``, or ``slower at 1 and faster at 2 of 9 points``."""
    whole = [point for point in comparison.points if _series(point) == series]
    where = changed[0].key[2] + (f" … {changed[-1].key[2]}" if len(changed) > 1 else "")
    of = f"of {count(len(whole), 'point')} ({where})"
    slower = sum(point.ratio > 1 for point in changed)
    if slower not in (0, len(changed)):
        return f"{series} is slower at {slower} and faster at {len(changed) - slower} {of}"
    typical = median([max(point.ratio, 1 / point.ratio) for point in changed])
    return f"{series} is {_change(typical)} {'slower' if slower else 'faster'} at {len(changed)} {of}"


def too_few(comparison: Comparison) -> str:
    """Return why no verdict is possible, and what to type."""
    first, second = comparison.first, comparison.second
    needed = min_to_decide(paired=comparison.paired)
    if comparison.paired:
        made = min(first.launches, second.launches)
        return f"{count(made, 'pair')} cannot show a change; measure with --pairs {needed} or more"
    benchmark = named(first.benchmarks[0])
    launches = any(each.name == "--launches" for each in declared(benchmark.options))
    again = f"{needed} times or more"
    if launches:
        plan = next(run.plan for run in first.runs if run.plan.benchmark == benchmark.name)
        again = f"with {command_again(benchmark.command, plan, launches=needed)}"
    return (
        f"{count(first.launches, 'launch')} of A and {second.launches} of B cannot show a change, since another launch "
        f"may differ as much; measure both again {again}, or use --live"
    )


def _sides(comparison: Comparison) -> Iterator[str]:
    for letter, side in (("A", comparison.first), ("B", comparison.second)):
        yield " · ".join([f"{letter}: {side.name}", *_about(side)])
    yield "ratio: time of B / time of A, " + (
        "formed within each pair of launches" if comparison.paired else "from all launches of both"
    )


def _about(side: Side) -> Iterator[str]:
    yield count(side.launches, "launch")
    for run in side.runs[:1]:
        yield run.started_at
        yield join_words(hosts_of(run.ranks))
        if run.mpi:
            yield mpi_name(run.mpi.library)


# -------------------------------------------------------------------------------------------------------- tables


def _points(comparison: Comparison, *, full: bool) -> Table:
    """All points, or those that changed, the largest change first."""
    points = list(comparison.points)
    if not full:
        points = sorted(comparison.of("changed"), key=lambda point: -max(point.ratio, 1 / point.ratio))
    shown = points if full else points[:MAX_CHANGED]
    columns = [
        Column(align="left"),
        Column("at", align="left"),
        Column("A", "µs"),
        Column("B", "µs"),
        Column("ratio", "B / A", digits=4),
        Column("95 % interval", align="left"),
        Column("verdict", align="left"),
    ]
    rows: list[Row] = [
        [
            point.key[1],
            point.key[2],
            point.seconds[0] * 1e6,
            point.seconds[1] * 1e6,
            Cell(point.ratio, text=f"{point.ratio:.3f}"),
            _interval(point),
            Cell(verdict_words(point), style=_style(point)),
        ]
        for point in shown
    ]
    hidden = len(points) - len(shown)
    legend = [f"and {count(hidden, 'more changed point')}: --full shows all"] if hidden else []
    return Table(columns, rows, title="all points" if full else "changed", legend=legend)


def _interval(point: Compared) -> str:
    ratio = point.difference.ratio
    if ratio.kind == "single":
        return "none"
    bounds = f"{ratio.low:.3f} to {ratio.high:.3f}"
    return bounds if ratio.kind == "ci" else f"({bounds})"


def verdict_words(point: Compared) -> str:
    """Return the verdict in words: ``5.1 % slower``, ``same within 2 %``, ``undecided: needs ~14 launches``."""
    if point.verdict == "changed":
        return f"{_change(point.ratio)} {'slower' if point.ratio > 1 else 'faster'}"
    if point.verdict == "same":
        return f"same within {point.same_within} %"
    needed = point.launches_needed
    return f"undecided: needs ~{needed} launches" if needed else "undecided"


def _change(ratio: float) -> str:
    larger = max(ratio, 1 / ratio)
    return f"{format_sig(larger, 3)} ×" if larger >= 1.5 else f"{(larger - 1) * 100:.1f} %"


def _style(point: Compared) -> Style:
    if point.verdict != "changed":
        return "good" if point.verdict == "same" else "dim"
    return "bad" if point.ratio > 1 else "good"


def _counts(comparison: Comparison) -> Table:
    """One row a series."""
    columns = [
        Column(align="left"),
        Column("points"),
        Column("slower"),
        Column("faster"),
        Column(f"same within\n{comparison.within * 100:g} %"),
        Column("undecided"),
        Column("ratio", "median", digits=4),
        Column("lowest", "", digits=4),
        Column("highest", "", digits=4),
    ]
    rows: list[Row] = []
    for series, points in grouped(comparison.points, _series).items():
        changed = [point for point in points if point.verdict == "changed"]
        slower = sum(point.ratio > 1 for point in changed)
        ratios = [point.ratio for point in points]
        rows.append(
            [
                series,
                len(points),
                Cell(slower, style="bad" if slower else ""),
                len(changed) - slower,
                sum(point.verdict == "same" for point in points),
                sum(point.verdict == "undecided" for point in points),
                *(Cell(each, text=f"{each:.3f}") for each in (median(ratios), min(ratios), max(ratios))),
            ]
        )
    return Table(columns, rows, title="verdicts")


# --------------------------------------------------------------------------------------------------------- notes


def _notes(comparison: Comparison) -> Iterator[Note]:
    for letter, side in (("A", comparison.first), ("B", comparison.second)):
        failed = sum(status == "failed" for log in side.logs for status in log.statuses)
        broken = sum(not log.complete for log in side.logs)
        if failed or broken:
            parts = [count(failed, "failed point")] * bool(failed) + [count(broken, "incomplete launch")] * bool(broken)
            yield Note("error", f"{letter} has {join_words(parts)}: volley show {side.name}")
    for letter, keys in zip("AB", comparison.only, strict=True):
        if keys:
            names = _names(keys)
            yield Note("missing", f"only {letter} has {count(len(keys), 'point')}: {names}")
    undecided = comparison.of("undecided")
    known = sorted(each for point in undecided if (each := point.launches_needed))
    if known and comparison.possible:
        whole = "all" if len(known) == len(undecided) else f"{len(known)} of them"
        number = count(len(undecided), "point")
        text = f"undecided: {number}; to decide {whole} needs about {known[-1]} launches of each run"
        if (half := (len(undecided) - 1) // 2) < len(known) - 1:
            text += f", half of them about {known[half]}"
        yield Note("finding", text)


def _names(keys: Sequence[Key]) -> str:
    series = list(dict.fromkeys(key[1] for key in keys))
    return join_words(series[:4]) + (f" and {len(series) - 4} more" if len(series) > 4 else "")


def _environment_notes(differences: Sequence[EnvironmentDifference], *, full: bool) -> Iterator[Note]:
    if not differences:
        yield Note("finding", "environments: the records show no difference")
        return
    shown = differences if full else differences[:MAX_DIFFERENCES]
    for each in shown:
        first, second = (value if full else _cut(value) for value in (each.first, each.second))
        yield Note("finding", f"differs: {each.name}: {f'{first} → ' if first else ''}{second}")
    if len(shown) < len(differences):
        yield Note("finding", f"and {count(len(differences) - len(shown), 'more difference')}: --full shows all")


def _cut(value: str) -> str:
    return value if len(value) <= MAX_LETTERS else f"{value[: MAX_LETTERS - 1]}…"


# ---------------------------------------------------------------------------------------------------------- data


def _columns(points: Sequence[Compared]) -> dict[str, Sequence[Any]]:
    """Return the results for programs: a thousand ranks have a million pairs, which most reports do without."""
    ratios = [point.difference.ratio for point in points]
    benchmark, series, at = (list(names) for names in zip(*(point.key for point in points), strict=True))
    return {
        "benchmark": benchmark,
        "series": series,
        "at": at,
        "verdict": [point.verdict for point in points],
        "ratio": [ratio.median for ratio in ratios],
        "ratio_low": [ratio.low for ratio in ratios],
        "ratio_high": [ratio.high for ratio in ratios],
        "interval": [ratio.kind for ratio in ratios],
        "same_within_percent": [point.same_within if point.difference.ratio.kind == "ci" else None for point in points],
        "launches_needed": [point.launches_needed for point in points],
        "first_s": [point.seconds[0] for point in points],
        "second_s": [point.seconds[1] for point in points],
        "first_launches": [len(point.first) for point in points],
        "second_launches": [len(point.second) for point in points],
        "probability": [point.difference.probability for point in points],
    }
