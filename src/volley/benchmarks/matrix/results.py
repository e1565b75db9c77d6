"""The results of matrices: the cases of each series of launches, and what is compared between runs.

All quantities are in SI units: seconds and bytes per second.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import attrgetter

import numpy as np

from volley.benchmarks.matrix.cases import (
    HOST,
    GpuMatrixCase,
    RankMatrixCase,
    cases_of,
    gpu_case,
    hosts_and_nodes,
    identity_of,
    is_remeasurement,
    kinds_of_pairs,
    numbers_of,
    seconds_of,
)
from volley.benchmarks.matrix.records import GpuMatrixGpus, GpuMatrixPlan, GpuMatrixRow, RankMatrixPlan, RankMatrixRow
from volley.benchmarks.matrix.slow_groups import slow_groups
from volley.benchmarks.matrix.slow_pairs import Pair, PairComparison
from volley.records.launch_series import OF_THE_NODE, LaunchSeries, conditions, request_of, series_of
from volley.records.plan import Plan
from volley.records.record_types import Run
from volley.records.run_log import Observable, RunLog
from volley.statistics.two_runs import medians_of
from volley.text import grouped
from volley.units import format_size


@dataclass(frozen=True)
class MatrixResults:
    """What was measured in one series of launches, between ranks or between GPUs."""

    series: LaunchSeries
    rank_cases: tuple[RankMatrixCase, ...]
    gpu_cases: tuple[GpuMatrixCase, ...]
    gpus: GpuMatrixGpus
    """The record of the first launch that has GPUs, or of the first; in CUDA's order."""
    numbers: Mapping[str, int]
    """The number of each GPU by UUID."""

    @property
    def of_gpus(self) -> bool:
        plan = self.series.run and self.series.run.plan
        return isinstance(plan.options, GpuMatrixPlan) if plan else bool(self.gpu_cases or self.gpus.devices)

    @property
    def cases(self) -> tuple[RankMatrixCase, ...] | tuple[GpuMatrixCase, ...]:
        return self.rank_cases or self.gpu_cases

    @property
    def access(self) -> dict[Pair, bool | None]:
        """Whether a GPU can access the memory of another one, or its own; ``None``: the record does not say."""
        return {
            (self.numbers[one.uuid], self.numbers[two.uuid]): self.gpus.can(first, second)
            for first, one in enumerate(self.gpus.devices)
            for second, two in enumerate(self.gpus.devices)
        }

    @property
    def unreachable(self) -> list[Pair]:
        return [pair for pair, can in self.access.items() if can is False]


def results(logs: Sequence[RunLog]) -> list[MatrixResults]:
    """Return the results of each series: launches of one request that see the same GPUs, and, between ranks, those
    that measured suspects of it again."""
    return [_results(each) for each in series_of(logs, _request())]


def _results(series: LaunchSeries) -> MatrixResults:
    logs = series.logs
    records = [record for log in logs for record in log.of(GpuMatrixGpus)] or [GpuMatrixGpus(devices=[])]
    gpus = next((record for record in records if record.devices), records[0])
    numbers = numbers_of(gpus.devices, logs)
    sections = dict.fromkeys(row.section for log in logs for row in log.of(GpuMatrixRow))
    return MatrixResults(
        series=series,
        rank_cases=cases_of(logs),
        gpu_cases=tuple(gpu_case(section, numbers, logs) for section in sections),
        gpus=gpus,
        numbers=numbers,
    )


def _request() -> Callable[[RunLog], Hashable]:
    """Return what gives a launch of all pairs and those that measure its suspects again the same request.

    Suspects are measured at some of the sizes and on some of the transports of an earlier launch.  Launches between
    GPUs belong together if they see the same GPUs.
    """
    wholes: dict[Hashable, dict[Hashable, Plan]] = {}

    def request(log: RunLog) -> Hashable:
        if log.run is None or not isinstance(log.run.plan.options, RankMatrixPlan):
            gpus = (device.uuid for record in log.of(GpuMatrixGpus) for device in record.devices)
            plan = log.run and log.run.plan
            if plan and isinstance(plan.options, GpuMatrixPlan):  # one that measures slow pairs again has other ones
                plan = plan.with_options(sections=[], gpus=[])
            return plan and request_of(plan), tuple(sorted(gpus))
        # Launches that repeat each other differ in these.
        plan = log.run.plan.with_options(pairs=[], repeats=1, samples=False)
        own = request_of(plan)
        any_part = plan.with_options(latency_sizes_bytes=[], bandwidth_sizes_bytes=[]).changed(transports=[])
        machine = (
            frozenset((name, value) for name, value in conditions(log).items() if name not in OF_THE_NODE),
            request_of(any_part),
        )
        earlier = wholes.setdefault(machine, {})
        if not log.run.plan.options.pairs:
            earlier.setdefault(own, plan)
            return own
        parts = attrgetter("transports", "options.latency_sizes_bytes", "options.bandwidth_sizes_bytes")
        for key, whole in reversed(earlier.items()):
            if all(set(some) <= set(every) for some, every in zip(parts(plan), parts(whole), strict=True)):
                return key
        return own

    return request


def observables(log: RunLog) -> Iterator[Observable]:
    """Yield the time of each pair; of several visits their median.  Launches that measure suspects again have none."""
    if is_remeasurement(log):
        return
    for rows in grouped(log.of(RankMatrixRow), identity_of).values():
        row = rows[0]
        parts = (row.transport, row.pattern, row.mode, *(["both ways"] if row.direction == "bi" else []))
        series = f"{', '.join(parts)} at {format_size(row.size_bytes)}"
        for first, visits in grouped(rows, lambda row: row.rank).items():
            partners = np.array(sorted({*chain.from_iterable(each.partners for each in visits)}), np.int64)
            times = np.full((len(visits), len(partners)), np.nan)
            for visit, each in enumerate(visits):
                times[visit, np.searchsorted(partners, each.partners)] = seconds_of(each, each.medians)
            medians = medians_of(times)
            there = ~np.isnan(medians)
            yield Observable(series, _names(first, *partners[there].tolist()), medians[there].tolist(), row.moved_bytes)
    for case in (case for result in results([log]) for case in result.gpu_cases):
        for pair, time_s in case.times.items():
            ends = ["host" if end == HOST else str(end) for end in pair]
            if case.row.ends.endswith("to host"):
                ends.reverse()
            yield Observable(case.name, [" → ".join(ends)], [time_s], case.moved_bytes)


@lru_cache(maxsize=4096)
def _names(first: int, *seconds: int) -> tuple[str, ...]:
    """Return the names of pairs, which all sizes and both of two runs share: a thousand ranks have a million."""
    return tuple(f"{first} → {second}" for second in seconds)


def parts(run: Run, at: Sequence[str], ratios: Sequence[float]) -> list[tuple[str, Sequence[int]]]:
    """Name what the pairs ``at`` share that are nearly all slower, or faster, and return the numbers of the pairs."""
    if not isinstance(run.plan.options, RankMatrixPlan):
        return []
    pairs = np.fromstring(" ".join(at).replace("→", ""), np.int64, sep=" ").reshape(-1, 2)
    known = {rank.rank: rank for rank in run.ranks}
    ranks: list[int] = np.unique(pairs).tolist()
    kinds = kinds_of_pairs(ranks, known)
    hosts, nodes = hosts_and_nodes(ranks, known)
    places = tuple(np.searchsorted(ranks, pairs).T)
    found: list[tuple[str, Sequence[int]]] = []
    for numbers in (np.array(ratios), 1 / np.array(ratios)):
        matrix = np.full(kinds.numbers.shape, np.nan)
        matrix[places] = numbers
        compared = PairComparison(kinds, matrix, np.zeros(matrix.shape, np.int64))
        groups = slow_groups(compared, nodes, hosts)
        found += [(group.name, np.flatnonzero(group.places[places]).tolist()) for group in groups]
    return found
