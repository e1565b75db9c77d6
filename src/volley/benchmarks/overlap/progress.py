"""The progress of an overlap."""

from __future__ import annotations

from volley.benchmarks.overlap.records import OverlapPoint
from volley.benchmarks.overlap.results import result_of
from volley.benchmarks.shared.points.progress import PointForecast
from volley.benchmarks.shared.points.records import PointRecord
from volley.run.plan import Plan
from volley.units import format_sig, format_size


class OverlapForecast(PointForecast):
    """Counts the points; the summary of each is ``host 64 KiB beside arithmetic: 41 % hidden``."""

    def _summary(self, record: PointRecord) -> str:
        assert isinstance(record, OverlapPoint)
        name = f"{record.transport} {format_size(record.size_bytes)} beside {record.computation}"
        if record.status != "ok":
            why = f": {record.reason}" if record.reason else ""
            return f"{name}: {'FAILED' if record.status == 'failed' else 'skipped'}{why}"
        hidden = result_of({1: record}).hidden
        return f"{name}: {format_sig(hidden.median * 100, 3)} % hidden" if hidden else name


def forecast(plan: Plan) -> OverlapForecast:
    """Expect a point for each size, transport and computation."""
    return OverlapForecast(plan, [size for size in plan.options.sizes_bytes for _ in plan.options.computations])
