"""The progress of matrices between GPUs."""

from __future__ import annotations

from typing import Any

from volley.benchmarks.gpu_matrix.options import WITH_HOST
from volley.benchmarks.gpu_matrix.records import GpuMatrixGpus, GpuMatrixRow
from volley.benchmarks.shared.matrix.page import row_in_short
from volley.run.forecast import Forecast, StepForecast
from volley.run.plan import Plan


class GpuMatrixForecast(StepForecast):
    """Counts rows: one for each GPU, but one alone in sections with the host."""

    def __init__(self, plan: Plan) -> None:
        self._sections: list[str] = plan.options.sections
        super().__init__(len(self._sections), plan.budget_s)

    def add(self, record: Any) -> str | None:
        """Learn the number of GPUs, or count a row and say: ``CE write, peer access on: 392 to 394 GB/s``."""
        if isinstance(record, GpuMatrixGpus):
            with_host = sum(name in WITH_HOST for name in self._sections)
            self.total = (len(self._sections) - with_host) * len(record.devices) + with_host
        if not isinstance(record, GpuMatrixRow):
            return None
        self.done += 1
        return row_in_short(record.title, record.cells, record.moved_bytes)


def forecast(plan: Plan) -> Forecast:
    """Expect a row for each section and GPU."""
    return GpuMatrixForecast(plan)
