"""The launches of a ping-pong."""

from __future__ import annotations

from volley.benchmarks.pingpong import PingPongOptions
from volley.benchmarks.pingpong.records import PingPongPlan
from volley.benchmarks.shared.points.progress import PointForecast
from volley.benchmarks.shared.points.results import times
from volley.run.jobs import Jobs, Site, choose_transports, count_pair, make_plan, repeated


def jobs(options: PingPongOptions, site: Site) -> Jobs:
    part = PingPongPlan(sizes_bytes=list(options.points.sizes), fresh_buffers=options.points.fresh_buffers)
    ranks, transports = count_pair(options.job, site, "pingpong"), choose_transports(options.points.transport, site)
    return repeated(make_plan("pingpong", part, options, ranks=ranks, transports=transports), options, site, times)


forecast = PointForecast
