"""What the benchmarks of messages share, and their options.  A point is one message size on one transport."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from volley.command import option_values
from volley.command.commandline import Lazy, Options, flag, option
from volley.command.options import HOW, WHAT, BenchmarkOptions, SampledOptions
from volley.run.benchmark import Benchmark
from volley.units import VALID_FORMS, parse_sizes

SweepBenchmark = partial(
    Benchmark,
    forecast=Lazy(f"{__name__}.jobs.PointForecast"),
    results=Lazy(f"{__name__}.results.results"),
    observables=Lazy(f"{__name__}.results.observables"),
)
"""A benchmark of points; what it has of its own takes the place of these."""

Direction = Literal["uni", "bi"]

Operation = Literal[
    "barrier",
    "broadcast",
    "reduce",
    "allreduce",
    "reduce-scatter",
    "allgather",
    "all-to-all",
    "gather",
    "scatter",
    "scan",
    "allgatherv",
    "all-to-allv",
    "all-to-allw",
    "gatherv",
    "scatterv",
    "neighbor-allgather",
    "neighbor-all-to-all",
    "neighbor-allgatherv",
    "neighbor-all-to-allv",
    "neighbor-all-to-allw",
]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
"""The collectives, in the order of the engine."""

REDUCING = ("reduce", "allreduce", "reduce-scatter", "scan")
"""The operations that reduce."""

SENDING = ("broadcast", *(each for each in OPERATIONS if each.startswith("neighbor-")))
"""The operations that MPI can make of messages alone: no rank copies a part of its own data."""

MAX_USUAL_RANKS = 8
"""The largest default number of ranks of one machine: three numbers of pairs, or the 56 pairs of a matrix in 20 s."""
USUAL_RANKS = f"one for each core, or for each GPU where --transport names what needs GPUs; at most {MAX_USUAL_RANKS}"

MAX_IN_FLIGHT = 1 << 16
"""MPI needs a request for each message of a window; a billion requests would exceed the memory of a node."""


@dataclass(frozen=True, kw_only=True)
class PointOptions(Options):
    """Message sizes, transports and buffers."""

    PANEL = WHAT

    transport: tuple[str, ...] = option(
        "-t",
        read=option_values.names,
        repeat=True,
        shown="all that send data, without one-sided MPI",
        help="Transports to compare, separated by commas; a part of a name, such as staged or put: all with that part; "
        "all: every transport (see volley transports) but those with threads.",
    )
    sizes: tuple[int, ...] = option(
        "-s",
        read=option_values.sizes,
        default=parse_sizes("8:1Gi"),
        shown="8:1Gi",
        help=f"Message sizes in bytes: {VALID_FORMS}. k, M, G are the same as Ki, Mi, Gi: powers of 1024.",
    )
    fresh_buffers: bool = flag(panel=HOW, help="Allocate new buffers for every size, as in the tutorial.")
    cold_cache: bool = flag(
        panel=HOW, help="Take each message from another place of buffers larger than the caches. In host memory."
    )


class TransportOptions(BenchmarkOptions):
    """The base of the options of a benchmark whose ``--transport`` names what it compares."""

    points: PointOptions

    @property
    def named_transports(self) -> tuple[str, ...]:
        return self.points.transport


class SweepOptions(TransportOptions, SampledOptions):
    """The base of the options of a sweep over message sizes."""


@dataclass(frozen=True, kw_only=True)
class WindowOptions(Options):
    """The number of messages in flight and their direction."""

    PANEL = WHAT

    direction: Direction = option(
        read=option_values.choice("uni", "bi"),
        default="uni",
        help="uni: the first rank sends; bi: both ranks send at once; the table shows each direction and the total.",
    )
    window: int = option(
        read=option_values.number(maximum=MAX_IN_FLIGHT),
        default=64,
        help="Messages in flight before one acknowledgement.",
    )
