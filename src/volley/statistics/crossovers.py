"""Where one curve over the message sizes overtakes another, and from which size on a curve reaches half of its rate.

A curve holds an estimate of the time at each size.  One curve leads another at a size where their 95 % intervals are
apart; where they overlap, or where either has no interval, none leads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from volley.statistics.estimates import Estimate
from volley.statistics.hockney import FEWEST_SIZES

Curve = Mapping[int, Estimate]
"""Seconds by message size in bytes."""


@dataclass(frozen=True)
class Crossover:
    """A size from which on the other of two curves is the faster one; intervals are apart on both sides."""

    faster: str
    slower: str
    last_bytes: int
    """The largest size below at which ``slower`` was still the faster one."""
    from_bytes: int
    """The first size at which ``faster`` is."""
    final: bool
    """True where no larger size turns it round again."""
    again: bool
    """True where ``faster`` was the faster one already below some smaller crossover."""


def crossovers(curves: Mapping[str, Curve]) -> list[Crossover]:
    """Return every crossover between curves, pair by pair, then by size."""
    return [one for first, second in combinations(curves, 2) for one in _between(first, second, curves)]


def _between(first: str, second: str, curves: Mapping[str, Curve]) -> Iterator[Crossover]:
    one, other = curves[first], curves[second]
    leads: list[tuple[int, str]] = []
    for size in sorted(one.keys() & other.keys()):
        if apart(one[size], other[size]):
            leads.append((size, first))
        elif apart(other[size], one[size]):
            leads.append((size, second))
    changes = [(before, after) for before, after in pairwise(leads) if before[1] != after[1]]
    for number, ((last_bytes, slower), (from_bytes, faster)) in enumerate(changes, start=1):
        yield Crossover(faster, slower, last_bytes, from_bytes, final=number == len(changes), again=number > 1)


def apart(fast: Estimate, slow: Estimate) -> bool:
    """Return whether ``fast`` is below ``slow`` with its whole 95 % interval."""
    return fast.kind == slow.kind == "ci" and fast.high < slow.low


def half_bandwidth(sizes_bytes: Sequence[int], rates: Sequence[float]) -> float | None:
    """Return N½: the size, in bytes, at which a curve first reaches half of its largest measured rate.

    Between the sizes below and above, size and rate are interpolated on logarithmic scales.  ``None`` where the
    smallest size reaches it already, or where there are too few sizes to interpolate between (``FEWEST_SIZES``).

    Args:
        sizes_bytes: rising.
        rates: one a size, in any unit.
    """
    if len(rates) < FEWEST_SIZES:
        return None
    half = max(rates) / 2
    above = next(number for number, rate in enumerate(rates) if rate >= half)
    if above == 0:
        return None
    low, high = sizes_bytes[above - 1], sizes_bytes[above]
    part = math.log(half / rates[above - 1]) / math.log(rates[above] / rates[above - 1])
    return float(low * (high / low) ** part)
