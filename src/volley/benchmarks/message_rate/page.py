"""The report of message rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from operator import attrgetter

from volley.benchmarks.message_rate.results import WORTHWHILE, PairsResult, Rates, growth, saturation
from volley.benchmarks.points.findings import broken, certainty
from volley.benchmarks.points.notes import notes_of, too_wide
from volley.benchmarks.points.page import (
    BANDWIDTH,
    CHECKED,
    COLD,
    INTERVAL,
    RANK_MEAN,
    SAMPLES,
    VERIFIED,
    cells,
    headers,
)
from volley.benchmarks.points.results import by_transport
from volley.report.cells import (
    ALL,
    PLUS_MINUS,
    Quantity,
    SummaryColumn,
    as_they_are,
    bounds_meaning,
    bounds_of,
    data_of,
    digits_cell,
    kinds_of,
    launches_of,
    ratio_cell,
    summary_table,
    unclear,
    with_bounds,
)
from volley.report.model import Axis, Cell, Chart, Column, Later, Note, Overview, Report, Row, Table, finding
from volley.run import report_parts
from volley.statistics.launches import above_of_many
from volley.text import count, grouped
from volley.units import format_sig, format_size

MAX_RESULTS = 30
"""So many results fit a screen as they are: two transports at five sizes with three numbers of pairs."""

ALL_PAIRS = Quantity("messages", "M/s", lambda each: each.messages, "all pairs", bounds=ALL)
A_PAIR = Quantity("messages_of_a_pair", "M/s", lambda each: each.messages and each.total / each.pairs, "a pair")
TOTAL_BANDWIDTH = replace(BANDWIDTH, title="all pairs")
PAIR_BANDWIDTH = Quantity(
    "bandwidth_of_a_pair", "GB/s", lambda each: each.rate and each.rate.median / each.pairs, "a pair"
)
KEPT = Quantity("kept", "%", lambda each: each.kept, bounds=ALL)

QUANTITIES = (
    *as_they_are("transport", "size_bytes", "pairs", "window"), SAMPLES, ALL_PAIRS, A_PAIR, BANDWIDTH, PAIR_BANDWIDTH,
    KEPT, INTERVAL, VERIFIED,
    *as_they_are("status", "launches", "ranks", "messages_timed", "messages_verified", "ended_by"), COLD,
    *as_they_are("reason"), Quantity("mismatch", "", attrgetter("mismatch"), csv=False), RANK_MEAN,
)  # fmt: skip

KEYS = ("transport", "size_bytes", "pairs", "window")


def report(result: Rates) -> Report:
    names = list(by_transport(result.points))
    alone = names if len(names) == 1 else []  # the table names several transports
    return Report(
        heading=report_parts.heading(result.series, "message-rate", *alone),
        tables=Later(lambda: [_table(result, names), *_saturations(result)]),
        summary=lambda: _overview(result),
        charts=Later(lambda: _charts(result)),
        notes=Later(lambda: notes_of(result, too_wide(result.points, result.series))),
        findings=Later(lambda: (*broken(result.points, result.series.plan), *_most(result))),
        details=Later(lambda: report_parts.one_launch_note(result.series, names)),
        results=lambda: data_of(QUANTITIES, KEYS, result.points),
        runs=result.series.logs,
    )


def _share(results: Iterable[PairsResult]) -> str:
    """Say what a pair keeps: it may differ from the ratio of two medians in the columns."""
    how = "" if launches_of(results) == 1 else ", the median of the ratios within each launch"
    return f"share of the rate of one pair alone{how}"


def _by_place(results: Iterable[PairsResult]) -> dict[tuple[str, int, int], PairsResult]:
    return {(each.transport, each.size_bytes, each.pairs): each for each in results}


def _table(result: Rates, names: Sequence[str]) -> Table:
    alone, found = len(names) == 1, _by_place(result.points)
    numbers = sorted({each.pairs for each in result.points})
    several = len(numbers) > 1
    columns = with_bounds([ALL_PAIRS, PLUS_MINUS], result.points)
    alone_keeps = Cell(100.0, "dim", "100")
    keeps = Quantity("keeps", "%", lambda each: ratio_cell(each.kept, 100) if each.pairs > 1 else alone_keeps)
    columns += [A_PAIR, keeps] if several else []
    columns += [TOTAL_BANDWIDTH, *([PAIR_BANDWIDTH] if alone and several else [])]
    columns += [SAMPLES, CHECKED] if alone else []
    rows: list[list[Cell]] = []
    sections: dict[int, str] = {}
    for size, those in sorted(grouped(result.points, attrgetter("size_bytes")).items()):
        if several:
            sections[len(rows)] = format_size(size)
        for pairs in sorted({each.pairs for each in those}):
            row = [Cell(pairs) if several else Cell(size, text=format_size(size))]
            row += [cell for name in names for cell in cells(found.get((name, size, pairs)), columns)]
            rows.append(row)
    verified = report_parts.Account.of(result.points).all_verified
    shown = [
        replace(column, all_true=verified if column.title == CHECKED.name else "")
        for column in headers(names, columns, result.series.transports)
    ]
    title = "" if several or not numbers else count(numbers[0], "pair")
    legend = list(_legend(result, rows, alone=alone, several=several))
    return Table([Column("pairs" if several else "size"), *shown], rows, title, legend, sections=sections)


def _legend(result: Rates, rows: Sequence[Row], *, alone: bool, several: bool) -> Iterator[str]:
    results = result.points
    if not kinds_of(results):
        return
    parts = [f"M/s: 10^6 messages per second, {results[0].window} of each pair in flight"]
    if several:
        parts += [f"keeps: {_share(results)}", *unclear(rows)]
    parts += ["GB/s: 10^9 B/s", *report_parts.nothing_sent(results)]
    parts += report_parts.bounds_legend(results, result.series)
    parts.append("" if alone else report_parts.Account.of(results).all_verified)
    yield "; ".join(filter(None, parts))


def _saturations(result: Rates) -> Iterator[Table]:
    sending = grouped((each for each in result.points if each.rate), attrgetter("transport", "size_bytes"))
    found = {where: saturation(those) for where, those in sending.items()}
    if not any(found.values()):
        return
    names = list(dict.fromkeys(name for name, _ in found))
    sizes = sorted({each.size_bytes for each in result.points})
    rows: list[Row] = [
        [Cell(size, text=format_size(size)), *(str(found.get((name, size)) or "–") for name in names)] for size in sizes
    ]
    legend = f"the fewest pairs from which on more pairs send less than {(WORTHWHILE - 1) * 100:.0f} % more in total"
    legend += "; ≥: fewer are not enough, and these may not be; –: unknown"
    yield Table([Column("size"), *map(Column, names)], rows, title="pairs needed", legend=[legend])


def _charts(result: Rates) -> Iterator[Chart]:
    sending = grouped((each for each in result.points if each.rate), attrgetter("size_bytes"))
    for size, here in sorted(sending.items()):
        if len({each.pairs for each in here}) > 1:
            marks = [ALL_PAIRS.mark(each.pairs, each.transport, each) for each in here]
            title = f"Message rate at {format_size(size)}"
            x, y = Axis("pairs", log=True), Axis("messages of all pairs", "M/s")
            yield Chart("curves", title, x, y, marks, caption=bounds_meaning(kinds_of(here)))


def _overview(result: Rates) -> Overview | None:
    sending = [each for each in result.points if each.messages and each.rate]
    if len(sending) <= MAX_RESULTS:
        return None
    found = _by_place(sending)
    sizes = sorted({each.size_bytes for each in sending})
    shown = list(dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1])))
    pairs = sorted({each.pairs for each in sending})
    ends = list(dict.fromkeys((pairs[0], pairs[-1])))
    columns: list[SummaryColumn] = []
    for size, number in product(shown, ends):
        rate, unit, factor = ("rate", "GB/s", 1e-9) if size == sizes[-1] else ("messages", "M/s", 1e-6)
        column = Column(count(number, "pair"), group=f"{format_size(size)}, {unit}")
        own = {name: getattr(each, rate) for (name, *where), each in found.items() if where == [size, number]}
        columns.append((column, own, partial(digits_cell, factor=factor)))
    for size in shown if len(ends) > 1 else ():
        column = Column(format_size(size), group=f"per-pair rate of {ends[-1]}, %")
        own = {name: each.kept for (name, *where), each in found.items() if where == [size, ends[-1]]}
        columns.append((column, own, partial(ratio_cell, factor=100)))
    legend = [
        f"M/s: 10^6 messages per second of all pairs, {sending[0].window} of each in flight; GB/s: the same in bytes"
    ]
    if len(ends) > 1:
        legend.append(f"per-pair rate of {ends[-1]} pairs: {_share(sending)}")
    return Overview(certainty(result), summary_table(by_transport(sending), columns, legend))


def _most(result: Rates) -> Iterator[Note]:
    """Name the transport of each kind of memory that sends the most of the smallest messages, and what a pair keeps."""
    known = result.series.transports
    sending = (each for each in result.points if each.messages and each.rate)
    places = grouped(sending, lambda each: known[each.transport].memory if each.transport in known else "none")
    for place, name in (("host", "host memory"), ("device", "GPU memory"), ("none", "")):
        if place in places:
            smallest = min(each.size_bytes for each in places[place])
            here = [each for each in places[place] if each.size_bytes == smallest]
            best = max(here, key=attrgetter("total"))
            rate = f"{format_sig(best.total / 1e6, 3)} million messages/s of {format_size(smallest)}"
            others = [growth(each, best) for each in here if each.transport != best.transport]
            ahead = bool(others) and None not in others and all(above_of_many([each for each in others if each], 1))
            text = f"{name}{': ' * bool(name)}{best.transport} sends {rate} with {count(best.pairs, 'pair')}"
            text += f", the most{f' in {name}' if name else ''}" * ahead
            most = [each for each in here if each.transport == best.transport][-1]
            if most.kept:
                kept, bounds = format_sig(most.kept.median * 100, 3), bounds_of(most.kept, 100, "%")
                text += f"; each of {most.pairs} pairs keeps {kept} % of the rate of one pair alone ({bounds})"
            yield finding("", text)
