"""The matrices between GPUs: one process uses all GPUs of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from volley.benchmarks.shared.matrix import SAMPLING_HELP
from volley.errors import UserError
from volley.machine.nvidia_driver import has_driver
from volley.run import option_values
from volley.run.benchmark import Benchmark
from volley.run.commandline import flag, group, option
from volley.run.inside_launcher import rank_info
from volley.run.options import OUTPUT, WHAT, JobOptions, OutputOptions, SampledOptions, SamplingOptions, output_group
from volley.text import join_words

CUDA_SAMPLES = "cuda-samples"
FORMATS = {CUDA_SAMPLES: "the report of the CUDA sample p2pBandwidthLatencyTest"}

HINT = "volley matrix --transport host measures between ranks"
"""The alternative on a machine without GPUs."""

POINT_TIME_S = 0.1
"""Cells have large messages or little noise: within this time they reach an interval of 1 %, or they never do."""

SECTIONS = (
    "host-to-gpu", "gpu-to-host", "uni/off", "bi/off", "completion/off", "issue/off", "enqueue/off", "uni", "uni/read",
    "bi", "uni/kernel", "uni/kernel-read", "bi/kernel", "completion", "issue", "enqueue", "store", "load",
)  # fmt: skip
"""The engine's sections, in its order; docs/method describes each one."""

TESTS = ("uni+flip", "uni+early", "uni+late", "uni+lose", "uni+swap", "uni+echo", "uni+hang")
"""Sections that break one pair on purpose; they run only if they are named."""

WITH_HOST = frozenset({"host-to-gpu", "gpu-to-host"})
"""Sections with the host at one end."""

OF_THE_SAMPLE = ("uni/off", "bi/off", "issue/off", "enqueue/off", "uni", "bi", "issue", "enqueue")
"""What p2pBandwidthLatencyTest prints."""

USUAL = tuple(name for name in SECTIONS if not name.startswith(("issue", "enqueue")))


@option_values.reads("NAME,…", "all", *SECTIONS)
def _sections(option_name: str, words: Sequence[str]) -> tuple[str, ...]:
    named = option_values.names(option_name, words)
    chosen = dict.fromkeys(each for name in named for each in (SECTIONS if name == "all" else (name,)))
    for name in chosen:
        if name not in SECTIONS and name not in TESTS:
            raise UserError(f"{option_name}: there is no {name!r}; choose among {join_words(SECTIONS)}")
    return tuple(chosen)


@dataclass(frozen=True, kw_only=True)
class GpuMatrixOptions(SampledOptions):
    """The measurement between GPUs."""

    PANEL = WHAT

    section: tuple[str, ...] = option(
        read=_sections,
        repeat=True,
        default=(),
        shown=f"all but issue and enqueue; with --format {CUDA_SAMPLES} those of the CUDA sample",
        help=f"Between GPUs: matrices, separated by commas; all: every one of {join_words(SECTIONS)}.",
    )
    samples: bool = flag(panel=OUTPUT, help="Keep every sample in the records.")
    sampling: SamplingOptions = group(
        SamplingOptions,
        only=("ci", "point_time", "budget", "verify"),
        point_time={
            "default": POINT_TIME_S,
            "shown": f"{POINT_TIME_S:g} between GPUs, 0.03 between ranks",
            "help": "Time limit of a visit to a pair, even if the confidence interval is still wider.",
        },
        **SAMPLING_HELP,
    )
    job: JobOptions = group(
        JobOptions,
        only=("gpus", "watchdog", "dry_run"),
        gpus={"shown": "all that CUDA shows", "help": "GPUs of the matrix, or of the ranks in their order."},
    )
    output: OutputOptions = output_group(FORMATS)

    def __post_init__(self) -> None:
        for number in self.job.gpus:
            if self.job.gpus.count(number) > 1:
                raise UserError(f"--gpus: GPU {number} is named twice; name each GPU once")

    @property
    def as_the_sample(self) -> bool:
        """True for the report of the CUDA sample: its sections, in about the time that the sample takes."""
        return self.output.format == CUDA_SAMPLES

    @property
    def sections(self) -> tuple[str, ...]:
        return self.section or (OF_THE_SAMPLE if self.as_the_sample else USUAL)


def suits() -> bool:
    """Return whether ``volley matrix`` measures GPUs: there is a driver, and this is not one of several ranks."""
    info = rank_info(os.environ)
    return (info is None or info.size == 1) and has_driver()


BENCHMARK = Benchmark(
    name="gpu_matrix",
    command="matrix",
    help="""Measure every pair of GPUs of this machine, or of ranks, and name the pairs that are slower than comparable
    pairs.

    On a machine with GPUs one process uses all of them: bandwidth and latency with peer access off and on, by copy
    engines (CE) and by kernels (SM), and between host and GPU. The matrix is between ranks if the machine has no GPU,
    if an option is about ranks (transport, number of ranks, hosts), or if a launcher started several ranks. Pairs of
    ranks are comparable if both are on one socket, on one node, or on two nodes. A pair that is slower than comparable
    pairs is measured again together with them before it is flagged.""",
    options=GpuMatrixOptions,
    examples=(
        "volley matrix",
        "volley matrix --format cuda-samples",
        "volley matrix --gpus 0,1 --section uni,bi,load",
    ),
    formats=FORMATS,
    local=True,
    hint=HINT,
    suits=suits,
)
