"""The launches of a windowed stream."""

from __future__ import annotations

from volley.benchmarks.shared.points.results import times
from volley.benchmarks.stream.options import StreamOptions
from volley.benchmarks.stream.records import StreamPlan
from volley.run.jobs import Jobs, Site, choose_transports, count_pair, make_plan
from volley.run.repeated_launches import repeated


def jobs(options: StreamOptions, site: Site) -> Jobs:
    """Describe the launches.

    Raises:
        UserError: if the options do not fit the job or the engine.
    """
    part = StreamPlan(
        sizes_bytes=list(options.points.sizes),
        fresh_buffers=options.points.fresh_buffers,
        window=options.windows.window,
        direction="bi" if options.windows.direction == "bi" else "uni",
    )
    plan = make_plan(
        "stream",
        part,
        job=options.job,
        ranks=count_pair(options.job, site, "stream"),
        transports=choose_transports(options.points.transport, site),
        sampling=options.sampling,
    )
    return repeated(plan, job=options.job, sampling=options.sampling, site=site, estimates=times)
