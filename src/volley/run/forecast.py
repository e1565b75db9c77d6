"""How long the rest of a run takes, judged by what is done.  A guess for people, never a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from volley.run.records import Transport

LATENCY_BYTES = 1 << 16
"""From about this size on a message's time tells the link's rate; below, it tells the latency."""

_GUESSED_BPS = 5e9
"""The rate taken for granted until a message of ``LATENCY_BYTES`` has been measured."""

FEWEST_EXCHANGES = 12
"""Exchanges of a point whose messages are long, by adaptive sampling: six samples and as many untimed ones."""

_GUESSED_POINT_S = 0.3
"""What a point is expected to take before the first is done."""


class Forecast(Protocol):
    """What a benchmark tells those who wait: ``volley.benchmarks.<name>.progress`` has ``forecast(plan)``."""

    def note(self, transport: Transport) -> None:
        """Take note of a transport, before the first measurement; one that is unavailable is left out."""

    def add(self, record: Any) -> str | None:
        """Count a record of this benchmark; return what it says in short, ``None`` where that is not worth a line."""

    def left_s(self, elapsed_s: float) -> float:
        """Predict the seconds that are left of this launch, ``elapsed_s`` after its start."""

    def fraction(self, elapsed_s: float) -> float:
        """Return how much of the launch is done, from 0 to 1; it never goes back."""


@dataclass(frozen=True)
class Done:
    """What is remembered of the point that was done last on a transport."""

    size_bytes: int
    elapsed_s: float
    exchange_s: float
    exchange_bytes: float
    """Bytes that cross the link one after the other in an exchange, for each byte of the message size."""


class SizeForecast:
    """Counts the points of a sweep over message sizes and predicts the time that the others take.

    A point takes as long as the one done last on its transport, or, where its messages are long, as long as the fewest
    exchanges that sampling needs; the rate of the link and the time beside the exchanges are those of that last one.
    """

    def __init__(
        self, transports: Sequence[str], sizes_bytes: Sequence[int], *, exchanges: int, budget_s: float | None
    ) -> None:
        """Prepare.

        Args:
            transports: their names.
            sizes_bytes: message sizes of each.
            exchanges: of a point whose messages are long.
            budget_s: after which no point starts.
        """
        self._budget_s = budget_s
        self._exchanges = exchanges
        self._left: dict[str, list[int]] = {name: list(sizes_bytes) for name in transports}
        self._last: dict[str, Done] = {}
        self.total = sum(len(sizes) for sizes in self._left.values())
        self.done = 0
        self._fraction = 0.0

    def note(self, transport: Transport) -> None:
        """Leave out a transport that turned out to be unavailable."""
        if not transport.available:
            self.total -= len(self._left.pop(transport.transport, []))

    def count(self, transport: str, size_bytes: int, done: Done | None) -> None:
        """Count a point that is done; ``None`` for one that was skipped or failed."""
        left = self._left.get(transport, [])
        if size_bytes in left:
            left.remove(size_bytes)
            self.done += 1
        if done:
            self._last[transport] = done

    def left_s(self, elapsed_s: float) -> float:
        """Predict the seconds that are left after ``elapsed_s`` of the run."""
        left = sum(self._point_s(name, size) for name, sizes in self._left.items() for size in sizes)
        return left if self._budget_s is None else max(0.0, min(left, self._budget_s - elapsed_s))

    def fraction(self, elapsed_s: float) -> float:
        """Return how much of the whole time has passed, from 0 to 1; it never goes back."""
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
        beside = last.elapsed_s / (self._exchanges * last.exchange_s)  # verification, preparation, more samples
        return max(last.elapsed_s, self._exchanges * exchange_s * min(max(beside, 1.0), 3.0))


class StepForecast:
    """The same for steps that take as long as each other, such as the rows of a matrix."""

    def __init__(self, total: int, budget_s: float | None = None) -> None:
        self.total = total
        self.done = 0
        self._budget_s = budget_s

    def note(self, transport: Transport) -> None:
        """A transport that is left out makes the steps shorter, not fewer."""

    def add(self, record: Any) -> str | None:  # noqa: ARG002  subclasses look at it
        """Count a step that is done; subclasses say what it has shown."""
        self.done += 1
        return None

    def left_s(self, elapsed_s: float) -> float:
        """Predict the seconds that are left after ``elapsed_s`` of the run."""
        left = elapsed_s * (self.total - self.done) / max(self.done, 1)
        return max(0.0, left if self._budget_s is None else min(left, self._budget_s - elapsed_s))

    def fraction(self, elapsed_s: float) -> float:
        """Return how much of the whole time has passed, from 0 to 1."""
        left_s = self.left_s(elapsed_s)
        return 1.0 if self.done >= self.total else min(elapsed_s / (elapsed_s + left_s), 0.99) if elapsed_s else 0.0
