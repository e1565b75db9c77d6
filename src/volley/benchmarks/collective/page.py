"""The reports of collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from volley.benchmarks.collective.records import bus_factor
from volley.benchmarks.points.page import (
    BANDWIDTH,
    CHECKED,
    KEYS,
    LATENCY,
    QUANTITIES,
    SAMPLES,
    TAIL,
    report_of,
)
from volley.benchmarks.points.results import PointResult, PointSeries
from volley.records.plan import Plan
from volley.report.cells import PLUS_MINUS, Quantity, as_they_are
from volley.report.model import Report


def _algorithm_Bps(point: PointResult) -> float | None:  # noqa: N802  B/s keeps its capital letter
    if point.operation is None or point.bandwidth_Bps is None:
        return None
    return point.bandwidth_Bps / bus_factor(point.operation, len(point.ranks))


TIME = replace(LATENCY, title="time")
BUS = replace(BANDWIDTH, title="bus")
"""In CSV it is the bandwidth of all points."""
ALGORITHM = Quantity("algorithm_bandwidth", "GB/s", _algorithm_Bps, "algorithm")
COLLECTIVE = (
    *QUANTITIES,
    *as_they_are("operation"),
    ALGORITHM,
    Quantity("entry_skew", "µs", lambda point: point.entry_skew_s),
    Quantity("clock_error", "µs", lambda point: point.clock_error_s),
)


def _columns(point: PointResult, plan: Plan | None, alone: bool) -> Sequence[Quantity]:
    rates = [] if point.operation == "barrier" else [BUS, ALGORITHM]
    with_tail = plan is not None and plan.sampling.tail
    if alone:
        tails = [TAIL[name] for name in ("p90", "p99", "max")] if with_tail else []
        return [TIME, PLUS_MINUS, *tails, *rates, SAMPLES, CHECKED]
    if with_tail:
        return [replace(TIME, title="median"), TAIL["p99"], TAIL["max"]]
    return [replace(TIME, title=""), PLUS_MINUS, *rates[:1]]


def _about(point: PointResult, plan: Plan | None, _kinds: set[str]) -> str:
    average = "median of single operations" if plan and plan.sampling.tail else "median of batch means"
    text = f"time: from the last rank's entry to the last rank's exit, {average}, {len(point.ranks)} ranks"
    return text if point.operation == "barrier" else f"{text}; bus: bus bandwidth, as nccl-tests defines it"


def report(result: PointSeries) -> Report:
    return report_of(result, _columns, _about, quantities=COLLECTIVE, keys=("operation", *KEYS))
