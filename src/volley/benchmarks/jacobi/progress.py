"""The progress of the solutions; the engine reports it about once a second."""

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
        self._elapsed_s = 0.0
        self._left_s = 0.0

    def note(self, transport: Transport) -> None:
        """The engine knows which transports are left out."""

    def add(self, record: Any) -> str | None:
        """Take what the engine says: ``host: 350 iterations``."""
        if not isinstance(record, JacobiProgress):
            return None
        self._elapsed_s, self._left_s = record.elapsed_s, record.left_s
        return f"{record.transport}: {count(record.iterations, 'iteration')}"

    def left_s(self, elapsed_s: float) -> float:
        return self._left_s

    def fraction(self, elapsed_s: float) -> float:
        whole_s = self._elapsed_s + self._left_s
        return min(self._elapsed_s / whole_s, 0.99) if whole_s > 0 else 0.0


def forecast(plan: Plan) -> Forecast:
    """Return a forecast that waits for the engine's own."""
    return JacobiForecast()
