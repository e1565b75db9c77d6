"""The progress of a sweep over message sizes."""

from __future__ import annotations

from collections.abc import Sequence

from volley.benchmarks.shared.points.records import PointRecord
from volley.benchmarks.shared.points.results import results
from volley.run.forecast import MIN_SAMPLES_A_VISIT, Done, SizeForecast
from volley.run.plan import Plan
from volley.run.records import Transport
from volley.run.run_log import RunLog
from volley.statistics.estimates import median
from volley.units import format_sig, format_size


class PointForecast(SizeForecast):
    """Counts points and summarises each."""

    def __init__(self, plan: Plan, sizes_bytes: Sequence[int]) -> None:
        sampling = plan.sampling
        exchanges = sampling.warmup + sampling.iterations
        if sampling.mode == "adaptive":  # an untimed exchange for each sample
            exchanges = 2 * MIN_SAMPLES_A_VISIT * sampling.min_visits
        super().__init__(plan.transports, sizes_bytes, exchanges=exchanges, budget_s=plan.budget_s)
        self._transports: list[Transport] = []

    def note(self, transport: Transport) -> None:
        """Keep the transport record: a transport without buffers has no bandwidth."""
        super().note(transport)
        self._transports.append(transport)

    def add(self, record: PointRecord) -> str:
        """Count a point and return its summary: ``host 64 KiB: 3.41 µs, 19.2 GB/s``."""
        done = None
        if record.times_s:
            _, window = record.flow
            there_and_back = 1 if window or record.operation else 2
            exchange_s = median(record.times_s) * there_and_back
            done = Done(record.size_bytes, record.elapsed_s, exchange_s, window or there_and_back)
        self.count(record.transport, record.size_bytes, done)
        return self._summary(record)

    def _summary(self, record: PointRecord) -> str:
        size = format_size(record.size_bytes) if record.size_bytes else ""
        name = " ".join(filter(None, (record.operation, record.transport, size)))
        if record.status != "ok":
            why = f": {record.reason}" if record.reason else ""
            return f"{name}: {'FAILED' if record.status == 'failed' else 'skipped'}{why}"
        (point,) = results([RunLog(transports=self._transports, records=[record])])[0].points
        parts = [f"{format_sig(point.latency.median * 1e6, 3)} µs"] if point.latency else []
        parts += [f"{format_sig(point.bandwidth_Bps / 1e9, 3)} GB/s"] if point.bandwidth_Bps else []
        return f"{name}: {', '.join(parts)}"


def forecast(plan: Plan) -> PointForecast:
    """Expect a point for each size and transport."""
    return PointForecast(plan, plan.options.sizes_bytes)
