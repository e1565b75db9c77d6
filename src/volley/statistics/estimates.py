"""Medians of samples and their confidence intervals by order statistics.

Nothing here assumes a distribution.  The interval of the median is bounded by two of the samples themselves: the
number of samples below the true median is Binomial(n, 1/2), so the r-th smallest and the r-th largest sample bracket
it with probability 1 - 2 P(Binomial(n, 1/2) < r) at least (W. J. Conover, Practical Nonparametric Statistics, 3.2).
The engine's stopping rule uses the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

CONFIDENCE = 0.95

FEWEST = 6
"""The fewest samples that have an interval: their smallest and largest cover the median with 1 - 2 / 2^6 = 96.9 %,
whereas those of five cover it with 93.8 % only."""

OUTLIER_DEVIATIONS = 14.826
"""A sample further from the median than this many median absolute deviations is an outlier: ten standard deviations,
which are 1.4826 of them in a normal distribution; the threshold of hyperfine (sharkdp/hyperfine,
src/outlier_detection.rs), after Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993."""

Kind = Literal["ci", "range", "single"]


@dataclass(frozen=True)
class Estimate:
    """The median of some observations and its bounds, all in the unit of the observations."""

    median: float
    low: float
    high: float
    count: int
    kind: Kind
    """``ci``: confidence interval of 95 % at least; ``range``: smallest to largest, too few for one; ``single``: 1."""

    @property
    def half_width(self) -> float:
        """Distance from the median to the further bound, as a fraction of the median."""
        return max(self.high - self.median, self.median - self.low) / self.median


def median(samples: Sequence[float]) -> float:
    """Return the middle of the sorted samples, the mean of the middle two where their number is even.

    Raises:
        ValueError: if there are no samples.
    """
    if not samples:
        raise ValueError("no samples, no median")
    ordered = sorted(samples)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


@lru_cache(maxsize=1024)
def interval_rank(count: int, tail: float = (1 - CONFIDENCE) / 2) -> int:
    """Return the largest r with P(Binomial(count, 1/2) < r) <= tail; 0 where there is none (2.5 %: fewer than six)."""
    # Twelve standard deviations below the middle the sum is under 1e-30, so it can start there: O(sqrt(count)).
    start = max(0, count // 2 - math.ceil(6 * math.sqrt(count)))
    log_all = math.lgamma(count + 1) - count * math.log(2)
    below = 0.0
    for rank in range(start, count // 2 + 1):
        below += math.exp(log_all - math.lgamma(rank + 1) - math.lgamma(count - rank + 1))
        if below > tail:
            return rank
    return count // 2


def estimate(observations: Sequence[float]) -> Estimate:
    """Return the median with its 95 % interval; with fewer than six observations their range instead.

    Raises:
        ValueError: if there are no observations.
    """
    ordered = sorted(observations)
    count = len(ordered)
    middle = median(ordered)
    rank = interval_rank(count)
    if rank > 0:
        return Estimate(middle, ordered[rank - 1], ordered[-rank], count, "ci")
    return Estimate(middle, ordered[0], ordered[-1], count, "range" if count > 1 else "single")


def across_launches(launches: Sequence[Sequence[float]]) -> Estimate:
    """Return the estimate over launches: the median of each launch is one observation.

    Samples of one launch share its placement of pages, its cores and its clock, so they do not tell what another
    launch would give; only launches do.  One launch alone is estimated from its samples.
    """
    if len(launches) == 1:
        return estimate(launches[0])
    return estimate([median(samples) for samples in launches])


def percentile(samples: Sequence[float], fraction: float) -> float | None:
    """Return the nearest-rank percentile; ``None`` where fewer than one sample is expected beyond it."""
    if len(samples) * (1 - fraction) < 1 - 1e-9:
        return None
    return sorted(samples)[max(0, math.ceil(fraction * len(samples) - 1e-9) - 1)]


def outliers(samples: Sequence[float]) -> int:
    """Count the samples that lie far above the median (``OUTLIER_DEVIATIONS``): something interrupted the ranks."""
    if not samples:
        return 0
    middle = median(samples)
    deviation = median([abs(sample - middle) for sample in samples])
    # Where most samples are equal (a coarse clock) the deviation is zero and a relative step takes its place.
    limit = middle + OUTLIER_DEVIATIONS * max(deviation, 1e-3 * middle)
    return sum(sample > limit for sample in samples)


def drift(samples: Sequence[float]) -> float:
    """Return by how much the last third of the samples differs from the first, as a fraction of the first.

    Zero where the 95 % intervals of the two thirds overlap, or where there are too few samples to have both.
    """
    third = len(samples) // 3
    if third < FEWEST:
        return 0.0
    first, last = estimate(samples[:third]), estimate(samples[-third:])
    if first.low <= last.high and last.low <= first.high:
        return 0.0
    return last.median / first.median - 1
