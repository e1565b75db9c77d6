"""The jobs that measure suspect pairs again: one after another, until all suspects are decided.

Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from volley.benchmarks.rank_matrix import slow_pairs
from volley.benchmarks.rank_matrix.records import RankMatrixPlan, RankMatrixRow
from volley.benchmarks.rank_matrix.results import RankMatrixCase, cases_of, is_remeasurement
from volley.benchmarks.shared.matrix.comparable_pairs import Pair, in_turn
from volley.run.jobs import Job
from volley.run.plan import Plan
from volley.run.run_log import RunLog
from volley.text import count


def next_job(
    logs: Sequence[RunLog], elapsed_s: float, say: Callable[[str], None], *, inside_launcher: bool
) -> Job | None:
    """Return the job that measures undecided suspects again; ``None`` if there is none, or no time.

    Args:
        logs: of all launches so far.
        elapsed_s: seconds since the session began.
        say: shows a sentence.
        inside_launcher: a launcher started this process, so that no second launch is possible.
    """
    first = logs[0].run if logs else None
    if first is None or not all(log.complete for log in logs):
        return None
    plan = next_plan(first.plan, logs)
    if plan is None:
        return None
    if first.plan.budget_s is not None:
        left_s = first.plan.budget_s - elapsed_s
        if left_s <= 0:
            say("the time budget leaves no time to measure slow pairs again")
            return None
        plan = msgspec.structs.replace(plan, budget_s=left_s)
    if inside_launcher:
        say("slow pairs cannot be measured again: a launcher started this job, and allows no second one")
        return None
    part: RankMatrixPlan = plan.options
    what = "undecided ones" if any(map(is_remeasurement, logs)) else "those slower than comparable pairs"
    pairs, times = count(len(part.pairs), "pair"), count(part.repeats, "time")
    return Job(plan, note=f"measuring {pairs} again, {times}: {what}, and others to compare with")


def next_plan(plan: Plan, logs: Sequence[RunLog]) -> Plan | None:
    """Return the plan of the next round; ``None`` if all is decided or the time is up.

    Args:
        plan: that of the whole matrix.
        logs: all launches so far, the rounds among them.
    """
    rounds = [log for log in logs if is_remeasurement(log)]
    cases = [case for case in cases_of(logs) if case.undecided]
    if len(rounds) == len(slow_pairs.ROUNDS) or not cases:
        return None
    suspects = in_turn(*(case.undecided for case in cases))
    controls = _controls(cases, suspects)
    spent_s = _elapsed_s(rounds)
    most, repeats = slow_pairs.affordable(
        len(suspects),
        len(controls),
        slow_pairs.ROUNDS[len(rounds)],
        _pair_s(plan, logs[-1]),
        max(slow_pairs.LONGEST_S, _elapsed_s(logs) - spent_s) - spent_s,
    )
    if repeats < 1:
        return None
    part = msgspec.structs.replace(
        plan.options,
        latency_sizes_bytes=sorted({case.row.size_bytes for case in cases if case.row.window is None}),
        bandwidth_sizes_bytes=sorted({case.row.size_bytes for case in cases if case.row.window is not None}),
        pairs=[list(pair) for pair in in_turn(suspects[:most], controls)],
        repeats=repeats,
        samples=False,
    )
    names = {case.row.transport for case in cases}
    return msgspec.structs.replace(plan, options=part, transports=[name for name in plan.transports if name in names])


def _controls(cases: Sequence[RankMatrixCase], suspects: Sequence[Pair]) -> list[Pair]:
    """Return the controls of the kinds that have undecided pairs, without those that are suspects in another case."""
    found: dict[Pair, None] = {}
    for case in cases:
        kinds = {case.kinds.kind(pair) for pair in case.undecided}
        chosen = [each.pair for each in slow_pairs.controls(case.comparison, case.suspects) if each.kind in kinds]
        found.update(dict.fromkeys(pair for pair in chosen if pair not in suspects))
    return list(found)


def _pair_s(plan: Plan, log: RunLog) -> float:
    """Return how long one visit of a pair took in a launch.

    Loaded, many pairs are visited at once, and one round of the round robin runs for each chosen pair, at most.
    """
    together = plan.world_size // 2 if plan.options.mode == "loaded" else 1
    rows = {(row.rank, row.repeat): row.pairs for row in log.of(RankMatrixRow)}
    visits = sum(rows.values())
    return _elapsed_s([log]) * together / visits if visits else 0.0


def _elapsed_s(logs: Sequence[RunLog]) -> float:
    return sum(log.end.elapsed_s for log in logs if log.end)
