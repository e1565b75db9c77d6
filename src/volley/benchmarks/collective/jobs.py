"""The launches of collectives."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from volley.benchmarks.collective import CollectiveOptions
from volley.benchmarks.collective.results import CollectivePlan
from volley.benchmarks.points.jobs import sweep
from volley.errors import UserError
from volley.launch.launchers import PAIR
from volley.records.plan import Plan, Sampling
from volley.run.jobs import JobContext, Jobs, count_ranks

USUAL_TRANSPORTS = ("host", "staged/pinned", "aware", "nccl")
"""What a run without ``--transport`` measures: all transports that carry collectives, but those of tests."""


def jobs(options: CollectiveOptions, context: JobContext) -> Jobs:
    ranks = count_ranks(options.job, context, usual=max(context.ranks_given or PAIR, PAIR))
    if ranks < PAIR:
        raise UserError(f"a collective needs at least {PAIR} ranks: write --ranks {PAIR} or more")
    part = CollectivePlan(
        operations=list(options.operation),
        sizes_bytes=list(options.points.sizes),
        element=options.element,
        imbalance=list(options.imbalance),
    )
    found = sweep("collective", part, options, context, ranks, usual=USUAL_TRANSPORTS)
    return replace(found, trial=_trial(found.planned[0].plan))


def _trial(plan: Plan) -> Plan | None:
    """Return the plan that tries each operation once; a barrier needs no device memory."""
    operations = [operation for operation in plan.options.operations if operation != "barrier"]
    if not operations:
        return None
    least = 4 * plan.world_size * max(plan.options.imbalance)
    part = msgspec.structs.replace(plan.options, operations=operations, sizes_bytes=[least, 1 << 20])
    once = Sampling(mode="fixed", warmup=1, iterations=1)
    return msgspec.structs.replace(plan, options=part, sampling=once, budget_s=None)
