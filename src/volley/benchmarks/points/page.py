"""The report of points, for ping-pong, stream and collectives: their quantities, a table with one row per size,
speed-ups, a fitted line for each curve, charts and data; and the summary, a row for each transport at a few sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any

from volley.benchmarks.points.findings import COLD_CACHES, certainty, findings, is_cold, ucx_ranges
from volley.benchmarks.points.notes import details, doubts, notes_of, too_wide
from volley.benchmarks.points.results import (
    TAIL_FRACTIONS,
    PointResult,
    PointSeries,
    TransportCurve,
    by_name,
    by_transport,
    crossovers_of,
)
from volley.records.plan import Plan
from volley.records.record_types import Transport
from volley.report.cells import (
    ALL,
    BOUNDED,
    Quantity,
    as_they_are,
    bounds_meaning,
    data_of,
    digits_cell,
    kinds_of,
    launches_of,
    ratio_cell,
    unclear,
    with_bounds,
)
from volley.report.model import EMPTY, Axis, Cell, Chart, Column, Later, Overview, ReferenceLine, Report, Table, Value
from volley.run import report_parts
from volley.run.path_report import path_at, path_tables
from volley.statistics.curves import POOR, Fit
from volley.text import grouped
from volley.units import approximate_size, format_sig, format_size

LATENCY = Quantity("latency", "µs", lambda point: point.latency, bounds=ALL)
"""Of a stream there is none."""
BANDWIDTH = Quantity("bandwidth", "GB/s", lambda point: point.rate)
TIME = Quantity("time", "µs", lambda point: point.time, bounds=ALL)
"""Half a round trip, a window of a stream (of both directions the slower one), or a collective."""
FORWARD = Quantity("forward", "GB/s", lambda point: point.each_way_Bps[0])
BACKWARD = Quantity("backward", "GB/s", lambda point: point.each_way_Bps[1])
SAMPLES, VERIFIED = as_they_are("samples", "verified")
INTERVAL = Quantity("interval", "", lambda point: point.time and point.time.kind)
"""What the bounds are: a 95 % confidence interval over launches (``ci``), one that holds only ``within`` the single
launch, the ``range`` of too few observations, or a ``single`` observation."""
COLD = Quantity("cold", "µs", lambda point: point.cold_s)
"""Half of the first round trip with a transport, or the first window."""
RANK_MEAN = Quantity("rank_mean", "µs", lambda point: point.rank_mean_s)
TAIL = {
    name: Quantity(name.replace(".", "_"), "µs", lambda point, name=name: point.tail_s.get(name), name)  # type: ignore[misc]
    for name in (*TAIL_FRACTIONS, "max")
}
"""Percentiles of all samples, and their maximum."""

QUANTITIES = (
    *as_they_are("transport", "size_bytes"), SAMPLES, LATENCY, BANDWIDTH, VERIFIED,
    *as_they_are("status", "benchmark", "direction", "window", "ranks", "launches"), INTERVAL,
    Quantity("bandwidth_low", "GB/s", lambda point: point.rate and point.rate.low),
    Quantity("bandwidth_high", "GB/s", lambda point: point.rate and point.rate.high),
    FORWARD, BACKWARD, *as_they_are("messages_timed", "messages_verified", "ended_by"), COLD, *TAIL.values(),
    *as_they_are("reason"),
    Quantity("speedup", "×", lambda point: point.speedup, bounds=BOUNDED), *as_they_are("speedup_over"),
    Quantity("speedup_interval", "", lambda point: point.speedup and point.speedup.kind),
    TIME, *as_they_are("of_line_rate"),
    Quantity("line_rate", "GB/s", lambda point: point.line_rate and point.line_rate.of(point.direction), csv=False),
    Quantity("groups", "", lambda point: [{"time_s": group.median, "launches": group.launches}
                                          for group in point.groups], csv=False),
    Quantity("mismatch", "", lambda point: point.mismatch, csv=False),
    Quantity("warnings", "", lambda point: point.warnings, csv=False),
    Quantity("carried_by", "",
             lambda point: path_at(point.series, point.transport, point.size_bytes, point.operation)),
)  # fmt: skip
"""The first nine columns that follow from these, and their order, are a stable interface."""

KEYS = ("transport", "size_bytes", "benchmark", "direction", "window", "ranks")

CHECKED = Quantity("verified", "", lambda point: point.verified if point.sends else None)
"""Empty if the transport sends nothing."""

Columns = Callable[[PointResult, Plan | None, bool], Sequence[Quantity]]
"""Returns the columns of a transport, from any point and the plan; true: the table has no other transport."""

About = Callable[[PointResult, PointSeries, set[str]], str]
"""Returns the definition of the numbers for the legend, from any point, the plan and the kinds of bounds."""


def report_of(
    result: PointSeries,
    columns_of: Columns,
    about: About,
    ucx_operation: str = "",
    *,
    quantities: Sequence[Quantity] = QUANTITIES,
    keys: Sequence[str] = KEYS,
) -> Report:
    names, series = by_transport(result.points), result.series
    alone = tuple(names) if len(names) == 1 else ()  # the table names several transports
    return Report(
        heading=report_parts.heading(series, series.plan.benchmark if series.plan else "", *alone),
        tables=Later(lambda: [*_tables(result, columns_of, about), *path_tables(series)]),
        charts=Later(lambda: [chart for table in result.tables for chart in _charts(table, result, ucx_operation)]),
        notes=Later(lambda: notes_of(result, too_wide(result.points, series))),
        doubts=Later(lambda: doubts([each for each in result.points if each.sends], series.plan)),
        findings=Later(lambda: findings(result, ucx_operation)),
        details=Later(lambda: details(result, ucx_operation)),
        summary=lambda: overview(result),
        results=lambda: data_of(quantities, keys, result.points),
        runs=series.logs,
        extra={
            "curves": Later(
                lambda: (_curve(points[0], curve) for points, curves in result.with_curves for curve in curves)
            ),
            "crossovers": Later(
                lambda: (
                    {**_identity(points[0]), **asdict(one)} for points in result.tables for one in crossovers_of(points)
                )
            ),
        },
    )


def _tables(result: PointSeries, columns_of: Columns, about: About) -> Iterator[Table]:
    for points, curves in result.with_curves:
        yield _points(points, result, columns_of, about)
        yield from _speedups(points)
        yield from _lines(points, curves)


def _points(points: list[PointResult], result: PointSeries, columns_of: Columns, about: About) -> Table:
    names = by_transport(points)
    wanted = columns_of(points[0], result.series.plan, len(names) == 1)
    columns = with_bounds(wanted, points)
    sizes = sorted({point.size_bytes for point in points})
    rows: list[list[Cell]] = [[_size(size, points[0])] for size in sizes]
    for those in names.values():
        here = {point.size_bytes: point for point in those}
        for size, row in zip(sizes, rows, strict=True):
            row.extend(cells(here.get(size), columns))
    legend = [] if all(point.time is None for point in points) else _legend(points, result, columns, about)
    return Table(
        [Column("size"), *headers(names, columns, result.series.transports)], rows, points[0].operation or "", legend
    )


def headers(names: Iterable[str], columns: Sequence[Quantity], known: dict[str, Transport]) -> list[Column]:
    """Return these columns for each transport, below its name if there are several."""
    groups = [name + report_parts.not_mpi(known.get(name)) for name in names]
    return [column.column(group=group if len(groups) > 1 else "") for group in groups for column in columns]


def _size(size_bytes: int, of: PointResult) -> Cell:
    return Cell(size_bytes, text=format_size(size_bytes) if of.sized else "–")


def cells(point: PointResult | None, columns: Sequence[Quantity]) -> Iterator[Cell]:
    """Yield the cells of a point; without numbers it has its status in the first column and in that of ``CHECKED``.

    The colour of a warning is only on the interval that is too wide: in a noisy run every number would have it.
    """
    for column in columns:
        if point is None:
            yield EMPTY
        elif point.time is None:
            failed = point.status == "failed" and (column is columns[0] or column is CHECKED)
            skipped = Cell(text="skipped" if column is columns[0] else "", style="dim")
            yield Cell(text="FAILED", style="error") if failed else skipped
        else:
            cell = column.cell(point)
            bounds = column.unit.startswith("±") or column.name == "range"
            yield Cell(cell.value, "warning", cell.text) if bounds and point.missed else cell


def _legend(points: list[PointResult], result: PointSeries, columns: Sequence[Quantity], about: About) -> Sequence[str]:
    kinds, series = kinds_of(points), result.series
    parts = [about(points[0], result, kinds), *[COLD_CACHES] * is_cold(points, series.plan)]
    if any("%" in column.unit or column.name == "range" for column in columns):
        parts += report_parts.bounds_legend(points, series)
    if any(column.unit == "GB/s" for column in columns):
        parts += ["GB/s: 10^9 B/s", *report_parts.nothing_sent(points)]
    if len(by_transport(points)) > 1:
        parts.append(report_parts.Account.of(points).all_verified)
    if any(point.sized and point.size_bytes == 0 and point.time for point in points):
        parts.append("0 B: nothing to compare")
    return ["; ".join(filter(None, parts))]


# ------------------------------------------------------------------------------------------ speed-ups and lines


def _speedups(points: Sequence[PointResult]) -> Iterator[Table]:
    found = {(point.transport, point.size_bytes): point.speedup for point in points if point.speedup}
    if not found:
        return
    sizes, names = sorted({size for _, size in found}), list(dict.fromkeys(name for name, _ in found))
    # A name with a variant has two lines: ``staged/`` and ``pinned``.
    columns = [Column(name.replace("/", "/\n", 1), "×") for name in names]
    rows = [[_size(size, points[0]), *(ratio_cell(found.get((name, size))) for name in names)] for size in sizes]
    over = next(point.speedup_over for point in points if point.speedup)
    legend = [f"×: speed-up over {over}{' within one launch' * (launches_of(points) == 1)}", *unclear(rows)]
    yield Table([Column("size"), *columns], rows, title=points[0].operation or "", legend=["; ".join(legend)])


def _lines(points: Sequence[PointResult], curves: Sequence[TransportCurve]) -> Iterator[Table]:
    lines = [curve.fit for curve in curves]
    if not any(lines):
        return

    def of(value: Callable[[Fit], Value], without: Cell = EMPTY) -> Callable[[TransportCurve], Cell]:
        return lambda curve: Cell(value(curve.fit), "dim" if curve.fit.poor else "") if curve.fit else without

    law, error, unknown = "t(n) = α + n/β", "fit error", Cell(style="dim")
    columns: dict[Column, Callable[[TransportCurve], Cell | Value]] = {
        Column("transport", align="left"): attrgetter("transport"),
        Column("α", "µs", 3, group=law): of(lambda fit: fit.latency_s * 1e6, unknown),
        Column("β", "GB/s", 3, group=law): of(lambda fit: fit.bandwidth_Bps / 1e9),
        Column("α·β", group=law): of(lambda fit: approximate_size(fit.half_bandwidth_bytes)),
        Column("median", "%", 2, group=error): of(lambda fit: fit.median_deviation * 100, unknown),
        Column("worst", "%", 2, group=error): of(lambda fit: abs(fit.worst_deviation) * 100),
        Column("at", group=error): of(lambda fit: format_size(fit.worst_size_bytes)),
        Column(group=error): of(lambda fit: "poor" if fit.poor else ""),
    }
    legend = ["line with the least mean relative deviation; α·β: the size that moves at half of β"]
    if any(fit and fit.poor for fit in lines):
        legend.append(f"poor: fit error above {POOR * 100:g} % at some size, so α and β do not describe the curve")
    if None in lines:
        legend.append("–: the measured sizes do not determine both terms")
    yield Table.of(columns, curves, title=points[0].operation or "", legend=["; ".join(legend)], model=True)


def _identity(point: PointResult) -> dict[str, Any]:
    return {name: getattr(point, name) for name in ("benchmark", "operation", "ranks", "direction", "window")}


def _curve(point: PointResult, curve: TransportCurve) -> dict[str, Any]:
    fit = curve.fit
    return {
        **_identity(point),
        "transport": curve.transport,
        "fit": fit and {**asdict(fit), "half_bandwidth_bytes": fit.half_bandwidth_bytes, "poor": fit.poor},
        "reason": curve.reason,
        "measured_half_bandwidth_bytes": curve.half_bandwidth_bytes,
    }


# ------------------------------------------------------------------------------------------------------ charts


def _charts(points: Sequence[PointResult], result: PointSeries, ucx_operation: str) -> Iterator[Chart]:
    sent = [point for point in points if point.time and point.rate]
    if not sent:
        return
    changes = [
        ReferenceLine("x", each.first_bytes, f"aware: {each.protocol}")
        for each, _ in ucx_ranges(sent, result.series.plan, ucx_operation)[1:]
    ]
    parts = [bounds_meaning(kinds_of(sent)), "vertical lines: UCX uses another protocol from this size on"]
    caption = "; ".join(filter(None, parts if changes else parts[:1]))
    size, operation = Axis("message size", "B", log=True), sent[0].operation
    if all(point.latency for point in sent):
        marks = [LATENCY.mark(point.size_bytes, point.transport, point) for point in sent]
        title = f"Latency of {operation}" if operation else "Latency"
        yield Chart(
            "curves", title, size, Axis(operation or "half round trip", "µs", log=True), marks, None, changes, caption
        )
    both = "Bandwidth of both directions together" if sent[0].direction == "bi" else "Bandwidth"
    rates = {
        point.line_rate.of(point.direction) / 1e9: f"line rate of {point.line_rate.over}"
        for point in sent
        if point.line_rate
    }
    lines = [ReferenceLine("y", rate, f"{words}: {format_sig(rate, 4)} GB/s") for rate, words in rates.items()]
    marks = [BANDWIDTH.mark(point.size_bytes, point.transport, point) for point in sent]
    title = f"Bus bandwidth of {operation}" if operation else both
    yield Chart("curves", title, size, Axis("bandwidth", "GB/s", log=True), marks, None, [*lines, *changes], caption)


# ---------------------------------------------------------------------------------------------- the summary

MIN_SIZES = 6

MIN_POINTS = 20
"""Fewer sizes and fewer points than these fit a screen as they are."""

LATENCIES = (1 << 12, 1 << 16)
"""The latency columns, after the smallest size: the measured sizes next to these."""

BANDWIDTHS = (1 << 16, 1 << 20, 1 << 24)
"""The bandwidth columns, before the largest size; of latencies only the last two."""

_SPARE_TIMES = (0, 2, 5)
_SPARE_RATIOS = (3, 1)
"""Which columns of latencies and speed-ups a narrow screen leaves out, the highest first (``Column.spare``)."""

_PLACES = {"host": "host memory", "device": "GPU memory", "none": "nothing is sent"}


def overview(result: PointSeries) -> Overview | None:
    """Return the overview of one series; ``None`` if its tables fit a screen or its points are not comparable."""
    compared = [table for table in result.tables if any(point.sends for point in table)]
    points = [point for table in compared for point in table if point.sends]
    operations = len({point.operation for point in points})
    if len(compared) != operations:  # these points are not comparable
        return None
    rows = len(by_name(point for point in points if point.rate))
    few = len(points) < MIN_POINTS and len({point.size_bytes for point in points}) < MIN_SIZES
    if rows < 2 or (operations == 1 and few):
        return None
    plan = result.series.plan
    more = "; --full shows the percentiles" if plan and plan.sampling.tail else ""
    return Overview(certainty(result) + more, _summary_table(result, points))


def _summary_table(result: PointSeries, points: Sequence[PointResult]) -> Table:
    sizes = sorted({point.size_bytes for point in points if point.sized})
    # A transport with a limit of length, such as one word, has the first size only.
    last = {those[-1].size_bytes for those in by_name(point for point in points if point.rate).values()}
    largest = min(last - {sizes[0]} or last)
    timed = list(dict.fromkeys([sizes[0], *_nearest(sizes, LATENCIES)])) if points[0].latency else []
    rated = sorted({*_nearest(sizes, BANDWIDTHS[1:] if timed else BANDWIDTHS), largest, sizes[-1]})
    over = next((point.speedup_over for point in points if point.speedup), None)
    compared = sorted({point.size_bytes for point in points if point.transport == over}.intersection(timed + rated))
    compared = [compared[0], compared[-1]] if compared else []
    words = ("time", "bus bandwidth") if points[0].operation else ("latency", "bandwidth")
    peaks = not timed or len(sizes) > 1  # one size, such as a word, has no peak beside its latency
    shares = peaks and any(point.line_rate for point in points)
    one = Cell(1, "dim", "1")
    rows: list[list[Cell]] = []
    sections: dict[int, str] = {}
    for section, transports in _sections(result, points).items():
        sections[len(rows)] = section
        for name, those in transports.items():
            here = {point.size_bytes: point for point in those}
            ratios = {size: point.speedup for size, point in here.items()}
            best = None if timed and len(those) == 1 else max(those, key=attrgetter("bandwidth_Bps"))
            share = best.of_line_rate.median * 100 if best and best.of_line_rate else None
            line = EMPTY if share is None else Cell(share, text=f"{share:.0f} %")
            rows.append(
                [
                    Cell(f"  {name}"),
                    *(digits_cell(here[size].time, 1e6) if size in here else EMPTY for size in timed),
                    *(digits_cell(here[size].rate, 1e-9) if size in here else EMPTY for size in rated),
                    *([digits_cell(best.rate if best else None, 1e-9)] if peaks else []),
                    *([line] if shares else []),
                    *(one if name == over and size in here else ratio_cell(ratios.get(size)) for size in compared),
                ]
            )
    # Of bandwidths first go sizes between others, then the one that slow transports skipped.
    spare_rates = {**dict.fromkeys(rated, 6), sizes[-1]: 4, rated[0]: 0, largest: 0}
    relative = "; ".join([f"speed-up: relative to {over}", *unclear(rows)])  # narrow screens have no ratios
    columns = [
        Column("transport", align="left"),
        *(
            Column(format_size(size), group=f"{words[0]}, µs", spare=spare)
            for size, spare in zip(timed, _SPARE_TIMES, strict=False)
        ),
        *(Column(format_size(size), group=f"{words[1]}, GB/s", spare=spare_rates[size]) for size in rated),
        *([Column("GB/s", group="peak")] if peaks else []),
        *([Column("line", group="peak", meaning="line: share of the line rate")] if shares else []),
        *(
            Column(format_size(size), group="speed-up", spare=spare, meaning=relative)
            for size, spare in zip(compared, _SPARE_RATIOS, strict=False)
        ),
    ]
    both = ["bandwidth: of both directions, twice that of the slower one"] if points[0].direction == "bi" else []
    return Table(columns, rows, legend=both, sections=sections)


def _nearest(sizes: Sequence[int], wanted: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(min(sizes, key=lambda size: abs(math.log(max(size, 1) / each))) for each in wanted))


def _sections(result: PointSeries, points: Sequence[PointResult]) -> dict[str, dict[str, list[PointResult]]]:
    """Group the transports of collectives by operation, others by the path of their bytes.

    The fastest path comes first, host memory last.
    """
    found: dict[tuple[float, str], dict[str, list[PointResult]]] = {}
    operations = grouped((point for point in points if point.sized), lambda point: point.operation)
    for number, (operation, those) in enumerate(operations.items()):
        if operation:
            found[number, operation] = by_transport(those)
    for name, those in by_transport(operations.get(None, ())).items():
        transport, rate = result.series.transports.get(name), those[0].line_rate
        place = _PLACES[transport.memory] if transport else "unknown memory"
        path = f"{place}, {rate.describe()} in each direction" if rate else place
        on_host = transport is not None and transport.memory == "host"
        order = math.inf if on_host else -(rate.one_way_Bps if rate else 0.0)
        found.setdefault((order, path), {})[name] = those
    return {name: found[order, name] for order, name in sorted(found)}
