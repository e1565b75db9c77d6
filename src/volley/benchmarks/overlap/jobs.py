"""The launches of an overlap."""

from __future__ import annotations

from volley.benchmarks.overlap.options import OverlapOptions
from volley.benchmarks.overlap.records import OverlapPlan
from volley.benchmarks.overlap.results import times
from volley.run.jobs import Jobs, Site, choose_transports, count_pair, make_plan
from volley.run.repeated_launches import repeated


def jobs(options: OverlapOptions, site: Site) -> Jobs:
    """Describe the launches.

    Raises:
        UserError: if the options do not fit the job or the engine.
    """
    usual = [each.name for each in site.about.transports if each.halos and each.usual and not each.test]
    plan = make_plan(
        "overlap",
        OverlapPlan(
            sizes_bytes=list(options.points.sizes),
            computations=list(options.computation),
            progress_calls=options.progress_calls,
        ),
        job=options.job,
        ranks=count_pair(options.job, site, "overlap"),
        transports=choose_transports(options.points.transport, site, usual=usual),
        sampling=options.sampling,
    )
    return repeated(plan, job=options.job, sampling=options.sampling, site=site, estimates=times)
