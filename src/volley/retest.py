"""Which pairs of a matrix are measured again, and how often: one plan after another, until all is decided.

Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import msgspec

from volley import blame, matrices
from volley.blame import Pair
from volley.matrices import Sheet
from volley.records import Plan
from volley.records_io import RunLog


def next_plan(plan: Plan, logs: Sequence[RunLog]) -> Plan | None:
    """Return the plan of the next round; ``None`` where all is decided or the time is up.

    Args:
        plan: that of the whole matrix.
        logs: all launches so far, the rounds among them.
    """
    rounds = [log for log in logs if log.run and log.run.plan.matrix.pairs]
    undecided = [sheet for sheet in matrices.sheets(logs) if sheet.undecided]
    if len(rounds) == len(blame.ROUNDS) or not undecided:
        return None
    suspects, controls = most_urgent_first(undecided), beside(undecided)
    wanted = blame.ROUNDS[len(rounds)]
    most, repeats = blame.affordable(
        len(suspects), len(controls), wanted, _pair_s(plan, logs[-1]), _left_s(logs, rounds)
    )
    if repeats < 1:
        return None
    asked = msgspec.structs.replace(
        plan.matrix,
        latency_sizes_bytes=_sizes(undecided, "pingpong"),
        bandwidth_sizes_bytes=_sizes(undecided, "stream"),
        pairs=[list(pair) for pair in blame.in_turn(suspects[:most], controls)],
        repeats=repeats,
        samples=False,
    )
    names = {sheet.transport for sheet in undecided}
    return msgspec.structs.replace(plan, matrix=asked, transports=[name for name in plan.transports if name in names])


def most_urgent_first(sheets: Sequence[Sheet]) -> list[Pair]:
    """Return the undecided pairs of all sheets: the first of each, then the next of each, and so on."""
    some = zip_longest(*(sheet.undecided for sheet in sheets))
    return list(dict.fromkeys(pair for each in some for pair in each if pair is not None))


def beside(sheets: Iterable[Sheet]) -> list[Pair]:
    """Return the controls of the undecided pairs, without those that are suspects elsewhere."""
    found: dict[Pair, None] = {}
    suspects = {pair for sheet in sheets for pair in sheet.undecided}
    for sheet in sheets:
        kinds = {sheet.kinds[pair] for pair in sheet.undecided}
        chosen = blame.controls(sheet.standings, sheet.kinds, sheet.suspects)
        found.update(dict.fromkeys(pair for pair in chosen if sheet.kinds[pair] in kinds and pair not in suspects))
    return list(found)


def _sizes(sheets: Iterable[Sheet], exercise: str) -> list[int]:
    return sorted({sheet.size_bytes for sheet in sheets if sheet.exercise == exercise})


def _left_s(logs: Sequence[RunLog], rounds: Sequence[RunLog]) -> float:
    """What is left of the time for measuring again."""
    spent_s = sum(map(_elapsed_s, rounds))
    return max(blame.LONGEST_S, sum(map(_elapsed_s, logs)) - spent_s) - spent_s


def _pair_s(plan: Plan, log: RunLog) -> float:
    """How long visiting a pair took in a launch.

    Loaded, many are visited at once, and a round of the tournament is played for each pair that is asked for, at most.
    """
    together = plan.world_size // 2 if plan.matrix.mode == "loaded" else 1
    visits = len({(row.rank, cell.rank, row.repeat) for row in log.rows for cell in row.cells})
    return _elapsed_s(log) * together / visits if visits else 0.0


def _elapsed_s(log: RunLog) -> float:
    return log.end.elapsed_s if log.end else 0.0
