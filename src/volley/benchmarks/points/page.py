"""Points for people and programs: a row a size, and below the table speed-ups and a line through each curve."""

# GB/s keeps its capital letters in names.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from volley.benchmarks.points.remarks import remarks
from volley.benchmarks.points.results import (
    TAIL_FRACTIONS,
    PointResult,
    PointSeries,
    Speedup,
    TransportCurve,
    baseline,
    by_transport,
    curves,
    overtakes,
    tables,
)
from volley.report.cells import plus_minus, scaled
from volley.report.model import EMPTY, Cell, Column, Data, Report, Row, Table
from volley.run.notes import heading, not_mpi
from volley.run.plan import Plan
from volley.statistics.estimates import FEWEST
from volley.statistics.hockney import POOR, Fit
from volley.units import approximate_size, format_sig, format_size

NOT_MPI = "*"
"""Marks a transport beside MPI where its full label would take too much room."""


@dataclass(frozen=True)
class PointColumn:
    """One column: its two lines of header and what stands in its cells where a point has numbers."""

    title: str
    unit: str
    value: Callable[[PointResult], Cell | float | int | bool | None]


@dataclass(frozen=True)
class PageSpec:
    """What the pages of two benchmarks of points differ in."""

    command: str
    """What people call the benchmark."""
    ucx_operation: str
    """How UCX's tables name the calls that it makes."""
    alone: Callable[[PointResult, Plan | None], Sequence[PointColumn]]
    """The columns where only one transport is shown."""
    side_by_side: Callable[[PointResult, Plan | None], Sequence[PointColumn]]
    """Those of each of several transports."""
    about: Callable[[PointResult, Plan | None, set[str]], str]
    """What the numbers are, for the legend, from any point, the plan and the kinds of bounds."""


def _verified(point: PointResult) -> Cell | bool | None:
    """A tick for checked data; a dash where nothing is sent."""
    return None if point.rate is None else point.verified


PLUS_MINUS = PointColumn("", "± %", lambda point: plus_minus(point.time))
BANDWIDTH = PointColumn("bandwidth", "GB/s", lambda point: scaled(point.bandwidth_Bps, 1e-9))
SAMPLES = PointColumn("samples", "", lambda point: point.samples)
VERIFIED = PointColumn("verified", "", _verified)


def report(result: PointSeries, spec: PageSpec) -> Report:
    """Return the page of one series."""
    names = by_transport(result.points)
    alone = tuple(names) if len(names) == 1 else ()  # several are named in the table
    found = [table for points in tables(result.points) for table in _tables(points, result, spec)]
    return Report(
        heading=heading(result.series, spec.command, *alone),
        tables=found,
        notes=list(remarks(result, spec.ucx_operation)),
        data=Data(COLUMNS, [_row(point) for point in result.points]),
        runs=result.series.describe_runs(),
        extra={
            "curves": [curve for points in tables(result.points) for curve in _curves(points)],
            "crossovers": [
                {**_identity(points[0]), **asdict(one)} for points in tables(result.points) for one in overtakes(points)
            ],
        },
    )


def _tables(points: list[PointResult], result: PointSeries, spec: PageSpec) -> Iterator[Table]:
    yield _points(points, result, spec)
    yield from _speedups(points, result)
    yield from _lines(points, result)


# ------------------------------------------------------------------------------------------------- points


def _points(points: list[PointResult], result: PointSeries, spec: PageSpec) -> Table:
    plan, names = result.series.plan, by_transport(points)
    alone = len(names) == 1
    columns = (spec.alone if alone else spec.side_by_side)(points[0], plan)
    sizes = sorted({point.size_bytes for point in points})
    rows: list[list[Cell]] = [[Cell(format_size(size))] for size in sizes]
    for those in names.values():
        here = {point.size_bytes: point for point in those}
        for size, row in zip(sizes, rows, strict=True):
            row += [_cell(here.get(size), column, first=column is columns[0]) for column in columns]
    titles = ["" if alone else name + not_mpi(result.transports.get(name)) for name in names]
    shown = [Column(column.title, column.unit, group=title) for title in titles for column in columns]
    return Table([Column("size"), *shown], rows, legend=_legend(points, plan, columns, spec, alone=alone))


def _cell(point: PointResult | None, column: PointColumn, *, first: bool) -> Cell:
    """A point without numbers says so in its first column and in ``verified``; colour repeats what words say."""
    if point is None:
        return EMPTY
    if point.time is None:
        if point.status == "failed" and (first or column is VERIFIED):
            return Cell(text="FAILED", style="error")
        return Cell(text="skipped" if first else "", style="dim")
    value = column.value(point)
    cell = value if isinstance(value, Cell) else Cell(value)
    if cell.value is True or not point.missed:
        return cell
    return Cell(cell.value, "warning", cell.text)


def _legend(
    points: list[PointResult], plan: Plan | None, columns: Sequence[PointColumn], spec: PageSpec, *, alone: bool
) -> list[str]:
    """Say what the columns mean, as far as they are there."""
    kinds: set[str] = {point.time.kind for point in points if point.time}
    if not kinds:
        return []
    bounded = PLUS_MINUS in columns
    launches = max(point.launches for point in points)
    parts = [spec.about(points[0], plan, kinds)]
    if bounded and "ci" in kinds:
        parts.append(f"±: 95 % confidence interval (CI) of the median{f' over {launches} launches' * (launches > 1)}")
    if bounded and "range" in kinds:
        of = "launches" if launches > 1 else "samples"
        parts.append(f"(±): range of fewer than {FEWEST} {of}, which have no 95 % CI")
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
    """The speed-ups of one table: a row a size, a column a transport; nothing where there are none."""
    found = {(point.transport, point.size_bytes): point.speedup for point in points if point.speedup}
    if not found:
        return
    sizes, names = sorted({size for _, size in found}), list(dict.fromkeys(name for name, _ in found))
    # A name with a variant takes two lines: ``staged/`` and ``pinned``.
    columns = [Column(name.replace("/", "/\n", 1) + _mark(name, result), "×") for name in names]
    rows = [[Cell(format_size(size)), *(_factor(found.get((name, size))) for name in names)] for size in sizes]
    legend = [f"×: how many times as fast as {baseline(points)}"]
    if not all(one.shown for one in found.values()):
        legend.append("~: the CIs overlap, neither is shown to be faster")
    if any(_mark(name, result) for name in names):
        legend.append(f"{NOT_MPI} not MPI")
    yield Table([Column("size"), *columns], rows, legend=["; ".join(legend)])


def _factor(speedup: Speedup | None) -> Cell:
    """A tilde stands before what may as well be 1."""
    if speedup is None:
        return EMPTY
    shown = format_sig(speedup.ratio, 3)
    return Cell(speedup.ratio, text=shown) if speedup.shown else Cell(speedup.ratio, "dim", f"~{shown}")


def _lines(points: Sequence[PointResult], result: PointSeries) -> Iterator[Table]:
    """The line through each curve of one table, a row a transport.  A single one is told in a sentence instead."""
    found = curves(points)
    lines = [curve.fit for curve in found]
    if len(found) < 2 or not any(lines):
        return
    columns = [
        Column("transport", align="left"),
        Column("α", "µs", 3, group="t(n) = α + n/β"),
        Column("β", "GB/s", 3, group="t(n) = α + n/β"),
        Column("N½", group="t(n) = α + n/β"),
        Column("median", "%", 2, group="off by"),
        Column("worst", "%", 2, group="off by"),
        Column("at", group="off by"),
        Column(group="off by"),
    ]
    marks = [_mark(curve.transport, result) for curve in found]
    legend = ["line of the least mean relative deviation; N½ = α·β"]
    if any(fit and fit.poor for fit in lines):
        legend.append(f"poor: off by more than {POOR * 100:g} % somewhere, so α and β do not stand for the whole curve")
    if None in lines:
        legend.append("–: the sizes measured do not show both terms")
    if any(marks):
        legend.append(f"{NOT_MPI} not MPI")
    rows = [_line(curve, mark) for curve, mark in zip(found, marks, strict=True)]
    yield Table(columns, rows, legend=["; ".join(legend)])


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


# ------------------------------------------------------------------------------------------------------ data

_PERCENTILES = {f"{name.replace('.', '_')}_us": name for name in (*TAIL_FRACTIONS, "max")}

COLUMNS = (
    "transport", "size_bytes", "samples", "latency_us", "latency_low_us", "latency_high_us", "bandwidth_GBps",
    "verified", "status", "benchmark", "direction", "window", "ranks", "launches", "interval", "bandwidth_low_GBps",
    "bandwidth_high_GBps", "forward_GBps", "backward_GBps", "messages_timed", "messages_verified", "ended_by",
    "cold_us", *_PERCENTILES, "reason", "speedup", "speedup_low", "speedup_high", "speedup_over",
)  # fmt: skip
"""The first nine and their order are a promise.  ``cold_us`` is half the first round trip of fresh buffers, or the
first window.  ``interval`` says what the bounds are: a 95 % confidence interval (``ci``), the ``range`` of too few
observations, or a ``single`` one."""


_AS_THEY_ARE = (
    "transport", "size_bytes", "samples", "verified", "status", "reason", "mismatch", "benchmark", "direction",
    "window", "ranks", "launches", "messages_timed", "messages_verified", "ended_by", "of_line_rate",
)  # fmt: skip
"""What a row has of a point without another unit."""


def _row(point: PointResult) -> dict[str, Any]:
    """One point for programs; what has no number is ``None``."""
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
        "bandwidth_GBps": rate and rate.median_Bps / 1e9,
        "bandwidth_low_GBps": rate and rate.low_Bps / 1e9,
        "bandwidth_high_GBps": rate and rate.high_Bps / 1e9,
        "forward_GBps": scaled(point.forward_Bps, 1e-9),
        "backward_GBps": scaled(point.backward_Bps, 1e-9),
        "line_rate_GBps": scaled(point.line_rate_Bps, 1e-9),
        "cold_us": scaled(point.cold_s, 1e6),
        **{key: scaled(point.tail_s.get(name), 1e6) for key, name in _PERCENTILES.items()},
        "speedup": speedup and speedup.ratio,
        "speedup_low": speedup and speedup.low,
        "speedup_high": speedup and speedup.high,
        "speedup_over": speedup and speedup.over,
        "remarks": point.remarks,
    }


def _identity(point: PointResult) -> dict[str, Any]:
    """What the points of one table have in common."""
    return {name: getattr(point, name) for name in ("benchmark", "ranks", "direction", "window")}


def _curves(points: Sequence[PointResult]) -> Iterator[dict[str, Any]]:
    """The line through each curve with how well it fits, or the reason why there is none."""
    for curve in curves(points):
        yield {
            **_identity(points[0]),
            "transport": curve.transport,
            "fit": curve.fit and _fit(curve.fit),
            "reason": curve.reason,
            "measured_half_bandwidth_bytes": curve.half_bandwidth_bytes,
        }


def _fit(fit: Fit) -> dict[str, Any]:
    return {**asdict(fit), "half_bandwidth_bytes": fit.half_bandwidth_bytes, "poor": fit.poor}
