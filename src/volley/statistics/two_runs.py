"""Whether two runs of the same request differ, and where: one verdict over all of their results.

The launches of both runs are put together and dealt out again in every way.  If the runs do not differ, what they show
is one of these deals like any other.  Each deal is judged by its largest statistic over all results, so the rate of
false alarms holds for the whole sweep, however many results it has and however they hang together, which they do: a
launch on a slow CPU is slow at every size (P. H. Westfall and S. S. Young, Resampling-Based Multiple Testing, 1993;
T. E. Nichols and A. P. Holmes, Nonparametric permutation tests for functional neuroimaging, Human Brain Mapping 15
(2002) 1-25, on the largest statistic).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from operator import itemgetter
from typing import Generic, TypeVar

from volley.statistics.estimates import median

Key = TypeVar("Key", bound=Hashable)
Picker = Callable[[Sequence[float]], Sequence[float]]

LEVEL = 0.005
"""The largest probability of a deal that counts as a difference.  Runs that follow each other are minutes apart and the
machine drifts between them: at 0.05, one sweep in seven was called different on recorded launches, at 0.005 fewer than
one in twenty (docs/method/coverage.md)."""

SMALLEST = 0.01
"""A difference of less than 1 % is not called one: two runs never agree in everything."""

MOST_DEALS = 1000
"""Of more ways to deal the launches out than this, so many are drawn: LEVEL is then known to within 0.002."""

TRIMMED = 8
"""One in so many launches of a run is left out at either end.  Of ten launches some are outliers: without trimming, a
change of 5 % was found in 92 % of the sweeps whose intervals allowed it, with it in 96 %."""

SEED = 1
"""The draws are the same each time, and so is the verdict on the same records."""


@dataclass(frozen=True)
class Difference(Generic[Key]):
    """How one result of the second run compares with that of the first."""

    key: Key
    ratio: float
    """Median over launches of the second run / that of the first."""
    probability: float
    """The share of the deals in which some result of the sweep stands out as much as this one does."""

    @property
    def shown(self) -> bool:
        """True where the runs differ in this result."""
        return self.probability <= LEVEL and abs(self.ratio - 1) >= SMALLEST


def comparable(first: int, second: int) -> bool:
    """Return whether so many launches can show a difference: 6 and 6 can, 5 and 5 cannot."""
    alike = 2 if first == second else 1  # the two halves of a deal may change places
    return alike / math.comb(first + second, first) <= LEVEL


def differences(first: Mapping[Key, Sequence[float]], second: Mapping[Key, Sequence[float]]) -> list[Difference[Key]]:
    """Compare what both runs have, result by result.

    Args:
        first: positive medians of the launches by result, each in the order of the launches.
        second: the same of the other run.  Results that some launch of a run lacks must be left out.

    Raises:
        ValueError: if results of one run have different numbers of launches.
    """
    keys = [key for key in first if key in second]
    if not keys:
        return []
    shapes = {(len(first[key]), len(second[key])) for key in keys}
    if len(shapes) > 1:
        raise ValueError("results have different numbers of launches")
    ((here, _),) = shapes
    columns = [_statistics([math.log(time) for time in (*first[key], *second[key])], here) for key in keys]
    largest = sorted(max(column) for column in zip(*columns, strict=True))
    return [
        Difference(key, median(second[key]) / median(first[key]), _share_above(column[0], largest))
        for key, column in zip(keys, columns, strict=True)
    ]


@lru_cache(maxsize=64)
def _deals(part: int, whole: int) -> tuple[tuple[Picker, Picker], ...]:
    """Ways to choose the launches of the first run and those of the second; the way they were comes first."""
    if math.comb(whole, part) <= MOST_DEALS:
        chosen = list(combinations(range(whole), part))
    else:
        draw = random.Random(SEED)  # noqa: S311  no secret
        chosen = [tuple(range(part)), *(tuple(draw.sample(range(whole), part)) for _ in range(MOST_DEALS - 1))]
    return tuple((_picker(deal), _picker(sorted({*range(whole)} - {*deal}))) for deal in chosen)


def _picker(places: Sequence[int]) -> Picker:
    """A function that takes these places out of a list."""
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return itemgetter(*places)


def _statistics(times: Sequence[float], part: int) -> list[float]:
    """Return for each deal how far the runs are apart over the spread within them; ``part`` times are of the first.

    It is Student's t without its sign, but for a constant factor; from ``TRIMMED`` launches on with trimmed means and
    winsorised spreads, which an outlying launch does not move (K. K. Yuen, The two-sample trimmed t for unequal
    population variances, Biometrika 61 (1974) 165-170).
    """
    middle = sum(times) / len(times)
    off = [time - middle for time in times]
    # Equal times leave nothing but rounding within the runs: a billionth of the time counts as none.
    least = len(times) * 1e-18
    found = []
    for first, second in _deals(part, len(times)):
        mean, spread, count = _trimmed(first(off))
        other_mean, other_spread, other_count = _trimmed(second(off))
        scale = (spread + other_spread) * (1 / count + 1 / other_count)
        found.append(abs(mean - other_mean) / math.sqrt(max(scale, least)))
    return found


def _trimmed(values: Sequence[float]) -> tuple[float, float, int]:
    """Trimmed mean, sum of squares of the winsorised values around their mean, and how many values were kept."""
    cut = len(values) // TRIMMED
    if not cut:
        mean = sum(values) / len(values)
        return mean, sum([(value - mean) ** 2 for value in values]), len(values)
    ordered = sorted(values)
    kept = ordered[cut:-cut]
    total = sum(kept)
    low, high = kept[0], kept[-1]
    mean = (total + cut * (low + high)) / len(values)
    squares = sum([(value - mean) ** 2 for value in kept]) + cut * ((low - mean) ** 2 + (high - mean) ** 2)
    return total / len(kept), squares, len(kept)


def _share_above(value: float, ordered: Sequence[float]) -> float:
    """The share of values that are as large; deals that are equal but for rounding count as equal."""
    return sum(each >= value * (1 - 1e-9) for each in ordered) / len(ordered)
