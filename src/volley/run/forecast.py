"""Predict the remaining time of a run from the finished part.  The prediction is for the progress display only."""

from __future__ import annotations

from typing import Any, Protocol

from volley.run.records import Transport


class Forecast(Protocol):
    """The progress of one benchmark's launch; ``volley.benchmarks.<name>.jobs.forecast(plan)`` returns one."""

    def note(self, transport: Transport) -> None:
        """Process a transport record, before the first measurement; an unavailable transport has no points."""

    def add(self, record: Any) -> str | None:
        """Count a record of this benchmark; return its summary, or ``None`` if it deserves no line."""

    def left_s(self, elapsed_s: float) -> float:
        """Predict the remaining seconds of this launch, ``elapsed_s`` seconds after its start."""

    def fraction(self, elapsed_s: float) -> float:
        """Return the finished fraction of the launch, from 0 to 1; it never decreases."""


class StepForecast:
    """Predicts the time of steps of equal length, such as the rows of a matrix."""

    def __init__(self, total: int, budget_s: float | None = None) -> None:
        self.total = total
        self.done = 0
        self._budget_s = budget_s

    def note(self, transport: Transport) -> None:
        """Do nothing: an unavailable transport makes the steps shorter, not fewer."""

    def add(self, record: Any) -> str | None:  # noqa: ARG002  subclasses use it
        """Count a finished step; subclasses return a summary."""
        self.done += 1
        return None

    def left_s(self, elapsed_s: float) -> float:
        """Predict the remaining seconds, ``elapsed_s`` seconds after the start."""
        left = elapsed_s * (self.total - self.done) / max(self.done, 1)
        return max(0.0, left if self._budget_s is None else min(left, self._budget_s - elapsed_s))

    def fraction(self, elapsed_s: float) -> float:
        """Return the elapsed fraction of the predicted total time, from 0 to 1."""
        left_s = self.left_s(elapsed_s)
        return 1.0 if self.done >= self.total else min(elapsed_s / (elapsed_s + left_s), 0.99) if elapsed_s else 0.0
