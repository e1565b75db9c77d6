"""How far the solutions are, as the engine says about once a second."""

from __future__ import annotations

from typing import Any

from volley.benchmarks.jacobi.records import JacobiProgress
from volley.run.forecast import Forecast
from volley.run.plan import Plan
from volley.run.records import Transport
from volley.text import count


class JacobiForecast:
    """Repeats what the engine expects."""

    def __init__(self) -> None:
        self._last: JacobiProgress | None = None

    def note(self, transport: Transport) -> None:
        """The engine knows which transports are left out."""

    def add(self, record: Any) -> str | None:
        """Take what the engine says: ``host: 350 iterations``."""
        if not isinstance(record, JacobiProgress):
            return None
        self._last = record
        return f"{record.transport}: {count(record.iterations, 'iteration')}"

    def left_s(self, elapsed_s: float) -> float:
        """Return the seconds that the engine expects to need."""
        return self._last.left_s if self._last else 0.0

    def fraction(self, elapsed_s: float) -> float:
        """Return how much of the expected time has passed."""
        if self._last is None or self._last.elapsed_s + self._last.left_s <= 0:
            return 0.0
        return min(self._last.elapsed_s / (self._last.elapsed_s + self._last.left_s), 0.99)


def forecast(plan: Plan) -> Forecast:
    """Return a forecast that waits for the engine's own."""
    return JacobiForecast()
