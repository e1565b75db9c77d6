"""What is asked of the engine for a ping-pong, and what it answers: the plan, its launches and the records."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from volley.benchmarks.pingpong import PingPongOptions
from volley.benchmarks.points.records import PointRecord, Sizes
from volley.benchmarks.points.results import times
from volley.document import Frozen, NonNegative, PositiveSeconds, Seconds
from volley.run.jobs import Jobs, Site, choose_transports, count_pair, make_plan, repeated


class PingPongPlan(Frozen, frozen=True, kw_only=True):
    """The messages of a ping-pong."""

    sizes_bytes: Sizes
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


def jobs(options: PingPongOptions, site: Site) -> Jobs:
    part = PingPongPlan(sizes_bytes=list(options.points.sizes), fresh_buffers=options.points.fresh_buffers)
    ranks, transports = count_pair(options.job, site, "pingpong"), choose_transports(options.points.transport, site)
    return repeated(make_plan("pingpong", part, options, ranks=ranks, transports=transports), options, site, times)
