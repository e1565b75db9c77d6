"""The jobs of matrices: one of all pairs, then those that measure slow ones again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from volley.benchmarks.matrix import GPUS_POINT_TIME_S, HINT, MatrixOptions, remeasurement
from volley.benchmarks.matrix.cases import RankMatrixCase, cases_of, is_remeasurement
from volley.benchmarks.matrix.records import (
    GpuMatrixPlan,
    RankMatrixPlan,
    RankMatrixRow,
    count_with_host,
    row_in_short,
)
from volley.benchmarks.matrix.remeasurement import in_turn
from volley.benchmarks.matrix.results import results
from volley.benchmarks.matrix.slow_pairs import Pair
from volley.benchmarks.points.jobs import usual_ranks
from volley.errors import MachineError, UserError
from volley.launch.launchers import PAIR
from volley.machine.nvidia_driver import gpu_count, has_driver
from volley.machine.transports import HOST_RATE_BPS, through_host
from volley.records.plan import Plan
from volley.records.run_log import RunLog
from volley.run.jobs import Forecast, Job, JobContext, choose_transports, count_ranks, make_plan
from volley.run.launches import BUDGET, Jobs
from volley.text import count
from volley.units import format_duration, format_size

LONGEST_S = 86_400.0
"""The longest expected time of a matrix without ``--budget``: one day."""

_BESIDE_S = 0.02
"""The time of a pair apart from its samples: synchronisation, opening, calibration."""

LONG_PASSES, SHORT_PASSES, SHORT_PASSES_S = 3, 22, 0.35
"""The windows of a visit, with those to warm up, to calibrate and to verify: three, and of short windows up to 22 more
in this time.  On two cores a visit with windows of 64 messages of 1 MiB took 0.5 s, and of 16 MiB 1.2 s."""


def jobs(options: MatrixOptions, context: JobContext) -> Jobs:
    usual = max(context.ranks_given or len(options.job.hosts) or usual_ranks(options, context), PAIR)
    ranks = count_ranks(options.job, context, usual=usual)
    if ranks < PAIR:
        raise UserError(f"a matrix needs at least {PAIR} ranks, not {ranks}: write --ranks {PAIR} or more")
    granted = context.allocation.nodes if context.allocation else 1
    nodes = min(len(set(options.job.hosts)) or granted, ranks)
    part = RankMatrixPlan(
        mode=options.mode or ("nodes" if nodes > 1 else "isolated"),
        latency_sizes_bytes=list(options.latency),
        bandwidth_sizes_bytes=list(options.bandwidth),
        window=options.windows.window,
        direction=options.windows.direction,
        repeats=options.repeats,
        samples=options.samples,
    )
    transports = choose_transports(options.points.transport, context, usual=("host",))
    plan = make_plan("rank_matrix", part, options, ranks=ranks, transports=transports)
    anyway = "remeasure" in options.given
    again = partial(next_job, inside_launcher=context.position is not None, anyway=anyway)
    expected_s = _expected_s(plan, part, nodes)
    advice = _advice(plan, part, nodes, expected_s)
    crowded = context.on_this_host and ranks > len(os.sched_getaffinity(0))  # then next_job measures nothing again
    if advice and options.remeasure and ranks > PAIR and (anyway or not crowded):
        longest = format_duration(max(remeasurement.LONGEST_S, expected_s))
        advice += f"; measuring slow pairs again takes up to {longest} more"
    job = Job(plan, measuring_s=expected_s)
    return Jobs((job,), next_job=again if options.remeasure else None, advice=advice)


def _turns(mode: str, ranks: int, nodes: int) -> int:
    """Return how many measurements a repetition has one after the other."""
    if mode == "isolated":
        return ranks * (ranks - 1)
    parties = nodes if mode == "nodes" else ranks
    largest = -(-ranks // parties)
    rounds = parties - 1 + parties % 2 if parties > 1 else 0
    return 2 * rounds * largest**2 + largest * (largest - 1)


def _expected_s(plan: Plan, part: RankMatrixPlan, nodes: int) -> float:
    """Return how long the matrix is expected to take."""
    cells = len(plan.transports) * (len(part.latency_sizes_bytes) + len(part.bandwidth_sizes_bytes))
    point_s = plan.sampling.point_time_s if plan.sampling.mode == "adaptive" else 0.0
    window = part.window * (2 if part.direction == "bi" else 1)
    windows_s = [window * size / HOST_RATE_BPS for size in part.bandwidth_sizes_bytes]
    long_s = sum(map(through_host, plan.transports)) * sum(
        LONG_PASSES * each_s + min(SHORT_PASSES * each_s, SHORT_PASSES_S) for each_s in windows_s
    )
    return part.repeats * _turns(part.mode, plan.world_size, nodes) * (_BESIDE_S + cells * point_s + long_s)


def _advice(plan: Plan, part: RankMatrixPlan, nodes: int, expected_s: float) -> str | None:
    """Return how a matrix that takes long gets shorter; refuse one that takes over a day without a budget."""
    ranks = plan.world_size
    whole = f"{count(ranks * (ranks - 1), 'pair')} of {ranks} ranks"
    if part.mode == "nodes":
        whole += f", one of each of {nodes} nodes at a time"
    shorter = "; --ranks takes fewer" if part.mode == "loaded" else "; --mode loaded measures many pairs at once"
    if ranks == PAIR:
        shorter = ""
    if expected_s > LONGEST_S and plan.budget_s is None:
        raise UserError(
            f"{whole} would take about {format_duration(expected_s)}: give it a --budget, after which the rest is "
            f"skipped, or a smaller --point-time{shorter}"
        )
    if plan.budget_s:
        return None
    return f"{whole}: --point-time and --budget shorten it{shorter}"


class RankMatrixForecast(Forecast):
    """Counts rows: of every first rank, case and visit."""

    def __init__(self, plan: Plan) -> None:
        part: RankMatrixPlan = plan.options
        named = part.pairs if part.mode == "isolated" else [pair for pairs in part.rounds for pair in pairs]
        firsts = len({pair[0] for pair in named}) or plan.world_size
        cases = (len(part.latency_sizes_bytes) + len(part.bandwidth_sizes_bytes)) * len(plan.transports)
        super().__init__(firsts * cases * part.repeats, plan.budget_s)

    def add(self, record: Any) -> str | None:
        """Count a row; return what it gave: ``host 8 B, pairs from rank 3: 0.31 to 0.35 µs``."""
        if not isinstance(record, RankMatrixRow):
            return None
        self.done += 1
        name = f"{record.transport} {format_size(record.size_bytes)}, pairs from rank {record.rank}"
        return row_in_short(name, record.times_s, len(record.failed), record.moved_bytes if record.window else None)


# --------------------------------------------------------------------------------------------- pairs measured again


def next_job(
    logs: Sequence[RunLog], left_s: float, say: Callable[[str], None], *, inside_launcher: bool, anyway: bool = False
) -> Job | None:
    """Return the job that measures undecided suspects again; ``None`` if there is none, or no time.

    Args:
        logs: the launches so far.
        left_s: the time that is left of the budget; infinite without one.
        say: shows a message.
        inside_launcher: a launcher started this process, so that no second launch is possible.
        anyway: also where ranks share CPUs, which makes pairs slow that wait for others.
    """
    first = logs[0].run if logs else None
    if first is None or (first.oversubscribed and not anyway) or not all(log.complete for log in logs):
        return None
    plan = next_plan(first.plan, logs)
    if plan is None:
        return None
    if first.plan.budget_s is not None:
        if left_s <= 0:
            say("the time budget is too short to measure slow pairs again")
            return None
        plan = plan.changed(budget_s=left_s)
    if inside_launcher:
        say("slow pairs cannot be measured again: a launcher started this job, so no second job is possible")
        return None
    part: RankMatrixPlan = plan.options
    what = "undecided ones" if any(map(is_remeasurement, logs)) else "those slower than comparable pairs"
    pairs, times = count(len(part.pairs), "pair"), count(part.repeats, "time")
    expected_s = min(len(part.pairs) * part.repeats * _pair_s(plan, logs[-1]), left_s)
    about = f"about {format_duration(expected_s)}"
    return Job(plan, note=f"measuring {pairs} again, {times}, {about}: {what}, and others to compare with")


def next_plan(plan: Plan, logs: Sequence[RunLog]) -> Plan | None:
    """Return the plan of the next round of a matrix; ``None`` if all is decided or the time is up."""
    rounds = [log for log in logs if is_remeasurement(log)]
    cases = [case for case in cases_of(logs) if case.undecided]
    if len(rounds) == len(remeasurement.ROUNDS) or not cases:
        return None
    suspects = in_turn(*(case.undecided for case in cases))
    controls = _controls(cases, suspects)
    spent_s = _elapsed_s(rounds)
    most, repeats = remeasurement.affordable(
        len(suspects),
        len(controls),
        remeasurement.ROUNDS[len(rounds)],
        _pair_s(plan, logs[-1]),
        max(remeasurement.LONGEST_S, _elapsed_s(logs) - spent_s) - spent_s,
    )
    if repeats < 1:
        return None
    again = plan.with_options(
        latency_sizes_bytes=sorted({case.row.size_bytes for case in cases if case.row.window is None}),
        bandwidth_sizes_bytes=sorted({case.row.size_bytes for case in cases if case.row.window is not None}),
        pairs=[list(pair) for pair in in_turn(suspects[:most], controls)],
        repeats=repeats,
        samples=False,
    )
    names = {case.row.transport for case in cases}
    return again.changed(transports=[name for name in plan.transports if name in names])


def _controls(cases: Sequence[RankMatrixCase], suspects: Sequence[Pair]) -> list[Pair]:
    """Return the controls of the kinds that have undecided pairs, without those that are suspects in another case."""
    found: dict[Pair, None] = {}
    for case in cases:
        kinds = {case.kinds.kind(pair) for pair in case.undecided}
        found |= dict.fromkeys(each.pair for each in case.controls if each.kind in kinds and each.pair not in suspects)
    return list(found)


def _pair_s(plan: Plan, log: RunLog) -> float:
    """Return how long one visit of a pair took in a launch.

    In rounds many pairs are visited at once, and one round runs for each chosen pair, at most.
    """
    nodes = {rank.node for rank in log.run.ranks} if log.run else set()
    busy = {"isolated": 0, "nodes": len(nodes), "loaded": plan.world_size}[plan.options.mode]
    together = max(busy // 2, 1)
    rows = {(row.rank, row.repeat): row.pairs for row in log.of(RankMatrixRow)}
    visits = sum(rows.values())
    return _elapsed_s([log]) * together / visits if visits else 0.0


def _elapsed_s(logs: Sequence[RunLog]) -> float:
    return sum(log.end.elapsed_s for log in logs if log.end)


# ------------------------------------------------------------------------------------------------- between GPUs

QUICK_POINT_TIME_S = 0.002
"""The longest time for a cell with ``--format cuda-samples``: the sample, too, is quick."""

BUFFERS_S = 1.0
"""Buffers are allocated, filled and compared in this time: two H100s took 6.1 s for 52 cells of 0.1 s."""


def gpu_jobs(options: MatrixOptions, context: JobContext) -> Jobs:
    if not has_driver():
        raise MachineError(f"there is no NVIDIA driver here, and so no GPU to measure; {HINT}")
    quick = options.as_the_sample
    part = GpuMatrixPlan(
        sections=list(options.sections), gpus=list(options.job.gpus), quick=quick, samples=options.samples
    )
    plan = make_plan("gpu_matrix", part, options)
    if "point_time" not in options.sampling.given:
        quickly = {"point_time_s": QUICK_POINT_TIME_S, "min_visits": 1}
        plan = plan.with_sampling(**quickly if quick else {"point_time_s": GPUS_POINT_TIME_S})
    gpus = len(options.job.gpus) or gpu_count()
    with_host = count_with_host(options.sections)
    cells = gpus * (with_host + (len(options.sections) - with_host) * gpus)
    job = Job(plan, measuring_s=BUFFERS_S + cells * plan.sampling.point_time_s)
    again = next_gpu_job if options.remeasure and not quick else None
    # NVML and CUDA block each other in the driver, so a quick report does without NVML's facts about the GPUs.
    return Jobs((job,), next_job=again, advice=None if options.sampling.budget else BUDGET, hardware=not quick)


MAX_GPU_LAUNCHES = 4
"""A pair that so many launches do not decide is not worth more of them: launches differ as much as it does."""


def next_gpu_job(logs: Sequence[RunLog], left_s: float, _say: object = None) -> Job | None:
    """Return the job that measures the sections with undecided pairs again; ``None`` if there is none, or no time.

    The GPUs take turns in the opposite order: what depends on when a pair is measured is then not what lasts.
    """
    first = logs[0].run if logs else None
    found = results(logs)
    sections = [case.row.section for each in found for case in each.gpu_cases if case.undecided]
    if first is None or not sections or len(found) > 1 or len(logs) == MAX_GPU_LAUNCHES or left_s <= 0:
        return None
    if not all(log.complete for log in logs):
        return None
    order = [device.index for device in found[0].gpus.devices]
    plan = first.plan.with_options(sections=sections, gpus=order[::-1] if len(logs) % 2 else order)
    note = f"measuring {count(len(sections), 'section')} again, in another order: pairs look slow"
    return Job(plan.changed(budget_s=plan.budget_s and left_s), note=note)
