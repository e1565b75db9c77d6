"""How often a run launches the same plan, and how long each launch samples.

The launch is the unit of the interval (``volley.statistics.launches``): time is better spent on further launches than
on more samples in one.  A run goes on launching until every interval over launches is as narrow as asked, until its
time is up, or until ``MAX_LAUNCHES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from volley.run.jobs import Job, Jobs, LaunchCount, Site
from volley.run.options import SampledOptions
from volley.run.plan import Plan
from volley.run.run_log import RunLog
from volley.statistics.estimates import Estimate
from volley.statistics.launches import MIN_LAUNCHES, enough

MAX_LAUNCHES = 12
"""A run that reaches no narrow interval ends after so many launches: 24 would halve its width at best by a third."""

USUAL_TIME_S = 15.0
"""Without ``--budget`` a run starts no launch that would end after this time, except for the first
``MIN_LAUNCHES``, without which there is no interval."""

POINT_TIME_S = 0.05
"""The time of a point in one of several launches.  More samples in a launch hardly help: of 44 launches on two H200s
the medians at 8 B vary by 3.8 % (standard deviation, median over transports) with all samples of a launch, and by 5.0 %
with the first four; at 64 MiB by 1.9 and 3.6 %."""

MIN_VISITS = 1
"""The fewest rounds in one of several launches: an interval within the launch is not needed, so two samples of a long
message do."""


def repeated(
    plan: Plan, options: SampledOptions, site: Site, estimates: Callable[[Sequence[RunLog]], Iterable[Estimate]]
) -> Jobs:
    """Return the launches of a plan.

    There is one launch, with as many samples as its interval needs, inside a foreign launcher, with fixed sampling, and
    with ``--launches 1``.

    Args:
        plan: the plan of one launch.
        options: ``--launches`` fixes the number of launches, ``--budget`` is the time of all launches, ``--point-time``
            that of a point in each launch.
        site: tells whether a foreign launcher started this process.
        estimates: returns the results of the launches so far; they decide whether there are enough.
    """
    asked = 1 if site.position or plan.sampling.mode == "fixed" else None
    number = options.job.launches or asked
    if number == 1:
        return Jobs((Job(plan),))
    if plan.sampling.mode == "adaptive":
        point_time_s = plan.sampling.point_time_s if "point_time" in options.sampling.given else POINT_TIME_S
        short = msgspec.structs.replace(plan.sampling, point_time_s=point_time_s, min_visits=MIN_VISITS)
        plan = msgspec.structs.replace(plan, sampling=short)
    if number:
        launches = LaunchCount(1 if plan.budget_s else number, number, plan.budget_s)
    else:
        launches = LaunchCount(1 if plan.budget_s else MIN_LAUNCHES, MAX_LAUNCHES, plan.budget_s or USUAL_TIME_S)

    def next_job(logs: Sequence[RunLog], elapsed_s: float, _say: Callable[[str], None]) -> Job | None:
        if not launches.another(len(logs), elapsed_s):
            return None
        good = logs[-1].complete and "failed" not in logs[-1].statuses
        if number is None and (not good or enough(estimates(logs), plan.sampling.ci)):
            return None
        left_s = plan.budget_s and plan.budget_s - elapsed_s
        return Job(msgspec.structs.replace(plan, budget_s=left_s))

    return Jobs((Job(plan),), next_job=next_job, launches=launches)
