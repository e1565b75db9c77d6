"""The plan and the records of message rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from volley.benchmarks.shared.points.options import Direction
from volley.benchmarks.shared.points.records import PointRecord
from volley.document import Count, Frozen, NonNegative, Positive, PositiveSeconds, Seconds


class MessageRatePlan(Frozen, frozen=True, kw_only=True):
    """The messages of several pairs of ranks."""

    sizes_bytes: Annotated[list[Positive], Meta(min_length=1, description="message sizes, in this order.")]
    pairs: Annotated[
        list[Count], Meta(min_length=1, description="numbers of pairs that send at once; at most half of the ranks.")
    ]
    window: Annotated[Count, Meta(description="messages of a pair in flight before one acknowledgement.")] = 64


class MessageRatePoint(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="message_rate"):
    """Pairs of ranks that send at once on one transport at one message size: the senders, then their receivers."""

    pairs: Positive
    window: Positive
    window_s: Annotated[
        list[PositiveSeconds],
        Meta(
            description="one entry per sample: from the first sender's entry to the last sender's exit, when its last "
            "window is acknowledged, / windows_per_sample."
        ),
    ] = []
    windows_per_sample: Annotated[NonNegative, Meta(description="k: windows of each pair in one timed batch.")] = 0
    cold_window_s: Annotated[
        Seconds | None, Meta(description="the first window of so many pairs; null at all sizes but the first.")
    ] = None
    entry_skew_s: Annotated[
        list[Seconds],
        Meta(description="one entry per sample: from the first sender's entry into the batch to the last sender's."),
    ] = []
    clock_error_s: Annotated[
        Seconds, Meta(description="how far the clocks of two nodes may be apart at most; 0 on one node.")
    ] = 0.0

    @property
    def times_s(self) -> Sequence[float]:
        """Times of a window of each pair in seconds, one per sample."""
        return self.window_s

    @property
    def cold_s(self) -> float | None:
        """The first window of so many pairs, in seconds."""
        return self.cold_window_s

    @property
    def flow(self) -> tuple[Direction, int]:
        """The direction and the window."""
        return "uni", self.window

    @property
    def moved_bytes(self) -> float:
        """The bytes that all pairs move in each of ``times_s``."""
        return self.size_bytes * self.window * self.pairs


PLAN = MessageRatePlan
RECORDS = (MessageRatePoint,)
