"""Predict the remaining time of a run from the finished part.  The prediction is for the progress display only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from volley.run.records import Transport

LATENCY_BYTES = 1 << 16
"""From about this size on, bandwidth dominates the time of a message; below, latency does."""

_GUESSED_BPS = 5e9
"""The assumed bandwidth until a message of ``LATENCY_BYTES`` is measured."""

MIN_SAMPLES_A_VISIT = 2
"""Of a point with long messages under adaptive sampling, each after an untimed exchange."""

_GUESSED_POINT_S = 0.3
"""The expected time of a point before the first point is finished."""


class Forecast(Protocol):
    """The progress of one benchmark's launch; ``volley.benchmarks.<name>.progress.forecast(plan)`` returns one."""

    def note(self, transport: Transport) -> None:
        """Process a transport record, before the first measurement; an unavailable transport has no points."""

    def add(self, record: Any) -> str | None:
        """Count a record of this benchmark; return its summary, or ``None`` if it deserves no line."""

    def left_s(self, elapsed_s: float) -> float:
        """Predict the remaining seconds of this launch, ``elapsed_s`` seconds after its start."""

    def fraction(self, elapsed_s: float) -> float:
        """Return the finished fraction of the launch, from 0 to 1; it never decreases."""


@dataclass(frozen=True)
class Done:
    """The last finished point of a transport."""

    size_bytes: int
    elapsed_s: float
    exchange_s: float
    exchange_bytes: float
    """Bytes that cross the link one after another in an exchange, per byte of the message size."""


class SizeForecast:
    """Counts the finished points of a sweep over message sizes and predicts the time of the others.

    A point is expected to take as long as the last point of its transport or, if its messages are long, as long as the
    minimum number of exchanges.  Bandwidth and overhead are taken from that last point.
    """

    def __init__(
        self, transports: Sequence[str], sizes_bytes: Sequence[int], *, exchanges: int, budget_s: float | None
    ) -> None:
        """Prepare.

        Args:
            transports: the names of the transports.
            sizes_bytes: the message sizes of each transport.
            exchanges: the number of exchanges of a point with long messages.
            budget_s: no point starts after this time; ``None``: no limit.
        """
        self._budget_s = budget_s
        self._exchanges = exchanges
        self._left: dict[str, list[int]] = {name: list(sizes_bytes) for name in transports}
        self._last: dict[str, Done] = {}
        self.total = sum(len(sizes) for sizes in self._left.values())
        self.done = 0
        self._fraction = 0.0

    def note(self, transport: Transport) -> None:
        """Remove the points of an unavailable transport."""
        if not transport.available:
            self.total -= len(self._left.pop(transport.transport, []))

    def count(self, transport: str, size_bytes: int, done: Done | None) -> None:
        """Count a finished point; ``done`` is ``None`` if it was skipped or failed."""
        left = self._left.get(transport, [])
        if size_bytes in left:
            left.remove(size_bytes)
            self.done += 1
        if done:
            self._last[transport] = done

    def left_s(self, elapsed_s: float) -> float:
        """Predict the remaining seconds, ``elapsed_s`` seconds after the start."""
        left = sum(self._point_s(name, size) for name, sizes in self._left.items() for size in sizes)
        return left if self._budget_s is None else max(0.0, min(left, self._budget_s - elapsed_s))

    def fraction(self, elapsed_s: float) -> float:
        """Return the elapsed fraction of the predicted total time, from 0 to 1; it never decreases."""
        if self.done >= self.total:
            self._fraction = 1.0
        elif self.done:
            whole = elapsed_s + self.left_s(elapsed_s)
            self._fraction = max(self._fraction, min(elapsed_s / whole if whole else 0.0, 0.99))
        return self._fraction

    def _point_s(self, transport: str, size: int) -> float:
        last = self._last.get(transport)
        if last is None:
            return _GUESSED_POINT_S
        rate = last.size_bytes * last.exchange_bytes / last.exchange_s
        if last.size_bytes < LATENCY_BYTES:
            rate = max(rate, _GUESSED_BPS)
        exchange_s = last.exchange_s + max(0, size - last.size_bytes) * last.exchange_bytes / rate
        overhead = last.elapsed_s / (self._exchanges * last.exchange_s)  # verification, preparation, more samples
        return max(last.elapsed_s, self._exchanges * exchange_s * min(max(overhead, 1.0), 3.0))


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
