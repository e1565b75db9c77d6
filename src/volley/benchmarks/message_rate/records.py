"""The plan and the records of message rates."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from volley.benchmarks.shared.points.records import ClockError, EntrySkew, PointRecord, Sizes
from volley.document import Count, Frozen, NonNegative, Positive, PositiveSeconds, Seconds, Window


class MessageRatePlan(Frozen, frozen=True, kw_only=True):
    """The messages of several pairs of ranks."""

    sizes_bytes: Sizes
    pairs: Annotated[
        list[Count], Meta(min_length=1, description="numbers of pairs that send at once; at most half of the ranks.")
    ]
    window: Annotated[Window, Meta(description="messages of a pair in flight before one acknowledgement.")] = 64


class MessageRatePoint(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="message_rate"):
    """Pairs of ranks that send at once on one transport at one message size: the senders, then their receivers."""

    pairs: Positive
    window: Positive
    times_s: Annotated[
        list[PositiveSeconds],
        Meta(
            description="one entry per sample: from the first sender's entry to the last sender's exit, when its last "
            "window is acknowledged, / windows_per_sample."
        ),
    ] = field(name="window_s", default_factory=list)
    sender_window_s: Annotated[
        list[PositiveSeconds],
        Meta(
            description="one entry per sample: the mean of the senders' own times, each from its entry to its exit, "
            "/ windows_per_sample: what osu_mbw_mr divides by."
        ),
    ] = []
    windows_per_sample: Annotated[NonNegative, Meta(description="k: windows of each pair in one timed batch.")] = 0
    cold_s: Annotated[
        Seconds | None, Meta(description="the first window of so many pairs; null at all sizes but the first.")
    ] = field(name="cold_window_s", default=None)
    entry_skew_s: EntrySkew = []
    clock_error_s: ClockError = 0.0

    @property
    def moved_bytes(self) -> float:
        """The bytes that all pairs move in each of ``times_s``."""
        return self.size_bytes * self.window * self.pairs


PLAN = MessageRatePlan
RECORDS = (MessageRatePoint,)
