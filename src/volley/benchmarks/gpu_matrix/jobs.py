"""The one job of the matrices between GPUs."""

from __future__ import annotations

import msgspec

from volley.benchmarks.gpu_matrix.options import HINT, GpuMatrixOptions
from volley.benchmarks.gpu_matrix.records import GpuMatrixPlan
from volley.errors import MachineError
from volley.machine.nvidia_driver import has_driver
from volley.run.jobs import Jobs, Site, launches, make_plan

QUICK_POINT_TIME_S = 0.002
"""The longest time for a cell with ``--format cuda-samples``: the sample, too, is quick."""


def jobs(options: GpuMatrixOptions, site: Site) -> Jobs:
    """Describe the launch.

    Raises:
        MachineError: if there is no driver, and so no GPU.
    """
    if not has_driver():
        raise MachineError(f"there is no NVIDIA driver here, and so no GPU to measure; {HINT}")
    quick = options.as_the_sample
    part = GpuMatrixPlan(
        sections=list(options.sections), gpus=list(options.job.gpus), quick=quick, samples=options.samples
    )
    plan = make_plan("gpu_matrix", part, job=options.job, sampling=options.sampling)
    if quick and "point_time" not in options.sampling.given:
        sampling = msgspec.structs.replace(plan.sampling, point_time_s=QUICK_POINT_TIME_S, min_visits=1)
        plan = msgspec.structs.replace(plan, sampling=sampling)
    # NVML and CUDA block each other in the driver, so a quick report does without NVML's facts about the GPUs.
    return Jobs(launches(plan, options.job), hardware=not quick)
