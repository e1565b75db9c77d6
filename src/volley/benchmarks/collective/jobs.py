"""The launches of collectives."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from volley.benchmarks.collective import CollectiveOptions
from volley.benchmarks.collective.records import CollectivePlan
from volley.benchmarks.shared.points.progress import PointForecast
from volley.benchmarks.shared.points.results import times
from volley.errors import UserError
from volley.run.jobs import PAIR, Jobs, Site, choose_transports, count_ranks, make_plan, repeated
from volley.run.plan import Plan, Sampling

USUAL_TRANSPORTS = ("host", "staged/pinned", "aware", "nccl")
"""What a run without ``--transport`` measures: all transports that carry collectives, but those of tests."""


def jobs(options: CollectiveOptions, site: Site) -> Jobs:
    ranks = count_ranks(options.job, site, usual=max(site.ranks_given or PAIR, PAIR))
    if ranks < PAIR:
        raise UserError(f"a collective needs at least {PAIR} ranks: write --ranks {PAIR} or more")
    part = CollectivePlan(
        operations=list(options.operation), sizes_bytes=list(options.points.sizes), element=options.element
    )
    transports = choose_transports(options.points.transport, site, usual=USUAL_TRANSPORTS)
    plan = make_plan("collective", part, options, ranks=ranks, transports=transports)
    return replace(repeated(plan, options, site, times), trial=_trial(plan))


def _trial(plan: Plan) -> Plan | None:
    """Return the plan that tries each operation once; a barrier needs no device memory."""
    operations = [operation for operation in plan.options.operations if operation != "barrier"]
    if not operations:
        return None
    part = msgspec.structs.replace(plan.options, operations=operations, sizes_bytes=[4 * plan.world_size, 1 << 20])
    return msgspec.structs.replace(plan, options=part, sampling=Sampling(mode="fixed", warmup=1, iterations=1))


def forecast(plan: Plan) -> PointForecast:
    """Expect a point for each operation, size and transport; a barrier has no size."""
    operations = [operation for operation in plan.options.operations if operation != "barrier"]
    sizes = [size for size in plan.options.sizes_bytes for _ in operations]
    return PointForecast(plan, [0, *sizes] if "barrier" in plan.options.operations else sizes)
