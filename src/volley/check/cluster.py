"""The part of a check that many ranks make together: the launches, and what their records say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from volley.benchmarks.matrix.records import RankMatrixPlan, RankMatrixRow
from volley.check.evidence import Judgement, Visits, joined
from volley.check.judgement import judge
from volley.check.neighbors import LOOKS
from volley.check.places import Names, nics_of, numbers, one_rate
from volley.check.rounds import PARTNERS, matchings
from volley.launch.cluster_map import ClusterMap
from volley.launch.launchers import PAIR, cores
from volley.machine.nvidia_driver import gpu_count, has_driver
from volley.records.plan import Sampling
from volley.records.run_log import RunLog
from volley.run.jobs import Job, JobContext, choose_transports, count_ranks, make_plan
from volley.run.launches import Jobs
from volley.text import count, grouped
from volley.units import format_duration, format_size

VISITS, VISITS_OF_A_MACHINE = 160, 96
"""Of a rank in a launch: each pair is visited several times, more often where there are few.  On one machine, whose
other layers take most of a minute, it is visited less often."""
REPEATS, REPEATS_OF_A_MACHINE = range(4, 17), range(3, 17)
MOST_RANKS_OF_A_MACHINE = 16
ALONE = 3
"""So many times as many partners are met where there can be no second launch, because a launcher started volley."""


def repeats_of(rounds: Sequence[object], *, one_machine: bool = False) -> int:
    """Return how often each pair is visited."""
    visits, repeats = (VISITS_OF_A_MACHINE, REPEATS_OF_A_MACHINE) if one_machine else (VISITS, REPEATS)
    return min(max(visits // max(len(rounds), 1), repeats[0]), repeats[-1])


LATENCY_BYTES, BANDWIDTH_BYTES = 8, 1 << 20
WINDOW = 8
"""Messages in flight: 8 MiB take 7 ms on 10 Gbit/s Ethernet, so that a visit has some samples."""
POINT_S = 0.02
"""The time of a visit and a message size.  A visit must not be precise: a part has a hundred of them."""
BESIDE_S = 0.05
"""The time of a visit apart from its samples: synchronisation, opening, calibration."""
SEED = 34
"""Every check of as many ranks has the same rounds, so that two checks can be compared."""

TOGETHER = "among all"
"""Is in the names of times that all ranks measured together."""
Case = tuple[str, str, int]
"""Transport, pattern and size of the messages."""


def ranks_and_transports(options: Any, context: JobContext) -> tuple[int, list[str]]:
    """Return how many ranks measure, and the transports: between nodes with GPUs also those that move GPU memory."""
    granted, hosts = context.allocation, set(options.job.hosts)
    nodes = len(hosts) or (granted.nodes if granted else 1)
    known = {each.name for each in context.about.transports} if nodes > 1 and has_driver() and gpu_count() else ()
    usual = ("host", *(name for name in ("aware", "nccl") if name in known))
    transports = choose_transports(options.transport, context, usual=usual)
    if any(each.memory == "device" for each in context.about.of(transports)):  # two ranks do not share a GPU
        of_node = (granted.gpus_per_node if granted and not hosts else None) or gpu_count()
    else:
        of_node = 1 if nodes > 1 else min(cores(), MOST_RANKS_OF_A_MACHINE)
    return count_ranks(options.job, context, usual=max(context.ranks_given or nodes * of_node, PAIR)), transports


class Measured:
    """What the launches of a check measured, as arrays: the records of 16,384 nodes take a gigabyte for each launch."""

    def __init__(self, cluster: ClusterMap, budget_s: float) -> None:
        self.map, self.budget_s = cluster, budget_s
        self.visits: dict[Case, Visits] = {}
        self.times: dict[str, list[float]] = {}
        """The median of all pairs in seconds, of each repetition, by what was measured."""
        self.launches = self.repetitions = self.rounds = 0
        self.judged: dict[Case, Judgement] = {}
        self.reasons: dict[Case, str] = {}
        """Why pairs were skipped."""

    def jobs(self, options: Any, context: JobContext) -> Jobs:
        """Return the first launch, and what makes the others: the matrix between ranks, with the rounds of a check."""
        alone = context.position is not None
        ranks, transports = ranks_and_transports(options, context)
        hosts = list(options.job.hosts) or list(context.allocation.hosts if context.allocation else ())
        leaves = []
        if len(hosts) and ranks % len(hosts) == 0:  # the launcher fills a node before the next one
            leaf_of = numbers([next(iter(self.map.path(host)), "") for host in hosts])
            leaves = [leaf for leaf in leaf_of for _ in range(ranks // len(hosts))]
        partners = PARTNERS * ALONE if alone else PARTNERS
        rounds = matchings(ranks, random.Random(SEED), leaves, partners)  # noqa: S311  a schedule
        repeats = repeats_of(rounds, one_machine=len(hosts) < 2) * (ALONE if alone and ranks <= PARTNERS else 1)
        part = RankMatrixPlan(
            mode="loaded",
            latency_sizes_bytes=[LATENCY_BYTES],
            bandwidth_sizes_bytes=[BANDWIDTH_BYTES],
            window=WINDOW,
            rounds=[[list(pair) for pair in pairs] for pairs in rounds],
            repeats=repeats,
        )
        plan = make_plan("rank_matrix", part, options, ranks=ranks, transports=transports)
        sampling = Sampling(ci=0.01, point_time_s=POINT_S, size_time_s=None, tail=False)
        plan = plan.changed(sampling=sampling, budget_s=self.budget_s)
        expected_s = len(rounds) * repeats * (BESIDE_S + 2 * len(transports) * POINT_S)
        takes = format_duration(min(expected_s, self.budget_s))
        note = f"{ranks} ranks measure at once, in {count(len(rounds), 'round')}: about {takes}"
        return Jobs((Job(plan),), next_job=None if alone else self.next_job, note=f"{note} after the start")

    def next_job(self, logs: Sequence[RunLog], left_s: float, _say: object = None) -> Job | None:
        """Return the launch in which undecided parts meet good ones; ``None`` if all is decided or the time is over."""
        last = logs[-1] if logs else None
        if last is None or last.run is None or last.end is None or not last.complete or len(logs) == LOOKS:
            return None
        if left_s < last.end.elapsed_s or not any(each.again for each in self.judgements(logs).values()):
            return None
        leaves = Names(last.run.ranks, self.map).places.leaf.tolist()
        rounds = matchings(len(leaves), random.Random(SEED + len(logs)), leaves)  # noqa: S311  a schedule
        plan = last.run.plan.with_options(rounds=[[list(pair) for pair in each] for each in rounds])
        return Job(plan.changed(budget_s=left_s), note="measuring with other partners: not everything is decided")

    def judgements(self, logs: Sequence[RunLog]) -> dict[Case, Judgement]:
        """Judge all launches: one judgement for each transport, pattern and size.

        Each launch is read once: of its rows it keeps those with wrong data.  Where no launch is new the judgement is
        the last one.
        """
        new = logs[self.launches :]
        for log in new:
            self._add(log)
        run = next((log.run for log in logs if log.run), None)
        if new and run is not None:
            names = Names(run.ranks, self.map, nics_of(run.plan.launch), one_rate(run.plan.launch))
            self.judged = {
                case: judge(its, names.places, one_way=case[1] == "stream", shared_nodes=names.one_node)
                for case, its in self.visits.items()
            }
        return self.judged

    def _add(self, log: RunLog) -> None:
        """Add the visits of a launch."""
        repeats = log.run.plan.options.repeats if log.run else 0
        ranks = len(log.run.ranks) if log.run else 0
        rounds = log.run.plan.options.rounds if log.run else []
        keys = np.array([first * ranks + second for pairs in rounds for first, second in pairs], np.int64)
        in_order = np.argsort(keys)
        round_of = np.repeat(np.arange(len(rounds)), [len(pairs) for pairs in rounds])[in_order]
        for case, rows in grouped(log.of(RankMatrixRow), attrgetter("transport", "pattern", "size_bytes")).items():
            counts = [len(row.medians) for row in rows]
            units_s = np.repeat([row.unit_s for row in rows], counts)
            lows_s, medians_s = (  # NaN where there is none
                np.array([*chain.from_iterable(columns)], np.float64) * units_s
                for columns in ([row.lows for row in rows], [row.medians for row in rows])
            )
            if skipped := [each.reason for row in rows for each in row.skipped]:
                self.reasons[case] = skipped[0]
            wrong = np.zeros(len(units_s), np.bool_)
            for end, row in zip(np.cumsum(counts).tolist(), rows, strict=True):
                if row.failed:
                    wrong[end - row.pairs : end] = np.isin(row.partners, [each.rank for each in row.failed])
            repetition = self.repetitions + np.repeat([row.repeat for row in rows], counts)
            first = np.repeat([row.rank for row in rows], counts)
            second = np.array([*chain.from_iterable([row.partners for row in rows])], np.int64)
            turn = np.zeros(len(first), np.int64)
            if len(keys):
                turn = round_of[np.minimum(np.searchsorted(keys[in_order], first * ranks + second), len(keys) - 1)]
            time_s = np.where(np.isnan(lows_s), medians_s, lows_s)
            its = Visits(first, second, repetition, self.rounds + turn, time_s, wrong)
            self.visits[case] = joined(self.visits[case], its) if case in self.visits else its
            transport, pattern, size_bytes = case
            name = f"{pattern} {TOGETHER} {ranks} ranks: {transport}, {format_size(size_bytes)}"
            turns = [
                medians_s[(repetition == self.repetitions + turn) & ~np.isnan(medians_s)] for turn in range(repeats)
            ]
            if usual := [float(np.median(those)) for those in turns if len(those)]:
                self.times.setdefault(name, []).extend(usual)
        log.records = [row for row in log.records if row.failed]
        self.launches += 1
        self.repetitions += repeats
        self.rounds += max(len(rounds), 1)
