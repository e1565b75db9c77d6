"""What is asked of the engine for message rates, and what it answers: the plan, its launches and the records."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from volley.benchmarks.message_rate import MessageRateOptions
from volley.benchmarks.points import MAX_USUAL_RANKS
from volley.benchmarks.points.jobs import sweep
from volley.benchmarks.points.records import ClockError, EntrySkew, PointRecord, Sizes
from volley.document import Count, Frozen, NonNegative, Positive, PositiveSeconds, Seconds, Window
from volley.errors import UserError
from volley.launch.launchers import PAIR, cores
from volley.run.jobs import JobContext, Jobs, count_ranks
from volley.text import count


class MessageRatePlan(Frozen, frozen=True, kw_only=True):
    """The messages of several pairs of ranks."""

    sizes_bytes: Sizes
    pairs: Annotated[
        list[Count], Meta(min_length=1, description="numbers of pairs that send at once; at most half of the ranks.")
    ]
    window: Annotated[Window, Meta(description="messages of a pair in flight before one acknowledgement.")] = 64

    @property
    def point_sizes(self) -> list[int]:
        return [size for size in self.sizes_bytes for _ in self.pairs]


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
    def label(self) -> str:
        """Its name while it is measured: ``2 pairs: host 64 KiB``."""
        return f"{count(self.pairs, 'pair')}: {super().label}"

    @property
    def moved_bytes(self) -> float:
        return self.size_bytes * self.window * self.pairs


# ---------------------------------------------------------------------------------------------------- launches


def jobs(options: MessageRateOptions, context: JobContext) -> Jobs:
    usual = context.ranks_given or min(cores(), MAX_USUAL_RANKS) // PAIR * PAIR
    ranks = count_ranks(options.job, context, usual=max(usual, PAIR))
    if ranks % PAIR:
        remedy = f"start it with {ranks + 1}" if context.position else f"write --ranks {ranks + 1}"
        raise UserError(f"message-rate is between pairs of ranks, and {ranks} is odd: {remedy}")
    if max(options.pairs, default=1) > ranks // PAIR:
        raise UserError(f"--pairs {max(options.pairs)}: {ranks} ranks have {count(ranks // PAIR, 'pair')}")
    part = MessageRatePlan(
        sizes_bytes=list(options.points.sizes),
        pairs=list(options.pairs or usual_pairs(ranks // PAIR)),
        window=options.windows.window,
    )
    return sweep("message_rate", part, options, context, ranks)


def usual_pairs(all_pairs: int) -> list[int]:
    """Return the powers of two below the number of all pairs, and that number."""
    return [*(1 << power for power in range(all_pairs.bit_length()) if 1 << power < all_pairs), all_pairs]
