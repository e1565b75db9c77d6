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

A permutation takes launches for independent.  Those of a run are close in time, so a machine that drifts makes every
run differ from the next one.  What a steady drift of the launches explains is therefore no change.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volley.statistics.estimates import Kind
from volley.statistics.launches import NOMINAL, of_ratios

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def medians_of(observations: Floats) -> Floats:
    """Return the median of each column without its NaN; NaN where nothing else is."""
    ordered = np.sort(observations, axis=0)  # NaN comes last
    number = np.count_nonzero(~np.isnan(ordered), axis=0)
    low, high = (
        np.take_along_axis(ordered, (number[np.newaxis] - 1 + step).clip(0) // 2, axis=0)[0] for step in (0, 1)
    )
    middle: Floats = np.where(low == high, low, (low + high) / 2)
    return middle


LEVEL = 0.005
"""The significance level of one sweep: the largest probability that counts as a change.  Runs that follow each other
are minutes apart and the machine drifts between them: at 0.05, one sweep in seven was called different on recorded
launches of the same thing (docs/method/coverage.md)."""

PAIRED_LEVEL = 0.02
"""The same for launches in pairs: drift changes both of a pair, and which of them came first was drawn, so the level
need not pay for it."""

SMALLEST = 0.01
"""A change of less than 1 % is not called one: two runs never agree in everything."""

SWEEP = 2.0
"""For a change to hold over a whole sweep, its interval must be about this many times as narrow as to exclude 1."""
BESIDE_DRIFT = 3.3
"""A change of this many widths is more than ``SWEEP`` of them beyond the drift in 95 % of cases: less the drift, which
has three times the variance, the ratio has a standard error of 2 / 2.6 widths."""
MAX_COMPARISONS = 10
"""With more, hardly a share of ``MAX_PERMUTATIONS`` would be small enough for the level of each."""

MAX_PERMUTATIONS = 1000
"""If there are more permutations, only this many are drawn: LEVEL is then known to within 0.002."""

WINSOR_LIMIT = 1.5
"""Values this many times as far from the middle as the quartiles are clipped to that distance: of ten launches one or
two are outliers (P. J. Huber, Robust Statistics, 1981).  Middle and quartiles are those of both runs together, so that
every permutation has the same values; if one run has fewer launches, the quartiles become quantiles further out, so
that the smaller run counts as one side."""

EXACT_UNTIL = 32
"""With more launches than this on both sides, the ranks of their ratios are those of a normal distribution: the exact
ones take longer and are a few places nearer to the middle.  With few launches on one side the distribution is not
normal, however many the other side has."""

AT_ONCE = 1 << 16
"""Numbers that are computed together: those of a million results in all permutations would fill the memory."""

SEED = 1
"""The draws are the same each time, and so is the verdict on the same records."""


class Bounds(NamedTuple):
    """The bounds of ratios: one item a result."""

    low: Floats
    high: Floats
    kind: NDArray[np.str_]
    """``ci``: 95 % confidence interval; ``range``: too few launches for one; ``single``: one launch of each."""


@dataclass(frozen=True)
class Differences:
    """How each result of the second run compares with that of the first: one item a result."""

    ratio: Floats
    """The second run / the first one, the middle over launches."""
    low: Floats
    high: Floats
    kind: NDArray[np.str_]
    """Of the bounds, as in ``Bounds``."""
    shown: Bounds
    """What people see: of few pairs their range, as everywhere (``statistics.estimates``)."""
    launches: tuple[Integers, Integers]
    """How many launches of both runs measured each result."""
    probability: Floats
    """The share of the permutations in which some result of the sweep stands out as much as this one does."""
    level: float
    """The largest probability that counts as a change."""
    drift: Floats
    """The ratio that a steady drift of the launches makes between the runs; NaN of pairs, whose launches share it."""

    @cached_property
    def differ(self) -> Booleans:
        """True where the runs differ in this result: over the whole sweep, in the interval, and by ``SMALLEST``."""
        apart = (self.kind == "ci") & ((self.low > 1) | (self.high < 1))
        found: Booleans = apart & (self.probability <= self.level) & (np.abs(self.ratio - 1) >= SMALLEST)
        return found

    @cached_property
    def drifted(self) -> Booleans:
        """True where they differ, but not by ``SWEEP`` widths of the interval more than the drift explains."""
        beyond = np.sign(np.log(self.ratio)) * np.log(self.ratio / self.drift)
        found: Booleans = self.differ & (beyond <= SWEEP * self.width)
        return found

    @property
    def changed(self) -> Booleans:
        return self.differ & ~self.drifted

    @cached_property
    def shown_within(self) -> Floats:
        """The smallest x for which the interval shows that the second run takes between 1 / (1 + x) and 1 + x times as
        long as the first one; infinite without an interval.  Both one-sided tests of equivalence hold at 2.5 %
        (D. J. Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987) 657-680)."""
        return np.where(self.kind == "ci", np.maximum(self.high, 1 / self.low) - 1, math.inf)

    @cached_property
    def width(self) -> Floats:
        """The logarithm of the ratio of the farther bound to the middle."""
        return np.maximum(np.log(self.high / self.ratio), np.log(self.ratio / self.low))

    @property
    def widths(self) -> Floats:
        """How many widths a change must be, so that most repetitions show it."""
        return np.where(np.isnan(self.drift), SWEEP, BESIDE_DRIFT)

    def detectable(self, share: float) -> Floats:
        """Return the smallest change of each result that a repetition shows to be larger than ``share``; infinite
        without an interval (docs/method/two-runs.md)."""
        most = np.maximum((1 + share) * np.exp(SWEEP * self.width), np.exp(self.widths * self.width))
        return np.where(self.kind == "ci", most - 1, math.inf)


@lru_cache(maxsize=256)
def can_decide(first: int, second: int, *, paired: bool = False, comparisons: int = 1) -> bool:
    """Return whether so many launches can show a change: 6 and 6 or 4 and 6 can, 5 and 5 cannot; 7 pairs, 6 not."""
    level = (PAIRED_LEVEL if paired else LEVEL) / comparisons
    if paired:
        return 2.0 ** (1 - first) <= level
    alike = 2 if first == second else 1  # the two halves of a permutation may change places
    return alike / math.comb(first + second, first) <= level


@lru_cache(maxsize=64)
def min_to_decide(*, paired: bool = False, comparisons: int = 1) -> int:
    """Return the fewest launches of each run, or pairs, that can show a change."""
    return next(count for count in range(2, 100) if can_decide(count, count, paired=paired, comparisons=comparisons))


def min_beside(launches: int, *, comparisons: int = 1) -> int:
    """Return the fewest launches of one run that can show a change beside so many of the other."""
    return next((count for count in range(2, 100) if can_decide(launches, count, comparisons=comparisons)), 100)


def differences(
    first: Floats, second: Floats, *, paired: bool = False, comparisons: int = 1, reverse: bool = False
) -> Differences:
    """Compare two runs, result by result.

    A launch need not have every result.  A result of so few launches that they cannot show a change takes no part in
    the verdict over the others.

    Args:
        first: positive medians: a row for each result, a column for each launch, in their order; NaN where it was not
            measured.
        second: the same results of the other run.
        paired: launches of the same column were measured together, and both lack the same results.
        comparisons: how many runs are compared with the first one; the level is divided by it (Bonferroni), so that
            the rate of false alarms holds for all of them together.
        reverse: the second run was measured before the first.
    """
    first, second = (run[:, ~np.isnan(run).all(axis=0)] for run in (first, second))
    counts = [np.count_nonzero(~np.isnan(run), axis=1) for run in (first, second)]
    ratio, probability, deciding = np.ones(len(first)), np.ones(len(first)), np.zeros(len(first), bool)
    drift = np.full(len(first), np.nan)
    bounds, shown = (Bounds(np.ones(len(first)), np.ones(len(first)), np.empty(len(first), "U6")) for _ in range(2))
    for launches in dict.fromkeys(zip(*(count.tolist() for count in counts), strict=True)):
        alike = np.flatnonzero((counts[0] == launches[0]) & (counts[1] == launches[1]))
        deciding[alike] = can_decide(*launches, paired=paired, comparisons=comparisons)
        for some in _parts(len(alike), max(launches) ** 2):
            rows = alike[some]
            one, other = (times[~np.isnan(times)].reshape(len(rows), -1) for times in (first[rows], second[rows]))
            found = (ratio_of_pairs if paired else ratio_of)(one, other)
            for whole, part in zip((ratio, *bounds, *shown), (found[0], *found[1], *found[2]), strict=True):
                whole[rows] = part
            if not paired and can_decide(*launches):
                drift[rows] = drift_between(one, other) ** (-1 if reverse else 1)
    if deciding.any():
        probability[deciding] = _probabilities(first[deciding], second[deciding], paired=paired)
    level = (PAIRED_LEVEL if paired else LEVEL) / comparisons
    return Differences(ratio, *bounds, shown, (counts[0], counts[1]), probability, level, drift)


def _parts(results: int, numbers: int) -> Iterator[slice]:
    """Yield slices of the results: as many at once as have ``AT_ONCE`` numbers."""
    step = max(1, AT_ONCE // numbers)
    yield from (slice(start, start + step) for start in range(0, results, step))


# ----------------------------------------------------------------------------------------------------- the ratio

Ratios = tuple[Floats, Bounds, Bounds]
"""The middle ratio of each result, its bounds, and those that people see."""


def ratio_of(first: Floats, second: Floats) -> Ratios:
    ratios = np.sort((second[:, :, np.newaxis] / first[:, np.newaxis]).reshape(len(first), -1))
    pairs = ratios.shape[1]
    middle = np.sqrt(ratios[:, (pairs - 1) // 2] * ratios[:, pairs // 2])  # the middle of the logarithms
    rank = mann_whitney_rank(first.shape[1], second.shape[1])
    kind: Kind = "ci" if rank else "range" if pairs > 1 else "single"
    place = max(rank, 1)
    bounds = Bounds(ratios[:, place - 1], ratios[:, -place], np.full(len(ratios), kind))
    return middle, bounds, bounds


def ratio_of_pairs(first: Floats, second: Floats) -> Ratios:
    found = [of_ratios(ratios) for ratios in (second / first).tolist()]
    ends = np.array([(*(each.interval or (each.low, each.high)), each.low, each.high) for each in found]).T
    kinds = np.array([each.kind for each in found])
    proven = np.where([each.interval is not None for each in found], "ci", kinds)
    middle = np.array([each.median for each in found])
    return middle, Bounds(ends[0], ends[1], proven), Bounds(ends[2], ends[3], kinds)


def drift_between(first: Floats, second: Floats) -> Floats:
    """Return the ratio that a steady drift makes between runs of which the second follows the first.

    The slope is the median of those between any two launches of a run (P. K. Sen, Journal of the American Statistical
    Association 63 (1968) 1379-1389), which an outlier does not move.
    """
    slopes = []
    for run in (first, second):
        one, other = np.triu_indices(run.shape[1], 1)
        slopes.append(np.log(run[:, other] / run[:, one]) / (other - one))
    between: Floats = np.exp(medians_of(np.hstack(slopes).T) * (first.shape[1] + second.shape[1]) / 2)
    return between


@lru_cache(maxsize=256)
def mann_whitney_rank(first: int, second: int, level: float = NOMINAL) -> int:
    """Return which of the sorted ratios of this many launches, counted from either end, bounds their median; 0 if none.

    It is the largest r for which the statistic U of Mann and Whitney is less than r in at most (1 - level) / 2 of all
    cases.
    """
    tail = (1 - level) / 2
    first, second = sorted((first, second))
    pairs = first * second
    if first > EXACT_UNTIL:
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


def _probabilities(first: Floats, second: Floats, *, paired: bool) -> Floats:
    """Return for each result the share of the permutations whose largest statistic is at least that of the result.

    The statistic is the square of the difference between the runs over its variance in all permutations.  So results of
    few launches and of many can be compared, and for a fixed number of launches it rises with Student's t.
    """
    launches = first.shape[1]
    ways = _sign_permutations(launches) if paired else _permutations_of_runs(launches, launches + second.shape[1])
    own, largest = np.empty(len(first)), np.zeros(len(ways))
    for some in _parts(len(first), len(ways)):
        statistics = (_of_pairs if paired else _of_runs)(first[some], second[some], ways)
        own[some] = statistics[:, 0]
        largest = np.maximum(largest, statistics.max(axis=0))
    largest.sort()
    # Permutations that are equal but for rounding count as equal.
    probabilities: Floats = 1 - np.searchsorted(largest, own * (1 - 1e-9)) / largest.size
    return probabilities


def _of_runs(first: Floats, second: Floats, ways: Floats) -> Floats:
    """Return the statistic of each result, a row, in each permutation.

    The sum of all squares is the same in every permutation, so the sum over the first run suffices.
    """
    times = np.log(np.hstack([first, second]))
    measured = ~np.isnan(times)
    taken, count = measured @ ways.T, measured.sum(axis=1, keepdims=True)
    ones = measured[:, : first.shape[1]].sum(axis=1, keepdims=True)
    side = np.minimum(ones, count - ones) // 2
    ordered = np.sort(times)
    low, high = (np.take_along_axis(ordered, place, axis=1) for place in (side, count - 1 - side))
    values = _clipped(times - (low + high) / 2, (high - low) / 2)
    values = np.where(measured, values - np.nansum(values, axis=1, keepdims=True) / count, 0.0)
    variances = _sums_of_squares(values) / count / (count - 1) * taken * (count - taken)
    found: Floats = np.divide((values @ ways.T) ** 2, variances, out=np.zeros(taken.shape), where=variances > 0)
    return found


def _of_pairs(first: Floats, second: Floats, ways: Floats) -> Floats:
    ratios = np.log(second / first)
    values = np.nan_to_num(_clipped(ratios, medians_of(np.abs(ratios).T)[:, np.newaxis]))
    found: Floats = (values.sum(axis=1, keepdims=True) - 2 * (values @ ways.T)) ** 2 / _sums_of_squares(values)
    return found


def _clipped(values: Floats, usual: Floats) -> Floats:
    most = np.where(usual > 0, WINSOR_LIMIT * usual, math.inf)
    clipped: Floats = values.clip(-most, most)
    return clipped


def _sums_of_squares(values: Floats) -> Floats:
    """Return the sums of squares.  Equal times leave nothing but rounding; a billionth of the time counts as none."""
    found: Floats = (values**2).sum(axis=1, keepdims=True) + 1e-18
    return found


@lru_cache(maxsize=64)
def _permutations_of_runs(part: int, whole: int) -> Floats:
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
        chosen = (0, *(draw.randrange(ways) or 1 for _ in range(MAX_PERMUTATIONS - 1)))
    return _ways([[1 + place for place in range(pairs - 1) if way >> place & 1] for way in chosen], pairs)


def _ways(chosen: Sequence[Sequence[int]], whole: int) -> Floats:
    ways = np.zeros((len(chosen), whole))
    for way, places in zip(ways, chosen, strict=True):
        way[list(places)] = 1.0
    return ways
