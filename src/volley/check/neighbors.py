"""A rank compared with its neighbors, the ranks on the same switch and of the same kind, towards the same places.

So the distance cancels, whatever it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from volley.check.evidence import Pairs
from volley.statistics.by_group import group_quantile, student
from volley.statistics.two_runs import Booleans, Floats, Integers

LOOKS = 5
"""How often growing data is judged, at most, until everything is decided."""
FALSE_ALARM = 0.01
"""The largest probability that anything good of a cluster is called slow."""
MISSED = 0.01
"""The largest probability that an end is called good that is slower than ``GOOD_BELOW``."""
SLOW_FROM = float(np.log(1.02))
GOOD_BELOW = float(np.log(1.04))
CLEAR = 0.5
"""What is slow exceeds ``SLOW_FROM`` by this many standard deviations over its partners: else load or distance vary."""
FREEDOM = 3
"""The standard deviation of an end is at least a usual one, and has this many times the degrees of freedom of its end
alone."""
FEWEST = 3
"""Partners that a test needs; also nodes, or switches: of two nobody can say which one is slow."""


@dataclass(frozen=True)
class Test:
    """Differences of each end from what is comparable: their number, mean and spread, and what is certain."""

    number: Integers
    mean: Floats
    spread: Floats
    error: Floats
    tests: int
    """By how many tests the probability of a false alarm is divided."""
    sides: int = 1
    """How many ends a rank has."""

    def _quantiles(self, probability: float) -> Floats:
        found = np.full(len(self.number), np.inf)
        for number in np.unique(self.number[self.number >= FEWEST]).tolist():
            found[self.number == number] = student(probability, FREEDOM * (number - 1))
        return found

    @cached_property
    def _beyond(self) -> Floats:
        """How many standard errors above ``SLOW_FROM`` are certain."""
        return self._quantiles(1 - FALSE_ALARM / self.tests)

    @cached_property
    def slow(self) -> Booleans:
        """The end is slow for certain, or its rank is: more is known of both ends together."""
        apart = (each.reshape(self.sides, -1) for each in (self.number, self.mean, self.spread, self.error**2))
        number, mean, spread, square = (each.mean(axis=0) for each in apart)
        rank = Test(number.astype(int), mean, spread, np.sqrt(square / self.sides), self.tests)
        return self._certain | np.tile(rank._certain, self.sides)

    @property
    def _certain(self) -> Booleans:
        above = self.mean - SLOW_FROM
        return (above > self._beyond * self.error) & (above >= CLEAR * self.spread)

    @cached_property
    def fast(self) -> Booleans:
        """It looks faster; where many do, most of the others are slow."""
        return (self.number >= FEWEST) & (self.mean < -SLOW_FROM)

    @cached_property
    def good(self) -> Booleans:
        return GOOD_BELOW - self.mean > self._quantiles(1 - MISSED) * self.error

    @cached_property
    def unsure(self) -> Booleans:
        """Neither slow nor good for certain, and it looks slow."""
        return ~self.slow & ~self.good & (self.number >= FEWEST) & (self.mean > SLOW_FROM)

    @cached_property
    def seen_from(self) -> Floats:
        """How slow an end must be, as a logarithm, to be found in 95 % of cases."""
        return SLOW_FROM + (self._beyond + 1.65) * self.error


class Neighbors:
    """Each end compared with the ends of its group towards the same group.

    A group are the ranks on one leaf switch and of one kind.  ``group`` is the number of each rank's.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs, places, ends = pairs, pairs.places, pairs.ends
        leaf = np.where(places.leaf >= 0, places.leaf, places.leaf.max() + 1 + places.node)
        _, self.group = np.unique(leaf * (int(places.kind.max()) + 1) + places.kind, return_inverse=True)
        self.groups = int(self.group.max()) + 1
        one, other = self.group[pairs.end % pairs.ranks], self.group[pairs.partner % pairs.ranks]
        self.inside = one == other
        side = pairs.edge_round * 2 + (pairs.end >= pairs.ranks)
        _, cell = np.unique((side * self.groups + one) * self.groups + other, return_inverse=True)
        # A unit are the edges of an end in a cell, those of a meeting are between the same two ends.
        units, self.of_edge = np.unique(cell * ends + pairs.end, return_inverse=True)
        self.cell, self.end = units // ends, units % ends
        self.meetings, self.of_meeting = np.unique(pairs.end * ends + pairs.partner, return_inverse=True)
        self.slow = np.zeros(ends, bool)
        for _ in range(LOOKS):  # a slow end is no yardstick, neither as a neighbor nor as a partner
            self._compare()
            found = self.found & ~self.slow
            found = found if found.any() else self._hidden()
            if not found.any():
                break
            # Of neighbors in a small group the slowest goes first: it makes others look fast, never slow.
            self.slow |= found

    def _hidden(self) -> Booleans:
        """Return the ends of the rank that looks slowest if they are slow once it is no yardstick.

        In a small group a slow rank moves the yardstick of its neighbors, and is in the deviation of all its partners.
        """
        before, looks = self.slow, np.where(self.all.unsure & ~self.slow, self.all.mean, -np.inf)
        its = (np.arange(len(before)) % self.pairs.ranks == looks.argmax() % self.pairs.ranks) & (looks.max() > 0)
        self.slow = before | its
        self._compare()
        found: Booleans = self.found & ~before & its
        self.slow = before
        if not found.any():
            self._compare()
        return found

    @property
    def found(self) -> Booleans:
        return self.all.slow | self.within.slow

    def _compare(self) -> None:
        """Take from each edge the median of the neighbors' edges towards the same group."""
        pairs, of_edge, units = self.pairs, self.of_edge, len(self.end)
        clean, good = ~self.slow[pairs.partner], ~self.slow[self.end]
        middle = group_quantile(of_edge[clean], pairs.edge_value[clean], 0.5, units, middle=True)
        others, reference = _median_of_others(self.cell, middle, ~np.isnan(middle) & good)
        off, deviation, inside = np.abs(middle - reference), np.full(units, pairs.error), np.zeros(units, bool)
        inside[of_edge] = self.inside
        for its in (inside, ~inside):  # load makes pairs with other groups differ more
            known = its & good & (others > 1) & ~np.isnan(off)
            deviation[its] = 1.4826 * float(np.median(off[known])) if known.any() else pairs.error
        self.difference = pairs.edge_value - reference[of_edge]
        self.usable = clean & (others[of_edge] > 0) & ~np.isnan(self.difference)
        self.reference_error = deviation * 1.2533 / np.sqrt(np.maximum(others, 1))
        self.all = self.test(self.usable)
        self.within, self.across = (self.test(self.usable & where) for where in (self.inside, ~self.inside))

    def test(self, chosen: Booleans) -> Test:
        """Test the mean difference of each end over the chosen edges."""
        ends = self.pairs.ends
        visited = np.bincount(self.of_meeting[chosen], minlength=len(self.meetings))
        sums = np.bincount(self.of_meeting[chosen], self.difference[chosen], len(self.meetings))
        its, values = self.meetings[visited > 0] // ends, (sums / np.maximum(visited, 1))[visited > 0]
        number = np.bincount(its, minlength=ends)
        low, high = (group_quantile(its, values, q, ends)[its] for q in (0.1, 0.9))
        values = np.clip(values, low, high)  # a slow pair says nothing about a rank
        mean = np.bincount(its, values, ends) / np.maximum(number, 1)
        around = np.bincount(its, (values - mean[its]) ** 2, ends) / np.maximum(number - 1, 1)
        own, enough = np.sqrt(1.5 * around), number >= FEWEST  # 1.5: clipping makes it smaller
        spread = np.maximum(own, np.quantile(own[enough], 0.25)) if enough.any() else own
        # The reference of a cell is shared by all edges of the end in it.
        edges = np.bincount(self.of_edge[chosen], minlength=len(self.end))
        shared = np.sqrt(np.bincount(self.end, (edges * self.reference_error) ** 2, ends))
        shared = shared / np.maximum(np.bincount(self.end, edges, ends), 1)
        error = np.where(enough, np.hypot(spread / np.sqrt(np.maximum(number, 1)), shared), np.inf)
        sides = ends // self.pairs.ranks
        tests = 2 * LOOKS * (ends + (sides > 1) * self.pairs.ranks)  # of the ends, and of ranks with two ends
        return Test(number, np.where(number > 0, mean, np.nan), spread, error, tests, sides)


def _median_of_others(cell: Integers, value: Floats, there: Booleans) -> tuple[Integers, Floats]:
    """Return of each value how many others its cell has, and their median; only values that are ``there`` count."""
    size = np.bincount(cell[there], minlength=int(cell.max()) + 1)
    start, others = np.cumsum(size) - size, size[cell] - there
    order = np.flatnonzero(there)[np.lexsort((value[there], cell[there]))]
    own = np.full(len(cell), len(cell))
    own[order] = np.arange(len(order)) - start[cell[order]]

    def at(place: Integers) -> Floats:
        place = start[cell] + place + (there & (place >= own))  # a value is none of the others
        found: Floats = np.append(value[order], np.nan)[np.minimum(place, len(order))]
        return found

    middle = (at(np.maximum(others - 1, 0) // 2) + at(others // 2)) / 2
    return others, np.where(others > 0, middle, np.nan)
