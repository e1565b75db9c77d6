"""From the rows of matrices to what reports show: cells, kinds of pairs, and who is slower than its like.

All quantities are in SI units: seconds and bytes per second.
"""

# GB/s and B/s keep their capital letter in names.
# ruff: noqa: N802

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from volley import blame, stats
from volley.blame import Pair, Standing, Verdict
from volley.machine.line_rate import LineRate, line_rate
from volley.records import Cell, MatrixRow, Rank
from volley.records_io import RunLog

KINDS = ("same socket", "same node", "off node")
"""How near two ranks are, the nearest first."""

Identity = tuple[str, str, str, str | None, int | None, int]


@dataclass(frozen=True)
class Sheet:
    """One matrix: one exercise at one message size on one transport, between all ranks."""

    transport: str
    mode: Literal["isolated", "loaded"]
    exercise: Literal["pingpong", "stream"]
    direction: Literal["uni", "bi"] | None
    window: int | None
    size_bytes: int
    moves: bool
    """False for a transport that sends nothing, which has no bandwidth to speak of."""
    ranks: tuple[int, ...]
    cells: Mapping[Pair, Cell]
    """What was measured of each pair.  Of several visits: the median, and their range in place of an interval."""
    times: Mapping[Pair, float]
    """Seconds of each good pair: half a round trip, or a window."""
    least: Mapping[Pair, float]
    """Seconds of each good pair when it is disturbed least: the median of the visits' lower bounds."""
    at_best: Mapping[Pair, float]
    """The lowest of these bounds."""
    kinds: Mapping[Pair, str]
    standings: Mapping[Pair, Standing] = field(default_factory=dict)
    suspects: tuple[Standing, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    """Of the suspects that were measured again."""
    uneven: Mapping[str, int] = field(default_factory=dict)
    ceilings: Mapping[Pair, LineRate] = field(default_factory=dict)

    def rate_Bps(self, pair: Pair) -> float | None:
        """The bandwidth of a pair: size / half round trip, or that of a window; both ways, both together."""
        time_s = self.times.get(pair)
        if time_s is None or not self.moves:
            return None
        return self.size_bytes * (self.window or 1) * (2 if self.direction == "bi" else 1) / time_s

    def of_ceiling(self, pair: Pair) -> float | None:
        """The bandwidth as a fraction of what the hardware allows."""
        rate, most = self.rate_Bps(pair), self.ceilings.get(pair)
        return rate / most.of(self.direction) if rate and most else None

    @property
    def undecided(self) -> list[Pair]:
        """The suspects that are neither blamed nor cleared, the most urgent first."""
        return blame.undecided(self.suspects, {each.first.pair: each for each in self.verdicts})

    def verdict(self, pair: Pair) -> Verdict | None:
        """What measuring the pair again has shown; ``None`` where it was not."""
        return next((each for each in self.verdicts if each.first.pair == pair), None)


def kind_of(one: Rank, other: Rank) -> str:
    """Say how near two ranks are.  Ranks that may run on several sockets count as on the same node, no nearer."""
    if one.node != other.node:
        return "off node"
    settled = len(one.sockets) == 1 and one.sockets == other.sockets
    return "same socket" if settled else "same node"


def sheets(logs: Sequence[RunLog]) -> tuple[Sheet, ...]:
    """Return the matrices of launches that repeat each other.

    Launches of chosen pairs beside one of all pairs are those in which suspects were measured again.
    """
    whole = [log for log in logs if not _chosen(log)]
    again = [log for log in logs if _chosen(log)] if whole else []
    found: dict[Identity, list[MatrixRow]] = {}
    for row in (row for log in whole or logs for row in log.rows):
        found.setdefault(_identity(row), []).append(row)
    places = {rank.rank: rank for log in logs if log.run for rank in log.run.ranks}
    silent = {each.transport for log in logs for each in log.transports if each.memory == "none"}
    drafts = [_sheet(rows, places, moves=rows[0].transport not in silent, logs=logs) for rows in found.values()]
    return tuple(_judged(each, again) for each in drafts)


def _chosen(log: RunLog) -> bool:
    return log.run is not None and bool(log.run.plan.matrix.pairs)


def _identity(row: MatrixRow) -> Identity:
    return (row.transport, row.mode, row.exercise, row.direction, row.window, row.size_bytes)


def _sheet(rows: Sequence[MatrixRow], places: Mapping[int, Rank], *, moves: bool, logs: Sequence[RunLog]) -> Sheet:
    gathered: dict[Pair, list[Cell]] = {}
    for row in rows:
        for cell in row.cells:
            gathered.setdefault((row.rank, cell.rank), []).append(cell)
    first = rows[0]
    ends = {end for pair in gathered for end in pair}
    merged = {pair: _merged(cells) for pair, cells in gathered.items()}
    times = {pair: cell.median_s for pair, cell in merged.items() if cell.median_s is not None}
    known = [pair for pair in gathered if pair[0] in places and pair[1] in places]
    bounded = {pair: _ceiling(first, places[pair[0]], places[pair[1]], logs) for pair in known}
    return Sheet(
        transport=first.transport,
        mode=first.mode,
        exercise=first.exercise,
        direction=first.direction,
        window=first.window,
        size_bytes=first.size_bytes,
        moves=moves,
        ranks=tuple(sorted(ends | set(places))),
        cells=merged,
        times=times,
        least={pair: stats.median(list(map(_least, gathered[pair]))) for pair in times},
        at_best={pair: min(map(_least, gathered[pair])) for pair in times},
        kinds={pair: kind_of(places[pair[0]], places[pair[1]]) if pair in bounded else "unknown" for pair in gathered},
        ceilings={pair: most for pair, most in bounded.items() if most},
    )


def _ceiling(row: MatrixRow, one: Rank, other: Rank, logs: Sequence[RunLog]) -> LineRate | None:
    found = (line_rate(row.transport, [one, other], log.hardware) for log in logs if log.hardware)
    return next((each for each in found if each), None)


def _least(cell: Cell) -> float:
    """The time of a visit that was disturbed least: its lower bound, and without one the median.

    Raises:
        ValueError: if the cell holds no time.
    """
    for time_s in (cell.low_s, cell.median_s):
        if time_s is not None:
            return time_s
    raise ValueError("a cell that is not good has no time")


def _merged(cells: Sequence[Cell]) -> Cell:
    """One visit that failed makes the cell failed, without a number; it is skipped only where every visit was."""
    order = ("failed", "ok", "skipped")
    deciding = min(cells, key=lambda cell: order.index(cell.status))
    good = [cell for cell in cells if cell.median_s is not None]
    if deciding.status != "ok" or len(good) < 2:
        return deciding
    medians = [cell.median_s for cell in good if cell.median_s is not None]
    return msgspec.structs.replace(
        deciding,
        median_s=stats.median(medians),
        low_s=min(medians),
        high_s=max(medians),
        samples=sum(cell.samples for cell in good),
        messages_timed=sum(cell.messages_timed for cell in good),
        messages_verified=sum(cell.messages_verified for cell in good),
    )


def _judged(sheet: Sheet, again: Sequence[RunLog]) -> Sheet:
    """Add who stands out, and what came of measuring those again."""
    found = blame.standings(sheet.least, sheet.kinds)
    suspects = blame.suspects(found, blame.standings(sheet.at_best, sheet.kinds), sheet.kinds)
    like = blame.controls(found, sheet.kinds, suspects)
    repetitions = _repetitions(sheet, again)
    verdicts = []
    for suspect in suspects:
        beside = [pair for pair in like if sheet.kinds[pair] == sheet.kinds[suspect.pair]]
        if verdict := blame.verdict(suspect, repetitions, beside, len(suspects)):
            verdicts.append(verdict)
    return replace(
        sheet,
        standings=found,
        suspects=tuple(suspects),
        verdicts=tuple(verdicts),
        uneven=blame.uneven(found, sheet.kinds),
    )


def _repetitions(sheet: Sheet, again: Sequence[RunLog]) -> list[dict[Pair, float]]:
    mine = (sheet.transport, sheet.mode, sheet.exercise, sheet.direction, sheet.window, sheet.size_bytes)
    found: dict[tuple[int, int], dict[Pair, float]] = {}
    for number, log in enumerate(again):
        for row in log.rows:
            if _identity(row) == mine:
                times = found.setdefault((number, row.repeat), {})
                times.update({(row.rank, cell.rank): _least(cell) for cell in row.cells if cell.median_s is not None})
    return list(found.values())
