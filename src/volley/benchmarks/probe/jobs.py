"""The job of a probe: all transports between all ranks."""

from __future__ import annotations

from volley.benchmarks.probe import ProbeOptions
from volley.benchmarks.probe.records import ProbePlan
from volley.run.jobs import PAIR, Jobs, Site, choose_transports, count_ranks, launches, make_plan


def jobs(options: ProbeOptions, site: Site) -> Jobs:
    ranks = count_ranks(options.job, site, usual=max(site.ranks_given or PAIR, PAIR))
    plan = make_plan("probe", ProbePlan(), options, ranks=ranks, transports=choose_transports(("all",), site))
    return Jobs(launches(plan, options.job))
