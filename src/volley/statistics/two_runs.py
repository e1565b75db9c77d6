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

LEVEL = 0.01
"""The largest probability of a deal that counts as a difference.  Runs that follow each other are minutes apart and the
machine drifts between them: at 0.05, one sweep in seven was called different on recorded launches, at 0.01 one in
thirty (docs/method/coverage.md)."""

SMALLEST = 0.01
"""A difference of less than 1 % is not called one: two runs never agree in everything."""

MOST_DEALS = 2000
"""Of more ways to deal the launches out than this, so many are drawn: LEVEL is then known to within 0.002."""

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
    """Return whether so many launches can show a difference: 5 and 5 can, 4 and 4 cannot."""
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
def _deals(part: int, whole: int) -> tuple[tuple[int, ...], ...]:
    """Ways to choose the launches of the first run; the way they were comes first."""
    if math.comb(whole, part) <= MOST_DEALS:
        return tuple(combinations(range(whole), part))
    draw = random.Random(SEED)  # noqa: S311  no secret
    return (tuple(range(part)), *(tuple(draw.sample(range(whole), part)) for _ in range(MOST_DEALS - 1)))


@lru_cache(maxsize=64)
def _pickers(part: int, whole: int) -> tuple[Callable[[Sequence[float]], Sequence[float]], ...]:
    """Functions that pick the launches of each deal out of a list; one launch alone is a deal of its own."""
    return tuple(
        itemgetter(*deal) if part > 1 else itemgetter(slice(deal[0], deal[0] + 1)) for deal in _deals(part, whole)
    )


def _statistics(times: Sequence[float], part: int) -> list[float]:
    """For each deal Student's t without its sign, but for a constant factor: the difference of the means over the
    spread within the runs; ``part`` of the times belong to the first one."""
    count = len(times)
    middle = sum(times) / count
    off = [time - middle for time in times]
    squares = sum(each * each for each in off)
    both = 1 / part + 1 / (count - part)
    # Equal times leave nothing but rounding within the runs: a billionth of the time counts as none.
    least = count * 1e-18
    found = []
    for picked in _pickers(part, count):
        total = sum(picked(off))
        found.append(abs(total) * both / math.sqrt(max(squares - total * total * both, least)))
    return found


def _share_above(value: float, ordered: Sequence[float]) -> float:
    """The share of values that are as large; deals that are equal but for rounding count as equal."""
    return sum(each >= value * (1 - 1e-9) for each in ordered) / len(ordered)
