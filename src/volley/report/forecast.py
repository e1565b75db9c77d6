"""How long the rest of a run takes, judged by the points that are done.  A guess for people, never a result."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from volley import stats
from volley.nodes import HOSTED
from volley.records import MatrixRow, NodeRow, PingPong, Plan, Point

LATENCY_BYTES = 1 << 16
"""From about this size on a message's time tells the link's rate; below, it tells the latency."""

_GUESSED_BPS = 5e9
"""The rate taken for granted until a message of ``LATENCY_BYTES`` has been measured."""

_FEWEST_EXCHANGES = 12
"""Exchanges of a point whose messages are long, by adaptive sampling: six samples and as many untimed ones."""

_GUESSED_POINT_S = 0.3
"""What a point is expected to take before the first is done."""


@dataclass(frozen=True)
class _Done:
    """What is remembered of the point that was done last on a transport."""

    size_bytes: int
    elapsed_s: float
    exchange_s: float
    exchange_bytes: float
    """Bytes that cross the link one after the other in an exchange, for each byte of the message size."""


class Forecast:
    """Keeps count of the points of a plan and predicts the time that the others take.

    A point takes as long as the one done last on its transport, or, where its messages are long, as long as the fewest
    exchanges that sampling needs; the rate of the link and the time beside the exchanges are those of that last one.
    """

    def __init__(self, plan: Plan) -> None:
        self._budget_s = plan.budget_s
        sampling = plan.sampling
        self._exchanges = sampling.warmup + sampling.iterations if sampling.mode == "fixed" else _FEWEST_EXCHANGES
        self._left: dict[str, list[int]] = {name: list(plan.sizes_bytes) for name in plan.transports}
        self._last: dict[str, _Done] = {}
        self.total = sum(len(sizes) for sizes in self._left.values())
        self.done = 0
        self._fraction = 0.0

    def drop(self, transport: str) -> None:
        """Leave out a transport that turned out to be unavailable."""
        self.total -= len(self._left.pop(transport, []))

    def add(self, point: Point) -> None:
        """Count a point that is done, skipped or failed."""
        left = self._left.get(point.transport, [])
        if point.size_bytes in left:
            left.remove(point.size_bytes)
            self.done += 1
        times = point.half_round_trip_s if isinstance(point, PingPong) else point.forward_s
        if times:
            one_way = 2 if isinstance(point, PingPong) else point.window
            exchange_s = stats.median(times) * (2 if isinstance(point, PingPong) else 1)
            self._last[point.transport] = _Done(point.size_bytes, point.elapsed_s, exchange_s, one_way)

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


class RowForecast:
    """The same for the rows of matrices, which take as long as each other."""

    def __init__(self, plan: Plan) -> None:
        self._budget_s = plan.budget_s
        matrix = plan.matrix
        firsts = plan.world_size if matrix.mode == "loaded" else len({pair[0] for pair in matrix.pairs})
        sheets = len(matrix.latency_sizes_bytes) + len(matrix.bandwidth_sizes_bytes)
        self.total = (firsts or plan.world_size) * sheets * len(plan.transports) * matrix.repeats
        self.done = 0
        self._sections = [] if plan.node is msgspec.UNSET else plan.node.sections

    def expect(self, gpus: int) -> None:
        """Take note of the number of GPUs of a node's matrices: each has a row, but for sections with the host."""
        hosted = sum(name in HOSTED for name in self._sections)
        self.total = (len(self._sections) - hosted) * gpus + hosted

    def add(self, _row: MatrixRow | NodeRow) -> None:
        """Count a row that is done."""
        self.done += 1

    def left_s(self, elapsed_s: float) -> float:
        """Predict the seconds that are left after ``elapsed_s`` of the run."""
        left = elapsed_s * (self.total - self.done) / max(self.done, 1)
        return max(0.0, left if self._budget_s is None else min(left, self._budget_s - elapsed_s))

    def fraction(self, elapsed_s: float) -> float:
        """Return how much of the whole time has passed, from 0 to 1."""
        left_s = self.left_s(elapsed_s)
        return 1.0 if self.done >= self.total else min(elapsed_s / (elapsed_s + left_s), 0.99) if elapsed_s else 0.0
