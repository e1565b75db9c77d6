"""Quantiles of groups of values, and the two distributions that tests of groups need."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from volley.statistics.two_runs import Floats, Integers


def group_quantile(groups: Integers, values: Floats, quantile: float, count: int, *, middle: bool = False) -> Floats:
    """Return the lower quantile of the values of each group; NaN for an empty one.

    ``middle``: the mean of it and the upper one, so that the quantile of one half is the usual median.
    """
    order = np.argsort(values)
    bits = len(order).bit_length()
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    by_group = values[order[np.sort((groups << bits) + place) & ((1 << bits) - 1)]]  # much faster than lexsort
    sizes = np.bincount(groups, minlength=count)
    found = np.full(count, np.nan)
    has = sizes > 0
    starts, sizes = (np.cumsum(sizes) - sizes)[has], sizes[has]
    found[has] = by_group[starts + np.maximum(np.ceil(sizes * quantile).astype(int) - 1, 0)]
    if middle:
        found[has] = (found[has] + by_group[starts + np.floor(sizes * quantile).astype(int)]) / 2
    return found


@cache
def binomial_tail(count: int, share: float, least: int) -> float:
    """Return the probability of at least so many successes."""
    return math.fsum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(least, count + 1))


@cache
def student(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t above the median: its density is summed until the probability is reached.

    >>> round(student(0.975, 4), 2)
    2.78
    """
    # t = √f · tan(angle) turns the tail into a finite range of angles.
    angle = np.linspace(0, math.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    below = np.cumsum((density[1:] + density[:-1]) / 2)
    place = int(np.searchsorted(below / below[-1], 2 * probability - 1))
    return math.sqrt(freedom) * math.tan(angle[min(place + 1, len(angle) - 2)])
