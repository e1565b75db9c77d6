"""The cases of matrices, between ranks or between GPUs: cells, kinds of pairs, and slow pairs, from their rows.

All quantities are in SI units: seconds and bytes per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations

import msgspec
import numpy as np

from volley.benchmarks.matrix import remeasurement, slow_groups, slow_pairs
from volley.benchmarks.matrix.records import GpuMatrixCell, GpuMatrixRow, RankMatrixPlan, RankMatrixRow
from volley.benchmarks.matrix.remeasurement import Remeasurement
from volley.benchmarks.matrix.slow_groups import SlowGroup
from volley.benchmarks.matrix.slow_pairs import Pair, PairComparison, PairKinds, PairRatio
from volley.machine.hardware import Device
from volley.machine.line_rate import LineRate, between
from volley.machine.transports import Route
from volley.records.record_types import Mismatch, Rank, Status
from volley.records.run_log import RunLog
from volley.statistics.launches import of_observations, stricter
from volley.statistics.two_runs import Booleans, Floats, Integers, medians_of
from volley.text import grouped
from volley.units import format_size

KINDS = ("same cache", "same NUMA node", "same socket", "same node", "off node", "unknown")
"""The kinds of pairs of ranks by distance, the nearest first."""

HOST = -1
"""The number of the host, in the place of a GPU's number."""

WITHIN = "within a GPU"
"""The kind of a GPU with itself."""

_COUNTS = ("samples", "elapsed_s", "messages_timed", "messages_verified")
"""Fields of a cell that are added over launches."""


@dataclass(frozen=True)
class Unmeasured:
    """Why a pair has no number."""

    status: Status
    reason: str | None = None
    mismatch: Mismatch | None = None


@dataclass(frozen=True, kw_only=True)
class MatrixCase:
    """One quantity at one message size, between all pairs."""

    name: str
    """What sentences call it."""
    row: GpuMatrixRow | RankMatrixRow
    """Any of its rows, for the fields that all rows share."""
    moved_bytes: int | None
    """Bytes that move in the time of a cell, each counted once; ``None``: the time is not that of messages."""
    shows_rate: bool
    """The bandwidth is shown, and not the time."""
    verified: bool
    """Data of all good cells was checked."""
    times_s: Floats
    """Seconds of each good pair; NaN elsewhere."""
    unmeasured: Mapping[Pair, Unmeasured]
    """The pairs that the records have without a number, in order."""
    line_rates: Mapping[Pair, LineRate]
    comparison: PairComparison
    """By ``times_s``."""
    suspects: tuple[PairRatio, ...]
    """The pairs that took longer than comparable pairs."""
    groups: tuple[SlowGroup, ...]
    """Slow pairs that share a part of the machine."""

    @property
    def kinds(self) -> PairKinds:
        return self.comparison.kinds

    @property
    def alone(self) -> list[PairRatio]:
        """The suspects of no group."""
        return [each for each in self.suspects if not self.of_groups[self.kinds.place(each.pair)]]

    @cached_property
    def of_groups(self) -> Booleans:
        """Where the pairs of groups are."""
        return slow_groups.any_of(self.groups, self.times_s)

    @property
    def pairs(self) -> int:
        return int(np.count_nonzero(~np.isnan(self.times_s))) + len(self.unmeasured)

    @property
    def firsts(self) -> tuple[int, ...]:
        return self.kinds.firsts

    @property
    def second_ends(self) -> tuple[int, ...]:
        return self.kinds.second_ends

    @cached_property
    def times(self) -> dict[Pair, float]:
        where = ~np.isnan(self.times_s)
        return dict(zip(self.kinds.pairs(where), self.times_s[where].tolist(), strict=True))

    @property
    def unit(self) -> str:
        return "GB/s" if self.shows_rate else "µs"

    @cached_property
    def numbers(self) -> Floats:
        """What tables show, in ``unit``; NaN where a pair has no number."""
        return (self.moved_bytes or 0) / self.times_s / 1e9 if self.shows_rate else self.times_s * 1e6

    def shown(self, pair: Pair) -> float | None:
        return float(self.numbers[self.kinds.place(pair)]) if pair in self.times else None

    def rate_Bps(self, pair: Pair) -> float | None:
        """The bandwidth of a pair, both directions together."""
        return self.moved_bytes / self.times[pair] if self.moved_bytes and pair in self.times else None

    def of_line_rate(self, pair: Pair) -> float | None:
        rate, line_rate = self.rate_Bps(pair), self.line_rates.get(pair)
        return rate / line_rate.of(self.row.direction) if rate and line_rate else None


@dataclass(frozen=True, kw_only=True)
class RankMatrixCase(MatrixCase):
    """One pattern of messages at one size on one transport, between all ranks.

    A cell of several visits holds their median, and their range in place of an interval.
    """

    row: RankMatrixRow
    nodes: tuple[int, ...]
    """The node of each rank; -1 if it is not known."""
    lows_s: Floats
    """Of a pair of several visits the least median, of one visit the lower end of its interval; NaN without one."""
    highs_s: Floats
    samples: Integers
    """Of all visits of each pair."""
    there: Booleans
    """The pairs that the records have."""
    controls: tuple[PairRatio, ...]
    """What is measured again beside the suspects."""
    remeasured: Mapping[Pair, Remeasurement]
    """The suspects that were measured again."""

    @property
    def undecided(self) -> list[Pair]:
        """The suspects that are neither flagged nor cleared, the most urgent first."""
        return remeasurement.undecided(self.suspects, self.remeasured)


@dataclass(frozen=True, kw_only=True)
class GpuMatrixCase(MatrixCase):
    """One section: one metric between all GPUs, or between them and the host."""

    row: GpuMatrixRow
    cells: Mapping[Pair, GpuMatrixCell]
    """Of all pairs, in order."""
    launches: int
    """Those that measured the section.  One launch does not tell what lasts: its slow pairs are not confirmed."""
    undecided: bool
    """Pairs are slow, and it takes another launch to tell whether that lasts."""


def cases_of(logs: Sequence[RunLog]) -> tuple[RankMatrixCase, ...]:
    """Return the cases of launches that belong to one series.

    Launches of chosen pairs beside one of all pairs are those in which suspects were measured again.
    """
    whole = [log for log in logs if not is_remeasurement(log)]
    again = [log for log in logs if is_remeasurement(log)] if whole else []
    found = grouped((row for log in whole or logs for row in log.of(RankMatrixRow)), identity_of)
    return tuple(_rank_case(rows, logs, _repetitions(identity, again)) for identity, rows in found.items())


def is_remeasurement(log: RunLog) -> bool:
    options = log.run.plan.options if log.run else None
    return isinstance(options, RankMatrixPlan) and bool(options.pairs)


def hosts_and_nodes(ranks: Sequence[int], known: Mapping[int, Rank]) -> tuple[list[str], tuple[int, ...]]:
    placed = [known.get(rank) for rank in ranks]
    return [rank.host if rank else "" for rank in placed], tuple(rank.node if rank else -1 for rank in placed)


def identity_of(row: RankMatrixRow) -> tuple[object, ...]:
    return row.transport, row.mode, row.pattern, row.direction, row.window, row.size_bytes


def _repetitions(identity: tuple[object, ...], again: Sequence[RunLog]) -> list[list[dict[Pair, float]]]:
    """Return the seconds of each pair in its least disturbed visit, for each launch ``again`` and its repetitions."""
    found: list[dict[int, dict[Pair, float]]] = [{} for _ in again]
    for launch, log in zip(found, again, strict=True):
        for row in (row for row in log.of(RankMatrixRow) if identity_of(row) == identity):
            times = launch.setdefault(row.repeat, {})
            for second, low, middle in zip(row.partners, row.lows, row.medians, strict=True):
                if least := low or middle:
                    times[row.rank, second] = least * row.unit_s
    return [[*launch.values()] for launch in found if launch]


def _rank_case(
    rows: Sequence[RankMatrixRow], logs: Sequence[RunLog], again: Sequence[Sequence[Mapping[Pair, float]]]
) -> RankMatrixCase:
    """Put the visits of each pair together, and judge each pair by its least disturbed visits.

    The lower bound of a visit's interval, or without one its median, is its time when it was disturbed least.
    """
    first = rows[0]
    known = {rank.rank: rank for log in logs if log.run for rank in log.run.ranks}
    ends = {*known, *(row.rank for row in rows)}
    for row in rows:
        ends.update(row.ranks or range(row.pairs + 1))
    ranks = tuple(sorted(ends))
    kinds = kinds_of_pairs(ranks, known)
    by_first = grouped(rows, lambda row: row.rank)
    shape = (max(map(len, by_first.values())), len(ranks), len(ranks))
    medians, lows, highs = (np.full(shape, np.nan) for _ in range(3))
    samples = np.zeros(shape, np.int64)
    there, failed = np.zeros(shape[1:], bool), np.zeros(shape[1:], bool)
    for rank, visits in by_first.items():
        place = kinds.rows[rank]
        for visit, row in enumerate(visits):
            columns = np.searchsorted(ranks, row.partners)
            medians[visit, place, columns] = seconds_of(row, row.medians)
            lows[visit, place, columns] = seconds_of(row, row.lows)
            highs[visit, place, columns] = seconds_of(row, row.highs or [None])
            samples[visit, place, columns] = row.samples
            there[place, columns] = True
            failed[place, [kinds.columns[each.rank] for each in row.failed]] = True
    medians[:, failed] = np.nan  # one visit that failed makes the cell failed, without a number
    measured = ~np.isnan(medians)
    several = np.count_nonzero(measured, axis=0) > 1
    bounded = measured & ~np.isnan(highs) & ~several
    times_s = medians_of(medians)
    least = np.where(np.isnan(lows), medians, lows)
    least[:, failed] = np.nan
    usual, at_best = (slow_pairs.compare(of(least), kinds) for of in (medians_of, np.fmin.reduce))
    hosts, nodes = hosts_and_nodes(ranks, known)
    groups = slow_groups.slow_groups(usual, nodes, hosts)
    found = remeasurement.suspects(usual, at_best, groups)
    controls = remeasurement.controls(usual, found)
    silent = any(each.transport == first.transport and each.memory == "none" for log in logs for each in log.transports)
    return RankMatrixCase(
        name=f"{first.transport} at {format_size(first.size_bytes)}",
        row=first,
        nodes=nodes,
        moved_bytes=None if silent else first.moved_bytes,
        shows_rate=not silent and first.window is not None,
        verified=0 < int(np.count_nonzero(measured)) <= sum(row.messages_verified for row in rows),
        times_s=times_s,
        lows_s=np.fmin.reduce(np.where(several, medians, np.where(bounded, lows, np.nan))),
        highs_s=np.fmax.reduce(np.where(several, medians, np.where(bounded, highs, np.nan))),
        samples=np.sum(samples, axis=0, where=measured),
        there=there,
        unmeasured=_unmeasured(rows, kinds, there & np.isnan(times_s)),
        line_rates=_line_rates(first.transport, [known[rank] for rank in ranks if rank in known], logs),
        comparison=slow_pairs.compare(times_s, kinds),
        groups=tuple(groups),
        suspects=tuple(found),
        controls=tuple(controls),
        remeasured=remeasurement.judge_all(found, again, controls),
    )


def seconds_of(row: RankMatrixRow, numbers: Sequence[float | None]) -> Floats:
    return np.array(numbers, np.float64) * row.unit_s


def _unmeasured(rows: Sequence[RankMatrixRow], kinds: PairKinds, where: Booleans) -> dict[Pair, Unmeasured]:
    found: dict[Pair, Unmeasured] = {}
    for row in rows:
        for each in row.failed:
            found.setdefault((row.rank, each.rank), Unmeasured("failed", each.reason, each.mismatch))
    for row in rows:
        for skipped in row.skipped:
            for rank in skipped.ranks:
                found.setdefault((row.rank, rank), Unmeasured("skipped", skipped.reason))
    return {pair: found.get(pair, Unmeasured("ok")) for pair in kinds.pairs(where)}


def kinds_of_pairs(ranks: Sequence[int], known: Mapping[int, Rank]) -> PairKinds:
    """Return the distance of each two ranks.

    Ranks that may run on several sockets count as on the same node, no nearer.  Where no socket has several NUMA nodes,
    or last-level caches, they say no more than the socket.
    """
    placed = [known.get(rank) for rank in ranks]
    nodes = np.array([rank.node if rank else -1 for rank in placed], np.int64)
    same_node = nodes == nodes[:, np.newaxis]

    def share(part: str) -> Booleans:
        parts = [getattr(rank, part) if rank else [] for rank in placed]
        own = np.array([each[0] if len(each) == 1 else -1 for each in parts], np.int64)
        both: Booleans = same_node & (own == own[:, np.newaxis]) & (own >= 0)
        return both

    same_socket = share("sockets")
    nearer = [same_socket & share(part) for part in ("caches", "numa_nodes")]
    nearer = [np.zeros_like(each) if np.array_equal(each, same_socket) else each for each in nearer]
    unknown = (nodes < 0) | (nodes < 0)[:, np.newaxis]
    numbers = np.select([unknown, *nearer, same_socket, same_node], [5, 0, 1, 2, 3], 4)
    return PairKinds(tuple(ranks), tuple(ranks), numbers, KINDS)


def _line_rates(transport: str, ranks: Sequence[Rank], logs: Sequence[RunLog]) -> dict[Pair, LineRate]:
    hosts = grouped((rank for rank in ranks if rank.device), lambda rank: rank.host)
    found: dict[Pair, LineRate] = {}
    for log in (log for log in reversed(logs) if log.hardware):  # the first launch decides
        for one, other in (pair for here in hosts.values() for pair in permutations(here, 2)):
            if rate := log.line_rate(transport, (one, other)):
                found[one.rank, other.rank] = rate
    return found


def numbers_of(devices: Sequence[Device], logs: Sequence[RunLog]) -> dict[str, int]:
    """Number the GPUs by UUID, whatever CUDA_VISIBLE_DEVICES made of their order.

    The numbers are NVML's if they are known; else PCI addresses are counted.
    """
    known = {gpu.uuid: gpu.index for log in logs for record in log.hardware for gpu in record.gpus}
    if all(device.uuid in known for device in devices):
        return {device.uuid: known[device.uuid] for device in devices}
    ordered = sorted({device.uuid: device for device in devices}.values(), key=lambda device: device.pci)
    return {device.uuid: number for number, device in enumerate(ordered)}


def _over_launches(cells: Sequence[GpuMatrixCell]) -> GpuMatrixCell:
    """Return what people see of a pair: the median of the medians of its launches; one failure fails it."""
    worst = min(cells, key=lambda cell: ("failed", "skipped", "ok").index(cell.status))
    times_s = [cell.median_s for cell in cells if cell.median_s]
    if len(cells) == 1 or worst.status != "ok" or not times_s:
        return worst
    time = of_observations(times_s)
    sums = {name: sum(getattr(cell, name) for cell in cells) for name in _COUNTS}
    return msgspec.structs.replace(worst, median_s=time.median, low_s=time.low, high_s=time.high, **sums)


def _medians(cells: Mapping[Pair, GpuMatrixCell]) -> dict[Pair, float]:
    return {pair: cell.median_s for pair, cell in cells.items() if cell.median_s}


def gpu_case(section: str, numbers: Mapping[str, int], logs: Sequence[RunLog]) -> GpuMatrixCase:
    gpus = dict(numbers)
    rows = [(launch, row) for launch, log in enumerate(logs) for row in log.of(GpuMatrixRow) if row.section == section]
    for uuid in (each for _, row in rows for each in (row.gpu, *(cell.gpu for cell in row.cells)) if each is not None):
        gpus.setdefault(uuid, len(gpus))  # of a run whose record of GPUs is missing
    launches: dict[int, dict[Pair, GpuMatrixCell]] = {}
    line_rates: dict[Pair, LineRate] = {}
    kinds: dict[Pair, str] = {}
    for launch, row, cell in ((number, each, cell) for number, each in rows for cell in each.cells):
        pair = (HOST if row.gpu is None else gpus[row.gpu], gpus[cell.gpu])
        launches.setdefault(launch, {})[pair] = cell
        if row.gpu == cell.gpu:
            kinds[pair] = WITHIN
            continue
        route: Route = "direct" if cell.peer_access else "staged"  # without peer access, CUDA copies through the host
        ends = (row.gpu or cell.gpu, cell.gpu)
        rate = next((found for log in logs if (found := between(route, ends, log.hardware))), None)
        kinds[pair] = "host" if pair[0] == HOST else "peer access" if cell.peer_access else "through the host"
        if rate and pair[0] == HOST:  # two ranks on one GPU would send every byte through its link twice
            rate = replace(rate, both_ways_Bps=2 * rate.one_way_Bps)
        if rate:
            line_rates[pair] = rate
            kinds[pair] += f", {rate.over} {rate.words}"
    cells = {pair: _over_launches([each[pair] for each in launches.values() if pair in each]) for pair in sorted(kinds)}
    times_s, kinds_of = slow_pairs.matrix_of(_medians(cells), kinds)
    comparison, first = slow_pairs.compare(times_s, kinds_of), rows[0][1]
    good = [cell for cell in cells.values() if cell.status == "ok"]
    if len(launches) > 1:
        ratios = [slow_pairs.steady_ratios(_medians(launch), kinds, kinds_of) for launch in launches.values()]
        certain = comparison.slow & comparison.lasting(ratios)
        open_ones = comparison.slow & ~certain & (np.min(ratios, axis=0) > slow_pairs.FLAG_FROM)
    else:  # the whole interval of each pair, as wide as it must be for all pairs together
        least_s, _ = slow_pairs.matrix_of({pair: cell.low_s for pair, cell in cells.items() if cell.low_s}, kinds)
        width = np.log(times_s / least_s) * stricter(int(np.count_nonzero(~np.isnan(comparison.ratios))))
        certain = open_ones = comparison.slow & (np.log(comparison.ratios / slow_pairs.FLAG_FROM) > width)
    slow = replace(comparison, ratios=np.where(certain, comparison.ratios, np.minimum(comparison.ratios, 1.0)))
    square, count = kinds_of.firsts == kinds_of.second_ends, len(kinds_of.firsts)
    return GpuMatrixCase(
        name=first.title,
        row=first,
        moved_bytes=first.moved_bytes,
        shows_rate=first.metric == "bandwidth",
        verified=bool(good) and all(cell.messages_verified > 0 for cell in good),
        times_s=times_s,
        cells=cells,
        launches=len(launches),
        undecided=bool(open_ones.any()),
        unmeasured={
            pair: Unmeasured(cell.status, cell.reason) for pair, cell in cells.items() if cell.median_s is None
        },
        line_rates=line_rates,
        comparison=comparison,
        suspects=tuple(remeasurement.suspects(slow, slow)),
        groups=tuple(slow_groups.slow_groups(slow, [-1] * count, [""] * count, "GPU") if square else ()),
    )
