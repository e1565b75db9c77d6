"""The jobs of a matrix between ranks: one of all pairs, then those that measure suspects again."""

from __future__ import annotations

from functools import partial
from typing import Any

from volley.benchmarks.rank_matrix import RankMatrixOptions, remeasure
from volley.benchmarks.rank_matrix.records import RankMatrixPlan, RankMatrixRow
from volley.benchmarks.shared.matrix.progress import row_in_short
from volley.errors import UserError
from volley.run.jobs import PAIR, Job, Jobs, Site, choose_transports, count_ranks, make_plan
from volley.run.launchers import cores
from volley.run.plan import Plan
from volley.run.progress import Forecast
from volley.text import count
from volley.units import format_duration, format_size

MAX_USUAL_RANKS = 8
"""The largest default number of ranks: the 56 pairs of 8 ranks take 20 s."""

WORTH_SAYING_S = 60.0
"""The user is told before the start if a matrix is expected to take longer."""

LONGEST_S = 86_400.0
"""The longest expected time of a matrix without ``--budget``: one day."""

_BESIDE_S = 0.05
"""The time of a pair apart from its samples: synchronisation, opening, calibration."""


def jobs(options: RankMatrixOptions, site: Site) -> Jobs:
    """Describe the launch of all pairs, and how to find the next launch of suspects."""
    usual = max(site.ranks_given or len(options.job.hosts) or min(cores(), MAX_USUAL_RANKS), PAIR)
    ranks = count_ranks(options.job, site, usual=usual)
    if ranks < PAIR:
        raise UserError(f"a matrix needs at least {PAIR} ranks, not {ranks}: write --ranks {PAIR} or more")
    part = RankMatrixPlan(
        mode=options.mode,
        latency_sizes_bytes=list(options.latency),
        bandwidth_sizes_bytes=list(options.bandwidth),
        window=options.windows.window,
        direction=options.windows.direction,
        repeats=options.repeats,
        samples=options.samples,
    )
    transports = choose_transports(options.points.transport, site, usual=("host",))
    plan = make_plan("rank_matrix", part, options, ranks=ranks, transports=transports)
    again = partial(remeasure.next_job, inside_launcher=site.position is not None)
    return Jobs((Job(plan),), next_job=again if options.remeasure else None, note=_expected_time(plan, part))


def _expected_time(plan: Plan, part: RankMatrixPlan) -> str | None:
    """Return a sentence about how long a matrix takes, if it takes long.

    Raises:
        UserError: if it takes longer than a day without a budget.
    """
    ranks, loaded = plan.world_size, part.mode == "loaded"
    turns = 2 * (ranks - 1 + ranks % 2) if loaded else ranks * (ranks - 1)
    cells = len(plan.transports) * (len(part.latency_sizes_bytes) + len(part.bandwidth_sizes_bytes))
    point_s = plan.sampling.point_time_s if plan.sampling.mode == "adaptive" else 0.0
    expected_s = part.repeats * turns * (_BESIDE_S + cells * point_s)
    whole = f"{count(ranks * (ranks - 1), 'pair')} of {ranks} ranks"
    shorter = "--ranks takes fewer" if loaded else "--mode loaded measures many pairs at once"
    if expected_s > LONGEST_S and plan.budget_s is None:
        raise UserError(
            f"{whole} would take about {format_duration(expected_s)}: give it a --budget, after which the rest is "
            f"skipped, or a smaller --point-time; {shorter}"
        )
    if expected_s <= WORTH_SAYING_S or (plan.budget_s or expected_s) < expected_s:
        return None
    return f"{whole} will take about {format_duration(expected_s)}; --point-time and --budget shorten it; {shorter}"


class RankMatrixForecast(Forecast):
    """Counts rows."""

    def add(self, record: Any) -> str | None:
        """Count a row; return what it gave: ``host 8 B, rank 3 first: 0.31 to 0.35 µs``."""
        if not isinstance(record, RankMatrixRow):
            return None
        self.done += 1
        name = f"{record.transport} {format_size(record.size_bytes)}, rank {record.rank} first"
        return row_in_short(name, record.times_s, len(record.failed), record.moved_bytes if record.window else None)


def forecast(plan: Plan) -> Forecast:
    """Expect a row for each first rank, case and repetition."""
    part: RankMatrixPlan = plan.options
    firsts = plan.world_size if part.mode == "loaded" else len({pair[0] for pair in part.pairs})
    cases = (len(part.latency_sizes_bytes) + len(part.bandwidth_sizes_bytes)) * len(plan.transports)
    return RankMatrixForecast((firsts or plan.world_size) * cases * part.repeats, plan.budget_s)
