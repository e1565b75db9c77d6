"""The launches of a windowed stream."""

from __future__ import annotations

from volley.benchmarks.shared.points.progress import PointForecast
from volley.benchmarks.shared.points.results import times
from volley.benchmarks.stream import StreamOptions
from volley.benchmarks.stream.records import StreamPlan
from volley.run.jobs import Jobs, Site, choose_transports, count_pair, make_plan, repeated


def jobs(options: StreamOptions, site: Site) -> Jobs:
    part = StreamPlan(
        sizes_bytes=list(options.points.sizes),
        fresh_buffers=options.points.fresh_buffers,
        window=options.windows.window,
        direction=options.windows.direction,
    )
    ranks, transports = count_pair(options.job, site, "stream"), choose_transports(options.points.transport, site)
    return repeated(make_plan("stream", part, options, ranks=ranks, transports=transports), options, site, times)


forecast = PointForecast
