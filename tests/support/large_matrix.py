"""Records of a matrix between many ranks, as the engine writes them, with faults planted; the seed is fixed.

``python tests/support/large_matrix.py FILE [VISITS]`` writes 1,024 ranks on 128 nodes, to measure time and memory.
"""

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from example_records import matrix_plan, ranks, run, transport
from volley.benchmarks.matrix.records import RankMatrixRow
from volley.records.plan import Plan
from volley.records.record_types import End
from volley.records.records_file import encode_line
from volley.statistics.two_runs import Floats, Integers

RANKS_A_NODE = 8
NODES_A_SWITCH = 16
SEED = 20260102

Fault = Callable[[Integers, Integers], Floats]
"""Returns the slowness of each pair from its first and its second rank."""


def slow(where: Callable[[Integers, Integers], Any], ratio: float) -> Fault:
    """Pairs that take that many times as long, in either direction."""
    return lambda first, second: np.where(where(first, second) | where(second, first), ratio, 1.0)


def node(number: int, ratio: float) -> Fault:
    """All pairs between a node and others."""
    return slow(lambda a, b: (a // RANKS_A_NODE == number) & (b // RANKS_A_NODE != number), ratio)


def link(one: int, other: int, ratio: float) -> Fault:
    """All pairs between two nodes."""
    return slow(lambda a, b: (a // RANKS_A_NODE == one) & (b // RANKS_A_NODE == other), ratio)


def uplinks(nodes: range, ratio: float) -> Fault:
    """All pairs between the nodes of a switch and other nodes."""
    inside = list(nodes)

    def leaves(a: Integers, b: Integers) -> Any:
        return np.isin(a // RANKS_A_NODE, inside) & ~np.isin(b // RANKS_A_NODE, inside)

    return slow(leaves, ratio)


def pair(one: int, other: int, ratio: float) -> Fault:
    """One pair of ranks."""
    return slow(lambda a, b: (a == one) & (b == other), ratio)


def rank(number: int, ratio: float) -> Fault:
    """All pairs of a rank."""
    return slow(lambda a, b: (a == number) & (b != number), ratio)


def times(nodes: int, faults: Sequence[Fault] = ()) -> Floats:
    """Return the seconds of a ping-pong between each two ranks."""
    count = nodes * RANKS_A_NODE
    first, second = np.indices((count, count))
    same_node = first // RANKS_A_NODE == second // RANKS_A_NODE
    same_socket = same_node & (first // 4 == second // 4)
    switch = RANKS_A_NODE * NODES_A_SWITCH
    usual = np.select([same_socket, same_node, first // switch == second // switch], [4e-7, 7e-7, 1.8e-6], 1.85e-6)
    for fault in faults:
        usual = usual * fault(first, second)
    return usual


def lines(
    nodes: int,
    faults: Sequence[Fault] = (),
    noise: float = 0.01,
    patterns: Sequence[str] = ("pingpong", "stream"),
    plan: Plan | None = None,
    visits: int = 1,
) -> list[bytes]:
    """Return the lines of a complete run: of all pairs, or of those that ``plan`` asks for again."""
    usual = times(nodes, faults)
    count = len(usual)
    places = [
        msgspec.structs.replace(
            each,
            host=f"cn{each.rank // RANKS_A_NODE:03}",
            node=each.rank // RANKS_A_NODE,
            local_rank=each.rank % RANKS_A_NODE,
            sockets=[each.rank % RANKS_A_NODE // 4],
        )
        for each in ranks(count)
    ]
    dice = np.random.default_rng(SEED)
    asked = plan or matrix_plan(count, repeats=visits)
    found = [encode_line(run(asked, ranks=places)), encode_line(transport())]
    others: dict[int, list[int]] = {first: [] for first in range(count)}
    for first, second in plan.options.pairs if plan else ():
        others[first].append(second)
    for pattern in patterns:
        for repeat in range(asked.options.repeats):
            least = usual * np.exp(dice.normal(0, noise, usual.shape)) * (1 if pattern == "pingpong" else 3000)
            for first, seconds in others.items():
                if plan is None:
                    found.append(_row(first, repeat, np.delete(least[first], first), [], pattern, visits))
                elif seconds:
                    found.append(_row(first, repeat, least[first, sorted(seconds)], sorted(seconds), pattern, 3))
    return [*found, encode_line(End(status="complete", elapsed_s=20.0 if plan else 600.0))]


def _row(number: int, repeat: int, least: Floats, seconds: list[int], pattern: str, visits: int) -> bytes:
    unit_s = float(f"1e{math.floor(math.log10(least.min())) - 3}")
    lows, medians, highs = (np.rint(least * factor / unit_s).astype(int).tolist() for factor in (1.0, 1.013, 1.031))
    stream = pattern == "stream"
    stream_only = {"direction": "uni", "window": 64} if stream else {}
    row = RankMatrixRow(
        transport="host",
        mode="loaded",
        pattern=pattern,
        size_bytes=1 << 20 if stream else 8,
        rank=number,
        repeat=repeat,
        ranks=seconds,
        unit_s=unit_s,
        medians=medians,
        lows=lows,
        highs=highs if visits == 1 else [],
        samples=[24 + number % 80] * len(lows),
        messages_timed=1 << 30,
        messages_verified=1 << 16,
        **stream_only,
    )
    return encode_line(row)


def some_faults() -> list[Fault]:
    """A slow node, a slow link, the slow uplinks of a switch, a slow rank and a slow pair."""
    return [node(3, 1.6), link(5, 90, 1 / 0.63), uplinks(range(32, 48), 1.3), rank(800, 1.25), pair(700, 41, 2.0)]


if __name__ == "__main__":
    asked = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    Path(sys.argv[1]).write_bytes(b"".join(lines(128, some_faults(), visits=asked)))
