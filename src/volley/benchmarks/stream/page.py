"""The reports of a windowed stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from volley.benchmarks.shared.points.page import (
    BANDWIDTH,
    PLUS_MINUS,
    SAMPLES,
    VERIFIED,
    PageSpec,
    PointColumn,
    report,
)
from volley.benchmarks.shared.points.results import PointResult, PointSeries
from volley.report.cells import scaled
from volley.report.model import Report
from volley.run.plan import Plan

TOTAL = replace(BANDWIDTH, title="total")
FORWARD = PointColumn("forward", "GB/s", lambda point: scaled(point.forward_Bps, 1e-9))
BACKWARD = PointColumn("backward", "GB/s", lambda point: scaled(point.backward_Bps, 1e-9))


def _alone(point: PointResult, _plan: Plan | None) -> Sequence[PointColumn]:
    rates = [TOTAL, PLUS_MINUS, FORWARD, BACKWARD] if point.direction == "bi" else [BANDWIDTH, PLUS_MINUS]
    return [*rates, SAMPLES, VERIFIED]


def _side_by_side(point: PointResult, _plan: Plan | None) -> Sequence[PointColumn]:
    return [TOTAL if point.direction == "bi" else replace(BANDWIDTH, title=""), PLUS_MINUS]


def _about(point: PointResult, _plan: Plan | None, _kinds: set[str]) -> str:
    flow = "both ranks send at once" if point.direction == "bi" else f"rank {point.ranks[0]} sends"
    return f"{flow}, {point.window} messages in flight"


SPEC = PageSpec(
    command="stream",
    ucx_operation="(multi)",  # ucp_tag_send_nbx for MPI_Isend (Open MPI, ompi/mca/pml/ucx/pml_ucx.c)
    alone=_alone,
    side_by_side=_side_by_side,
    about=_about,
)


def reports(results: Sequence[PointSeries]) -> list[Report]:
    """Return one report for each series."""
    return [report(result, SPEC) for result in results]
