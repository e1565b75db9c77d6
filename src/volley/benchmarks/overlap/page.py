"""The reports of overlaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from volley.benchmarks.overlap import LIMITS, Limit
from volley.benchmarks.overlap.overview import hidden_words, overview
from volley.benchmarks.overlap.results import OverlapResult, OverlapSeries
from volley.benchmarks.shared.points.notes import skipped
from volley.grouping import grouped
from volley.report.cells import scaled
from volley.report.model import Axis, Cell, Chart, Column, Data, Mark, Note, Report, Row, Table
from volley.run import report_parts
from volley.statistics.estimates import Estimate
from volley.statistics.launches import Repeated
from volley.text import join_words
from volley.units import format_sig, format_size

TITLES = {"memory": "Beside a computation bound by memory", "arithmetic": "Beside a computation bound by arithmetic"}

COLUMNS = [
    Column("size", align="right"),
    Column("exchange", "µs"),
    Column("computation", "µs"),
    Column("both", "µs"),
    Column("hidden", "%", digits=3),
    Column("from", "%", digits=3),
    Column("to", "%", digits=3),
    Column("computation\nslowed down", "×", digits=3),
    Column("exchange\nslowed down", "×", digits=3),
    Column("verified", all_true="all verified"),
]

LEGEND = (
    "exchange: both ranks send a message and receive one; computation: about as long as the exchange; both: at once",
    "hidden: 1 - (both - computation) / exchange, OSU's overlap; from, to: its 95 % interval, or the range",
    "slowed down: time of the one beside the other, from its own start to its own end / its time alone",
)

CSV = (
    *("computation", "transport", "ranks", "size_bytes", "status", "reason"),
    *("exchange_us", "computation_us", "both_us", "hidden", "hidden_low", "hidden_high"),
    *("computation_slowdown", "computation_slowdown_low", "computation_slowdown_high"),
    *("exchange_slowdown", "exchange_slowdown_low", "exchange_slowdown_high"),
    *("launches", "samples", "messages_verified"),
)


def report(result: OverlapSeries) -> Report:
    series = result.series
    measured = [point for point in result.points if point.exchange]
    return Report(
        heading=report_parts.heading(series, "overlap"),
        tables=[table for limit in LIMITS if (table := _table(limit, measured))],
        charts=[chart for limit in LIMITS if (chart := _chart(limit, measured))],
        notes=report_parts.notes_of(
            series,
            {point.transport for point in measured},
            failed=_failed(result.points),
            missing=skipped(grouped(result.points, attrgetter("transport"))),
            found=_findings(result),
        ),
        overview=overview(result),
        data=Data(CSV, CSV[:4], [_data(point) for point in result.points]),
        runs=series.describe_runs(),
    )


def _table(limit: Limit, points: Sequence[OverlapResult]) -> Table | None:
    """Return the table of one computation: a row for each size, in sections of a transport."""
    those = [point for point in points if point.computation == limit]
    sections: dict[int, str] = {}
    rows: list[Row] = []
    for point in those:
        if not rows or those[len(rows) - 1].transport != point.transport:
            sections[len(rows)] = point.transport
        rows.append(
            [
                format_size(point.size_bytes),
                *(_microseconds(time) for time in (point.exchange, point.alone, point.both)),
                *(scaled(each, 100) for each in _numbers(point.hidden)),
                _numbers(point.computation_slowdown)[0],
                _numbers(point.exchange_slowdown)[0],
                Cell(point.messages_verified > 0),
            ]
        )
    return Table(COLUMNS, rows, TITLES[limit], LEGEND, sections=sections) if rows else None


def _chart(limit: Limit, points: Sequence[OverlapResult]) -> Chart | None:
    marks = [
        Mark(
            point.size_bytes,
            point.hidden.median * 100,
            point.transport,
            point.hidden.low * 100,
            point.hidden.high * 100,
        )
        for point in points
        if point.computation == limit and point.hidden
    ]
    if not marks:
        return None
    title = f"Hidden: {TITLES[limit][0].lower()}{TITLES[limit][1:]}"
    return Chart("curves", title, Axis("message size", "B", log=True), Axis("of the exchange", "%"), marks)


def _failed(points: Sequence[OverlapResult]) -> Iterator[str]:
    for point in points:
        if point.status == "failed":
            where = f"{point.transport}, {format_size(point.size_bytes)}, beside {point.computation}"
            yield f"{where}: {point.reason or 'no reason is recorded'}"


def _findings(result: OverlapSeries) -> Iterator[Note]:
    """Say for each transport how much of its largest exchange is hidden, and what the computation and it pay."""
    for name, points in grouped((point for point in result.points if point.hidden), attrgetter("transport")).items():
        size = max(point.size_bytes for point in points)
        largest = [point for point in points if point.size_bytes == size]
        shares = (f"{hidden_words(point.hidden)} beside {point.computation}" for point in largest if point.hidden)
        text = f"{name}, {format_size(size)}: hidden {join_words(shares)}"
        for what in ("computation", "exchange"):
            slowdowns = ((point.computation, getattr(point, f"{what}_slowdown")) for point in largest)
            times = [f"{format_sig(each.median, 3)} × ({limit})" for limit, each in slowdowns if each]
            if times:
                text += f"; {what} {', '.join(times)}"
        yield Note("finding", text)


def _data(point: OverlapResult) -> dict[str, Any]:
    ratios = ("hidden", "computation_slowdown", "exchange_slowdown")
    return {
        "computation": point.computation,
        "transport": point.transport,
        "ranks": list(point.ranks),
        "size_bytes": point.size_bytes,
        "status": point.status,
        "reason": point.reason,
        "exchange_us": _microseconds(point.exchange),
        "computation_us": _microseconds(point.alone),
        "both_us": _microseconds(point.both),
        **{
            f"{name}{end}": number
            for name in ratios
            for end, number in zip(("", "_low", "_high"), _numbers(getattr(point, name)), strict=True)
        },
        "launches": point.launches,
        "samples": point.samples,
        "messages_verified": point.messages_verified,
    }


def _microseconds(time: Repeated | None) -> float | None:
    return None if time is None else time.estimate.median * 1e6


def _numbers(estimate: Estimate | None) -> tuple[float | None, float | None, float | None]:
    """Return the median and the bounds of an estimate; one observation has no bounds."""
    if estimate is None:
        return None, None, None
    bounds = (None, None) if estimate.kind == "single" else (estimate.low, estimate.high)
    return estimate.median, *bounds
