"""The reports of collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from volley.benchmarks.collective.records import CollectivePoint, bus_factor
from volley.benchmarks.shared.points.page import (
    BANDWIDTH,
    LATENCY,
    PLUS_MINUS,
    SAMPLES,
    VERIFIED,
    PointColumn,
    report_of,
    tail,
)
from volley.benchmarks.shared.points.results import PointResult, PointSeries
from volley.grouping import grouped
from volley.report.cells import scaled
from volley.report.model import Data, Report
from volley.run.plan import Plan
from volley.statistics.estimates import median

COLUMNS = ("operation", "algorithm_bandwidth_GBps", "entry_skew_us", "clock_error_us")
"""The columns of CSV behind those of all points; in these, ``bandwidth_GBps`` is the bus bandwidth."""


def _algorithm_bandwidth(point: PointResult) -> float | None:
    """Return bytes / time in GB/s: the bus bandwidth without its factor."""
    if point.operation is None or point.bandwidth_Bps is None:
        return None
    return scaled(point.bandwidth_Bps / bus_factor(point.operation, len(point.ranks)), 1e-9)


TIME = replace(LATENCY, title="time")
BUS = replace(BANDWIDTH, title="bus")
ALGORITHM = PointColumn("algorithm", "GB/s", _algorithm_bandwidth)


def _columns(point: PointResult, plan: Plan | None, alone: bool) -> Sequence[PointColumn]:
    rates = [] if point.operation == "barrier" else [BUS, ALGORITHM]
    with_tail = plan is not None and plan.sampling.tail
    if alone:
        tails = [tail(name) for name in ("p90", "p99", "max")] if with_tail else []
        return [TIME, PLUS_MINUS, *tails, *rates, SAMPLES, VERIFIED]
    if with_tail:
        return [replace(TIME, title="median"), tail("p99"), tail("max")]
    return [replace(TIME, title=""), PLUS_MINUS, *rates[:1]]


def _about(point: PointResult, plan: Plan | None, _kinds: set[str]) -> str:
    average = "median of single operations" if plan and plan.sampling.tail else "median of batch means"
    text = f"time: from the last rank's entry to the last rank's exit, {average}, {len(point.ranks)} ranks"
    return text if point.operation == "barrier" else f"{text}; bus: bus bandwidth, as nccl-tests defines it"


def report(result: PointSeries) -> Report:
    made = report_of(result, _columns, _about)
    what = attrgetter("operation", "transport", "size_bytes")
    records = grouped((record for log in result.series.logs for record in log.of(CollectivePoint)), what)
    rows = []
    for point, row in zip(result.points, made.data.rows, strict=True):
        own = records.get(what(point), [])  # of all launches
        skews = [skew for record in own for skew in record.entry_skew_s]
        more = {
            "operation": point.operation,
            "algorithm_bandwidth_GBps": _algorithm_bandwidth(point),
            "entry_skew_us": median(skews) * 1e6 if skews else None,
            "clock_error_us": max((record.clock_error_s for record in own), default=0.0) * 1e6,
        }
        rows.append({**row, **more})
    data = Data((*made.data.columns, *COLUMNS), ("operation", *made.data.keys), rows)
    return replace(made, data=data)
