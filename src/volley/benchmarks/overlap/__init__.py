"""Overlap: what communication costs a computation, and the computation the communication."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal, get_args

from volley.benchmarks.points import OPERATIONS, Operation, PointOptions, SweepOptions
from volley.command import option_values
from volley.command.commandline import Lazy, group, option
from volley.command.options import WHAT, JobOptions, OutputOptions, SamplingOptions, output_group
from volley.run.benchmark import Benchmark
from volley.text import join_words
from volley.units import parse_sizes

Limit = Literal["memory", "arithmetic"]
LIMITS: tuple[Limit, ...] = get_args(Limit)

SIZES = "4k:16Mi:x8"
"""Shorter exchanges end before there is anything to hide."""

MAX_PROGRESS_CALLS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class OverlapOptions(SweepOptions):
    PANEL = WHAT

    points: PointOptions = group(
        PointOptions,
        without=("fresh_buffers", "cold_cache"),
        transport={"shown": "all that can start a message and wait for it later"},
        sizes={"default": parse_sizes(SIZES), "shown": SIZES},
    )
    operation: tuple[Operation, ...] = option(
        read=option_values.several("operation", OPERATIONS[1:]),
        repeat=True,
        default=(),
        shown="none: an exchange between two ranks",
        help=f"Non-blocking collectives among all ranks in place of the exchange: {join_words(OPERATIONS[1:])}.",
    )
    computation: tuple[Limit, ...] = option(
        read=option_values.several("computation", LIMITS),
        repeat=True,
        default=LIMITS,
        shown="both",
        help="What limits the computation, separated by commas: memory (y = a x + y, larger than the caches) or "
        "arithmetic (multiply-adds in registers).",
    )
    progress_calls: int = option(
        read=option_values.number(0, MAX_PROGRESS_CALLS),
        default=0,
        help="How often a rank that computes on its core calls MPI during the computation, so that MPI moves messages.",
    )
    sampling: SamplingOptions = group(SamplingOptions, without=("tail",))
    job: JobOptions = group(JobOptions, ranks={"help": "Ranks to start; more than 2 with --operation."})
    output: OutputOptions = output_group()

    @property
    def named_operations(self) -> Sequence[Set[str]]:
        return [{each} for each in self.operation]


BENCHMARK = Benchmark(
    name="overlap",
    help="Measure how much of an exchange is hidden behind a computation, and how much each slows the other down.",
    options=OverlapOptions,
    plan=f"{__name__}.results.OverlapPlan",
    records=(f"{__name__}.results.OverlapPoint",),
    jobs=Lazy(f"{__name__}.jobs.jobs"),
    forecast=Lazy(f"{__name__}.jobs.OverlapForecast"),
    results=Lazy(f"{__name__}.results.results"),
    observables=Lazy(f"{__name__}.results.observables"),
    report=Lazy(f"{__name__}.page.report"),
    examples=(
        "volley overlap",
        "volley overlap --transport aware,peer,nccl --computation memory --sizes 1M,64M",
        "volley overlap --transport host --progress-calls 8",
        "volley overlap --operation allreduce --ranks 8",
    ),
)
