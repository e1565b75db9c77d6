"""The parts that the reports of all matrices share: cells, lines about kinds of pairs, notes, charts and data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TypeVar

import numpy as np

from volley.benchmarks.shared.matrix.case import MatrixCase
from volley.benchmarks.shared.matrix.comparable_pairs import SUSPECT_FROM, Pair
from volley.grouping import grouped
from volley.report.model import (
    EMPTY,
    Axis,
    Cell,
    Chart,
    Column,
    Conclusion,
    Mark,
    Note,
    Overview,
    Style,
    Table,
    Value,
)
from volley.run import report_parts
from volley.run.launch_series import LaunchSeries
from volley.run.records import Status
from volley.statistics.estimates import median
from volley.text import count
from volley.units import format_sig

CaseT = TypeVar("CaseT", bound=MatrixCase)

MAX_DRAWN = 128
"""A heat map has at most this many rows and columns; beyond, each of its cells stands for several pairs."""

MAX_IN_TABLES = 128
"""The cells of a matrix of more ends are in no table: only CSV and JSON have them."""

MAX_NAMED = 6
"""Pairs that a sentence names one by one; more are counted."""

Naming = Callable[[Sequence[Pair]], str]
"""How a sentence names a few pairs."""


# ------------------------------------------------------------------------------------------------------ tables


def shown_cell(case: MatrixCase, pair: Pair, style: Style) -> Cell:
    """Return the cell of a pair; ``style`` applies to a number."""
    number, lost = case.shown(pair), case.unmeasured.get(pair)
    if lost and lost.status == "failed":
        return Cell(text="FAILED", style="error")
    if lost:
        return Cell(style="dim")
    return EMPTY if number is None else Cell(number, style)


MAX_ENDS = 16
"""A matrix of more ranks or GPUs is shown as its summary; ``--full`` shows the cells."""

MAX_FINDINGS = 12
"""On the screen of large matrices; ``--notes`` shows all."""

_SUMMARY = [
    Column("", align="left"),
    Column("pairs", spare=1),
    Column("median", digits=3),
    Column("lowest", digits=3),
    Column("highest", digits=3),
    Column("", align="left"),
    Column("line"),
]


def summary(cases: Sequence[CaseT], without: str = "") -> Table:
    """Return the table with a row for each kind of pairs of each matrix that was measured.

    The kind ``without`` has a row only in a matrix that has no other kind.
    """
    rows: list[list[Cell | Value]] = []
    rates: dict[str, None] = {}
    for case in cases:
        measured = ~np.isnan(case.numbers)
        numbers, places = np.unique(case.kinds.numbers[measured], return_index=True)
        kinds = [number for _, number in sorted(zip(places.tolist(), numbers.tolist(), strict=True))]
        others = [number for number in kinds if case.kinds.names[number] != without]
        for number in others or kinds:
            shown = case.numbers[measured & (case.kinds.numbers == number)]
            several = len(others) > 1 or not others
            title = f"{case.name} ({case.kinds.names[number]})" if several else case.name
            line, names = _of_line_rate(case, number)
            rates |= dict.fromkeys(names)
            middle, low, high = (float(reduce(shown)) for reduce in (np.median, np.min, np.max))
            rows.append([title, shown.size, middle, low, high, case.unit, line])
    if not rates:
        return Table(_SUMMARY[:-1], [row[:-1] for row in rows])
    return Table(
        _SUMMARY,
        rows,
        legend=[f"line: share of the line rate of {' or '.join(rates)}; for both ways, of twice the line rate"],
    )


def _of_line_rate(case: MatrixCase, kind: int) -> tuple[Cell, list[str]]:
    """Return the median share of the line rate of the pairs of a kind, and what their line rates are."""
    pairs = [pair for pair in case.line_rates if case.kinds.numbers[case.kinds.place(pair)] == kind]
    shares = [share for pair in pairs if (share := case.of_line_rate(pair)) is not None and case.shows_rate]
    if not shares:
        return EMPTY, []
    middle = median(shares)
    return Cell(middle, text=f"{middle * 100:.0f} %"), [case.line_rates[pair].describe() for pair in pairs]


def conclusions(cases: Sequence[CaseT], findings: Callable[[CaseT], Iterable[Conclusion]]) -> list[Conclusion]:
    """Return what is found in each matrix, with its name."""
    return [replace(each, text=f"{case.name}: {each.text}") for case in cases for each in findings(case)]


def screen(cases: Sequence[CaseT], table: Table, found: Sequence[Conclusion]) -> Overview | None:
    """Return the one screen of large matrices: their summary; ``None`` if the cells fit too."""
    if max((len(case.seconds) for case in cases), default=0) <= MAX_ENDS:
        return None
    measured, compared = (
        sum(int(np.count_nonzero(~np.isnan(numbers))) for numbers in matrices)
        for matrices in ([case.times_s for case in cases], [case.comparison.ratios for case in cases])
    )
    pairs, failed = sum(case.pairs for case in cases), sum(len(_unmeasured(case, "failed")) for case in cases)
    shown = [Conclusion("BROKEN", f"{count(failed, 'pair')} failed")] if failed else []
    shown += found[:MAX_FINDINGS]
    if compared and not shown:
        which = f"{pairs}" if compared == pairs else f"{compared} of {pairs}"
        shown = [Conclusion("OK", f"no slow pair found: {which} pairs were compared with comparable ones")]
    return Overview(f"{count(measured, 'pair')} in {count(len(cases), 'table')}", shown, table)


def heat_map(case: MatrixCase, rows: str, columns: str, name: Callable[[int], str], nodes: Sequence[int] = ()) -> Chart:
    """Return the heat map of a matrix, without the pairs of an end with itself.

    Args:
        case: the matrix.
        rows: the title of the axis of the first ends.
        columns: the title of the axis of the second ends.
        name: returns the name of an end.
        nodes: the node of each end.  A cell of a large matrix stands for all pairs between two nodes, or between some
            nodes and some others where there are many.
    """
    numbers = case.numbers.copy()
    square = case.firsts == case.seconds
    if square:
        np.fill_diagonal(numbers, np.nan)
    ends, order = case.firsts, np.arange(len(case.firsts))
    caption = f"{case.unit}, without the pairs of an end with itself" if square else case.unit
    if square and len(ends) > MAX_DRAWN:
        of = np.array(nodes if len(set(nodes)) > 1 else ends, np.int64)
        units = np.unique(of)
        some = -(-len(units) // MAX_DRAWN)
        first_units = units[::some]
        block_of = np.searchsorted(first_units, of, side="right") - 1
        order = np.argsort(block_of, kind="stable")
        starts = np.searchsorted(block_of[order], np.arange(len(first_units)))
        slowest = np.fmin if case.shows_rate else np.fmax
        numbers = slowest.reduceat(slowest.reduceat(numbers[np.ix_(order, order)], starts), starts, axis=1)
        what = "node" if len(set(nodes)) > 1 else "rank"
        rows, columns = (f"{what} of the {title}" if what == "node" else title for title in (rows, columns))
        labels = [str(unit) for unit in first_units.tolist()]
        ends_of = f"two {what}s" if some == 1 else f"{some} {what}s and {some} {what}s"
        caption += f"; each cell is the slowest pair between {ends_of}"
        row_names, column_names = labels, labels
    else:
        row_names, column_names = [name(end) for end in case.firsts], [name(end) for end in case.seconds]
    marks = [
        Mark(column, row, value=None if np.isnan(number) else number)
        for row, those in zip(row_names, numbers.tolist(), strict=True)
        for column, number in zip(column_names, those, strict=True)
    ]
    return Chart("heat map", case.name, Axis(columns), Axis(rows), marks, Axis(case.name, case.unit), (), caption)


def notes_of(
    series: LaunchSeries,
    cases: Sequence[CaseT],
    names: Naming,
    found: Iterable[Conclusion],
    missing: Iterable[str] = (),
) -> list[Note]:
    """Return the notes of a report; ``missing`` is what no matrix can hold."""
    return report_parts.notes_of(
        series,
        [case.name for case in cases],
        failed=(text for case in cases for text in _failed(case, names)),
        missing=[*missing, *(text for case in cases for text in _skipped(case, names))],
        found=[Note("finding", each.text) for each in found],
    )


def _unmeasured(case: MatrixCase, status: Status) -> list[tuple[Pair, str]]:
    """Return the pairs without a number that have this status, each with the reason."""
    lost = case.unmeasured.items()
    return [(pair, each.reason or "no reason is recorded") for pair, each in lost if each.status == status]


def _failed(case: MatrixCase, names: Naming) -> Iterator[str]:
    wrong = _unmeasured(case, "failed")
    for pair, reason in wrong[:MAX_NAMED]:
        yield f"{case.name}, {names([pair])}: {reason}"
    if len(wrong) > MAX_NAMED:
        more = count(len(wrong) - MAX_NAMED, "pair")
        yield f"{case.name}: {more} more (--format csv names them)"


def _skipped(case: MatrixCase, names: Naming) -> Iterator[str]:
    for reason, those in grouped(_unmeasured(case, "skipped"), itemgetter(1)).items():
        yield f"{case.name} skipped {few_or_count([pair for pair, _ in those], names)}: {reason}"


def uneven_kinds(case: MatrixCase, consequence: str = "") -> Iterator[Conclusion]:
    """Name the kinds of which too many pairs look slow."""
    for kind, pairs in case.comparison.uneven().items():
        slow = f"{count(pairs, 'pair')} took over {percent(SUSPECT_FROM - 1)} longer than comparable pairs"
        yield Conclusion("SLOW?", f"pairs of the kind '{kind}' vary too much to blame single ones: {slow}{consequence}")


def slower(case: MatrixCase, ratio: float, others: str, *, past: bool = False) -> str:
    """``reaches 61 % of what its 10 comparable pairs reach``; of times ``takes 1.64 times as long as its …``."""
    if case.shows_rate:
        reaches, reach = ("reached", "reached") if past else ("reaches", "reach")
        return f"{reaches} {percent(1 / ratio)} of what its {others} {reach}"
    return f"{'took' if past else 'takes'} {format_sig(ratio, 3)} times as long as its {others}"


def few_or_count(pairs: Sequence[Pair], names: Naming) -> str:
    """Name a few pairs, or count many."""
    return names(pairs) if len(pairs) <= MAX_NAMED else count(len(pairs), "pair")


def percent(fraction: float) -> str:
    """Return a fraction with two digits: ``61 %``."""
    return f"{format_sig(100 * fraction, 2)} %"
