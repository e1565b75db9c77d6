"""Medians of independent observations, such as the samples of one launch, and their confidence intervals.

``statistics.launches`` has the estimates over several launches.

No distribution is assumed.  Two of the samples bound the interval of the median: the number of samples below the true
median is Binomial(n, 1/2), so the r-th smallest and the r-th largest sample bracket the median with a probability of at
least 1 - 2 P(Binomial(n, 1/2) < r) (W. J. Conover, Practical Nonparametric Statistics, 3.2).  The engine's stopping
rule uses the same interval.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

CONFIDENCE = 0.95

MIN_SAMPLES = 6
"""The smallest number of samples with a 95 % interval: their range covers the median with 1 - 2 / 2^6 = 96.9 %; the
range of five samples covers it with only 93.8 %."""

STEPS_SHOW = 100
"""Fewer observations do not show the steps of a clock."""
SHARE_OF_STEP, NEXT_STEP, MOST_OF_STEP = 0.01, 2.5, 0.1
"""The part of the observations that a value must have to count as a step; values nearer than this many times the
smallest difference are one; a larger part of the value is no step of a clock, but of what was measured."""

OUTLIER_DEVIATIONS = 14.826
"""A sample further from the median than this many median absolute deviations is an outlier: ten standard deviations,
which are 1.4826 of them in a normal distribution; the threshold of hyperfine (sharkdp/hyperfine,
src/outlier_detection.rs), after Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993."""

Kind = Literal["ci", "within", "range", "single"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The median of some observations and its bounds, all in the unit of the observations: what people see."""

    median: float
    low: float
    high: float
    count: int
    kind: Kind
    """``ci``: 95 % confidence interval; ``within``: one of the samples of a single launch, which holds only within it;
    ``range``: range of too few observations; ``single``: one observation."""
    widened: tuple[float, float] | None = None
    """Of three to five launches: what verdicts rest on, far wider than the range."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """What holds the median of a repetition with ``CONFIDENCE``; ``None`` of too few observations."""
        return (self.low, self.high) if self.kind in ("ci", "within") else self.widened

    def above(self, value: float) -> bool:
        """Return whether the whole interval lies above a value; never without one."""
        return self.interval is not None and self.interval[0] > value

    def below(self, value: float) -> bool:
        return self.interval is not None and self.interval[1] < value

    def map(self, convert: Callable[[float], float]) -> Estimate:
        """Return the estimate of what a rising or falling function makes of each observation, e.g. of rates."""
        low, high = sorted(map(convert, (self.low, self.high)))
        first, last = sorted(map(convert, self.widened or (self.low, self.high)))
        widened = (first, last) if self.widened else None
        return replace(self, median=convert(self.median), low=low, high=high, widened=widened)

    @property
    def half_width(self) -> float:
        """Distance from the median to the farther end of the interval, or of the range, as a fraction of it."""
        low, high = self.interval or (self.low, self.high)
        return max(high - self.median, self.median - low) / self.median


def median(samples: Sequence[float]) -> float:
    """Return the middle of the sorted samples, or the mean of the middle two if their number is even."""
    if not samples:
        raise ValueError("the median of no samples does not exist")
    ordered = sorted(samples)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


@lru_cache(maxsize=1024)
def interval_rank(count: int, tail: float = (1 - CONFIDENCE) / 2) -> int:
    """Return the largest r with P(Binomial(count, 1/2) < r) <= tail; 0 if there is none (2.5 %: fewer than six)."""
    # The sum up to twelve standard deviations below the middle is under 1e-30 and is skipped: O(sqrt(count)).
    start = max(0, count // 2 - math.ceil(6 * math.sqrt(count)))
    log_all = math.lgamma(count + 1) - count * math.log(2)
    rank, below = start - 1, 0.0
    while below <= tail:
        rank += 1
        below += math.exp(log_all - math.lgamma(rank + 1) - math.lgamma(count - rank + 1))
    return rank


def estimate(observations: Sequence[float]) -> Estimate:
    """Return the median with its 95 % interval, or with the range of fewer than six observations."""
    ordered = sorted(observations)
    count = len(ordered)
    middle = median(ordered)
    rank = interval_rank(count)
    if rank > 0:
        half = clock_step(ordered) / 2
        return Estimate(middle, ordered[rank - 1] - half, ordered[-rank] + half, count, "ci")
    return Estimate(middle, ordered[0], ordered[-1], count, "range" if count > 1 else "single")


def clock_step(ordered: Sequence[float]) -> float:
    """Return the step of a coarse clock that shows in sorted observations, else 0.

    It shows where most observations equal another one.  Times of single short operations do, of which there are
    hundreds; each may be half a step off.  A clock may tell its steps of 10 ns in whole nanoseconds, now 30 and now
    31: values that are much closer to each other than the next ones are one.
    """
    if len(ordered) < STEPS_SHOW:
        return 0.0
    counts = Counter(ordered)
    if 2 * len(counts) >= len(ordered):
        return 0.0
    values = sorted(value for value, number in counts.items() if number >= SHARE_OF_STEP * len(ordered))
    step = 0.0
    while len(values) > 1:
        least = min(after - before for before, after in pairwise(values))
        if step and least > MOST_OF_STEP * values[len(values) // 2]:
            break
        step, those, values = least, values, []
        cluster = those[:1]
        for value in those[1:]:
            if value - cluster[-1] > NEXT_STEP * least:
                values.append(math.fsum(cluster) / len(cluster))
                cluster = []
            cluster.append(value)
        values.append(math.fsum(cluster) / len(cluster))
    return step


def percentile(samples: Sequence[float], fraction: float) -> float | None:
    """Return the nearest-rank percentile; ``None`` if fewer than one sample is expected beyond it."""
    if len(samples) * (1 - fraction) < 1 - 1e-9:
        return None
    return sorted(samples)[max(0, math.ceil(fraction * len(samples) - 1e-9) - 1)]


def outliers(samples: Sequence[float]) -> int:
    """Count the samples far above the median (``OUTLIER_DEVIATIONS``), which indicate interruptions."""
    if not samples:
        return 0
    middle = median(samples)
    deviation = median([abs(sample - middle) for sample in samples])
    # If most samples are equal (a coarse clock), the deviation is zero; then a relative minimum is used.
    limit = middle + OUTLIER_DEVIATIONS * max(deviation, 1e-3 * middle)
    return sum(sample > limit for sample in samples)


def drift(samples: Sequence[float]) -> float:
    """Return the change of the median from the first to the last third of the samples, as a fraction of the first.

    The result is zero if the 95 % intervals of the two thirds overlap, or if there are too few samples for them.
    """
    third = len(samples) // 3
    if third < MIN_SAMPLES:
        return 0.0
    first, last = estimate(samples[:third]), estimate(samples[-third:])
    if first.low <= last.high and last.low <= first.high:
        return 0.0
    return last.median / first.median - 1
