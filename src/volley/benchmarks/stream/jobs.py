"""The launches of a windowed stream."""

from __future__ import annotations

from volley.benchmarks.stream.options import StreamOptions
from volley.benchmarks.stream.records import StreamPlan
from volley.run.jobs import Jobs, Site, choose_transports, count_pair, launches, make_plan


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
    return Jobs(launches(plan, options.job))
