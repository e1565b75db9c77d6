"""The matrix between ranks: every pair of ranks, and which pairs are slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from volley.benchmarks.shared.matrix import SAMPLING_HELP
from volley.benchmarks.shared.points.options import PointOptions, WindowOptions
from volley.errors import UserError
from volley.run import option_values
from volley.run.benchmark import Benchmark
from volley.run.commandline import flag, group, option
from volley.run.options import (
    HOW,
    OUTPUT,
    WHAT,
    JobOptions,
    OutputOptions,
    SampledOptions,
    SamplingOptions,
    output_group,
)

POINT_TIME_S = 0.03
"""A matrix has many pairs: all visits of a cell together take a tenth of the time that a point of a curve may take."""


@option_values.reads("SIZES")
def _sizes_or_none(option_name: str, words: Sequence[str]) -> tuple[int, ...]:
    return () if words[-1] == "none" else option_values.sizes(option_name, words)


@dataclass(frozen=True, kw_only=True)
class RankMatrixOptions(SampledOptions):
    """The measurement between ranks."""

    PANEL = WHAT

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
    mode: Literal["isolated", "loaded"] = option(
        read=option_values.choice("isolated", "loaded"),
        default="isolated",
        help="isolated: one pair at a time; loaded: the rounds of a round robin, in which all ranks are busy.",
    )
    windows: WindowOptions = group(WindowOptions)
    repeats: int = option(
        read=option_values.number(),
        default=3,
        panel=HOW,
        help="Visits of every pair. A cell shows their median, so that one short disturbance does not change it.",
    )
    remeasure: bool = flag(
        default=True, panel=HOW, help="Measure slow pairs again, in separate launches, before they are flagged."
    )
    samples: bool = flag(panel=OUTPUT, help="Keep every sample in the records.")
    sampling: SamplingOptions = group(
        SamplingOptions,
        without=("tail", "size_time"),
        point_time={
            "default": POINT_TIME_S,
            "shown": f"{POINT_TIME_S:g} between ranks, 0.1 between GPUs",
            "help": "Time limit of a visit to a pair, even if the confidence interval is still wider.",
        },
        **SAMPLING_HELP,
    )
    job: JobOptions = group(
        JobOptions,
        without=("launches",),
        ranks={"shown": "the allocation's, one for each host of --hosts, or one for each core up to 8"},
    )
    output: OutputOptions = output_group()

    def __post_init__(self) -> None:
        if not self.latency and not self.bandwidth:
            raise UserError("nothing to measure: leave out --latency none or --bandwidth none")


BENCHMARK = Benchmark(
    name="rank_matrix",
    command="matrix",
    help="""Measure every pair of ranks, and name the pairs that are slower than comparable pairs.

    Pairs of ranks are comparable if they are on one socket, on one node, or on two nodes. A pair that is slower is
    measured again beside comparable pairs before it is flagged.""",
    options=RankMatrixOptions,
    examples=(
        "volley matrix --ranks 8",
        "volley matrix --hosts node1,node2,node3 --transport host --mode loaded",
        "srun -n 16 volley matrix --bandwidth 1M,64M --latency none --format csv",
    ),
)
