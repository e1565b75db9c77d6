"""What is asked of the engine between two ranks, and what it answers: the plans, their launches and the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, field

from volley.benchmarks.pair import PingPongOptions, StreamOptions
from volley.benchmarks.points import Direction
from volley.benchmarks.points.jobs import sweep
from volley.benchmarks.points.records import PointRecord, Sizes, SizesFrom0
from volley.document import Frozen, NonNegative, Positive, PositiveSeconds, Seconds, Window
from volley.run.jobs import JobContext, Jobs, count_pair


class PingPongPlan(Frozen, frozen=True, kw_only=True):
    """The messages of a ping-pong."""

    sizes_bytes: SizesFrom0
    fresh_buffers: Annotated[bool, Meta(description="allocate new buffers for every size, as the tutorial does.")] = (
        False
    )


class PingPong(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="pingpong"):
    """One point of a ping-pong: a message size on one transport between two ranks."""

    times_s: Annotated[
        list[PositiveSeconds], Meta(description="one entry per sample: elapsed / (2 · exchanges_per_sample).")
    ] = field(name="half_round_trip_s", default_factory=list)
    exchanges_per_sample: Annotated[NonNegative, Meta(description="k: round trips in one timed batch.")] = 0
    cold_s: Annotated[
        Seconds | None, Meta(description="half of the first round trip on these buffers; null if it is not the first.")
    ] = field(name="cold_half_round_trip_s", default=None)


def pingpong_jobs(options: PingPongOptions, context: JobContext) -> Jobs:
    part = PingPongPlan(sizes_bytes=list(options.points.sizes), fresh_buffers=options.points.fresh_buffers)
    return sweep("pingpong", part, options, context, count_pair(options.job, context, "pingpong"))


class StreamPlan(Frozen, frozen=True, kw_only=True):
    """The messages of a windowed stream."""

    sizes_bytes: Sizes
    fresh_buffers: Annotated[bool, Meta(description="allocate new buffers for every size.")] = False
    window: Annotated[Window, Meta(description="messages in flight before one acknowledgement.")] = 64
    direction: Annotated[Direction, Meta(description="`uni`: the first rank sends; `bi`: both send at once.")] = "uni"


class StreamPoint(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="stream"):
    """One point of a windowed stream: a message size on one transport between two ranks."""

    direction: Direction
    window: Positive
    forward_s: Annotated[
        list[PositiveSeconds],
        Meta(
            description="one entry per sample: time of one window from the first to the second rank, acknowledgement "
            "included; `uni` is timed by the sender, `bi` by the receiver."
        ),
    ] = []
    backward_s: Annotated[
        list[PositiveSeconds], Meta(description="`bi` only: the same from the second to the first rank.")
    ] = []
    windows_per_sample: Annotated[NonNegative, Meta(description="k: windows in one timed batch.")] = 0
    cold_s: Annotated[
        Seconds | None, Meta(description="the first window on these buffers; null if it is not the first.")
    ] = field(name="cold_window_s", default=None)

    @property
    def times_s(self) -> Sequence[float]:
        if self.direction == "bi":
            return [max(pair) for pair in zip(self.forward_s, self.backward_s, strict=False)]
        return self.forward_s

    @property
    def each_way_s(self) -> tuple[Sequence[float], Sequence[float]] | None:
        return (self.forward_s, self.backward_s) if self.direction == "bi" else None


def stream_jobs(options: StreamOptions, context: JobContext) -> Jobs:
    part = StreamPlan(
        sizes_bytes=list(options.points.sizes),
        fresh_buffers=options.points.fresh_buffers,
        window=options.windows.window,
        direction=options.windows.direction,
    )
    return sweep("stream", part, options, context, count_pair(options.job, context, "stream"))
