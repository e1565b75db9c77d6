"""The plan: what the engine shall measure."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from volley.document import PLAN_VERSION, Frozen, NonNegative, Positive, PositiveNumber, PositiveSeconds, Version


class Sampling(Frozen, frozen=True, kw_only=True):
    """How samples are taken (docs/method.md, "Sampling")."""

    mode: Annotated[
        Literal["adaptive", "fixed"],
        Meta(
            description="`adaptive` stops by the interval of the median; `fixed` takes one batch, as the tutorial does."
        ),
    ] = "adaptive"
    interval: Annotated[
        float,
        Meta(gt=0, le=1, description="adaptive: stop when the 95 % interval of the median is within ± this fraction."),
    ] = 0.01
    point_time_s: Annotated[
        PositiveSeconds, Meta(description="adaptive: stop a point after this much time, at the end of a round.")
    ] = 1.0
    min_visits: Annotated[
        Positive, Meta(description="adaptive: the fewest rounds in which every transport is visited.")
    ] = 3
    warmup: Annotated[NonNegative, Meta(description="fixed: untimed exchanges before the batch.")] = 5
    iterations: Annotated[Positive, Meta(description="fixed: exchanges in the one timed batch.")] = 50
    tail: Annotated[
        bool, Meta(description="adaptive: one exchange a sample (k = 1), so that percentiles are of messages.")
    ] = False


class Stream(Frozen, frozen=True, kw_only=True):
    """How a windowed stream floods the link."""

    window: Annotated[Positive, Meta(description="messages in flight before one acknowledgement.")] = 64
    direction: Annotated[
        Literal["uni", "bi"], Meta(description="`uni`: first rank sends; `bi`: both send at once.")
    ] = "uni"


RankPair = Annotated[list[NonNegative], Meta(min_length=2, max_length=2)]


class Matrix(Frozen, frozen=True, kw_only=True):
    """Which pairs of ranks are measured with each other, at which sizes, and what the others do meanwhile."""

    mode: Annotated[
        Literal["isolated", "loaded"],
        Meta(
            description="`isolated`: one pair at a time, all others wait; `loaded`: the rounds of a tournament, all "
            "ranks are busy until the round ends."
        ),
    ] = "isolated"
    latency_sizes_bytes: Annotated[list[Positive], Meta(description="message sizes of ping-pongs.")] = []
    bandwidth_sizes_bytes: Annotated[
        list[Positive], Meta(description="message sizes of streams; `stream` says window and direction.")
    ] = []
    pairs: Annotated[
        list[RankPair],
        Meta(
            description="first and second rank; empty: every ordered pair. `loaded`: the rounds that hold one of these."
        ),
    ] = []
    repeats: Annotated[
        Positive, Meta(description="how often everything is measured; `isolated`, each time from another pair on.")
    ] = 1
    samples: Annotated[bool, Meta(description="rows keep every sample.")] = False


Points = Annotated[int, Meta(ge=3, le=(1 << 31) - 1)]


class Jacobi(Frozen, frozen=True, kw_only=True):
    """Laplace's equation on a grid of processes (docs/method.md, "Jacobi")."""

    topology: Annotated[list[Positive], Meta(min_length=2, max_length=2, description="processes along x and along y.")]
    domain: Annotated[
        list[Points], Meta(min_length=2, max_length=2, description="points of each process along x and along y.")
    ]
    precision: Annotated[Literal["double", "float"], Meta(description="8 or 4 bytes a point.")] = "double"
    iterations: Annotated[Positive, Meta(description="the most there are.")] = 1000
    tolerance: Annotated[PositiveNumber, Meta(description="ends when the residue is at most this.")] = 1e-5
    check_every: Annotated[Positive, Meta(description="iterations from one residue to the next.")] = 1
    overlap: Annotated[
        bool, Meta(description="points that need no halo are computed while the halos are on their way.")
    ] = True
    threads: Annotated[Positive | None, Meta(description="of each rank; null: its share of the cores.")] = None


class Node(Frozen, frozen=True, kw_only=True):
    """What is measured between the GPUs of a node, all of which one rank has (docs/method.md, "GPUs of a node")."""

    sections: Annotated[list[str], Meta(min_length=1, description="their names; measured in the engine's order.")]
    gpus: Annotated[list[NonNegative], Meta(description="CUDA's numbers; empty: all that CUDA shows.")] = []
    largest_bytes: Annotated[
        int, Meta(ge=64 << 10, description="no message is larger; without room for four on a GPU they are halved.")
    ] = 512 << 20
    quick: Annotated[
        bool, Meta(description="smaller windows and fewer samples: an answer as soon as the CUDA sample has one.")
    ] = False
    samples: Annotated[bool, Meta(description="rows keep every sample.")] = False


class Plan(Frozen, frozen=True, kw_only=True):
    """What to measure.  One JSON document, validated before any rank measures."""

    plan: Annotated[Version, Meta(description="version of this document; 1 where it is not given.")] = PLAN_VERSION
    benchmark: Annotated[
        Literal["pingpong", "stream", "matrix", "node", "jacobi", "probe"],
        Meta(
            description="`matrix` measures every pair of ranks, as `matrix` says; `probe` tries which transports this "
            "job can use and measures nothing; a rank alone sends `sizes_bytes` to itself."
        ),
    ]
    world_size: Annotated[Positive, Meta(description="ranks expected; the engine refuses a job of any other size.")] = 2
    transports: Annotated[
        list[str], Meta(description="names from the registry, e.g. `host`, `staged/pinned`; visited in this order.")
    ]
    sizes_bytes: Annotated[
        list[Positive], Meta(description="message sizes, in this order; those of a matrix stand in `matrix`.")
    ] = []
    excluded: Annotated[
        dict[str, str],
        Meta(description="transports of the list that must not be opened, and why, as found in a job of their own."),
    ] = {}
    sampling: Sampling = Sampling()
    stream: Stream = Stream()
    matrix: Annotated[Matrix, Meta(description="read where the benchmark is `matrix`.")] = Matrix()
    node: Annotated[
        Node | msgspec.UnsetType, Meta(description="the sections; left out of the plans of other benchmarks.")
    ] = msgspec.UNSET
    jacobi: Annotated[
        Jacobi | msgspec.UnsetType, Meta(description="the problem; left out of the plans of other benchmarks.")
    ] = msgspec.UNSET
    verify: Annotated[bool, Meta(description="check the last message of every sample, outside the timed region.")] = (
        True
    )
    fresh_buffers: Annotated[bool, Meta(description="allocate new buffers for every size, as the tutorial does.")] = (
        False
    )
    share_device: Annotated[bool, Meta(description="allow two ranks on one GPU.")] = False
    budget_s: Annotated[
        PositiveSeconds | None,
        Meta(description="stop starting points after this much time in all; what is left is `skipped`."),
    ] = None
    watchdog_s: Annotated[
        PositiveSeconds, Meta(description="a region without progress for longer than this ends the job.")
    ] = 60.0
    launch: Annotated[
        dict[str, Any],
        Meta(description="what the front knows of the launch (launcher, command, software stack); copied, never read."),
    ] = {}
