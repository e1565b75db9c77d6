"""The matrix between all GPUs of this machine, or between all ranks: every pair, and which pairs are slow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from volley.benchmarks.points import USUAL_RANKS, PointOptions, TransportOptions, WindowOptions
from volley.command import option_values
from volley.command.commandline import Lazy, flag, group, option
from volley.command.options import (
    HOW,
    OUTPUT,
    WHAT,
    JobOptions,
    OutputOptions,
    SampledOptions,
    SamplingOptions,
    output_group,
)
from volley.errors import UserError
from volley.launch.inside_launcher import rank_info
from volley.machine.nvidia_driver import has_driver
from volley.run.benchmark import Benchmark
from volley.text import join_words

CUDA_SAMPLES = "cuda-samples"
FORMATS = {CUDA_SAMPLES: "the report of the CUDA sample p2pBandwidthLatencyTest"}

HINT = "volley matrix --transport host measures between ranks"
"""The alternative on a machine without GPUs."""

RANKS_POINT_TIME_S = 0.03
"""A matrix has many pairs: all visits of a cell together take a tenth of the time that a point of a curve may take."""

GPUS_POINT_TIME_S = 0.1
"""Cells have large messages or little noise: within this time they reach an interval of 1 %, or they never do."""

WITH_HOST = (
    "host-to-gpu", "gpu-to-host", "bi/host", "host-to-gpu/kernel", "gpu-to-host/kernel", "bi/host/kernel",
    "host-to-gpu/all", "gpu-to-host/all", "bi/host/all", "load/host",
)  # fmt: skip
"""Sections with the host at one end."""

SECTIONS = (
    *WITH_HOST, "uni/off", "bi/off", "completion/off", "issue/off", "enqueue/off", "uni", "uni/read", "bi",
    "uni/kernel", "uni/kernel-read", "bi/kernel", "completion", "issue", "enqueue", "store", "load",
)  # fmt: skip
"""The engine's sections, in its order; docs/method describes each one."""

TESTS = (
    "bi/host/all+flip", "gpu-to-host/kernel+lose",
    "uni+flip", "uni+early", "uni+late", "uni+lose", "uni+swap", "uni+hang",
)  # fmt: skip
"""Sections that break one pair on purpose; they run only if they are named."""

OF_THE_SAMPLE = ("uni/off", "bi/off", "issue/off", "enqueue/off", "uni", "bi", "issue", "enqueue")
"""What p2pBandwidthLatencyTest prints."""

ON_REQUEST = (*WITH_HOST[2:], "issue/off", "enqueue/off", "issue", "enqueue")

USUAL = tuple(name for name in SECTIONS if name not in ON_REQUEST)

OF_RANKS = frozenset({
    "transport", "latency", "bandwidth", "mode", "window", "direction", "repeats", "warmup", "iterations",
    "ranks", "hosts", "gpu_after_init", "share_gpu", "mpi", "launcher", "launcher_arg",
})  # fmt: skip
"""The options that only the matrix between ranks has."""


@option_values.reads("NAME,…", "all", *SECTIONS, several=True)
def _sections(option_name: str, words: Sequence[str]) -> tuple[str, ...]:
    named = option_values.names(option_name, words)
    chosen = dict.fromkeys(each for name in named for each in (SECTIONS if name == "all" else (name,)))
    for name in chosen:
        if name not in SECTIONS and name not in TESTS:
            raise UserError(f"{option_name}: there is no {name!r}; choose among {join_words(SECTIONS)}")
    return tuple(chosen)


@option_values.reads("SIZES", several=True)
def _sizes_or_none(option_name: str, words: Sequence[str]) -> tuple[int, ...]:
    return () if words[-1] == "none" else option_values.sizes(option_name, words)


@dataclass(frozen=True, kw_only=True)
class MatrixOptions(TransportOptions, SampledOptions):
    PANEL = WHAT

    section: tuple[str, ...] = option(
        read=_sections,
        repeat=True,
        shown=f"the usual ones; with --format {CUDA_SAMPLES} those of the CUDA sample",
        help=f"Between GPUs: matrices, separated by commas. The usual ones: {join_words(USUAL)}. Further ones: "
        f"{join_words(ON_REQUEST)}. all: every one.",
    )
    points: PointOptions = group(
        PointOptions,
        only=("transport",),
        transport={
            "shown": "host",
            "help": "Between ranks: transports, separated by commas; each has separate matrices (volley transports).",
        },
    )
    latency: tuple[int, ...] = option(
        read=_sizes_or_none,
        default=(8,),
        help="Message sizes whose latency is measured (ping-pong), e.g. 8 or 8:4k; none: no latency.",
    )
    bandwidth: tuple[int, ...] = option(
        read=_sizes_or_none,
        default=(1 << 20,),
        shown="1Mi",
        help="Message sizes whose bandwidth is measured, with many messages in flight; none: no bandwidth.",
    )
    mode: Literal["isolated", "nodes", "loaded"] | None = option(
        read=option_values.choice("isolated", "nodes", "loaded"),
        shown="nodes if volley knows of several, else isolated",
        help="isolated: one pair at a time; nodes: one pair of each node at a time; loaded: all ranks "
        "(of an odd number, all but one) are busy.",
    )
    windows: WindowOptions = group(WindowOptions)
    repeats: int = option(
        "--visits",
        read=option_values.number(),
        default=3,
        panel=HOW,
        help="Visits of every pair. A cell shows their median, so that one short disturbance does not change it.",
    )
    remeasure: bool = flag(
        default=True,
        panel=HOW,
        help="Measure slow pairs again, in separate launches, before they are flagged (between GPUs all pairs, in "
        "another order); where ranks share CPUs only if --remeasure is given.",
    )
    samples: bool = flag(panel=OUTPUT, help="Keep every sample in the records.")
    sampling: SamplingOptions = group(
        SamplingOptions,
        without=("tail", "size_time"),
        ci={
            "help": "Measure a pair until the 95 % confidence interval of its median is within ± this percentage, or "
            "--point-time is over."
        },
        point_time={
            "default": RANKS_POINT_TIME_S,
            "shown": f"{GPUS_POINT_TIME_S:g} between GPUs, {RANKS_POINT_TIME_S:g} between ranks",
            "help": "Time limit of a visit to a pair, even if the confidence interval is still wider.",
        },
        budget={"help": "Time of the whole run: volley measures no pair after this time."},
    )
    job: JobOptions = group(
        JobOptions,
        without=("launches",),
        ranks={"shown": f"the allocation's, one for each host of --hosts, or {USUAL_RANKS}"},
        gpus={
            "shown": "all that CUDA shows, or one for each rank",
            "help": "GPUs of the matrix, or of the ranks in their order.",
        },
    )
    output: OutputOptions = output_group(FORMATS)

    def __post_init__(self) -> None:
        of_gpus = ["--section"] if self.section else [f"--format {CUDA_SAMPLES}"] if self.as_the_sample else []
        if of_gpus and self.of_ranks:
            raise UserError(f"{join_words([*of_gpus, *self.of_ranks])} cannot be combined: leave out one or the other")
        if not self.latency and not self.bandwidth:
            raise UserError("nothing to measure: leave out --latency none or --bandwidth none")
        for number in () if self.of_ranks else self.job.gpus:
            if self.job.gpus.count(number) > 1:
                raise UserError(f"--gpus: GPU {number} is named twice; name each GPU once")

    @property
    def as_the_sample(self) -> bool:
        """True for the report of the CUDA sample: its sections, in about the time that the sample takes."""
        return self.output.format == CUDA_SAMPLES

    @property
    def of_ranks(self) -> list[str]:
        given = self.given.union(self.points.given, self.windows.given, self.sampling.given, self.job.given)
        return [f"--{name.replace('_', '-')}" for name in sorted(given & OF_RANKS)]

    @property
    def sections(self) -> tuple[str, ...]:
        return self.section or (OF_THE_SAMPLE if self.as_the_sample else USUAL)


def suits_gpus() -> bool:
    """Return whether ``volley matrix`` measures GPUs here: there is a driver, and this is not one of several ranks."""
    info = rank_info(os.environ)
    return (info is None or info.size == 1) and has_driver()


def _between_gpus(options: MatrixOptions, here: bool) -> bool:
    return bool(options.section) or options.as_the_sample or (here and not options.of_ranks and suits_gpus())


GPUS = Benchmark(
    name="gpu_matrix",
    command="matrix",
    help="""Measure every pair of GPUs of this machine, or of ranks, and name the pairs that are slower than comparable
    pairs.

    On a machine with GPUs one process uses all of them: bandwidth and latency with peer access off and on, by copy
    engines (CE) and by kernels (SM), and between host and GPU. The matrix is between ranks if the machine has no GPU,
    if an option is about ranks (transport, number of ranks, hosts), or if a launcher started several ranks. Pairs of
    ranks are comparable if both are on one socket, on one node, or on two nodes. A pair that is slower than comparable
    pairs is measured again together with them before it is flagged.""",
    options=MatrixOptions,
    plan=f"{__name__}.records.GpuMatrixPlan",
    records=(f"{__name__}.records.GpuMatrixGpus", f"{__name__}.records.GpuMatrixRow"),
    jobs=Lazy(f"{__name__}.jobs.gpu_jobs"),
    forecast=Lazy(f"{__name__}.records.GpuMatrixForecast"),
    results=Lazy(f"{__name__}.results.results"),
    observables=Lazy(f"{__name__}.results.observables"),
    parts=Lazy(f"{__name__}.results.parts"),
    report=Lazy(f"{__name__}.page.report"),
    examples=(
        "volley matrix",
        "volley matrix --format cuda-samples",
        "volley matrix --gpus 0,1 --section uni,bi,load",
    ),
    formats=FORMATS,
    renderers={CUDA_SAMPLES: Lazy(f"{__name__}.cuda_samples.render")},
    local=True,
    hint=HINT,
    wanted=_between_gpus,
)

RANKS = replace(
    GPUS,
    name="rank_matrix",
    plan=f"{__name__}.records.RankMatrixPlan",
    records=(f"{__name__}.records.RankMatrixRow",),
    jobs=Lazy(f"{__name__}.jobs.jobs"),
    forecast=Lazy(f"{__name__}.jobs.RankMatrixForecast"),
    examples=(
        "volley matrix --ranks 8",
        "volley matrix --hosts node1,node2,node3 --transport host --mode loaded",
        "srun -n 16 volley matrix --bandwidth 1M,64M --latency none --format csv",
    ),
    formats={},
    renderers={},
    local=False,
    hint="",
    wanted=lambda *_: True,
)
