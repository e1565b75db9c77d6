"""What curves over message sizes say: Hockney's line, crossovers, and N½, where a curve reaches half of its rate.

A message of n bytes takes t(n) = α + n/β: a latency and an asymptotic bandwidth (R. W. Hockney, The communication
challenge for MPP: Intel Paragon and Meiko CS-2, Parallel Computing 20 (1994) 389-398).  At N½ = α·β both terms are
equal, and a message moves at half of β.  The fit minimises the mean relative deviation, Σ |t(n)/measured - 1|: an
8-byte message counts as much as one of 1 GiB.  Deviations are not squared, so if a curve changes its protocol, the line
follows the larger part of the curve instead of passing between the parts (P. Bloomfield and W. L. Steiger, Least
Absolute Deviations, 1983).

Which of many curves is faster at a size is asked for every pair and every size at once, so ``Order`` is stricter than
the interval of one ratio.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations, pairwise

from volley.statistics.estimates import Estimate, median
from volley.statistics.launches import Repeated, log_half_width, ratio, stricter

MIN_SIZES = 5
"""Two points always lie on the fitted line.  From five sizes on, the median deviation belongs to another point."""

POOR = 0.25
"""A fit is poor if a deviation exceeds this.  At N½ each term is half of the time, so a quarter of the time is half of
a term: α or 1/β may be wrong by 50 %."""


@dataclass(frozen=True)
class Fit:
    """Hockney's line: t(n) = ``latency_s`` + n / ``bandwidth_Bps``."""

    latency_s: float
    """α: the time of a message of 0 bytes."""
    bandwidth_Bps: float
    """β: the bandwidth of an infinitely long message."""
    median_deviation: float
    """Median over the sizes of abs(t(n) / measured - 1)."""
    worst_deviation: float
    """t(n) / measured - 1 with the largest magnitude; negative: the message takes longer than the line predicts."""
    worst_size_bytes: int
    sizes: int
    """The number of fitted message sizes."""

    @property
    def half_bandwidth_bytes(self) -> float:
        return self.latency_s * self.bandwidth_Bps

    @property
    def poor(self) -> bool:
        return abs(self.worst_deviation) > POOR

    def time_s(self, size_bytes: float) -> float:
        return self.latency_s + size_bytes / self.bandwidth_Bps


def fit(sizes_bytes: Sequence[int], times_s: Sequence[float]) -> Fit | str:
    """Fit the line to one time per size; return the reason if the sizes do not determine both terms.

    A term is determined by the sizes at which it dominates, so N½ must lie between the smallest and the largest size.
    """
    if len(set(sizes_bytes)) < MIN_SIZES:
        return f"a fit needs at least {MIN_SIZES} sizes"
    points = list(zip(sizes_bytes, times_s, strict=True))
    # The line with the least mean deviation passes through a measured point.
    latency, slope = min((_through(*point, points) for point in points), key=lambda line: _deviation(line, points))
    if latency > slope * max(sizes_bytes):
        return "latency is the larger part of every time: larger messages would show the bandwidth"
    if latency < slope * min(sizes_bytes):
        return "latency is the smaller part of every time: smaller messages would show it"
    off = [(latency + n * slope) / t - 1 for n, t in points]
    worst, where = max(zip(off, sizes_bytes, strict=True), key=lambda pair: abs(pair[0]))
    return Fit(latency, 1 / slope, median([abs(one) for one in off]), worst, where, len(off))


def _through(size: int, time: float, points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return α >= 0 and 1/β >= 0 of the best line through a point.

    Its slope is the median of the slopes to the other points, each with the weight of its distance over its time.
    """
    slopes = sorted(((t - time) / (n - size), abs(n - size) / t) for n, t in points if n != size)
    weights = list(accumulate(weight for _, weight in slopes))
    middle, _ = slopes[bisect_left(weights, weights[-1] / 2)]
    slope = min(max(0.0, middle), time / size)
    return time - size * slope, slope


def _deviation(line: tuple[float, float], points: Sequence[tuple[int, float]]) -> float:
    latency, slope = line
    return sum(abs((latency + n * slope) / t - 1) for n, t in points)


Curve = Mapping[int, Repeated]
"""Seconds by message size in bytes."""


@dataclass(frozen=True)
class Crossover:
    """A size at which the order of two curves changes; on both sides one is faster for certain (``Order``)."""

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


NEIGHBOURS = 5
"""So many sizes, a size and those next to it, vary alike: each of them is as uncertain as the most uncertain."""


@dataclass(frozen=True)
class Order:
    """Which curves are faster, with at most 5 % of sweeps of equal curves in error.

    The ratio of two curves, formed within each launch, must be farther from 1 than the half width of its interval, on a
    logarithmic scale.  Launches that happen to agree at one size of many must not decide, so the half width is the
    largest of the ``NEIGHBOURS``.  From six launches on, and within one launch, it is multiplied by
    the ratio of the normal quantiles of one comparison and of all those that a winner has (Bonferroni).  Fewer launches
    fall on one side of 1 together too often, however many comparisons are allowed for: their half width is the largest
    of all pairs at these sizes (docs/method/comparing.md).
    """

    curves: Mapping[str, Curve]

    def faster(self, one: str, other: str, size: int) -> bool:
        """Return whether a curve is faster than another one at a size, for certain."""
        return (one, other, size) in self._certain

    def _ratios(self) -> dict[tuple[str, str, int], Estimate]:
        """The time of the second curve / that of the first one, for each two curves and each size."""
        found = {}
        for (first, one), (second, other) in combinations(self.curves.items(), 2):
            for size in sorted(one.keys() & other.keys()):
                if (quotient := ratio(other[size], one[size])) and quotient.interval:
                    found[first, second, size] = quotient
        return found

    @cached_property
    def _certain(self) -> set[tuple[str, str, int]]:
        """Two curves and a size at which the first one is faster for certain."""
        ratios = self._ratios()
        sizes = sorted({size for _, _, size in ratios})
        own = {place: log_half_width(quotient) for place, quotient in ratios.items()}
        near = {}
        for number, size in enumerate(sizes):
            start = max(0, min(number - NEIGHBOURS // 2, len(sizes) - NEIGHBOURS))
            near[size] = sizes[start : start + NEIGHBOURS]
        most = {place: max(own.get((*place[:2], size), 0.0) for size in near[place[2]]) for place in own}
        together: dict[int, float] = {}
        for place, each in most.items():
            together[place[2]] = max(each, together.get(place[2], 0.0))
        wider = stricter((len(self.curves) - 1) * len(sizes))
        found = set()
        for (one, other, size), quotient in ratios.items():
            needed = together[size] if quotient.widened else most[one, other, size] * wider
            if abs(lead := math.log(quotient.median)) > needed:
                found.add((one, other, size) if lead > 0 else (other, one, size))
        return found


def crossovers(order: Order) -> list[Crossover]:
    found = []
    for (first, one), (second, other) in combinations(order.curves.items(), 2):
        leads: list[tuple[int, str]] = []
        for size in sorted(one.keys() & other.keys()):
            if order.faster(first, second, size):
                leads.append((size, first))
            elif order.faster(second, first, size):
                leads.append((size, second))
        changes = [(before, after) for before, after in pairwise(leads) if before[1] != after[1]]
        for number, ((last, slower), (start, faster)) in enumerate(changes, start=1):
            found.append(Crossover(faster, slower, last, start, final=number == len(changes), again=number > 1))
    return found


def half_bandwidth(sizes_bytes: Sequence[int], rates: Sequence[float]) -> float | None:
    """Return N½: the size in bytes at which a curve first reaches half of its largest measured rate.

    Between neighbouring sizes the time is taken as a straight line over the size, as if a message took a latency and a
    time for each byte.  The result is ``None`` if the smallest size already reaches half of the rate, or if there are
    fewer than ``MIN_SIZES`` sizes.
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
