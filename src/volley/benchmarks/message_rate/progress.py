"""The progress of message rates."""

from __future__ import annotations

from volley.benchmarks.message_rate.records import MessageRatePoint
from volley.benchmarks.shared.points.progress import PointForecast
from volley.benchmarks.shared.points.records import PointRecord
from volley.run.plan import Plan
from volley.text import count


class PairsForecast(PointForecast):
    """Counts points and summarises each with its number of pairs: ``2 pairs: host 64 KiB: 3.41 GB/s``."""

    def add(self, record: PointRecord) -> str:
        """Count a point and return its summary."""
        summary = super().add(record)
        return f"{count(record.pairs, 'pair')}: {summary}" if isinstance(record, MessageRatePoint) else summary


def forecast(plan: Plan) -> PairsForecast:
    """Expect a point for each size, number of pairs and transport."""
    return PairsForecast(plan, [size for size in plan.options.sizes_bytes for _ in plan.options.pairs])
