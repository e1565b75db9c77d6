"""The launches of collectives."""

from __future__ import annotations

from dataclasses import replace

from volley.benchmarks.collective import IN_PLACE, CollectiveOptions
from volley.benchmarks.collective.results import CollectivePlan
from volley.benchmarks.points.jobs import count_ranks_of_collective, sweep, trial_of_operations
from volley.errors import UserError
from volley.run.jobs import JobContext
from volley.run.launches import Jobs
from volley.text import join_words

USUAL_TRANSPORTS = ("host", "staged/pinned", "aware", "nccl")
"""What a run without ``--transport`` measures: all transports that carry collectives, but those of tests."""


def jobs(options: CollectiveOptions, context: JobContext) -> Jobs:
    ranks = count_ranks_of_collective(options.job, context, options.operation)
    if options.root >= ranks:
        raise UserError(f"--root {options.root}: there are {ranks} ranks, counted from 0: write --root {ranks - 1}")
    left_out = [each for each in options.operation if options.in_place and each not in IN_PLACE]
    left_out = [] if options.names_operations else left_out  # a named one is refused in its place
    part = CollectivePlan(
        operations=[each for each in options.operation if each not in left_out],
        sizes_bytes=list(options.points.sizes),
        element=options.element,
        reduction=options.reduction,
        root=options.root,
        imbalance=list(options.imbalance),
        in_place=options.in_place,
        cold_cache=options.points.cold_cache,
    )
    found = sweep("collective", part, options, context, ranks, usual=USUAL_TRANSPORTS)
    plan = found.planned[0].plan
    if options.in_place and plan.sampling.mode == "fixed" and plan.sampling.iterations > 1:
        raise UserError("--in-place: a result replaces what the next operation would send: write --iterations 1")
    note = f"not measured in place: {join_words(left_out)}" if left_out else None
    return replace(found, planned=(replace(found.planned[0], note=note),), trial=trial_of_operations(plan))
