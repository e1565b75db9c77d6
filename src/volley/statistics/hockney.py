"""Hockney's line through a curve of times, and how well it fits.

A message of n bytes takes t(n) = α + n/β: a latency and an asymptotic bandwidth (R. W. Hockney, The communication
challenge for MPP: Intel Paragon and Meiko CS-2, Parallel Computing 20 (1994) 389-398).  At N½ = α·β both terms are
equal, and a message moves at half of β.

Of all such lines this is the one with the least mean relative deviation, Σ |t(n)/measured - 1|: an 8-byte message
counts as much as one of 1 GiB, and because deviations are not squared the line follows the larger part of a curve
that changes its protocol, instead of passing between the parts (P. Bloomfield and W. L. Steiger, Least Absolute
Deviations, 1983).  What the line does not follow shows in the deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from volley.statistics.estimates import median

FEWEST_SIZES = 5
"""Two of the points lie on such a line.  From five sizes on the median deviation is that of a point that need not."""

POOR = 0.25
"""A line that is off by more than this somewhere fits poorly.  At N½ each of its terms is half of the time, so a
quarter of the time is half of a term: α or 1/β might as well be half as large, or half as large again."""

_GOLDEN = (math.sqrt(5) - 1) / 2
_STEPS = 110
"""Golden sections: 0.618^110 = 1e-23 of the first bracket.  That bracket is up to 1e6 times the slope that is sought
(8 B to 1 GiB), and a double resolves 1e-16 of it."""


@dataclass(frozen=True)
class Fit:
    """Hockney's line: t(n) = ``latency_s`` + n / ``bandwidth_Bps``."""

    latency_s: float
    """α: what a message of no bytes would take."""
    bandwidth_Bps: float  # noqa: N815  B/s
    """β: what a message without end would reach."""
    median_deviation: float
    """Median over the sizes of abs(t(n) / measured - 1)."""
    worst_deviation: float
    """t(n) / measured - 1 where it is furthest from zero; negative: the message takes longer than the line says."""
    worst_size_bytes: int
    sizes: int
    """How many message sizes were fitted."""

    @property
    def half_bandwidth_bytes(self) -> float:
        """N½ = α·β: the size that moves at half of β."""
        return self.latency_s * self.bandwidth_Bps

    @property
    def poor(self) -> bool:
        """True where the line is off by more than ``POOR`` at some size: then it does not stand for the curve."""
        return abs(self.worst_deviation) > POOR

    def time_s(self, size_bytes: float) -> float:
        """Return what the line says of a message, in seconds."""
        return self.latency_s + size_bytes / self.bandwidth_Bps


def fit(sizes_bytes: Sequence[int], times_s: Sequence[float]) -> Fit | str:
    """Fit the line to one time a size; where the sizes cannot tell both its terms, return the reason instead.

    A term is told by the sizes at which it is the larger one, so N½ must lie between the smallest and the largest.
    """
    if len(set(sizes_bytes)) < FEWEST_SIZES:
        return f"{FEWEST_SIZES} sizes are the fewest that show how well a line fits"
    latency, slope = _line(sizes_bytes, times_s)
    if latency > slope * max(sizes_bytes):
        return "latency is the larger part of every time: larger messages would show the bandwidth"
    if latency < slope * min(sizes_bytes):
        return "latency is the smaller part of every time: smaller messages would show it"
    off = [(latency + n * slope) / t - 1 for n, t in zip(sizes_bytes, times_s, strict=True)]
    worst, where = max(zip(off, sizes_bytes, strict=True), key=lambda pair: abs(pair[0]))
    return Fit(latency, 1 / slope, median([abs(one) for one in off]), worst, where, len(off))


def _line(sizes: Sequence[int], times: Sequence[float]) -> tuple[float, float]:
    """Return α >= 0 and 1/β >= 0 with the least mean relative deviation.

    For a given slope the best α is a weighted median, and what is left is a convex function of the slope alone, so that
    golden sections find its least value.
    """
    # A line with α >= 0 passes through measured points only if it is no steeper than the steepest ray to one of them.
    low, high = 0.0, max(t / n for n, t in zip(sizes, times, strict=True))
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = _deviation(left, sizes, times), _deviation(right, sizes, times)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _deviation(left, sizes, times)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = _deviation(right, sizes, times)
    slope = (low + high) / 2
    return _latency(slope, sizes, times), slope


def _deviation(slope: float, sizes: Sequence[int], times: Sequence[float]) -> float:
    """The sum of relative deviations of the best line of this slope."""
    latency = _latency(slope, sizes, times)
    return sum(abs((latency + n * slope) / t - 1) for n, t in zip(sizes, times, strict=True))


def _latency(slope: float, sizes: Sequence[int], times: Sequence[float]) -> float:
    """The α >= 0 with the least sum of relative deviations: the median of t - n·slope with weights 1/t."""
    rests = sorted((t - n * slope, 1 / t) for n, t in zip(sizes, times, strict=True))
    half, below = sum(weight for _, weight in rests) / 2, 0.0
    for rest, weight in rests:
        below += weight
        if below >= half:
            return max(0.0, rest)
    return max(0.0, rests[-1][0])
