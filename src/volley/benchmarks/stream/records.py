"""What is asked of the engine for a windowed stream, and what it answers: the plan, its launches and the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, field

from volley.benchmarks.points import Direction
from volley.benchmarks.points.records import PointRecord, Sizes
from volley.benchmarks.points.results import times
from volley.benchmarks.stream import StreamOptions
from volley.document import Frozen, NonNegative, Positive, PositiveSeconds, Seconds, Window
from volley.run.jobs import Jobs, Site, choose_transports, count_pair, make_plan, repeated

DIRECTION = "`uni`: the first rank sends; `bi`: both send at once."
WINDOW = "messages in flight before one acknowledgement."


class StreamPlan(Frozen, frozen=True, kw_only=True):
    """The messages of a windowed stream."""

    sizes_bytes: Sizes
    fresh_buffers: Annotated[bool, Meta(description="allocate new buffers for every size.")] = False
    window: Annotated[Window, Meta(description=WINDOW)] = 64
    direction: Annotated[Direction, Meta(description=DIRECTION)] = "uni"


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


def jobs(options: StreamOptions, site: Site) -> Jobs:
    part = StreamPlan(
        sizes_bytes=list(options.points.sizes),
        fresh_buffers=options.points.fresh_buffers,
        window=options.windows.window,
        direction=options.windows.direction,
    )
    ranks, transports = count_pair(options.job, site, "stream"), choose_transports(options.points.transport, site)
    return repeated(make_plan("stream", part, options, ranks=ranks, transports=transports), options, site, times)
