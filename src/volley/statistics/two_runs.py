"""How two runs compare: the ratio of each result with its interval, and one verdict over all results together.

**The interval of a ratio** is over launches.  The launches of two runs have nothing to do with each other, so every
launch of one is compared with every launch of the other: the median of these ratios is the estimate of Hodges and
Lehmann, and two of them bound it (M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd ed.,
4.2 and 4.3; the interval is due to L. E. Moses).  Its level is ``NOMINAL``, that of all intervals over launches.  Where
launches were measured in pairs, the ratio is formed within each pair and has the interval of any other quantity
(``statistics.launches``).

**Whether a result changed** is decided for the whole sweep at once.  It is a permutation test: the launches of both
runs are put together and assigned to the runs again in every way; launches in pairs change places within their pairs.
If the runs do not differ, what they show is one of these permutations like any other.  What counts of a permutation is
its largest statistic over all results, so the rate of false alarms holds for the whole sweep, however many results it
has and even though they are correlated: a launch on a slow CPU is slow at every size (P. H. Westfall and S. S. Young,
Resampling-Based Multiple Testing, 1993; T. E. Nichols and A. P. Holmes, Nonparametric permutation tests for functional
neuroimaging, Human Brain Mapping 15 (2002) 1-25, on the largest statistic).
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from volley.statistics.estimates import Estimate, Kind
from volley.statistics.launches import NOMINAL, of_ratios

Key = TypeVar("Key", bound=Hashable)
Floats = NDArray[np.float64]
Times = Sequence[float | None]
"""Of one result in the launches of a run; ``None`` where a launch did not measure it."""
Column = tuple[Times, Times]
"""Of one result in both runs."""

LEVEL = 0.005
"""The significance level of one sweep: the largest probability that counts as a change.  Runs that follow each other
are minutes apart and the machine drifts between them: at 0.05, one sweep in seven was called different on recorded
launches of the same thing; at 0.005, 0 to 6 % on two machines and 12 to 16 % on one that drifts
(docs/method/coverage.md)."""

PAIRED_LEVEL = 0.02
"""The same for launches in pairs: drift changes both of a pair, and which of them came first was drawn, so the level
need not pay for it."""

SMALLEST = 0.01
"""A change of less than 1 % is not called one: two runs never agree in everything."""

MAX_PERMUTATIONS = 1000
"""If there are more permutations than this, so many are drawn: LEVEL is then known to within 0.002."""

WINSOR_LIMIT = 1.5
"""Values this many times as far from the middle as the quartiles are clipped to that distance: of ten launches one or
two are outliers (P. J. Huber, Robust Statistics, 1981).  Middle and quartiles are those of both runs together, so that
every permutation has the same values; if one run has fewer launches, the quartiles become quantiles further out, so
that the smaller run counts as one side."""

EXACT_UNTIL = 1024
"""With more ratios of launches than this, their ranks are those of a normal distribution: the exact ones take longer
and differ by at most one."""

SEED = 1
"""The draws are the same each time, and so is the verdict on the same records."""


@dataclass(frozen=True, slots=True)
class Difference(Generic[Key]):
    """How one result of the second run compares with that of the first."""

    key: Key
    ratio: Estimate
    """The second run / the first one, over launches.  ``ci``: 95 % confidence interval; ``range``: too few launches for
    one; ``single``: one launch of each."""
    probability: float
    """The share of the permutations in which some result of the sweep stands out as much as this one does."""
    level: float
    """The largest probability that counts as a change."""

    @property
    def changed(self) -> bool:
        """True where the runs differ in this result: over the whole sweep, in the interval, and by ``SMALLEST``."""
        apart = self.ratio.kind == "ci" and not self.ratio.low <= 1 <= self.ratio.high
        return apart and self.probability <= self.level and abs(self.ratio.median - 1) >= SMALLEST

    @property
    def shown_within(self) -> float:
        """The smallest x for which the interval shows that the second run takes between 1 / (1 + x) and 1 + x times as
        long as the first one; infinite without an interval.  Both one-sided tests of equivalence hold at 2.5 %
        (D. J. Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987) 657-680)."""
        if self.ratio.kind != "ci":
            return math.inf
        return max(self.ratio.high, 1 / self.ratio.low) - 1


@lru_cache(maxsize=256)
def can_decide(first: int, second: int, *, paired: bool = False) -> bool:
    """Return whether so many launches can show a change: 6 and 6 can, 5 and 5 cannot; 7 pairs can, 6 cannot."""
    if paired:
        return 2.0 ** (1 - first) <= PAIRED_LEVEL
    alike = 2 if first == second else 1  # the two halves of a permutation may change places
    return alike / math.comb(first + second, first) <= LEVEL


@lru_cache(maxsize=2)
def min_to_decide(*, paired: bool = False) -> int:
    """Return the fewest launches of each run, or pairs, that can show a change."""
    return next(count for count in range(2, 100) if can_decide(count, count, paired=paired))


def differences(
    first: Mapping[Key, Mapping[int, float]], second: Mapping[Key, Mapping[int, float]], *, paired: bool = False
) -> list[Difference[Key]]:
    """Compare what both runs have, result by result.

    A launch need not have every result.  A result of so few launches that they cannot show a change takes no part in
    the verdict over the others.

    Args:
        first: positive medians by result and number of the launch.
        second: the same of the other run.
        paired: launches of the same number were measured together; others are left out.
    """
    keys = [key for key in first if key in second and (not paired or first[key].keys() & second[key].keys())]
    here, there = ({launch for key in keys for launch in run[key]} for run in (first, second))
    launches = [sorted(here & there)] * 2 if paired else [sorted(here), sorted(there)]
    columns: list[Column] = []
    for key in keys:
        both = first[key].keys() & second[key].keys()
        one, other = (
            [run[key][launch] if launch in (both if paired else run[key]) else None for launch in those]
            for run, those in zip((first, second), launches, strict=True)
        )
        columns.append((one, other))
    found = []
    for key, column, probability in zip(keys, columns, _probabilities(columns, paired=paired), strict=True):
        measured = [[time for time in times if time is not None] for times in column]
        ratio = (ratio_of_pairs if paired else ratio_of)(*measured)
        found.append(Difference(key, ratio, probability, PAIRED_LEVEL if paired else LEVEL))
    return found


# ----------------------------------------------------------------------------------------------------- the ratio


def ratio_of(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Return the second run / the first one, from launches that are independent of each other."""
    others = sorted(second)  # sorting sorted parts is fast
    ratios = sorted([other / one for one in first for other in others])
    middle = math.sqrt(ratios[(len(ratios) - 1) // 2] * ratios[len(ratios) // 2])  # the middle of the logarithms
    rank = mann_whitney_rank(len(first), len(second))
    low, high = (ratios[rank - 1], ratios[-rank]) if rank else (ratios[0], ratios[-1])
    kind: Kind = "ci" if rank else "range" if len(ratios) > 1 else "single"
    return Estimate(middle, low, high, min(len(first), len(second)), kind)


def ratio_of_pairs(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Return the second run / the first one, from launches in pairs."""
    return of_ratios([other / one for one, other in zip(first, second, strict=True)])


@lru_cache(maxsize=256)
def mann_whitney_rank(first: int, second: int, level: float = NOMINAL) -> int:
    """Return which of the sorted ratios of so many launches, counted from either end, bounds their median; 0 if none.

    It is the largest r for which the statistic U of Mann and Whitney is less than r in at most (1 - level) / 2 of all
    cases.
    """
    tail = (1 - level) / 2
    pairs = first * second
    if pairs > EXACT_UNTIL:
        spread = math.sqrt(pairs * (first + second + 1) / 12)
        return math.floor(pairs / 2 + NormalDist().inv_cdf(tail) * spread)
    # The ways to reach each value of U are the coefficients of the Gaussian binomial coefficient.
    ways = [1] + [0] * pairs
    for part in range(1, first + 1):
        for value in range(pairs, second + part - 1, -1):
            ways[value] -= ways[value - second - part]
        for value in range(part, pairs + 1):
            ways[value] += ways[value - part]
    most = tail * math.comb(first + second, first)
    below = 0
    for rank, count in enumerate(ways):
        below += count
        if below > most:
            return rank
    return pairs


# --------------------------------------------------------------------------------------------------- the verdict


def _probabilities(columns: Sequence[Column], *, paired: bool) -> list[float]:
    """Return for each result the share of the permutations whose largest statistic is at least that of the result.

    The statistic is the square of the difference between the runs over its variance in all permutations.  So results of
    few launches and of many can be compared, and for a fixed number of launches it rises with Student's t.
    """
    largest = np.zeros(1)
    own: list[float | None] = []
    for first, second in columns:  # the statistics of all results together would fill the memory
        statistics = (_of_pairs if paired else _of_runs)(np.array(first, np.float64), np.array(second, np.float64))
        own.append(None if statistics is None else statistics[0])
        if statistics is not None:
            largest = np.maximum(largest, statistics)
    largest.sort()
    # Permutations that are equal but for rounding count as equal.
    fewer = [None if each is None else int(np.searchsorted(largest, each * (1 - 1e-9))) for each in own]
    return [1.0 if each is None else 1 - each / largest.size for each in fewer]


def _of_runs(first: Floats, second: Floats) -> Floats | None:
    """Return the statistic of each permutation; ``None`` where the launches cannot show a change.

    The sum of all squares is the same in every permutation, so the sum over the first run suffices.
    """
    times = np.log([*first, *second])
    measured = ~np.isnan(times)
    ways = permutations_of_runs(len(first), len(times))
    taken, count = ways @ measured, int(measured.sum())
    if not can_decide(int(taken[0]), count - int(taken[0])):
        return None
    ordered, side = np.sort(times[measured]), min(int(taken[0]), count - int(taken[0])) // 2
    low, high = ordered[side], ordered[-1 - side]
    values = _clipped(times - (low + high) / 2, (high - low) / 2)
    values = np.where(measured, values - values[measured].mean(), 0.0)
    variances = _sum_of_squares(values) / count / (count - 1) * taken * (count - taken)
    return np.divide((ways @ values) ** 2, variances, out=np.zeros(len(ways)), where=variances > 0)


def _of_pairs(first: Floats, second: Floats) -> Floats | None:
    """Return the same for pairs of launches: a permutation changes the signs of some logarithms of their ratios."""
    ratios = np.log(second / first)
    measured = ~np.isnan(ratios)
    if not can_decide(count := int(measured.sum()), count, paired=True):
        return None
    values = np.where(measured, _clipped(ratios, float(np.median(np.abs(ratios[measured])))), 0.0)
    changed: Floats = values.sum() - 2 * (_sign_permutations(len(values)) @ values)
    return changed**2 / _sum_of_squares(values)


def _clipped(values: Floats, usual: float) -> Floats:
    most = WINSOR_LIMIT * usual or math.inf
    return np.clip(values, -most, most)


def _sum_of_squares(values: Floats) -> float:
    """Return the sum of squares; equal times leave nothing but rounding, and a billionth of the time counts as none."""
    return float(values @ values) + 1e-18


@lru_cache(maxsize=64)
def permutations_of_runs(part: int, whole: int) -> Floats:
    """Ways to choose the launches of the first run, one a row: 1 where a launch is chosen; first the way they were."""
    if math.comb(whole, part) <= MAX_PERMUTATIONS:
        return _ways(list(combinations(range(whole), part)), whole)
    draw = random.Random(SEED)  # noqa: S311  no secret
    return _ways([range(part), *(draw.sample(range(whole), part) for _ in range(MAX_PERMUTATIONS - 1))], whole)


@lru_cache(maxsize=64)
def _sign_permutations(pairs: int) -> Floats:
    """Ways to choose the pairs whose launches change places, in the same form.

    The first pair keeps its sign: all signs the other way round are the same permutation.
    """
    ways = 1 << (pairs - 1)
    chosen: Iterable[int] = range(ways)
    if ways > MAX_PERMUTATIONS:
        draw = random.Random(SEED)  # noqa: S311  no secret
        chosen = (0, *(draw.randrange(ways) for _ in range(MAX_PERMUTATIONS - 1)))
    return _ways([[1 + place for place in range(pairs - 1) if way >> place & 1] for way in chosen], pairs)


def _ways(chosen: Sequence[Sequence[int]], whole: int) -> Floats:
    ways = np.zeros((len(chosen), whole))
    for way, places in zip(ways, chosen, strict=True):
        way[list(places)] = 1.0
    return ways
