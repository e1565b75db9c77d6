"""The launches of an overlap, and how far one is."""

from __future__ import annotations

from dataclasses import replace

from volley.benchmarks.overlap import OverlapOptions
from volley.benchmarks.overlap.results import OverlapPlan, results, times
from volley.benchmarks.points.jobs import PointForecast, count_ranks_of_collective, sweep, trial_of_operations
from volley.run.jobs import JobContext, count_pair
from volley.run.launches import Jobs


def jobs(options: OverlapOptions, context: JobContext) -> Jobs:
    part = OverlapPlan(
        sizes_bytes=list(options.points.sizes),
        computations=list(options.computation),
        progress_calls=options.progress_calls,
        operations=list(options.operation),
    )
    if options.operation:
        ranks = count_ranks_of_collective(options.job, context, options.operation)
        usual = ["host", "aware"]
    else:
        ranks = count_pair(options.job, context, "overlap")
        usual = [each.name for each in context.about.transports if each.halos and each.usual]
    found = sweep("overlap", part, options, context, ranks, usual=usual, estimates=times, forecast=OverlapForecast)
    return replace(found, trial=trial_of_operations(found.planned[0].plan))


class OverlapForecast(PointForecast):
    """Each point has the samples of the exchange, of the computation and of both."""

    SERIES = 3
    results = staticmethod(results)
