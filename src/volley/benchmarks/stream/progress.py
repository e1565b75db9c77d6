"""The progress of a windowed stream."""

from __future__ import annotations

from volley.benchmarks.shared.points.progress import PointForecast
from volley.run.plan import Plan


def forecast(plan: Plan) -> PointForecast:
    """Expect a point for each size and transport."""
    return PointForecast(plan, plan.options.sizes_bytes)
