"""The launches of a ping-pong."""

from __future__ import annotations

from volley.benchmarks.pingpong.options import PingPongOptions
from volley.benchmarks.pingpong.records import PingPongPlan
from volley.benchmarks.shared.points.results import times
from volley.run.jobs import Jobs, Site, choose_transports, count_pair, make_plan
from volley.run.repeated_launches import repeated


def jobs(options: PingPongOptions, site: Site) -> Jobs:
    """Describe the launches.

    Raises:
        UserError: if the options do not fit the job or the engine.
    """
    plan = make_plan(
        "pingpong",
        PingPongPlan(sizes_bytes=list(options.points.sizes), fresh_buffers=options.points.fresh_buffers),
        job=options.job,
        ranks=count_pair(options.job, site, "pingpong"),
        transports=choose_transports(options.points.transport, site),
        sampling=options.sampling,
    )
    return repeated(plan, job=options.job, sampling=options.sampling, site=site, estimates=times)
