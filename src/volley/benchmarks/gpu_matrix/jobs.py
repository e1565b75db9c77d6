"""The one job of the matrices between GPUs."""

from __future__ import annotations

from typing import Any

import msgspec

from volley.benchmarks.gpu_matrix import HINT, WITH_HOST, GpuMatrixOptions
from volley.benchmarks.gpu_matrix.records import GpuMatrixGpus, GpuMatrixPlan, GpuMatrixRow
from volley.benchmarks.shared.matrix import row_in_short
from volley.errors import MachineError
from volley.machine.nvidia_driver import has_driver
from volley.run.jobs import Jobs, Site, launches, make_plan
from volley.run.plan import Plan
from volley.run.progress import Forecast

QUICK_POINT_TIME_S = 0.002
"""The longest time for a cell with ``--format cuda-samples``: the sample, too, is quick."""


def jobs(options: GpuMatrixOptions, site: Site) -> Jobs:
    if not has_driver():
        raise MachineError(f"there is no NVIDIA driver here, and so no GPU to measure; {HINT}")
    quick = options.as_the_sample
    part = GpuMatrixPlan(
        sections=list(options.sections), gpus=list(options.job.gpus), quick=quick, samples=options.samples
    )
    plan = make_plan("gpu_matrix", part, options)
    if quick and "point_time" not in options.sampling.given:
        sampling = msgspec.structs.replace(plan.sampling, point_time_s=QUICK_POINT_TIME_S, min_visits=1)
        plan = msgspec.structs.replace(plan, sampling=sampling)
    # NVML and CUDA block each other in the driver, so a quick report does without NVML's facts about the GPUs.
    return Jobs(launches(plan, options.job), hardware=not quick)


class GpuMatrixForecast(Forecast):
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
        times_s = [cell.median_s for cell in record.cells]
        return row_in_short(record.title, times_s, list(record.statuses).count("failed"), record.moved_bytes)


forecast = GpuMatrixForecast
