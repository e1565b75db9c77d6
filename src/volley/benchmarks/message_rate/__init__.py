"""Message rate: several pairs of ranks send at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from volley.benchmarks.points import USUAL_RANKS, PointOptions, SweepBenchmark, SweepOptions, WindowOptions
from volley.command import option_values
from volley.command.commandline import Lazy, group, option
from volley.command.options import WHAT, JobOptions, OutputOptions, SamplingOptions, output_group
from volley.errors import UserError
from volley.units import LARGEST_COUNT, parse_sizes, parse_whole

SIZES = "8,512,4Ki,64Ki,1Mi"
"""Short messages show the rate, long ones what the pairs share; each size is measured for several numbers of pairs."""


@option_values.reads("N,…", several=True)
def _pairs(option_name: str, words: Sequence[str]) -> tuple[int, ...]:
    """Read numbers of pairs; each is measured once, in rising order."""
    found = [parse_whole(part.strip()) for part in ",".join(words).split(",")]
    if any(number is None or not 1 <= number <= LARGEST_COUNT for number in found):
        raise UserError(
            f"{option_name}: {words[-1]!r} is not a list of numbers of pairs: write e.g. {option_name} 1,2,4"
        )
    return tuple(sorted({number for number in found if number}))


Pattern = Literal["pairs", "fan-in", "fan-out", "ring"]


@dataclass(frozen=True, kw_only=True)
class MessageRateOptions(SweepOptions):
    PANEL = WHAT

    pattern: Pattern = option(
        read=option_values.choice("pairs", "fan-in", "fan-out", "ring"),
        default="pairs",
        help="Who sends to whom. pairs: the first half of the ranks to the second half; fan-in: the others to rank 0 "
        "(incast); fan-out: rank 0 to the others; ring: each rank to the next one.",
    )
    pairs: tuple[int, ...] = option(
        read=_pairs,
        shown="1, 2, 4 and so on, and as many as there can be",
        help="Numbers of pairs that send at once.",
    )
    points: PointOptions = group(
        PointOptions, without=("fresh_buffers", "cold_cache"), sizes={"default": parse_sizes(SIZES), "shown": SIZES}
    )
    windows: WindowOptions = group(WindowOptions, without=("direction",))
    sampling: SamplingOptions = group(SamplingOptions, without=("tail",))
    job: JobOptions = group(JobOptions, ranks={"shown": f"the allocation's, or {USUAL_RANKS}"})
    output: OutputOptions = output_group()


BENCHMARK = SweepBenchmark(
    name="message_rate",
    help="""Measure how many messages pairs of ranks send per second, one pair alone and several at once.

    The first half of the ranks sends, rank i to rank i of the second half, or as --pattern says. One pair, two pairs,
    four pairs and so on take turns in the same run. The report shows how much the pairs slow each other down.""",
    options=MessageRateOptions,
    plan=f"{__name__}.results.MessageRatePlan",
    records=(f"{__name__}.results.MessageRatePoint",),
    jobs=Lazy(f"{__name__}.jobs.jobs"),
    results=Lazy(f"{__name__}.results.results"),
    observables=Lazy(f"{__name__}.results.observables"),
    report=Lazy(f"{__name__}.page.report"),
    examples=(
        "volley message-rate --ranks 8",
        "volley message-rate --ranks 8 --pattern fan-in",
        "volley message-rate --ranks 4 --gpus 0,0,1,1 --share-gpu --sizes 8,64k",
        "srun -N 2 --ntasks-per-node 32 volley message-rate --transport host --pairs 1,8,32",
    ),
)
