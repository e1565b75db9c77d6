"""The one job of the matrices between GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from volley.benchmarks.matrix import GPUS_POINT_TIME_S, HINT, WITH_HOST, MatrixOptions
from volley.benchmarks.matrix.gpu_records import GpuMatrixGpus, GpuMatrixPlan, GpuMatrixRow
from volley.errors import MachineError
from volley.machine.nvidia_driver import has_driver
from volley.run.jobs import Jobs, Site, launches, make_plan
from volley.run.plan import Plan
from volley.run.progress import Forecast
from volley.units import format_sig

QUICK_POINT_TIME_S = 0.002
"""The longest time for a cell with ``--format cuda-samples``: the sample, too, is quick."""


def jobs(options: MatrixOptions, site: Site) -> Jobs:
    if not has_driver():
        raise MachineError(f"there is no NVIDIA driver here, and so no GPU to measure; {HINT}")
    quick = options.as_the_sample
    part = GpuMatrixPlan(
        sections=list(options.sections), gpus=list(options.job.gpus), quick=quick, samples=options.samples
    )
    plan = make_plan("gpu_matrix", part, options)
    if "point_time" not in options.sampling.given:
        sampling = msgspec.structs.replace(plan.sampling, point_time_s=GPUS_POINT_TIME_S)
        if quick:
            sampling = msgspec.structs.replace(sampling, point_time_s=QUICK_POINT_TIME_S, min_visits=1)
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


def row_in_short(name: str, medians_s: Sequence[float | None], failed: int, moved_bytes: int | None) -> str:
    """Return the range of a row: ``host 8 B, rank 3 first: 0.31 to 0.35 µs``.

    Args:
        name: of the row.
        medians_s: of its pairs.
        failed: how many of them failed.
        moved_bytes: in the time of a cell; ``None``: the time itself is shown.
    """
    times = [time_s for time_s in medians_s if time_s is not None]
    if not times:
        return f"{name}: {'FAILED' if failed else 'skipped'}"
    numbers = [time_s * 1e6 if moved_bytes is None else moved_bytes / time_s / 1e9 for time_s in times]
    lost = f", {failed} FAILED" if failed else ""
    low, high = format_sig(min(numbers), 3), format_sig(max(numbers), 3)
    return f"{name}: {low if low == high else f'{low} to {high}'} {'µs' if moved_bytes is None else 'GB/s'}{lost}"
