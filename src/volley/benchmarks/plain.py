"""``volley`` without a command: all transports of this machine in one minute, and all GPUs where they are not two."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from volley.benchmarks.matrix import GPUS, suits_gpus
from volley.benchmarks.pair import PINGPONG
from volley.command import option_values
from volley.command.commandline import Command, Options, flag, group, option
from volley.command.options import FORMATS, JobOptions, OutputOptions, SamplingOptions, output_group
from volley.errors import EXIT_GOOD
from volley.machine.nvidia_driver import gpu_count
from volley.run.benchmark import Benchmark

BUDGET_S = 60.0

HOST_BUDGET_S = 10.0
"""The same for a machine without a GPU, which has one transport instead of a dozen."""

ONE_GPU_BUDGET_S = 30.0
"""The same for a machine with one GPU.  A launch takes about 3 s there, most of it the start of MPI with CUDA, and two
thirds of the time are for six of them."""

PAIR_OF_GPUS = 2
"""The GPUs that a ping-pong uses.  Of one GPU or of more, ``volley`` without a command measures the matrix as well."""

SECTIONS = ("host-to-gpu", "gpu-to-host", "uni", "store")
"""Between host and GPUs, and bandwidth and latency of all pairs: a pair takes 0.1 s (four H200s: 3 s in all)."""

ONE_GPU_SECTIONS = ("host-to-gpu", "gpu-to-host", "uni")
"""Between host and GPU, and within the memory of the GPU."""

MATRIX_SHARE = 1 / 3
"""The part of the budget for all pairs."""

SIZES = "8,64k,1M,16M,256M,1G,4k,512"
"""What the summary shows.  Few sizes up to the largest come first, each foreseen from the one before: if the budget is
too short for a launch, points between them are skipped."""

HOST_SIZES = "8,64k,1M,16M,64M,4k,512"
"""The same up to 64 MiB: through the memory of the host a longer message takes as long as all the others, and tells no
more."""

SIZE_SHARE = 1 / 12
"""The part of the budget for one message size in a launch: half a launch of six, the fewest after which a run looks at
its intervals.  A message of 1 GiB through pageable memory takes as long as all smaller sizes."""


@dataclass(frozen=True, kw_only=True)
class PlainOptions(Options):
    """The options of ``volley`` without a command."""

    sampling: SamplingOptions = group(
        SamplingOptions,
        only=("budget",),
        budget={
            "default": BUDGET_S,
            "shown": f"{BUDGET_S:.0f}; {ONE_GPU_BUDGET_S:.0f} with one GPU, {HOST_BUDGET_S:.0f} without",
        },
    )
    job: JobOptions = group(JobOptions, only=("hosts", "launcher", "dry_run"))
    output: OutputOptions = output_group(PINGPONG.formats)
    version: bool = flag(help="Show the version and exit.")
    completion: str | None = option(
        "--show-completion",
        read=option_values.choice("bash", "zsh", "fish", "tcsh"),
        help='Print the completion script of this shell and exit: eval "$(volley --show-completion bash)".',
    )


def pingpong_options(asked: PlainOptions, *, host_only: bool = False, budget_s: float | None = None) -> Any:
    """Return the options of plain ``volley``'s ping-pong, as if they were typed.

    Args:
        asked: those of plain ``volley``.
        host_only: where the ranks run are no two GPUs.
        budget_s: the part of the budget for the ping-pong; all of it if ``None``.
    """
    budget_s = budget_s or asked.sampling.budget or BUDGET_S
    sizes = HOST_SIZES if host_only else SIZES
    times = ("--budget", f"{budget_s:g}", "--size-time", f"{float(f'{SIZE_SHARE * budget_s:.2g}'):g}")
    return _typed(PINGPONG, asked, "--sizes", sizes, *times)


def _typed(benchmark: Benchmark, asked: PlainOptions, *words: str) -> Any:
    """Return the options of a benchmark from words and from what was typed of plain ``volley`` but its budget."""
    command = Command(name=benchmark.command, help="", options=benchmark.options, run=lambda _: EXIT_GOOD)
    kept = (word for each in asked.typed if each[0] != "--budget" for word in each)
    return command.parse([*kept, *words])


def parts(asked: PlainOptions, gpus: int) -> list[tuple[Benchmark, Any]]:
    """Return what plain ``volley`` runs: a ping-pong between two ranks, and the matrix of GPUs if they are not two.

    With one GPU, the ping-pong is between host memory, because two ranks on one GPU do not communicate between GPUs.
    """
    from volley.launch.allocation import allocation  # noqa: PLC0415  start-up: --help does not need it

    elsewhere = bool(asked.job.hosts) or asked.job.launcher != "auto"
    host_only = gpus < PAIR_OF_GPUS and not (elsewhere or allocation(os.environ))
    budget_s = asked.sampling.budget or BUDGET_S
    if host_only and "budget" not in asked.sampling.given:
        budget_s = ONE_GPU_BUDGET_S if gpus else HOST_BUDGET_S
    if gpus in (0, PAIR_OF_GPUS) or elsewhere or not suits_gpus() or asked.output.format not in FORMATS:
        return [(PINGPONG, pingpong_options(asked, host_only=host_only, budget_s=budget_s))]
    sections = ONE_GPU_SECTIONS if gpus == 1 else SECTIONS
    of_gpus = _typed(GPUS, asked, "--section", ",".join(sections), "--budget", f"{MATRIX_SHARE * budget_s:.2g}")
    rest_s = budget_s - of_gpus.sampling.budget
    return [(GPUS, of_gpus), (PINGPONG, pingpong_options(asked, host_only=host_only, budget_s=rest_s))]


def _run(asked: PlainOptions) -> int:
    if asked.version:
        from volley import __version__  # noqa: PLC0415  start-up: reads the distribution's metadata

        print(f"volley {__version__}")
        return EXIT_GOOD
    from volley.run import session  # noqa: PLC0415  start-up: errors, --help and the other ranks do not need it

    return session.measure(*parts(asked, gpu_count()))


COMMAND = Command(
    name="",
    help="""Measure how fast processors and GPUs communicate.

    Without a command, volley measures every available transport of this machine in one minute (in 30 s with one
    GPU, in 10 s without), names the unavailable ones with the reason, and prints a summary. With one GPU or more
    than two, it measures all of them first: from and to the host, and every pair. Inside a launcher
    (mpirun -n 2 volley …) volley runs as the ranks of that job.""",
    options=PlainOptions,
    run=_run,
    examples=(
        "volley",
        "volley pingpong --sizes 8,64k,1M --format csv",
        "srun -n 2 volley stream --direction bi",
    ),
    joins=lambda asked: not (asked.version or asked.job.dry_run) and PINGPONG.joins(asked.job),
)
