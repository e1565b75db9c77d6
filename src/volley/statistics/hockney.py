"""Hockney's model fitted to the times of a curve, and the quality of the fit.

A message of n bytes takes t(n) = α + n/β: a latency and an asymptotic bandwidth (R. W. Hockney, The communication
challenge for MPP: Intel Paragon and Meiko CS-2, Parallel Computing 20 (1994) 389-398).  At N½ = α·β both terms are
equal, and a message moves at half of β.

The fit minimises the mean relative deviation, Σ |t(n)/measured - 1|: an 8-byte message counts as much as one of 1 GiB.
Deviations are not squared, so if a curve changes its protocol, the line follows the larger part of the curve instead
of passing between the parts (P. Bloomfield and W. L. Steiger, Least Absolute Deviations, 1983).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from volley.statistics.estimates import median

MIN_SIZES = 5
"""Two points always lie on the fitted line.  From five sizes on, the median deviation belongs to another point."""

POOR = 0.25
"""A fit is poor if a deviation exceeds this.  At N½ each term is half of the time, so a quarter of the time is half of
a term: α or 1/β may be wrong by 50 %."""

_GOLDEN = (math.sqrt(5) - 1) / 2
_STEPS = 110
"""Steps of the golden-section search: 0.618^110 = 1e-23 of the first bracket.  The bracket is up to 1e6 times the
wanted slope (8 B to 1 GiB), and a double resolves 1e-16 of it."""


@dataclass(frozen=True)
class Fit:
    """Hockney's line: t(n) = ``latency_s`` + n / ``bandwidth_Bps``."""

    latency_s: float
    """α: the time of a message of 0 bytes."""
    bandwidth_Bps: float  # noqa: N815  B/s
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
        """N½ = α·β: the size that moves at half of β."""
        return self.latency_s * self.bandwidth_Bps

    @property
    def poor(self) -> bool:
        """True if a deviation exceeds ``POOR``: then the line does not describe the curve."""
        return abs(self.worst_deviation) > POOR

    def time_s(self, size_bytes: float) -> float:
        """Return the predicted time of a message in seconds."""
        return self.latency_s + size_bytes / self.bandwidth_Bps


def fit(sizes_bytes: Sequence[int], times_s: Sequence[float]) -> Fit | str:
    """Fit the line to one time per size; return the reason if the sizes do not determine both terms.

    A term is determined by the sizes at which it dominates, so N½ must lie between the smallest and the largest size.
    """
    if len(set(sizes_bytes)) < MIN_SIZES:
        return f"a fit needs at least {MIN_SIZES} sizes"
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

    For a given slope, the best α is a weighted median; the remaining deviation is a convex function of the slope, and a
    golden-section search finds its minimum.
    """
    # With α >= 0, the best line is at most as steep as the steepest ray from the origin to a measured point.
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
    """Return the sum of relative deviations of the best line with this slope."""
    latency = _latency(slope, sizes, times)
    return sum(abs((latency + n * slope) / t - 1) for n, t in zip(sizes, times, strict=True))


def _latency(slope: float, sizes: Sequence[int], times: Sequence[float]) -> float:
    """Return the α >= 0 with the least sum of relative deviations: the median of t - n·slope with weights 1/t."""
    rests = sorted((t - n * slope, 1 / t) for n, t in zip(sizes, times, strict=True))
    weights = list(accumulate(weight for _, weight in rests))
    middle, _ = rests[bisect_left(weights, weights[-1] / 2)]
    return max(0.0, middle)
