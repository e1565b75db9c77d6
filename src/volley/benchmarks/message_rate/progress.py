"""The progress of message rates."""

from __future__ import annotations

from volley.benchmarks.shared.points.progress import PointForecast
from volley.run.plan import Plan


def forecast(plan: Plan) -> PointForecast:
    """Expect a point for each size, number of pairs and transport."""
    return PointForecast(plan, [size for size in plan.options.sizes_bytes for _ in plan.options.pairs])
