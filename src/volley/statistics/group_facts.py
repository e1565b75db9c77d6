"""Which recorded facts tell groups of launches apart.

A fact tells two groups apart if nearly every launch of one group has more of it than nearly every launch of the other,
and chance would hardly do that: the launches are assigned to the groups again in every way, and what counts of each
permutation is the fact that stands out most (volley.statistics.two_runs).  So the rate of false alarms holds for all
facts together, however many there are and even though they are correlated.

Permutations take launches as exchangeable.  Where the groups come in few stretches of launches they are not: everything
that drifts meanwhile tells the stretches apart.  There a fact must also jump: the gap between its values in both groups
is as wide as one that makes groups (volley.statistics.launches).  ``docs/method/coverage.md`` has the rates.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from math import comb
from typing import TypeVar

from volley.statistics.launches import Group, clear_gap

Key = TypeVar("Key", bound=Hashable)

LEVEL = 0.05
"""The largest share of permutations in which some fact stands out as much as one that is named.  The more facts there
are, the more launches that takes: of 6 facts that vary, groups of 4 and 8 launches or of 3 and 11; fewer launches never
have one."""

STRETCHES = 0.05
"""Launches are called ordered in time if at most this share of all their orders has so few stretches."""

NEARLY = 0.8
"""The least separation: in nine pairs of ten the launch of one group has more than the launch of the other."""


def telling(groups: Sequence[Group], facts: Mapping[Key, Mapping[int, float]]) -> list[Key]:
    """Return the facts that tell the groups apart, the clearest first.

    Args:
        groups: at least two, by rising value.  Of three and more, those below and above the widest gap are compared.
        facts: numbers by launch.  A fact that some launch lacks is left out.
    """
    below, above = _sides(groups)
    values = {
        key: [numbers[launch] for launch in (*below, *above)]
        for key, numbers in facts.items()
        if set(numbers).issuperset((*below, *above))
    }
    ranks = {key: _ranks(those) for key, those in values.items()}
    most = len(below) * len(above) / 2
    separation = {key: abs(sum(those[: len(below)])) / most for key, those in ranks.items()}
    clear = sorted((key for key in separation if separation[key] >= NEARLY), key=lambda key: -separation[key])
    if in_stretches(groups):
        clear = [key for key in clear if _jumps(values[key][: len(below)], values[key][len(below) :])]
    if not clear:
        return []
    import numpy as np  # noqa: PLC0415  start-up: hardly any run needs it

    from volley.statistics.two_runs import permutations_of_runs  # noqa: PLC0415  start-up: the same

    ways = permutations_of_runs(len(below), len(below) + len(above))
    by_chance = np.abs(ways @ np.array(list(ranks.values())).T).max(axis=1) / most
    allowed = LEVEL * len(by_chance)
    return [key for key in clear if np.count_nonzero(by_chance >= separation[key] - 1e-9) <= allowed]


def in_stretches(groups: Sequence[Group]) -> bool:
    """Return whether the groups come in fewer stretches of launches than chance would bring in one of twenty cases.

    Source: A. Wald and J. Wolfowitz, On a test whether two samples are from the same population, Annals of Mathematical
    Statistics 11 (1940) 147-162.
    """
    below, above = _sides(groups)
    order = [launch in below for launch in sorted((*below, *above))]
    stretches = 1 + sum(one != other for one, other in pairwise(order))
    first, second = len(below) - 1, len(above) - 1
    ways = sum(
        comb(first, number // 2 - 1) * comb(second, (number - 1) // 2)
        + comb(first, (number - 1) // 2) * comb(second, number // 2 - 1)
        for number in range(2, stretches + 1)
    )
    return ways <= STRETCHES * comb(len(order), len(below))


def _sides(groups: Sequence[Group]) -> tuple[list[int], list[int]]:
    """Return the launches below and above the widest gap."""
    cut = max(range(1, len(groups)), key=lambda place: groups[place].median / groups[place - 1].median)
    below, above = groups[:cut], groups[cut:]
    return [each for group in below for each in group.launches], [each for group in above for each in group.launches]


def _jumps(one: Sequence[float], other: Sequence[float]) -> bool:
    low, high = sorted((one, other), key=min)
    side = max(max(low) - min(low), max(high) - min(high))
    return min(high) - max(low) > clear_gap(len(low) + len(high)) * side


def _ranks(numbers: Sequence[float]) -> list[float]:
    """Return the rank of each number less the mean rank; equal numbers share the mean of their ranks.

    The sum over one group, divided by half the product of both numbers of launches, is the share of pairs in which its
    launch has more less the share in which it has less (H. B. Mann and D. R. Whitney, Annals of Mathematical
    Statistics 18 (1947) 50-60).
    """
    ordered = sorted(numbers)
    first = {number: place for place, number in reversed(list(enumerate(ordered)))}
    last = {number: place for place, number in enumerate(ordered)}
    return [(first[number] + last[number] - len(numbers) + 1) / 2 for number in numbers]
