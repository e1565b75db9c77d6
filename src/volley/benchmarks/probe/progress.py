"""The progress of a probe, which has one step."""

from __future__ import annotations

from volley.run.forecast import Forecast, StepForecast
from volley.run.plan import Plan


def forecast(plan: Plan) -> Forecast:
    """Expect one step."""
    return StepForecast(1)
