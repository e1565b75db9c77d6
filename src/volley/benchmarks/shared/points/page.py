"""The report of points: a table with one row per size, speed-ups, and a fitted line for each curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

from volley.benchmarks.shared.points import ucx
from volley.benchmarks.shared.points.charts import charts
from volley.benchmarks.shared.points.notes import notes
from volley.benchmarks.shared.points.overview import overview
from volley.benchmarks.shared.points.results import (
    TAIL_FRACTIONS,
    PointResult,
    PointSeries,
    TransportCurve,
    baseline,
    by_transport,
    curves,
    one_launch,
    overtakes,
    tables,
)
from volley.report.cells import plus_minus, ratio_cell, scaled, spread, unclear
from volley.report.model import EMPTY, Cell, Column, Data, Report, Row, Table
from volley.run.launch_series import LaunchSeries
from volley.run.plan import Plan
from volley.run.report_parts import bounds_legend, heading, not_mpi
from volley.statistics.hockney import POOR
from volley.units import approximate_size, format_size

NOT_MPI = "*"
"""Marks a transport that does not use MPI if there is no space for the words."""


@dataclass(frozen=True)
class PointColumn:
    """A column: the two lines of its header and the value of a measured point."""

    title: str
    unit: str
    value: Callable[[Any], Cell | float | int | bool | None]
    """Of a :class:`PointResult`, or of a benchmark's own result that contains one."""


def tail(name: str) -> PointColumn:
    """Return the column of a percentile of all samples, or of their ``max``."""
    return PointColumn(name, "µs", lambda point: scaled(point.tail_s.get(name), 1e6))


Columns = Callable[[PointResult, Plan | None, bool], Sequence[PointColumn]]
"""Returns the columns of a transport, from any point and the plan; true: the table has no other transport."""

About = Callable[[PointResult, Plan | None, set[str]], str]
"""Returns the definition of the numbers for the legend, from any point, the plan and the kinds of bounds."""


PLUS_MINUS = PointColumn("", "± %", lambda point: plus_minus(point.time))
SPREAD = PointColumn("spread", "%", lambda point: spread(point.time))
"""Takes the place of ± where there is one launch: what another launch would find is not known."""
BANDWIDTH = PointColumn("bandwidth", "GB/s", lambda point: scaled(point.bandwidth_Bps, 1e-9))
LATENCY = PointColumn("latency", "µs", lambda point: point.latency.median * 1e6 if point.latency else None)
SAMPLES = PointColumn("samples", "", lambda point: point.samples)
VERIFIED = PointColumn("verified", "", lambda point: point.verified if point.rate or point.operation else None)
"""Empty if the transport sends nothing."""


def report_of(result: PointSeries, columns_of: Columns, about: About, ucx_operation: str = "") -> Report:
    """Return the report of one series.

    Args:
        result: the series.
        columns_of: the columns of the benchmark.
        about: what its numbers are.
        ucx_operation: the name of its MPI calls in UCX's tables; empty if there is none.
    """
    names = by_transport(result.points)
    alone = tuple(names) if len(names) == 1 else ()  # the table names several transports
    found: list[Table] = []
    for points in tables(result.points):
        found += [_points(points, result, columns_of, about), *_speedups(points, result), *_lines(points, result)]
    measured = [point for point in result.points if point.time and point.rate]
    lines = [curve for points in tables(result.points) for curve in curves(points)]
    return Report(
        heading=heading(result.series, result.series.plan.benchmark if result.series.plan else "", *alone),
        tables=found,
        charts=[chart for points in tables(result.points) for chart in charts(points, result, ucx_operation)],
        notes=notes(result, ucx_operation),
        no_fit="; ".join(dict.fromkeys(filter(None, map(attrgetter("reason"), lines)))) or Report.no_fit,
        overview=overview(result, list(ucx.inversions(measured, result.series.plan, ucx_operation))),
        data=Data(COLUMNS, KEYS, [_row(point) for point in result.points]),
        runs=result.series.describe_runs(),
        extra={
            "curves": [curve for points in tables(result.points) for curve in _curves(points)],
            "crossovers": [
                {**_identity(points[0]), **asdict(one)} for points in tables(result.points) for one in overtakes(points)
            ],
        },
    )


def _points(points: list[PointResult], result: PointSeries, columns_of: Columns, about: About) -> Table:
    plan, names = result.series.plan, by_transport(points)
    alone = len(names) == 1
    columns = list(columns_of(points[0], plan, alone))
    if PLUS_MINUS in columns and one_launch(points):
        columns[columns.index(PLUS_MINUS)] = SPREAD
    sizes = sorted({point.size_bytes for point in points})
    rows: list[list[Cell]] = [[_size(size)] for size in sizes]
    for those in names.values():
        here = {point.size_bytes: point for point in those}
        for size, row in zip(sizes, rows, strict=True):
            row += [cell_of(here.get(size), column, columns) for column in columns]
    titles = ["" if alone else name + not_mpi(result.transports.get(name)) for name in names]
    shown = [Column(column.title, column.unit, group=title) for title in titles for column in columns]
    legend = _legend(points, result.series, columns, about, alone=alone)
    return Table([Column("size"), *shown], rows, title=points[0].operation or "", legend=legend)


def _size(size_bytes: int) -> Cell:
    return Cell(size_bytes, text=format_size(size_bytes) if size_bytes else "–")


def cell_of(point: PointResult | None, column: PointColumn, columns: Sequence[PointColumn], of: Any = None) -> Cell:
    """Return the cell of a point; a point without numbers has its status in the first column and in ``verified``.

    Args:
        point: the point; ``None`` if it was not asked for.
        column: the column.
        columns: all columns of the point.
        of: what the column takes its value from, if it is not the point itself.
    """
    if point is None:
        return EMPTY
    if point.time is None:
        first = column is columns[0]
        if point.status == "failed" and (first or column is VERIFIED):
            return Cell(text="FAILED", style="error")
        return Cell(text="skipped" if first else "", style="dim")
    value = column.value(of or point)
    cell = value if isinstance(value, Cell) else Cell(value)
    if cell.value is True or cell.style or not point.missed:
        return cell
    return Cell(cell.value, "warning", cell.text)


def _legend(
    points: list[PointResult], series: LaunchSeries, columns: Sequence[PointColumn], about: About, *, alone: bool
) -> list[str]:
    kinds: set[str] = {point.time.kind for point in points if point.time}
    if not kinds:
        return []
    plan, launches = series.plan, max(point.launches for point in points)
    parts = [about(points[0], plan, kinds)]
    if PLUS_MINUS in columns or SPREAD in columns:
        parts += bounds_legend(kinds, launches, series)
    if any(column.unit == "GB/s" for column in columns):
        parts.append("GB/s: 10^9 B/s")
    checked = {point.verified for point in points if point.time and point.rate}
    if not alone and checked == {True}:
        parts.append("all verified")
    return ["; ".join(parts)]


# ------------------------------------------------------------------------------------------ speed-ups and lines


def _mark(name: str, result: PointSeries) -> str:
    transport = result.transports.get(name)
    return "" if transport is None or transport.mpi else NOT_MPI


def _speedups(points: Sequence[PointResult], result: PointSeries) -> Iterator[Table]:
    """Yield the speed-ups of one table, with one row per size and one column per transport, if there are any."""
    found = {(point.transport, point.size_bytes): point.speedup.estimate for point in points if point.speedup}
    if not found:
        return
    sizes, names = sorted({size for _, size in found}), list(dict.fromkeys(name for name, _ in found))
    # A name with a variant has two lines: ``staged/`` and ``pinned``.
    columns = [Column(name.replace("/", "/\n", 1) + _mark(name, result), "×") for name in names]
    rows = [[_size(size), *(ratio_cell(found.get((name, size))) for name in names)] for size in sizes]
    legend = [f"×: speed-up over {baseline(points)}{' within one launch' * one_launch(points)}"]
    legend += unclear(rows)
    if any(_mark(name, result) for name in names):
        legend.append(f"{NOT_MPI} not MPI")
    yield Table([Column("size"), *columns], rows, title=points[0].operation or "", legend=["; ".join(legend)])


def _lines(points: Sequence[PointResult], result: PointSeries) -> Iterator[Table]:
    """Yield the fitted lines of one table, one row per transport."""
    found = curves(points)
    lines = [curve.fit for curve in found]
    if not any(lines):
        return
    columns = [
        Column("transport", align="left"),
        Column("α", "µs", 3, group="t(n) = α + n/β"),
        Column("β", "GB/s", 3, group="t(n) = α + n/β"),
        Column("α·β", group="t(n) = α + n/β"),
        Column("median", "%", 2, group="off by"),
        Column("worst", "%", 2, group="off by"),
        Column("at", group="off by"),
        Column(group="off by"),
    ]
    marks = [_mark(curve.transport, result) for curve in found]
    legend = ["line with the least mean relative deviation; α·β: the size that moves at half of β"]
    if any(fit and fit.poor for fit in lines):
        legend.append(f"poor: off by more than {POOR * 100:g} % at some size, so α and β do not describe the curve")
    if None in lines:
        legend.append("–: the measured sizes do not determine both terms")
    if any(marks):
        legend.append(f"{NOT_MPI} not MPI")
    rows = [_line(curve, mark) for curve, mark in zip(found, marks, strict=True)]
    yield Table(columns, rows, title=points[0].operation or "", legend=["; ".join(legend)], model=True)


def _line(curve: TransportCurve, mark: str) -> Row:
    fit = curve.fit
    if fit is None:
        return [curve.transport + mark, Cell(style="dim"), EMPTY, EMPTY, Cell(style="dim"), EMPTY, EMPTY, EMPTY]
    values = (
        fit.latency_s * 1e6,
        fit.bandwidth_Bps / 1e9,
        approximate_size(fit.half_bandwidth_bytes),
        fit.median_deviation * 100,
        abs(fit.worst_deviation) * 100,
        format_size(fit.worst_size_bytes),
        "poor" if fit.poor else "",
    )
    return [curve.transport + mark, *(Cell(value, "dim" if fit.poor else "") for value in values)]


_PERCENTILES = {f"{name.replace('.', '_')}_us": name for name in (*TAIL_FRACTIONS, "max")}

COLUMNS = (
    "transport", "size_bytes", "samples", "latency_us", "latency_low_us", "latency_high_us", "bandwidth_GBps",
    "verified", "status", "benchmark", "direction", "window", "ranks", "launches", "interval", "bandwidth_low_GBps",
    "bandwidth_high_GBps", "forward_GBps", "backward_GBps", "messages_timed", "messages_verified", "ended_by",
    "cold_us", *_PERCENTILES, "reason", "speedup", "speedup_low", "speedup_high", "speedup_over",
    "speedup_interval", "time_us", "time_low_us", "time_high_us", "of_line_rate",
)  # fmt: skip
"""The first nine columns and their order are a stable interface.  ``cold_us`` is half of the first round trip with
a transport, or the first window.  ``interval`` is the kind of the bounds: a 95 % confidence interval over launches
(``ci``), one that holds only ``within`` the single launch, the ``range`` of too few observations, or a ``single``
observation.  ``time_us`` is half a round trip, a window of a stream (the slower direction of both), or a collective;
``latency_us`` is the same, and empty for a stream."""

KEYS = ("transport", "size_bytes", "benchmark", "direction", "window", "ranks")


_AS_THEY_ARE = (
    "transport", "size_bytes", "samples", "verified", "status", "reason", "mismatch", "benchmark", "direction",
    "window", "ranks", "launches", "messages_timed", "messages_verified", "ended_by", "of_line_rate",
)  # fmt: skip
"""Fields of a point that a row takes over without conversion."""


def _row(point: PointResult) -> dict[str, Any]:
    time, latency, rate, speedup = point.time, point.latency, point.rate, point.speedup
    return {
        **{name: getattr(point, name) for name in _AS_THEY_ARE},
        "latency_us": latency and latency.median * 1e6,
        "latency_low_us": latency and latency.low * 1e6,
        "latency_high_us": latency and latency.high * 1e6,
        "time_us": time and time.median * 1e6,
        "time_low_us": time and time.low * 1e6,
        "time_high_us": time and time.high * 1e6,
        "interval": time and time.kind,
        "bandwidth_GBps": rate and rate.median / 1e9,
        "bandwidth_low_GBps": rate and rate.low / 1e9,
        "bandwidth_high_GBps": rate and rate.high / 1e9,
        "forward_GBps": scaled(point.forward_Bps, 1e-9),
        "backward_GBps": scaled(point.backward_Bps, 1e-9),
        "line_rate_GBps": scaled(point.line_rate_Bps, 1e-9),
        "cold_us": scaled(point.cold_s, 1e6),
        **{key: scaled(point.tail_s.get(name), 1e6) for key, name in _PERCENTILES.items()},
        "speedup": speedup and speedup.estimate.median,
        "speedup_low": speedup and speedup.bounds and speedup.bounds[0],
        "speedup_high": speedup and speedup.bounds and speedup.bounds[1],
        "speedup_over": speedup and speedup.over,
        "speedup_interval": speedup and speedup.estimate.kind,
        "groups": [{"time_us": group.median * 1e6, "launches": group.launches} for group in point.groups],
        "warnings": point.warnings,
    }


def _identity(point: PointResult) -> dict[str, Any]:
    return {name: getattr(point, name) for name in ("benchmark", "operation", "ranks", "direction", "window")}


def _curves(points: Sequence[PointResult]) -> Iterator[dict[str, Any]]:
    """Yield the fitted line of each curve with its deviations, or the reason why there is none."""
    for curve in curves(points):
        fit = curve.fit
        yield {
            **_identity(points[0]),
            "transport": curve.transport,
            "fit": fit and {**asdict(fit), "half_bandwidth_bytes": fit.half_bandwidth_bytes, "poor": fit.poor},
            "reason": curve.reason,
            "measured_half_bandwidth_bytes": curve.half_bandwidth_bytes,
        }
