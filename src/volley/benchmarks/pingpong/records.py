"""The plan and the records of a ping-pong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from volley.benchmarks.shared.points.records import PointRecord
from volley.document import Frozen, NonNegative, Positive, PositiveSeconds, Seconds


class PingPongPlan(Frozen, frozen=True, kw_only=True):
    """The messages of a ping-pong."""

    sizes_bytes: Annotated[list[Positive], Meta(min_length=1, description="message sizes, in this order.")]
    fresh_buffers: Annotated[bool, Meta(description="allocate new buffers for every size, as the tutorial does.")] = (
        False
    )


class PingPong(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="pingpong"):
    """One point of a ping-pong: a message size on one transport between two ranks."""

    half_round_trip_s: Annotated[
        list[PositiveSeconds], Meta(description="one entry per sample: elapsed / (2 · exchanges_per_sample).")
    ] = []
    exchanges_per_sample: Annotated[NonNegative, Meta(description="k: round trips in one timed batch.")] = 0
    cold_half_round_trip_s: Annotated[
        Seconds | None, Meta(description="half of the first round trip on fresh buffers; null if used before.")
    ] = None

    @property
    def times_s(self) -> Sequence[float]:
        """Half round trips in seconds, one per sample."""
        return self.half_round_trip_s

    @property
    def cold_s(self) -> float | None:
        """Half of the first round trip on fresh buffers, in seconds."""
        return self.cold_half_round_trip_s


PLAN = PingPongPlan
RECORDS = (PingPong,)
