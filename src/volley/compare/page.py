"""The report of a comparison: the finding first, then what changed, then the counts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from volley.compare.comparison import Comparison, Part, Side, Verdict
from volley.compare.environment import EnvironmentDifference, environment_differences, fact_in_words
from volley.compare.finding import headline, launches_in_words, verdict_words
from volley.records.run_log import place_name
from volley.references import machine_of
from volley.report.cells import LARGEST_PERCENT, Quantity, bounds_meaning
from volley.report.model import (
    Axis,
    Cell,
    Chart,
    Column,
    ColumnRows,
    Data,
    Later,
    Mark,
    Note,
    ReferenceLine,
    Report,
    Row,
    Style,
    Table,
)
from volley.run.report_parts import hosts_of
from volley.statistics.launches import FEASIBLE, of_observations
from volley.statistics.two_runs import Bounds, Floats
from volley.text import count, join_few, join_words
from volley.units import SizeError, parse_size, slower_or_faster

MAX_CHANGED = 12
"""Rows of the table of changed points, the largest changes first; --full shows all."""
MAX_DIFFERENCES = 8
"""Lines about the environments; --full shows all."""
_FOLDER = re.compile("(?<![^:])/[^:]*/")
"""Of an absolute path, also of one of several after colons."""
MAX_LETTERS = 40
"""Letters of a value, or of an item of a long list, in a line about the environments; --full shows all."""
_BETWEEN = re.compile(" or |[,:]+ *")
"""Between the items of a list, the folders of a variable such as LD_LIBRARY_PATH, or the lists of several launches."""


def report(comparison: Comparison, *, full: bool) -> Report:
    """Return the report; without ``full`` it fits on a screen."""
    first, second = comparison.first, comparison.second
    environments = environment_differences(first.logs, second.logs) if first.logs else []
    differ = _environment_notes(environments, comparison.letter, full=full) if first.logs else ()
    found = headline(comparison) if comparison.comparisons == 1 else f"{comparison.letter}: {headline(comparison)}"
    return Report(
        heading=[*_failed(comparison), found, *_sides(comparison)],
        tables=[
            *([_parts(comparison, full=full)] if comparison.parts else []),
            *_points(comparison, full=full),
            _counts(comparison),
        ],
        notes=[*_notes(comparison), *differ],
        origin=lambda: {"baseline": first.name, "run": second.name} if comparison.comparisons > 1 else {},
        charts=Later(lambda: _charts(comparison)),
        results=lambda: Data(
            COLUMNS,
            COLUMNS[:3],
            ColumnRows(len(comparison.at), lambda: [{name: of(comparison) for name, of in _DATA.items()}]),
        ),
        extra={
            "sides": [
                {"name": side.name, "launches": int(launches.max())}
                for side, launches in zip((first, second), comparison.differences.launches, strict=True)
            ],
            "within": comparison.within,
            "paired": comparison.paired,
            "comparisons": comparison.comparisons,
            "environment": environments,
            "only": comparison.only,
        },
    )


# ------------------------------------------------------------------------------------------------------ heading


def _failed(comparison: Comparison) -> Iterator[str]:
    for letter, side in comparison.sides:
        if side.failed:
            yield f"FAILED: {count(side.failed, 'point')} of {letter}: volley show {side.name}"


def title(sides: Sequence[Side]) -> str:
    return f"Comparison on {join_words(dict.fromkeys(machine_of(side.logs) for side in sides if side.logs))}"


def _sides(comparison: Comparison) -> Iterator[str]:
    for (letter, side), launches in zip(comparison.sides, comparison.differences.launches, strict=True):
        about = [launches_in_words(launches)]
        for run in side.runs[:1]:
            about += [run.started_at, join_words(hosts_of(run.ranks)), machine_of(side.logs)]
        if known := side.reference:
            about = [known.machine, known.date or "date unknown", known.source]
        yield " · ".join([f"{letter}: {side.name}", *about])


# -------------------------------------------------------------------------------------------------------- tables


def _meaning(comparison: Comparison) -> str:
    """Say what a ratio is, because it is not the quotient of the two medians beside it."""
    other = comparison.letter
    if not comparison.first.repeats:
        return f"ratio: time of {other} / time of A"
    over = "pairs of launches" if comparison.paired else f"each launch of {other} with each of A"
    return f"ratio: time of {other} / time of A, the median over {over}, not the quotient of the medians A and {other}"


def _parts(comparison: Comparison, *, full: bool) -> Table:
    """What many points share, the largest part first."""

    def ratio(part: Part) -> float:
        return float(np.median(comparison.differences.ratio[part.points]))

    columns: dict[Column, Callable[[Part], Cell | str | int]] = {
        Column(align="left"): lambda part: place_name(part.series, part.name),
        Column("points"): lambda part: part.points.size,
        Column("ratio", "median", digits=4): lambda part: Cell(ratio(part), text=f"{ratio(part):.3f}"),
        Column("change", align="left"): lambda part: Cell(
            text=slower_or_faster(ratio(part)), style="bad" if ratio(part) > 1 else "good"
        ),
    }
    parts = sorted(comparison.parts, key=lambda part: -part.points.size)
    shown = parts if full else parts[:MAX_CHANGED]
    title = (
        f"{_changed(comparison)} as a group"
        if comparison.possible
        else "observed differences (too few launches to test)"
    )
    return Table.of(columns, shown, title=title, legend=[*_hidden(parts, shown, "part"), _meaning(comparison)])


def _changed(comparison: Comparison) -> str:
    return "different" if comparison.ways else "changed"


def _hidden(all_of_them: Sized, shown: Sized, what: str) -> list[str]:
    hidden = len(all_of_them) - len(shown)
    return [f"and {count(hidden, f'more {what}')}: --full shows all"] if hidden else []


def _points(comparison: Comparison, *, full: bool) -> Iterator[Table]:
    """All points, or those that changed individually, the largest change first."""
    points, found = np.arange(len(comparison.at)), comparison.differences
    if not full:
        together = [part.points for part in comparison.parts]
        points = np.setdiff1d(comparison.of("changed"), np.concatenate(together) if together else [])
        points = points[np.argsort(-np.maximum(found.ratio, 1 / found.ratio)[points], kind="stable")]
    if not points.size:
        return
    shown = points if full else points[:MAX_CHANGED]
    styles: dict[Verdict, Style] = {"same": "good", "undecided": "dim"}

    def verdict(point: int) -> Cell:
        of_change: Style = "bad" if found.ratio[point] > 1 else "good"
        return Cell(verdict_words(comparison, point), style=styles.get(comparison.verdicts[point], of_change))

    columns: dict[Column, Callable[[int], Cell | str | float]] = {
        Column(align="left"): comparison.point_name,
        Column("A", "µs"): lambda point: float(comparison.seconds[0][point]) * 1e6,
        Column(comparison.letter, "µs"): lambda point: float(comparison.seconds[1][point]) * 1e6,
        Column("ratio", f"{comparison.letter} / A", digits=4): lambda point: Cell(
            float(found.ratio[point]), text=f"{found.ratio[point]:.3f}"
        ),
    }
    if {*found.shown.kind} != {"single"}:
        bounds = Column("95 % interval" if "ci" in found.shown.kind else "range", align="left")
        columns[bounds] = lambda point: _interval(found.shown, point)
    columns[Column("verdict" if comparison.first.repeats else "difference", align="left")] = verdict
    changed = _changed(comparison)
    legend = [*_hidden(points, shown, f"{changed} point"), _meaning(comparison)]
    title = "all points" if full else f"{changed} individually" if comparison.parts else changed
    yield Table.of(columns, shown.tolist(), title=title, legend=legend)


def _interval(found: Bounds, point: int) -> str:
    if found.kind[point] == "single":
        return "none"
    bounds = f"{found.low[point]:.3f} to {found.high[point]:.3f}"
    return bounds if found.kind[point] == "ci" or "ci" not in found.kind else f"range {bounds}"


def _counts(comparison: Comparison) -> Table:
    same = f"same\nwithin\n{comparison.within * 100:g} %"
    verdicts_shown = ("slower", "faster", same, "undecided") if comparison.first.repeats else ()
    columns = [
        Column(align="left"),
        Column("points", spare=1),
        *map(Column, verdicts_shown),
        Column("ratio", "median", digits=4),
        Column("lowest", "", digits=4, spare=2),
        Column("highest", "", digits=4, spare=2),
    ]
    rows: list[Row] = []
    for series, points in comparison.by_series().items():
        verdicts, ratios = comparison.verdicts[points], comparison.differences.ratio[points]
        changed, same, undecided = (verdicts == verdict for verdict in ("changed", "same", "undecided"))
        parts = (changed & (ratios > 1), changed & (ratios < 1), same, undecided)
        counts = [int(np.count_nonzero(those)) for those in parts]
        cells: Row = [Cell(counts[0], style="bad" if counts[0] else ""), *counts[1:]] if verdicts_shown else []
        ratios_shown = [float(reduce(ratios)) for reduce in (np.median, np.min, np.max)]
        rows.append([series, points.size, *cells, *(Cell(each, text=f"{each:.3f}") for each in ratios_shown)])
    return Table(columns, rows, title="verdicts" if verdicts_shown else "ratios", legend=[_meaning(comparison)])


# -------------------------------------------------------------------------------------------------------- charts


def _charts(comparison: Comparison) -> Iterator[Chart]:
    """The ratio of every series, then both curves of each; none where the places are no message sizes."""
    try:
        sizes = [parse_size(at) for at in comparison.at]
    except SizeError:
        return
    x, other, found = Axis("message size", "B", log=True), comparison.letter, comparison.differences
    by_series = {  # the axis has no place for 0 B
        name: [each for each in those.tolist() if sizes[each]] for name, those in comparison.by_series().items()
    }
    marks = []
    for series, points in by_series.items():
        for point in points:
            low, high, kind = (each[point] for each in found.shown)
            bounds = () if kind == "single" else (low, high)
            marks.append(Mark(sizes[point], float(found.ratio[point]), series, *bounds))
    line = ReferenceLine("y", 1.0, "the same")
    caption = "; ".join(filter(None, (f"above 1: {other} is slower", bounds_meaning(set(found.shown.kind)))))
    yield Chart("curves", f"ratio {other} / A", x, Axis("ratio", log=True), marks, lines=[line], caption=caption)
    for series, points in by_series.items():
        times = [
            (sizes[point], name, of_observations(side.observed.seconds(rows[comparison.at[point]])))
            for name, side in comparison.sides
            for point in points
            for rows in [side.observed.rows[comparison.sweeps[comparison.sweep[point]]]]
        ]
        marks = [_TIME.mark(size, name, time) for size, name, time in times]
        caption = bounds_meaning({time.kind for _, _, time in times})
        yield Chart("curves", series, x, Axis("time", "µs", log=True), marks, caption=caption)


_TIME = Quantity("time", "µs", lambda time: time)


# --------------------------------------------------------------------------------------------------------- notes


def _notes(comparison: Comparison) -> Iterator[Note]:
    for letter, side in comparison.sides:
        if side.incomplete:
            yield Note("error", f"{letter} has {side.incomplete}: volley show {side.name}")
    for (letter, _), keys in zip(comparison.sides, comparison.only, strict=True):
        if keys and not comparison.first.reference:
            yield Note("missing", f"only in {letter}: {comparison.missing(keys)}")
    if comparison.first.reference:
        for line in comparison.first.reference.method:
            yield Note("finding", f"{comparison.first.name}: {line}")
    undecided, drifted = comparison.of("undecided"), comparison.drifted
    if drifted.size:
        names = join_few([comparison.point_name(point) for point in drifted.tolist()])
        differ = "differs" if drifted.size == 1 else "differ"
        yield Note("finding", f"{names} {differ} by no more than a drift of the machine may explain: use --live")
    elif comparison.of("changed").size and not comparison.paired:
        yield Note("finding", "the machine may have drifted between the runs: --live tells that from other causes")
    undecided = np.setdiff1d(undecided, drifted)
    needed = comparison.launches_needed[undecided]
    known = np.sort(needed[~np.isnan(needed)]).astype(int).tolist()
    if undecided.size and comparison.possible:
        parts = []
        if known:
            which = "all" if len(known) == len(undecided) else f"{len(known)} of them"
            parts.append(f"about {known[-1]} launches per run would decide {which}")
        if shown := comparison.shown_by_most[undecided[np.isnan(needed)]].tolist():
            ends = (min(math.ceil(100 * end(shown)), LARGEST_PERCENT) for end in (min, max))
            least = " to ".join(dict.fromkeys(map(str, ends)))
            where = f" at the {count(len(shown), 'other point')}" if known else ""
            parts.append(f"{FEASIBLE} launches per run would show only differences above {least} %{where}")
        yield Note("finding", f"undecided: {'; '.join([count(len(undecided), 'point'), *parts])}")


def _environment_notes(differences: Sequence[EnvironmentDifference], letter: str, *, full: bool) -> Iterator[Note]:
    if not differences:
        yield Note("finding", "environments: the records show no difference")
        return
    moved = [each for each in differences if not full and _FOLDER.sub("", each.first) == _FOLDER.sub("", each.second)]
    if moved:
        yield Note(
            "finding",
            f"differs: the folders of {join_words(fact_in_words(each.name) for each in moved)} (--full shows them)",
        )
    differences = [each for each in differences if each not in moved]
    shown = differences if full else differences[:MAX_DIFFERENCES]
    for each in shown:
        is_short = full or max(len(each.first), len(each.second)) <= MAX_LETTERS
        change = f"{each.first} → {each.second}" if is_short else _change_of_lists(each, letter)
        yield Note("finding", f"differs: {fact_in_words(each.name)}: {change}")
    yield from (Note("finding", text) for text in _hidden(differences, shown, "difference"))


def _change_of_lists(each: EnvironmentDifference, letter: str) -> str:
    """Say how two long lists differ: what only one of them has, or that only their order differs."""
    if "not set" in (each.first, each.second):
        return " → ".join(map(_end_of, (each.first, each.second)))
    first, second = (dict.fromkeys(filter(None, _BETWEEN.split(value))) for value in (each.first, each.second))
    parts = []
    for side, here, there in (("A", first, second), (letter, second, first)):
        only = [item for item in here if item not in there]
        parts += [f"only {side} has {join_few(map(_end_of, only), 3)}"] if only else []
    return "; ".join(parts) or "the same in another order"


def _end_of(item: str) -> str:
    return item if len(item) <= MAX_LETTERS else f"…{item[1 - MAX_LETTERS :]}"


# ---------------------------------------------------------------------------------------------------------- data


def _whole(numbers: Floats) -> list[int | None]:
    return [None if math.isnan(number) else int(number) for number in numbers.tolist()]


_DATA: Mapping[str, Callable[[Comparison], Sequence[Any]]] = {
    "benchmark": lambda of: [of.sweeps[sweep][0] for sweep in of.sweep.tolist()],
    "series": lambda of: [of.sweeps[sweep][1] for sweep in of.sweep.tolist()],
    "at": lambda of: of.at,
    "verdict": lambda of: of.verdicts.tolist(),
    "ratio": lambda of: of.differences.ratio.tolist(),
    "ratio_low": lambda of: of.differences.shown.low.tolist(),
    "ratio_high": lambda of: of.differences.shown.high.tolist(),
    "interval": lambda of: of.differences.shown.kind.tolist(),
    "same_within": lambda of: [
        number / 100 if number else number
        for number in _whole(np.where(of.differences.kind == "ci", of.same_within, np.nan))
    ],
    "launches_needed": lambda of: _whole(of.launches_needed),
    "first_s": lambda of: of.seconds[0].tolist(),
    "second_s": lambda of: of.seconds[1].tolist(),
    "first_launches": lambda of: of.differences.launches[0].tolist(),
    "second_launches": lambda of: of.differences.launches[1].tolist(),
    "probability": lambda of: of.differences.probability.tolist(),
}
"""What JSON has of each point.  ``ratio`` is the time of the second run / that of the first; its ``interval`` is a 95 %
confidence interval over launches (``ci``), or the ``range`` of too few of them."""
COLUMNS = tuple(_DATA)[:-1]
"""The columns of CSV: all but the probability."""
