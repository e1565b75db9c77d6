"""From the rows of a matrix between ranks to its cases: cells, kinds of pairs, and slow pairs.

All quantities are in SI units: seconds and bytes per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from volley.benchmarks.matrix.case import MatrixCase
from volley.benchmarks.matrix.comparable import Pair, compare, suspects
from volley.benchmarks.rank_matrix import slow_pairs
from volley.benchmarks.rank_matrix.records import RankMatrixCell, RankMatrixPlan, RankMatrixRow
from volley.benchmarks.rank_matrix.slow_pairs import Remeasurement
from volley.machine.line_rate import LineRate, line_rate
from volley.run.plan import Plan
from volley.run.records import Rank
from volley.run.run_log import RunLog
from volley.run.series import Series, series_of
from volley.statistics import estimates

KINDS = ("same socket", "same node", "off node")
"""How near two ranks are, the nearest first."""

_Identity = tuple[str, str, str, str | None, int | None, int]


@dataclass(frozen=True, kw_only=True)
class RankMatrixCase(MatrixCase[RankMatrixCell]):
    """One pattern of messages at one size on one transport, between all ranks.

    A cell of several visits holds their median, and their range in place of an interval.
    """

    transport: str
    mode: Literal["isolated", "loaded"]
    pattern: str
    """What is sent; without a window it is a ping-pong."""
    remeasured: Mapping[Pair, Remeasurement] = field(default_factory=dict)
    """The suspects that were measured again."""

    @property
    def undecided(self) -> list[Pair]:
        """The suspects that are neither flagged nor cleared, the most urgent first."""
        return slow_pairs.undecided(self.suspects, self.remeasured)


def kind_of(one: Rank, other: Rank) -> str:
    """Return how near two ranks are.  Ranks that may run on several sockets count as on the same node, no nearer."""
    if one.node != other.node:
        return "off node"
    one_socket = len(one.sockets) == 1 and one.sockets == other.sockets
    return "same socket" if one_socket else "same node"


def options_of(log: RunLog) -> RankMatrixPlan | None:
    """Return what the plan of a run says about the matrix."""
    options = log.run.plan.options if log.run else None
    return options if isinstance(options, RankMatrixPlan) else None


def is_remeasurement(log: RunLog) -> bool:
    """True for a launch of chosen pairs."""
    options = options_of(log)
    return options is not None and bool(options.pairs)


@dataclass(frozen=True)
class RankMatrixResults:
    """The cases of one series of launches."""

    series: Series
    cases: tuple[RankMatrixCase, ...]


def results(logs: Sequence[RunLog]) -> list[RankMatrixResults]:
    """Return the results of each series: launches of one request, and those that measured suspects of it again."""
    return [RankMatrixResults(each, cases_of(each.logs)) for each in series_of(logs, belongs)]


def belongs(log: RunLog, first: RunLog) -> bool:
    """Tell whether a launch repeats the first one of a series, or measures its suspects again.

    Suspects are measured at some of the sizes and on some of the transports of the first launch.
    """
    part, whole = options_of(log), options_of(first)
    if log.run is None or first.run is None or part is None or whole is None:
        return False
    plan = log.run.plan
    if part.pairs and not whole.pairs:
        sizes = {name: getattr(whole, name) for name in ("latency_sizes_bytes", "bandwidth_sizes_bytes")}
        fits = all(set(getattr(part, name)) <= set(all_sizes) for name, all_sizes in sizes.items())
        if not fits or not set(plan.transports) <= set(first.run.plan.transports):
            return False
        part = msgspec.structs.replace(part, **sizes)
        plan = msgspec.structs.replace(plan, options=part, transports=first.run.plan.transports)
    return _without_repetition(plan) == _without_repetition(first.run.plan)


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
    found: dict[_Identity, list[RankMatrixRow]] = {}
    for row in (row for log in whole or logs for row in log.of(RankMatrixRow)):
        found.setdefault(_identity(row), []).append(row)
    places = {rank.rank: rank for log in logs if log.run for rank in log.run.ranks}
    silent = {each.transport for log in logs for each in log.transports if each.memory == "none"}
    return tuple(_case(rows, places, logs, again, sends=rows[0].transport not in silent) for rows in found.values())


def _identity(row: RankMatrixRow | RankMatrixCase) -> _Identity:
    return (row.transport, row.mode, row.pattern, row.direction, row.window, row.size_bytes)


def _case(
    rows: Sequence[RankMatrixRow],
    places: Mapping[int, Rank],
    logs: Sequence[RunLog],
    again: Sequence[RunLog],
    *,
    sends: bool,
) -> RankMatrixCase:
    """Put the visits of each pair together.  ``sends``: false for a transport that sends nothing."""
    visits: dict[Pair, list[RankMatrixCell]] = {}
    for row in rows:
        for cell in row.cells:
            visits.setdefault((row.rank, cell.rank), []).append(cell)
    first = rows[0]
    ranks = tuple(sorted({end for pair in visits for end in pair} | set(places)))
    known = [pair for pair in visits if pair[0] in places and pair[1] in places]
    rates = {pair: _line_rate(first.transport, places[pair[0]], places[pair[1]], logs) for pair in known}
    nearness = {pair: kind_of(places[pair[0]], places[pair[1]]) for pair in known}
    case = RankMatrixCase(
        firsts=ranks,
        seconds=ranks,
        transport=first.transport,
        mode=first.mode,
        pattern=first.pattern,
        direction=first.direction,
        window=first.window,
        size_bytes=first.size_bytes,
        has_rate=sends,
        shows_rate=sends and first.window is not None,
        cells={pair: _merged(cells) for pair, cells in visits.items()},
        kinds={pair: nearness.get(pair, "unknown") for pair in visits},
        line_rates={pair: rate for pair, rate in rates.items() if rate},
    )
    return _with_slow_pairs(case, visits, again)


def _line_rate(transport: str, one: Rank, other: Rank, logs: Sequence[RunLog]) -> LineRate | None:
    found = (line_rate(transport, [one, other], log.hardware) for log in logs if log.hardware)
    return next((each for each in found if each), None)


def _merged(cells: Sequence[RankMatrixCell]) -> RankMatrixCell:
    """One visit that failed makes the cell failed, without a number; it is skipped only if every visit was."""
    order = ("failed", "ok", "skipped")
    deciding = min(cells, key=lambda cell: order.index(cell.status))
    medians = [cell.median_s for cell in cells if cell.median_s is not None]
    if deciding.status != "ok" or len(medians) < 2:
        return deciding
    measured = [cell for cell in cells if cell.median_s is not None]
    return msgspec.structs.replace(
        deciding,
        median_s=estimates.median(medians),
        low_s=min(medians),
        high_s=max(medians),
        samples=sum(cell.samples for cell in measured),
        messages_timed=sum(cell.messages_timed for cell in measured),
        messages_verified=sum(cell.messages_verified for cell in measured),
    )


def _least_disturbed_s(cell: RankMatrixCell) -> float | None:
    """The seconds of a visit when it was disturbed least: the lower bound, or without one the median."""
    return cell.median_s if cell.low_s is None else cell.low_s


def _with_slow_pairs(
    case: RankMatrixCase, visits: Mapping[Pair, Sequence[RankMatrixCell]], again: Sequence[RunLog]
) -> RankMatrixCase:
    """Add the suspects, and what measuring them again has shown."""
    times = {
        pair: [time_s for cell in visits[pair] if (time_s := _least_disturbed_s(cell)) is not None]
        for pair in case.times
    }
    ratios = compare({pair: estimates.median(each) for pair, each in times.items()}, case.kinds)
    at_best = compare({pair: min(each) for pair, each in times.items()}, case.kinds)
    found = suspects(ratios, at_best, case.kinds)
    controls = slow_pairs.controls(ratios, case.kinds, found)
    repetitions = _repetitions(case, again)
    remeasured = {}
    for suspect in found:
        beside = [pair for pair in controls if case.kinds[pair] == case.kinds[suspect.pair]]
        if judged := slow_pairs.judge(suspect, repetitions, beside, len(found)):
            remeasured[suspect.pair] = judged
    return replace(case, ratios=ratios, suspects=tuple(found), remeasured=remeasured)


def _repetitions(case: RankMatrixCase, again: Sequence[RunLog]) -> list[dict[Pair, float]]:
    """Return the seconds of each pair in each repetition of the launches that measured suspects again."""
    found: dict[tuple[int, int], dict[Pair, float]] = {}
    for number, log in enumerate(again):
        for row in log.of(RankMatrixRow):
            if _identity(row) == _identity(case):
                times = found.setdefault((number, row.repeat), {})
                for cell in row.cells:
                    if cell.median_s is not None and (time_s := _least_disturbed_s(cell)) is not None:
                        times[row.rank, cell.rank] = time_s
    return list(found.values())
