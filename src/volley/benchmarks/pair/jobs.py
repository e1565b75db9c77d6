"""The launches of a ping-pong and of a stream."""

from __future__ import annotations

from volley.benchmarks.pair import PingPongOptions, StreamOptions
from volley.benchmarks.pair.results import PingPongPlan, StreamPlan
from volley.benchmarks.points.jobs import sweep
from volley.run.jobs import JobContext, count_pair
from volley.run.launches import Jobs


def pingpong_jobs(options: PingPongOptions, context: JobContext) -> Jobs:
    part = PingPongPlan(
        sizes_bytes=list(options.points.sizes),
        fresh_buffers=options.points.fresh_buffers,
        cold_cache=options.points.cold_cache,
    )
    return sweep("pingpong", part, options, context, count_pair(options.job, context, "pingpong"))


def stream_jobs(options: StreamOptions, context: JobContext) -> Jobs:
    part = StreamPlan(
        sizes_bytes=list(options.points.sizes),
        fresh_buffers=options.points.fresh_buffers,
        cold_cache=options.points.cold_cache,
        window=options.windows.window,
        direction=options.windows.direction,
    )
    return sweep("stream", part, options, context, count_pair(options.job, context, "stream"))
