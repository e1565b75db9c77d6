"""The reports of a windowed stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from volley.benchmarks.points.page import (
    BACKWARD,
    BANDWIDTH,
    CHECKED,
    FORWARD,
    PLUS_MINUS,
    SAMPLES,
    report_of,
)
from volley.benchmarks.points.results import PointResult, PointSeries
from volley.records.plan import Plan
from volley.report.model import Quantity, Report


def _columns(point: PointResult, _plan: Plan | None, alone: bool) -> Sequence[Quantity]:
    both_ways = point.direction == "bi"
    total = replace(BANDWIDTH, title="total")
    if not alone:
        return [total if both_ways else replace(BANDWIDTH, title=""), PLUS_MINUS]
    rates = [total, PLUS_MINUS, FORWARD, BACKWARD] if both_ways else [BANDWIDTH, PLUS_MINUS]
    return [*rates, SAMPLES, CHECKED]


def _about(point: PointResult, _plan: Plan | None, _kinds: set[str]) -> str:
    flow = f"{point.window} messages in flight"
    if point.direction == "bi":
        return f"both ranks send at once, {flow}; total: twice the rate of the slower direction"
    return f"rank {point.ranks[0]} sends, {flow}"


UCX_OPERATION = "(multi)"
"""``ucp_tag_send_nbx`` for MPI_Isend (Open MPI, ompi/mca/pml/ucx/pml_ucx.c)."""


def report(result: PointSeries) -> Report:
    return report_of(result, _columns, _about, UCX_OPERATION)
