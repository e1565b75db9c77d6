"""The progress of a matrix between ranks."""

from __future__ import annotations

from typing import Any

from volley.benchmarks.rank_matrix.records import RankMatrixPlan, RankMatrixRow
from volley.benchmarks.shared.matrix.page import row_in_short
from volley.run.forecast import Forecast, StepForecast
from volley.run.plan import Plan
from volley.units import format_size


class RankMatrixForecast(StepForecast):
    """Counts rows."""

    def add(self, record: Any) -> str | None:
        """Count a row; return what it gave: ``host 8 B, rank 3 first: 0.31 to 0.35 µs``."""
        if not isinstance(record, RankMatrixRow):
            return None
        self.done += 1
        name = f"{record.transport} {format_size(record.size_bytes)}, rank {record.rank} first"
        return row_in_short(name, record.cells, record.moved_bytes if record.window else None)


def forecast(plan: Plan) -> Forecast:
    """Expect a row for each first rank, case and repetition."""
    part: RankMatrixPlan = plan.options
    firsts = plan.world_size if part.mode == "loaded" else len({pair[0] for pair in part.pairs})
    cases = (len(part.latency_sizes_bytes) + len(part.bandwidth_sizes_bytes)) * len(plan.transports)
    return RankMatrixForecast((firsts or plan.world_size) * cases * part.repeats, plan.budget_s)
