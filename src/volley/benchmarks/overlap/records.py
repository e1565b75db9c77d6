"""The plan and the records of an overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from volley.benchmarks.overlap import MAX_PROGRESS_CALLS, Limit
from volley.benchmarks.shared.points.records import PointRecord, Sizes
from volley.document import Frozen, NonNegative, PositiveSeconds, Seconds

Times = list[PositiveSeconds]


class OverlapPlan(Frozen, frozen=True, kw_only=True):
    """What is exchanged and computed."""

    sizes_bytes: Sizes
    computations: Annotated[
        list[Limit],
        Meta(min_length=1, description="`memory`: y = a x + y, larger than the caches; `arithmetic`: in registers."),
    ]
    progress_calls: Annotated[
        int,
        Meta(
            ge=0, le=MAX_PROGRESS_CALLS, description="calls of the transport while a rank computes on its core, evenly."
        ),
    ] = 0


class OverlapPoint(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="overlap"):
    """An exchange of one size on one transport, one computation, and both at once; timed by the first rank."""

    computation: Limit
    steps: Annotated[NonNegative, Meta(description="length of the computation: about as long as the exchange.")] = 0
    working_set_bytes: Annotated[
        NonNegative, Meta(description="bytes of the arrays that a rank's computation goes through; 0: registers.")
    ] = 0
    exchange_s: Annotated[
        Times, Meta(description="one entry per sample: both ranks send a message and receive one, / count.")
    ] = []
    computation_s: Annotated[Times, Meta(description="one entry per sample: the computation alone, / count.")] = []
    both_s: Annotated[
        Times,
        Meta(
            description="one entry per sample: the exchange is started, the rank computes, both are awaited, / count."
        ),
    ] = []
    computation_alone_s: Annotated[
        list[Seconds],
        Meta(description="of `computation_s`, from the computation's start to its end; on a GPU by events."),
    ] = []
    computation_beside_s: Annotated[list[Seconds], Meta(description="the same of `both_s`.")] = []
    exchange_alone_s: Annotated[
        list[Seconds],
        Meta(description="of `exchange_s`, from the exchange's start until the rank knows that it is complete."),
    ] = []
    exchange_beside_s: Annotated[
        list[Seconds],
        Meta(description="the same of `both_s`; a rank that computes on its core knows when it has computed."),
    ] = []
    exchanges_per_sample: Annotated[NonNegative, Meta(description="k of `exchange_s`.")] = 0
    computations_per_sample: Annotated[NonNegative, Meta(description="k of `computation_s`.")] = 0
    both_per_sample: Annotated[NonNegative, Meta(description="k of `both_s`.")] = 0

    @property
    def times_s(self) -> Sequence[float]:
        """Times of both at once in seconds, one per sample."""
        return self.both_s
