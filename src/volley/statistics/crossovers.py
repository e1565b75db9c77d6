"""Crossovers between curves over message sizes, and N½, the size at which a curve reaches half of its peak rate.

A curve holds the times of the launches at each size.  One of two curves is faster at a size if the whole 95 % interval
of the ratio of their times, formed within each launch, lies on one side of 1; if it includes 1, or if there is no
interval, neither is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from volley.statistics.hockney import MIN_SIZES
from volley.statistics.launches import Repeated, ratio, shown_above_one

Curve = Mapping[int, Repeated]
"""Seconds by message size in bytes."""


@dataclass(frozen=True)
class Crossover:
    """A size at which the order of two curves changes; on both sides the difference is significant."""

    faster: str
    slower: str
    last_bytes: int
    """The largest smaller size at which ``slower`` was faster than ``faster``."""
    from_bytes: int
    """The first size at which ``faster`` is faster."""
    final: bool
    """True if there is no crossover at a larger size."""
    again: bool
    """True if there was a crossover at a smaller size."""


def crossovers(curves: Mapping[str, Curve]) -> list[Crossover]:
    """Return every crossover between curves, pair by pair, then by size."""
    return [one for first, second in combinations(curves, 2) for one in _between(first, second, curves)]


def _between(first: str, second: str, curves: Mapping[str, Curve]) -> Iterator[Crossover]:
    one, other = curves[first], curves[second]
    leads: list[tuple[int, str]] = []
    for size in sorted(one.keys() & other.keys()):
        if shown_above_one(ratio(other[size], one[size])):
            leads.append((size, first))
        elif shown_above_one(ratio(one[size], other[size])):
            leads.append((size, second))
    changes = [(before, after) for before, after in pairwise(leads) if before[1] != after[1]]
    for number, ((last_bytes, slower), (from_bytes, faster)) in enumerate(changes, start=1):
        yield Crossover(faster, slower, last_bytes, from_bytes, final=number == len(changes), again=number > 1)


def half_bandwidth(sizes_bytes: Sequence[int], rates: Sequence[float]) -> float | None:
    """Return N½: the size in bytes at which a curve first reaches half of its largest measured rate.

    Between neighbouring sizes the time is taken as a straight line over the size, as if a message took a latency and a
    time for each byte.  The result is ``None`` if the smallest size already reaches half of the rate, or if there are
    fewer than ``MIN_SIZES`` sizes.

    Args:
        sizes_bytes: message sizes in increasing order.
        rates: one rate per size, in any unit.
    """
    if len(rates) < MIN_SIZES:
        return None
    half = max(rates) / 2
    above = next(number for number, rate in enumerate(rates) if rate >= half)
    if above == 0:
        return None
    low, high = sizes_bytes[above - 1], sizes_bytes[above]
    # A size takes size / rate, and at half of the best rate size / half: the difference of both is linear, too.
    late, early = low / rates[above - 1] - low / half, high / half - high / rates[above]
    return low + (high - low) * late / (late + early)
