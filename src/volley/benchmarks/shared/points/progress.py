"""The progress of a sweep over message sizes."""

from __future__ import annotations

from collections.abc import Sequence

from volley.benchmarks.shared.points.records import PointRecord
from volley.benchmarks.shared.points.results import results
from volley.records.plan import Plan
from volley.records.record_types import Transport
from volley.records.run_log import RunLog
from volley.run.progress import Forecast
from volley.statistics.estimates import median
from volley.units import format_sig, format_size

_LATENCY_BYTES = 1 << 16
"""From about this size on, bandwidth dominates the time of a message; below, latency does."""

_GUESSED_BPS = 5e9
"""The assumed bandwidth until a message of ``_LATENCY_BYTES`` is measured."""

_MIN_SAMPLES_A_VISIT = 2
"""Of a point with long messages under adaptive sampling, each after an untimed exchange."""

_GUESSED_POINT_S = 0.3
"""The expected time of a point before the first point is finished."""


class PointForecast(Forecast):
    """Counts the finished points of a sweep over message sizes, summarises each, and predicts the time of the others.

    A point is expected to take as long as the last point of its transport or, if its messages are long, as long as the
    minimum number of exchanges.  Bandwidth and overhead are taken from that last point.
    """

    def __init__(self, plan: Plan, sizes_bytes: Sequence[int] = ()) -> None:
        """Prepare for points of these sizes on each transport of the plan; usually its sizes, each once."""
        sizes_bytes = sizes_bytes or plan.options.sizes_bytes
        super().__init__(len(sizes_bytes) * len(plan.transports), plan.budget_s)
        sampling = plan.sampling
        self._exchanges = sampling.warmup + sampling.iterations
        if sampling.mode == "adaptive":  # an untimed exchange for each sample
            self._exchanges = 2 * _MIN_SAMPLES_A_VISIT * sampling.min_visits
        self._left: dict[str, list[int]] = {name: list(sizes_bytes) for name in plan.transports}
        self._last: dict[str, PointRecord] = {}
        """The last measured point of each transport."""
        self._transports: list[Transport] = []

    def note(self, transport: Transport) -> None:
        """Keep the record: a transport without buffers has no bandwidth, and an unavailable one no points."""
        self._transports.append(transport)
        if not transport.available:
            self.total -= len(self._left.pop(transport.transport, []))

    def add(self, record: PointRecord) -> str:
        """Count a point and return its summary: ``host 64 KiB: 3.41 µs, 19.2 GB/s``."""
        if record.times_s:
            self._last[record.transport] = record
        left = self._left.get(record.transport, [])
        if record.size_bytes in left:
            left.remove(record.size_bytes)
            self.done += 1
        return self.summary(record)

    def summary(self, record: PointRecord) -> str:
        """Return what a point gave, or why it gave nothing."""
        size = format_size(record.size_bytes) if record.size_bytes else ""
        name = " ".join(filter(None, (record.operation, record.transport, size)))
        if record.status != "ok":
            return without_result(name, record)
        (point,) = results([self.log_of(record)])[0].points
        parts = [f"{format_sig(point.latency.median * 1e6, 3)} µs"] if point.latency else []
        parts += [f"{format_sig(point.bandwidth_Bps / 1e9, 3)} GB/s"] if point.bandwidth_Bps else []
        return f"{name}: {', '.join(parts)}"

    def log_of(self, record: PointRecord) -> RunLog:
        """Return the log of a launch with this record alone, of which a summary is the result."""
        return RunLog(transports=self._transports, records=[record])

    def left_s(self, elapsed_s: float) -> float:
        left = sum(self._point_s(name, size) for name, sizes in self._left.items() for size in sizes)
        return left if self._budget_s is None else max(0.0, min(left, self._budget_s - elapsed_s))

    def _point_s(self, transport: str, size: int) -> float:
        last = self._last.get(transport)
        if last is None:
            return _GUESSED_POINT_S
        there_and_back = 1 if last.window or last.operation else 2
        last_s = median(last.times_s) * there_and_back
        one_after_another = last.window or there_and_back  # messages of an exchange that cross the link
        rate = last.size_bytes * one_after_another / last_s
        if last.size_bytes < _LATENCY_BYTES:
            rate = max(rate, _GUESSED_BPS)
        exchange_s = last_s + max(0, size - last.size_bytes) * one_after_another / rate
        overhead = last.elapsed_s / (self._exchanges * last_s)  # verification, preparation, more samples
        return max(last.elapsed_s, self._exchanges * exchange_s * min(max(overhead, 1.0), 3.0))


def without_result(name: str, record: PointRecord) -> str:
    """Return why a point has no result: ``host 64 KiB: skipped: the time budget is used up``."""
    why = f": {record.reason}" if record.reason else ""
    return f"{name}: {'FAILED' if record.status == 'failed' else 'skipped'}{why}"
