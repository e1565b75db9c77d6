"""The launches of collectives."""

from __future__ import annotations

from dataclasses import replace

from volley.benchmarks.collective import CollectiveOptions
from volley.benchmarks.collective.results import CollectivePlan
from volley.benchmarks.points.jobs import count_ranks_of_collective, sweep, trial_of_operations
from volley.errors import UserError
from volley.run.jobs import JobContext, Jobs

USUAL_TRANSPORTS = ("host", "staged/pinned", "aware", "nccl")
"""What a run without ``--transport`` measures: all transports that carry collectives, but those of tests."""


def jobs(options: CollectiveOptions, context: JobContext) -> Jobs:
    ranks = count_ranks_of_collective(options.job, context, options.operation)
    if options.root >= ranks:
        raise UserError(f"--root {options.root}: there are {ranks} ranks, counted from 0: write --root {ranks - 1}")
    part = CollectivePlan(
        operations=list(options.operation),
        sizes_bytes=list(options.points.sizes),
        element=options.element,
        reduction=options.reduction,
        root=options.root,
        imbalance=list(options.imbalance),
        cold_cache=options.points.cold_cache,
    )
    found = sweep("collective", part, options, context, ranks, usual=USUAL_TRANSPORTS)
    return replace(found, trial=trial_of_operations(found.planned[0].plan))
