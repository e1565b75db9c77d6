"""Volley's ping-pong against plain loops over two buffers, size by size, in each state that the machine has.

The cores of some virtual machines are siblings now and apart later, for seconds each: 8 B take 0.11 µs or 0.35 µs.
So launches are short, of one size and 8 B before it, which tells the state; only launches of one state are compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from comparisons import DOUBLINGS, Finding, alternate
from programs import Bench, Launch

from volley.benchmarks.pair.results import PingPongPlan
from volley.records.plan import Plan, Sampling
from volley.statistics.estimates import estimate, median
from volley.units import format_sig, format_size

STATE_BYTES = 8
LAUNCHES = 11
TWO_STATES = 2
"""A machine has two states where the slowest 8 B take more than so many times as long as the quickest."""
POINT_TIME_S = 0.3
"""A point ends after so long: the interval of interest is that over launches."""


@dataclass(frozen=True)
class Pair:
    """Two launches, one right behind the other, and what the size of interest took in each."""

    size_bytes: int
    ours: Launch
    theirs: Launch


def plain_loops(bench: Bench, launches: int | None) -> list[Finding]:
    """Launch both at every size, and compare what was measured in the same state."""
    pairs = [
        Pair(size, ours, theirs)
        for size in DOUBLINGS
        for ours, theirs in alternate(
            partial(bench.volley, _plan(size)),
            partial(bench.peer, "plain_loops", sizes=sorted({STATE_BYTES, size})),
            launches or LAUNCHES,
        )
    ]
    return compared(pairs)


def compared(pairs: Sequence[Pair]) -> list[Finding]:
    """Return the ratio of each size in each state."""
    latencies = [launch.seconds[STATE_BYTES] for pair in pairs for launch in (pair.ours, pair.theirs)]
    quickest, slowest = min(latencies), max(latencies)
    edge = math.sqrt(quickest * slowest) if slowest > TWO_STATES * quickest else math.inf
    found = []
    for size, slow in product(DOUBLINGS, (False, True)):
        same = [
            pair
            for pair in pairs
            if pair.size_bytes == size
            and {launch.seconds[STATE_BYTES] > edge for launch in (pair.ours, pair.theirs)} == {slow}
        ]
        if same:
            found.append(_finding(same, size, slow))
    return found


def _plan(size: int) -> Plan:
    part = PingPongPlan(sizes_bytes=sorted({STATE_BYTES, size}))
    return Plan(benchmark="pingpong", transports=["host"], options=part, sampling=Sampling(point_time_s=POINT_TIME_S))


def _finding(pairs: Sequence[Pair], size: int, slow: bool) -> Finding:
    state_s = median([pair.theirs.seconds[STATE_BYTES] for pair in pairs])
    where = f", {'slower' if slow else 'quicker'} state (8 B in {format_sig(state_s * 1e6)} µs)"
    return Finding(
        f"half round trip, adaptive, against plain loops over two buffers, {format_size(size)}{where}",
        estimate([pair.ours.seconds[size] / pair.theirs.seconds[size] for pair in pairs]),
        "×",
        "0.98–1.02",
        estimate([pair.ours.seconds[size] for pair in pairs]),
        estimate([pair.theirs.seconds[size] for pair in pairs]),
    )
