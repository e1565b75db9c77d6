"""Compute the cases of a matrix between ranks from its rows: cells, kinds of pairs, and slow pairs.

All quantities are in SI units: seconds and bytes per second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from volley.benchmarks.rank_matrix import slow_pairs
from volley.benchmarks.rank_matrix.records import RankMatrixCell, RankMatrixPlan, RankMatrixRow
from volley.benchmarks.rank_matrix.slow_pairs import Remeasurement
from volley.benchmarks.shared.matrix.case import MatrixCase, times_of
from volley.benchmarks.shared.matrix.comparable_pairs import Pair, compare, suspects
from volley.machine.line_rate import LineRate, line_rate
from volley.run.benchmark import Observable
from volley.run.launch_series import LaunchSeries, series_of
from volley.run.plan import Plan
from volley.run.records import Rank
from volley.run.run_log import RunLog
from volley.statistics.estimates import median
from volley.units import format_size

KINDS = ("same socket", "same node", "off node")
"""The kinds of pairs by distance, the nearest first."""


@dataclass(frozen=True, kw_only=True)
class RankMatrixCase(MatrixCase):
    """One pattern of messages at one size on one transport, between all ranks.

    A cell of several visits holds their median, and their range in place of an interval.
    """

    row: RankMatrixRow
    """Any of its rows, for the fields that all rows share."""
    remeasured: Mapping[Pair, Remeasurement]
    """The suspects that were measured again."""

    @property
    def undecided(self) -> list[Pair]:
        """The suspects that are neither flagged nor cleared, the most urgent first."""
        return slow_pairs.undecided(self.suspects, self.remeasured)


def kind_of(one: Rank, other: Rank) -> str:
    """Return the distance of two ranks.  Ranks that may run on several sockets count as on the same node, no nearer."""
    if one.node != other.node:
        return "off node"
    one_socket = len(one.sockets) == 1 and one.sockets == other.sockets
    return "same socket" if one_socket else "same node"


def is_remeasurement(log: RunLog) -> bool:
    options = log.run.plan.options if log.run else None
    return isinstance(options, RankMatrixPlan) and bool(options.pairs)


def observables(log: RunLog) -> Iterator[Observable]:
    """Yield the time of each pair; of several visits their median.  Launches that measure suspects again have none."""
    if is_remeasurement(log):
        return
    visits: dict[tuple[tuple[object, ...], Pair], list[float]] = {}
    rows = {_identity(row): row for row in log.of(RankMatrixRow)}
    for row in log.of(RankMatrixRow):
        for cell in row.cells:
            if cell.median_s is not None:
                visits.setdefault((_identity(row), (row.rank, cell.rank)), []).append(cell.median_s)
    for (identity, (first, second)), times in visits.items():
        row = rows[identity]
        parts = (row.transport, row.pattern, row.mode, *(["both ways"] if row.direction == "bi" else []))
        series = f"{', '.join(parts)} at {format_size(row.size_bytes)}"
        yield Observable(series, f"{first} → {second}", median(times), row.moved_bytes, "GB/s")


@dataclass(frozen=True)
class RankMatrixResults:
    """The cases of one series of launches."""

    series: LaunchSeries
    cases: tuple[RankMatrixCase, ...]


def results(logs: Sequence[RunLog]) -> list[RankMatrixResults]:
    """Return the results of each series: launches of one request, and those that measured suspects of it again."""
    return [RankMatrixResults(each, cases_of(each.logs)) for each in series_of(logs, belongs)]


def belongs(log: RunLog, first: RunLog) -> bool:
    """Return whether a launch repeats the first one of a series, or measures its suspects again.

    Suspects are measured at some of the sizes and on some of the transports of the first launch.
    """
    if log.run is None or first.run is None:
        return False
    plan, whole = log.run.plan, first.run.plan
    if plan.options.pairs and not whole.options.pairs:
        sizes = {name: getattr(whole.options, name) for name in ("latency_sizes_bytes", "bandwidth_sizes_bytes")}
        fits = all(set(getattr(plan.options, name)) <= set(all_sizes) for name, all_sizes in sizes.items())
        if not fits or not set(plan.transports) <= set(whole.transports):
            return False
        part = msgspec.structs.replace(plan.options, **sizes)
        plan = msgspec.structs.replace(plan, options=part, transports=whole.transports)
    return _without_repetition(plan) == _without_repetition(whole)


def _without_repetition(plan: Plan) -> Plan:
    """Return a plan without what differs between launches that repeat each other."""
    options = msgspec.structs.replace(plan.options, pairs=[], repeats=1, samples=False)
    return msgspec.structs.replace(plan, options=options, budget_s=None, launch={}, excluded={})


def cases_of(logs: Sequence[RunLog]) -> tuple[RankMatrixCase, ...]:
    """Return the cases of launches that belong to one series.

    Launches of chosen pairs beside one of all pairs are those in which suspects were measured again.
    """
    whole = [log for log in logs if not is_remeasurement(log)]
    again = [log for log in logs if is_remeasurement(log)] if whole else []
    found: dict[tuple[object, ...], list[RankMatrixRow]] = {}
    for row in (row for log in whole or logs for row in log.of(RankMatrixRow)):
        found.setdefault(_identity(row), []).append(row)
    return tuple(_case(rows, logs, _repetitions(identity, again)) for identity, rows in found.items())


def _identity(row: RankMatrixRow) -> tuple[object, ...]:
    """Return the properties that the rows of a case share."""
    return row.transport, row.mode, row.pattern, row.direction, row.window, row.size_bytes


def _repetitions(identity: tuple[object, ...], again: Sequence[RunLog]) -> list[dict[Pair, float]]:
    """Return the seconds of each pair in its least disturbed visit, for each repetition of the launches ``again``."""
    found: dict[tuple[int, int], dict[Pair, float]] = {}
    for number, log in enumerate(again):
        for row in (row for row in log.of(RankMatrixRow) if _identity(row) == identity):
            times = found.setdefault((number, row.repeat), {})
            times.update(
                {(row.rank, cell.rank): time_s for cell in row.cells if (time_s := cell.low_s or cell.median_s)}
            )
    return list(found.values())


def _case(
    rows: Sequence[RankMatrixRow], logs: Sequence[RunLog], repetitions: Sequence[Mapping[Pair, float]]
) -> RankMatrixCase:
    """Put the visits of each pair together, and judge each pair by its least disturbed visits.

    The lower bound of a visit's interval, or without one its median, is its time when it was disturbed least.
    """
    first = rows[0]
    visits: dict[Pair, list[RankMatrixCell]] = {}
    for row in rows:
        for cell in row.cells:
            visits.setdefault((row.rank, cell.rank), []).append(cell)
    cells = {pair: _merged(each) for pair, each in visits.items()}
    places = {rank.rank: rank for log in logs if log.run for rank in log.run.ranks}
    known = {pair: [places[end] for end in pair] for pair in visits if set(pair) <= places.keys()}
    kinds = {pair: kind_of(*known[pair]) if pair in known else "unknown" for pair in visits}
    rates = {pair: _line_rate(first.transport, ranks, logs) for pair, ranks in known.items()}
    times = {
        pair: [time_s for cell in visits[pair] if (time_s := cell.low_s or cell.median_s)] for pair in times_of(cells)
    }
    ratios = compare({pair: median(each) for pair, each in times.items()}, kinds)
    found = suspects(ratios, compare({pair: min(each) for pair, each in times.items()}, kinds))
    controls = slow_pairs.controls(ratios, found)
    judged = {each.pair: slow_pairs.judge(each, repetitions, controls, len(found)) for each in found}
    ranks = tuple(sorted({end for pair in visits for end in pair} | set(places)))
    silent = any(each.transport == first.transport and each.memory == "none" for log in logs for each in log.transports)
    return RankMatrixCase(
        name=f"{first.transport} at {format_size(first.size_bytes)}",
        firsts=ranks,
        seconds=ranks,
        row=first,
        direction=first.direction,
        moved_bytes=None if silent else first.moved_bytes,
        shows_rate=not silent and first.window is not None,
        cells=cells,
        kinds=kinds,
        line_rates={pair: rate for pair, rate in rates.items() if rate},
        ratios=ratios,
        suspects=tuple(found),
        remeasured={pair: each for pair, each in judged.items() if each},
    )


def _line_rate(transport: str, ranks: Sequence[Rank], logs: Sequence[RunLog]) -> LineRate | None:
    return next((rate for log in logs if (rate := line_rate(transport, ranks, log.hardware))), None)


def _merged(cells: Sequence[RankMatrixCell]) -> RankMatrixCell:
    """One visit that failed makes the cell failed, without a number; it is skipped only if every visit was."""
    deciding = min(cells, key=lambda cell: ("failed", "ok", "skipped").index(cell.status))
    measured = [cell for cell in cells if cell.median_s is not None]
    if deciding.status != "ok" or len(measured) < 2:
        return deciding
    medians = [cell.median_s for cell in measured if cell.median_s is not None]
    return msgspec.structs.replace(
        deciding,
        median_s=median(medians),
        low_s=min(medians),
        high_s=max(medians),
        samples=sum(cell.samples for cell in measured),
        messages_timed=sum(cell.messages_timed for cell in measured),
        messages_verified=sum(cell.messages_verified for cell in measured),
    )
