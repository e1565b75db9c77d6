"""The interval of a median over launches: what a repetition of the whole run would find.

The samples of one launch share its cores, its pages and the state of the machine, so they do not say what another
launch would find: the launch is the unit, and the median of its samples is one observation.  No distribution is
assumed.  Each estimator was chosen by how often its interval held the median over recorded launches
(``make coverage``; docs/method/coverage.md has the table):

========== ========================================================================================================
launches   interval
========== ========================================================================================================
1          none over launches; that of the samples, which holds within this launch alone (``within``)
2          none: their range (``range``).  Student's t on logarithms covers 93 % and is ±22 % wide in the median
3 to 5     people see their range; verdicts rest on it widened on both sides by a part of its logarithmic width
           (``WIDENED``)
6          from the smallest to the largest, widened in the same way
7 and more two order statistics, interpolated where there are more than seven (``_places``)
========== ========================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, pairwise

from volley.statistics.estimates import CONFIDENCE, Estimate, Kind, estimate, interval_rank, median

NOMINAL = 0.985
"""What an interval would cover if launches were independent.  Launches that follow each other are not: on CPUs the rank
correlation of neighbours is 0.2 to 0.7, so that of launches in their order intervals of 97 % held the median in 84 to
92 %.  At 0.985 it is 88 to 97 %, and of launches drawn at random 97 to 99 %; a higher level would hold more of those
(docs/method; docs/decisions/50)."""

WIDENED = {3: 2.0, 4: 0.65, 5: 0.3, 6: 0.1}
"""By how much of its logarithmic width the range of so few launches is widened on each side: rounded parts with which
the ranges of normal observations, which cover 75, 88, 94 and 97 %, cover ``NOMINAL``."""

MIN_LAUNCHES = min(WIDENED)
"""The fewest launches that have an interval."""

FIRST_LOOK = 6
"""A run looks at its intervals from this number of launches on (``enough``).  Looks at three or four launches would
stop where these happen to be close together: of launches that followed each other, coverage fell to 93 %."""

FEASIBLE = 50
"""More launches than this are not recommended to anybody: of a run of a minute they take eight minutes."""

GROUPS_FROM = 6
"""The fewest launches in which groups are looked for: fewer fall into two halves by chance too often."""

GROUPS_APART = math.log(1.05)
"""Groups that differ by less than 5 % are not worth two values."""

SMALLEST_GROUP = 2
"""One launch apart from the others is an outlier, two are a state of the machine."""


@dataclass(frozen=True)
class Repeated:
    """One quantity as the launches of a run measured it."""

    medians: Mapping[int, float]
    """The median of the samples by number of the launch; launches that did not measure it are absent."""
    estimate: Estimate
    """Over launches; where there is only one, within it."""
    visits: Mapping[int, float] = field(default_factory=dict)
    """Of a single launch the median of each visit by its number, where the records tell which samples it had."""

    @classmethod
    def of(cls, samples: Mapping[int, Sequence[float]], visits: Mapping[int, Sequence[int]] | None = None) -> Repeated:
        """Make it of the samples of each launch, at least one, all of them positive; ``visits``: how many of each."""
        medians = {launch: median(those) for launch, those in samples.items()}
        if len(samples) > 1:
            return cls(medians, of_observations(list(medians.values())))
        ((launch, those),) = samples.items()
        inside, ends = estimate(those), [*accumulate((visits or {}).get(launch, ()), initial=0)]
        parts = (those[start:end] for start, end in pairwise(ends) if ends[-1] == len(those))
        within = replace(inside, kind="within") if inside.kind == "ci" else inside
        return cls(medians, within, dict(enumerate(map(median, parts))))


@dataclass(frozen=True)
class Group:
    """Launches that agree with each other and differ from the others."""

    median: float
    launches: tuple[int, ...]
    """Their numbers."""


def of_observations(observations: Sequence[float]) -> Estimate:
    """Return the median of positive observations, one a launch, with its interval or the range of few."""
    ordered = sorted(observations)
    middle, count = median(ordered), len(ordered)
    if count < MIN_LAUNCHES:
        return Estimate(middle, ordered[0], ordered[-1], count, "range" if count > 1 else "single")
    if count in WIDENED:
        part = (ordered[-1] / ordered[0]) ** WIDENED[count]
        widened = ordered[0] / part, ordered[-1] * part
        if count < FIRST_LOOK:
            return Estimate(middle, ordered[0], ordered[-1], count, "range", widened)
        return Estimate(middle, *widened, count, "ci")
    rank, share = _places(count)
    low = _between(ordered[rank - 1], ordered[rank], share)
    high = _between(ordered[-rank], ordered[-rank - 1], share)
    return Estimate(middle, low, high, count, "ci")


def of_ratios(ratios: Sequence[float]) -> Estimate:
    """Return the middle of ratios, one a launch or a pair of launches, with its interval.

    It is that of the logarithms: then the ratio the other way round is the reciprocal, bounds and all.
    """
    return replace(of_observations(ratios), median=math.exp(median([math.log(ratio) for ratio in ratios])))


def of_numbers(numbers: Sequence[float]) -> Estimate:
    """Return the median of observations of any sign, one a launch, with its interval.

    The interval is that of positive observations with the logarithmic scale in place of the linear one: order
    statistics of the numbers, interpolated and widened linearly.
    """
    middle, spread = median(numbers), (max(numbers) - min(numbers)) or 1.0
    found = of_observations([math.exp((number - middle) / spread) for number in numbers])
    found = found.map(lambda bound: middle + spread * math.log(bound))
    return replace(found, median=middle, low=min(found.low, middle), high=max(found.high, middle))


def _between(outer: float, inner: float, share: float) -> float:
    """The point that lies so far from ``outer`` to ``inner``, on a logarithmic scale."""
    return float(outer * (inner / outer) ** share)


@lru_cache(maxsize=1024)
def _places(count: int) -> tuple[int, float]:
    """Return r and how far to go from the r-th smallest and largest observation to the next ones, to cover ``NOMINAL``.

    The interval between order statistics covers one of few values only: of eight launches 93 or 99 %.  Interpolation
    between two of them covers what lies between, for symmetric distributions nearly whatever their shape
    (T. P. Hettmansperger and S. J. Sheather, Confidence intervals based on interpolated order statistics, Statistics
    & Probability Letters 4 (1986) 75-79).  Of seven launches the outermost cover 98.4 %, less than ``NOMINAL``: they
    are taken as they are.
    """
    rank = interval_rank(count, (1 - NOMINAL) / 2)
    if rank == 0:
        return 1, 0.0
    outer = 1 - 2 * sum(math.comb(count, below) for below in range(rank)) / 2**count
    step = 2 * math.comb(count, rank) / 2**count
    part = (outer - NOMINAL) / step
    return rank, (count - rank) * part / (rank + (count - 2 * rank) * part)


def ratio(numerator: Repeated | None, denominator: Repeated | None) -> Estimate | None:
    """Return the ratio of two quantities, formed within each launch that measured both; its interval is over launches.

    Transports take turns within a launch and share its state, so their ratio varies less from launch to launch than
    either of them.  Where there is one launch, its visits take the place of launches: transports take turns in them,
    too, while the samples of a visit follow each other and are alike.  Where no visits are known, the bounds follow
    from the intervals of both within it.  ``None`` where no launch measured both.
    """
    if numerator is None or denominator is None:
        return None
    common = [launch for launch in numerator.medians if launch in denominator.medians]
    if not common:
        return None
    found = [numerator.medians[launch] / denominator.medians[launch] for launch in common]
    if len(found) > 1:
        return of_ratios(found)
    if turns := sorted(numerator.visits.keys() & denominator.visits.keys()):
        over = of_ratios([numerator.visits[turn] / denominator.visits[turn] for turn in turns])
        low, high = over.interval or (found[0], found[0])
        kind: Kind = "within" if over.interval else "single"
        return Estimate(found[0], min(low, found[0]), max(high, found[0]), 1, kind, over.widened)
    above, below = numerator.estimate, denominator.estimate
    if above.kind == below.kind == "within":
        return Estimate(found[0], above.low / below.high, above.high / below.low, 1, "within")
    return Estimate(found[0], found[0], found[0], 1, "single")


def log_half_width(quotient: Estimate) -> float:
    """Return the larger distance from the median to an end of the interval, on a logarithmic scale."""
    low, high = quotient.interval or (0.0, math.inf)
    return math.log(max(high / quotient.median, quotient.median / low))


def stricter(comparisons: int) -> float:
    """Return how many times as wide an interval must be to hold for so many comparisons together (Bonferroni)."""
    from statistics import NormalDist  # noqa: PLC0415  start-up: only for reports

    one, all_of_them = (NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2 / number) for number in (1, max(1, comparisons)))
    return all_of_them / one


def above_of_many(quotients: Sequence[Estimate], value: float) -> list[bool]:
    """Return which of these ratios are above a value, with the intervals of all of them together."""
    known = [each for each in quotients if each.interval]
    wider, widest = stricter(len(quotients)), max(map(log_half_width, known), default=0.0)
    return [
        each.interval is not None
        and each.median > value
        and math.log(each.median / value) > (widest if each.widened else log_half_width(each) * wider)
        for each in quotients
    ]


def groups(medians: Mapping[int, float], step: float = 0.0) -> tuple[Group, ...]:
    """Return the groups into which launches fall, by rising value; none where they are one.

    On a logarithmic scale launches are two groups where the widest gap between neighbours, with ``SMALLEST_GROUP`` of
    them on either side, is more than 1 + 300 / n² times as wide as either side, more than ``GROUPS_APART``, and more
    than one ``step`` of the clock, where that shows.  Each side is looked at again.  The factor (9.3 for six launches,
    1.75 for 20) was fitted to simulated launches: of one group, at most one point in five hundred is called two if
    logarithms are normal, Laplace or uniform, and one in two hundred if they are exponential (docs/method/coverage.md).
    """
    ordered = sorted(medians, key=lambda launch: medians[launch])
    parts = _split(ordered, medians, 1.5 * step)
    if len(parts) == 1:
        return ()
    return tuple(Group(median([medians[launch] for launch in part]), tuple(sorted(part))) for part in parts)


def _split(ordered: Sequence[int], medians: Mapping[int, float], apart: float) -> list[Sequence[int]]:
    count = len(ordered)
    if count < GROUPS_FROM:
        return [ordered]
    at = [math.log(medians[launch]) for launch in ordered]
    cut = max(range(SMALLEST_GROUP, count - SMALLEST_GROUP + 1), key=lambda place: at[place] - at[place - 1])
    gap, side = at[cut] - at[cut - 1], max(at[cut - 1] - at[0], at[-1] - at[cut])
    one_step = medians[ordered[cut]] - medians[ordered[cut - 1]] < apart
    if one_step or gap <= GROUPS_APART or gap <= (1 + 300 / count**2) * side:
        return [ordered]
    return [*_split(ordered[:cut], medians, apart), *_split(ordered[cut:], medians, apart)]


def enough(estimates: Iterable[Estimate], asked: float) -> bool:
    """Return whether a run may stop launching: every interval is over launches and as narrow as asked."""
    found = list(estimates)
    return bool(found) and all(
        each.kind == "ci" and each.count >= FIRST_LOOK and each.half_width <= asked for each in found
    )
