"""The launches of an overlap, and how far one is."""

from __future__ import annotations

from volley.benchmarks.overlap import OverlapOptions
from volley.benchmarks.overlap.results import OverlapPlan, results, times
from volley.benchmarks.points.jobs import PointForecast, sweep
from volley.run.jobs import JobContext, Jobs, count_pair


def jobs(options: OverlapOptions, context: JobContext) -> Jobs:
    usual = [each.name for each in context.about.transports if each.halos and each.usual]
    part = OverlapPlan(
        sizes_bytes=list(options.points.sizes),
        computations=list(options.computation),
        progress_calls=options.progress_calls,
    )
    ranks = count_pair(options.job, context, "overlap")
    return sweep("overlap", part, options, context, ranks, usual=usual, estimates=times, forecast=OverlapForecast)


class OverlapForecast(PointForecast):
    """Each point has the samples of the exchange, of the computation and of both."""

    SERIES = 3
    results = staticmethod(results)
