"""The progress of collectives."""

from __future__ import annotations

from volley.benchmarks.shared.points.progress import PointForecast
from volley.run.plan import Plan


def forecast(plan: Plan) -> PointForecast:
    """Expect a point for each operation, size and transport; a barrier has no size."""
    operations = [operation for operation in plan.options.operations if operation != "barrier"]
    sizes = [size for size in plan.options.sizes_bytes for _ in operations]
    return PointForecast(plan, [0, *sizes] if "barrier" in plan.options.operations else sizes)
