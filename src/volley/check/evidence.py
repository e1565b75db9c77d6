"""Visits of pairs of ranks as arrays, the tests of ranks, nodes, switches and links by them, and their thresholds.

A visit is one measurement of one pair of ranks, while all other ranks measured with other partners.  Its ratio is its
time over the median of comparable visits of the same repetition, so that a drift of the machine cancels: the population
is the yardstick.

Every rank, node and switch is tested by its visits with ranks that look good: a sign test (W. J. Conover, Practical
Nonparametric Statistics, 3.2 and 3.4) says whether it is slow for certain, and the interval of its median whether it is
good.  What is neither is undecided, and is measured again.  The probability of a false alarm is divided among all parts
and all looks at growing data (Bonferroni).

A bad link above a switch makes a few pairs of many nodes slow.  So the first visits choose the pairs that look slow,
and the others decide: judged by the visits that chose them, the slowest of many equal pairs would always look slow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Literal, NamedTuple

import numpy as np

from volley.benchmarks.matrix.slow_pairs import NEARLY_ALL, UNEVEN_FROM
from volley.statistics.estimates import interval_rank
from volley.statistics.two_runs import Booleans, Floats, Integers

SUSPECT_FROM = np.log(1.02)
"""A suspect is slower than the population by this much.  It is below what is called slow: a suspect costs time only."""
SLOW_FROM = np.log(1.025)
"""A part is slow if it is slower than this for certain."""
GOOD_BELOW = np.log(1.04)
"""A part is good if it is not slower than this for certain."""
QUARTER = 0.25
"""A rank is judged by the quarter of its partners with which it is fastest: a slow partner says nothing about it."""
FALSE_ALARM = 0.01
"""The largest probability that anything good of a cluster is called slow."""
MISSED = 0.001
"""The largest probability that a part is called good that is slower than ``GOOD_BELOW``."""
HIT_FROM = np.log(1.05)
HIT_BEYOND = 0.99
"""A visit that is slower than this, and than this share of those between good ranks, counts against both its ranks."""
HARD_HIT_FROM = np.log(1.5)
"""So does a visit that is slower than this, tested apart: it may be rarer, and it counts on every core."""
HITS_SUSPECT = 0.2
"""A rank is measured again if the most hit of so many good ranks is hit as often with at most this probability."""
LOOKS = 8
"""How often growing data is judged, at most, until everything is decided."""

SMALLEST = 3
"""Of two nodes, or two switches, nobody can say which one is slow."""

Kind = Literal["rank", "node", "switch", "link", "node or link", "joint", "pair", "some"]
"""``link``: one of the links between a switch and the others; ``joint``: what joins several nodes whose switch
is unknown; ``some``: more than a third of the cluster."""
State = Literal["slow", "at times", "wrong", "good", "undecided", "uneven"]


class Visits(NamedTuple):
    """Visits of pairs, as columns."""

    first: Integers
    second: Integers
    repetition: Integers
    """Visits of one repetition were close in time, and are compared with each other."""
    time_s: Floats
    """NaN: not measured."""
    wrong: Booleans
    """The data that arrived was wrong."""
    choose: Booleans
    """Visits that make suspects; the others decide about them."""

    def but(self, chosen: Booleans) -> Visits:
        """Return some of the visits."""
        return self if chosen.all() else Visits._make(column[chosen] for column in self)


@dataclass(frozen=True)
class Places:
    """Where each rank is: the number of its node and of its switch (-1: unknown)."""

    node: Integers
    switch: Integers
    one_machine: bool = False
    """The ranks are on cores of one machine, and each is a node here."""

    @cached_property
    def smallest(self) -> Kind:
        """The smallest parts: ranks where a node has several, else nodes."""
        return "rank" if len(np.unique(self.node)) < len(self.node) else "node"

    def part(self, kind: Kind, number: int, state: State, chosen: Booleans) -> ClusterPart:
        """Return the part that these ranks are."""
        return ClusterPart(kind, number, state, np.flatnonzero(chosen).tolist())

    def inside(self, first: Integers, second: Integers) -> Booleans:
        """Return which pairs are on one switch."""
        inside: Booleans = (self.switch[first] == self.switch[second]) & (self.switch[first] >= 0)
        return inside


@dataclass(frozen=True)
class ClusterPart:
    """A part of the cluster and what is known about it."""

    kind: Kind
    number: int
    """Of the rank, node or switch; of ``pair`` the first rank, with the second in ``ranks``."""
    state: State
    ranks: Sequence[int]
    slower: float | None = None
    """How much more time its pairs take than the population's, as a fraction."""
    visits: int = 0
    """Those by which it was judged."""


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


class Evidence:
    """The visits of a cluster, ready to test its parts."""

    def __init__(self, visits: Visits, places: Places, one_way: bool) -> None:
        """Find out which ranks look slow, and compare all visits with those of the other ranks."""
        self.visits, self.places, self.one_way = visits, places, one_way
        self.ranks = len(places.node)
        self.tests = LOOKS * 4 * self.ranks
        pairs, self.pair = np.unique(visits.first * self.ranks + visits.second, return_inverse=True)
        self.pairs = pairs // self.ranks, pairs % self.ranks
        self.local = places.inside(visits.first, visits.second)
        # The logarithm of each time over the median of its repetition and kind: within or between switches.
        group, logs = visits.repetition * 2 + self.local, np.log(visits.time_s)
        ratio = logs - group_quantile(group, logs, 0.5, int(group.max(initial=-1)) + 1)[group]
        if self.local.all():  # one switch: nothing is beyond it
            self.local = ~self.local
        self.excess, level = self._look(ratio)
        self.looks_slow = self.excess > SUSPECT_FROM
        good = ~self.looks_slow[visits.first] & ~self.looks_slow[visits.second]
        self.ratio = ratio - level
        for kind in (self.local, ~self.local):
            if (good & kind).any():
                self.ratio[kind] = ratio[kind] - np.median(ratio[good & kind])
        self.hits_from = [float(HARD_HIT_FROM)]
        # Of the cores of a machine or a node some do the work of the system, too.
        if not places.one_machine and places.smallest == "node" and good.any():
            self.hits_from.append(max(float(HIT_FROM), float(np.quantile(self.ratio[good], HIT_BEYOND))))

    def _look(self, ratio: Floats) -> tuple[Floats, float]:
        """Return how much slower than the level of good ranks each rank looks, and that level.

        Only pairs beyond a switch count: what is slow above a switch is slow for all its nodes, and pairs within it
        would hide that.
        """
        beyond = ~self.local
        middle = group_quantile(self.pair[beyond], ratio[beyond], 0.5, len(self.pairs[0]))
        (first, second), there = self.pairs, ~np.isnan(middle)
        ends = np.concatenate([first[there], second[there] + self.ranks * self.one_way])
        scores = group_quantile(ends, np.tile(middle[there], 2), QUARTER, 2 * self.ranks)
        level = float(np.nanquantile(scores, QUARTER))
        return np.fmax(*(scores - level).reshape(2, self.ranks)), level

    def _usually(self, above: float, chosen: Booleans) -> tuple[Booleans, Booleans]:
        """Return which pairs the chosen visits have, and of which their median is above this."""
        pairs = self.pair[chosen]
        visits = np.bincount(pairs, minlength=len(self.pairs[0]))
        slow = np.bincount(pairs[self.ratio[chosen] > above], minlength=len(visits))
        return visits > 0, slow > visits // 2

    def _ends(self, number: Integers, chosen: Booleans) -> tuple[Integers, Integers, Integers]:
        """Return what each part measured with ranks outside that look good.

        Of each end of a chosen visit the number of the part, the place of the visit, and 1 for its second rank.
        """
        one, other = (np.concatenate(ends) for ends in (self.visits[:2], self.visits[1::-1]))
        outside = (number[one] >= 0) & ~self.looks_slow[other] & (number[one] != number[other])
        its = np.flatnonzero(np.tile(chosen, 2) & outside)
        return number[one[its]], its % len(chosen), its // len(chosen)

    def _tests(self, parts: Integers, its: Integers, count: int) -> tuple[Booleans, Booleans]:
        """Return which parts are slow for certain by these visits, and which are good: two sign tests of each."""
        these = (parts, parts[self.ratio[its] <= SLOW_FROM], parts[self.ratio[its] >= GOOD_BELOW])
        visits, not_slow, not_good = (np.bincount(those, minlength=count) for those in these)
        ranks = {
            number: (interval_rank(number, FALSE_ALARM / self.tests), interval_rank(number, MISSED))
            for number in np.unique(visits).tolist()
        }
        certain, usual = np.array([ranks[number] for number in visits.tolist()]).reshape(-1, 2).T
        return not_slow < certain, not_good < usual

    def _medians(self, number: Integers, count: int, *, middle: bool) -> Floats:
        """Return the median ratio of each part beyond its switch: where it is the first rank, and the second one."""
        parts, its, second = self._ends(number, ~self.local)
        return group_quantile(parts + count * second, self.ratio[its], 0.5, 2 * count, middle=middle).reshape(2, count)

    def _states(self, number: Integers) -> tuple[Booleans, Booleans]:
        """Return which parts are slow beyond their switch in either direction, and which are good in both.

        Round trips have one direction.
        """
        parts, its, second = self._ends(number, ~self.local)
        count, ways = int(number.max(initial=-1)) + 1, 1 + self.one_way
        slow, good = self._tests(parts + count * second * self.one_way, its, ways * count)
        return np.logical_or.reduce(slow.reshape(ways, count)), np.logical_and.reduce(good.reshape(ways, count))

    def uneven(self) -> ClusterPart | None:
        """Return what says that a large part of the cluster is slower than the rest; ``None`` if it is not so.

        Undecided until so many ranks are slow for certain: noise may make some look slow beside those of a bad switch.
        """
        if not self.looks_slow.any():
            return None
        # What looks a little slow by its noise is not counted among what is much slower.
        apart = self.excess > max(SUSPECT_FROM, float(np.median(self.excess[self.looks_slow])) / 2)
        if apart.sum() <= UNEVEN_FROM * self.ranks:
            return None
        within = apart[self.visits.first] & apart[self.visits.second] & ~self.local
        part = self._tested(self.places.part("some", -1, "undecided", apart), within)
        if part.state != "slow":
            return None
        certain = apart & self._states(np.arange(self.ranks))[0]
        return replace(part, state="uneven" if certain.sum() > UNEVEN_FROM * self.ranks else "undecided")

    def parts(self) -> list[ClusterPart]:
        """Test switches, nodes and ranks; return the largest that are slow, and what is undecided."""
        found: list[ClusterPart] = []
        explained = np.zeros(self.ranks, bool)
        levels: list[tuple[Kind, Integers]] = [("switch", self.places.switch), ("node", self.places.node)]
        if self.places.smallest == "rank":
            levels.append(("rank", np.arange(self.ranks)))
        for kind, number in levels:
            slow, good = self._states(number)
            chosen = slow
            if kind != self.places.smallest:
                placed = number >= 0
                look_slow = np.bincount(number[placed & (self.looks_slow | explained)], minlength=len(slow))
                sizes = np.bincount(number[placed], minlength=len(slow))
                chosen = slow & (look_slow >= NEARLY_ALL * np.maximum(sizes, 1))
            named = []
            for each in np.flatnonzero(chosen).tolist():
                inside = number == each
                if explained[inside].all() or (kind == "switch" and len(np.unique(self.places.node[inside])) < 2):
                    continue
                named.append(self.places.part(kind, each, "slow", inside))
                explained |= inside
            found += self._placed(named)
        unsure = np.where((~slow & ~good)[number] & ~explained, number, -1)
        slower = np.nan_to_num(np.expm1(np.fmax(*self._medians(unsure, len(slow), middle=False))))
        return found + [
            ClusterPart(kind, int(number[each]), "undecided", [each], slower[number[each]])
            for each in np.flatnonzero(unsure >= 0).tolist()
        ]

    def joined(self, parts: list[ClusterPart]) -> list[ClusterPart]:
        """Put slow nodes together that are good with each other: not they are slow, but what joins them with the rest.

        A node that is good with one of them is not slow itself, and a node that is slow with such a one is.  Only where
        no switch is known: else its nodes were compared already.
        """
        slow = [part for part in parts if part.kind in ("node", "rank") and part.state == "slow"]
        if len(slow) < SMALLEST or (self.places.switch >= 0).any():
            return parts
        number = np.full(self.ranks, -1)
        for place, part in enumerate(slow):
            number[part.ranks] = place
        half = max(SUSPECT_FROM, float(np.log1p([part.slower or 0.0 for part in slow]).min()) / 2)
        slower = np.tile(self._usually(half, np.ones(len(self.ratio), bool))[1], 2)
        one, other = (number[np.concatenate(ends)] for ends in (self.pairs, self.pairs[::-1]))
        among, places = (one >= 0) & (other >= 0), np.arange(len(slow))
        good = np.isin(places, one[among & ~slower])
        itself = np.isin(places, one[among & slower & good[other]]) & ~good
        inside = (number >= 0) & ~itself[number]
        both = inside[self.visits.first] & inside[self.visits.second]
        joint = self._tested(self.places.part("joint", -1, "undecided", inside), both)
        if len(slow) - itself.sum() < SMALLEST or joint.state != "good":
            return parts
        others = [part for part in parts if not inside[part.ranks[0]]]
        return [*others, *self._estimated([replace(joint, state="slow")])]

    def at_times(self) -> list[ClusterPart]:
        """Return the ranks of which more repetitions than of others have a visit that is much slower than usual.

        What is slow always is not slow at times: neither a rank that looks slow, nor a pair that is usually half as
        slow as such a visit.
        The repetitions are counted and not the visits, because a disturbance meets several visits in a row: of a good
        rank as many as the binomial distribution says with the share of all ranks, but those with few visits: in few
        visits a repetition is seldom hit.
        """
        ends = np.concatenate([self.visits.first, self.visits.second])
        others = np.concatenate([self.visits.second, self.visits.first])
        turns = int(self.visits.repetition.max(initial=0)) + 1
        places, ratio = ends * turns + np.tile(self.visits.repetition, 2), np.tile(self.ratio, 2)
        found: dict[int, ClusterPart] = {}
        usual = ~self.looks_slow[others]
        everywhere = np.ones(len(self.ratio), bool)
        pairs = [np.tile(~self._usually(level / 2, everywhere)[1][self.pair], 2) for level in self.hits_from]

        def most_hit(level: float, counted: Booleans) -> tuple[float, int, Booleans]:
            """Return with which probability any good rank is hit as often as the rank to which that hardly happens."""
            hits = counted & (ratio > level)
            counts = (np.bincount(places[its], minlength=self.ranks * turns) for its in (hits, counted))
            hit, there = (np.count_nonzero(each.reshape(self.ranks, turns), axis=1) for each in counts)
            visits = np.bincount(ends[counted], minlength=self.ranks)
            most = visits >= np.median(visits)
            share = float(hit[most].sum() / max(there[most].sum(), 1))
            often = np.flatnonzero((hit > there * share) & ~self.looks_slow).tolist()
            chances = [(binomial_tail(int(there[rank]), share, int(hit[rank])), rank) for rank in often]
            chance, rank = min(chances, default=(math.inf, -1))
            return chance * self.ranks * len(self.hits_from), rank, hits

        while len(found) < LOOKS:
            judged = [most_hit(level, usual & its) for level, its in zip(self.hits_from, pairs, strict=True)]
            chance, rank, hits = min(judged, key=lambda each: each[0])
            if chance > HITS_SUSPECT:
                break
            part = ClusterPart(self.places.smallest, rank, "undecided", [rank])
            if chance * LOOKS < FALSE_ALARM:
                its = ratio[hits & (ends == rank)]
                part = replace(part, state="at times", slower=float(np.expm1(np.median(its))), visits=len(its))
            found[rank] = self._estimated([part])[0] if part.state == "undecided" else part
            usual &= (ends != rank) & (others != rank)  # its partners were hit by it
        return list(found.values())

    def _placed(self, parts: Sequence[ClusterPart]) -> list[ClusterPart]:
        """Return the parts; a node that is slow beyond its switch only is good: a link of the switch is slow."""
        parts = self._estimated(parts)
        slow, good = self._tests(*self._own(parts, self.local), len(parts))
        placed = []
        for part, is_slow, is_good in zip(parts, slow, good, strict=True):
            switch = int(self.places.switch[part.ranks[0]])
            if part.kind == "switch" or switch < 0 or not self.local.any() or is_slow:
                placed.append(part)
            elif is_good:
                link = self.places.part("link", switch, part.state, self.places.switch == switch)
                placed.append(replace(link, slower=part.slower, visits=part.visits))
            else:
                placed.append(replace(part, kind="node or link"))
        return placed

    def _own(self, parts: Sequence[ClusterPart], chosen: Booleans) -> tuple[Integers, Integers]:
        """Return the chosen visits between these parts and ranks that look good: the places of part and visit.

        A part that looks slow in one direction only is judged by that one.
        """
        number = np.full(self.ranks, -1)
        for place, part in enumerate(parts):
            number[part.ranks] = place
        places, its, second = self._ends(number, chosen)
        if not self.one_way:
            return places, its
        slow = self._medians(number, len(parts), middle=True) > SUSPECT_FROM
        keep = (slow | ~slow[::-1])[second, places]
        return places[keep], its[keep]

    def _estimated(self, parts: Sequence[ClusterPart]) -> list[ClusterPart]:
        places, its = self._own(parts, ~self.local)
        slower = np.expm1(group_quantile(places, self.ratio[its], 0.5, len(parts), middle=True))
        visits = np.bincount(places, minlength=len(parts))
        return [
            replace(part, slower=float(slower[place]), visits=int(visits[place])) if visits[place] else part
            for place, part in enumerate(parts)
        ]

    def _tested(self, part: ClusterPart, chosen: Booleans) -> ClusterPart:
        """Test these visits together."""
        its = np.flatnonzero(chosen)
        if not len(its):
            return part
        slow, good = self._tests(np.zeros_like(its), its, 1)
        state: State = "slow" if slow[0] else "good" if good[0] else part.state
        return replace(part, state=state, slower=float(np.expm1(np.median(self.ratio[its]))), visits=len(its))

    def links(self) -> list[ClusterPart]:
        """Test the switches with more slow pairs with other switches than usual.

        With static routes the messages of a switch are spread over its links, so a bad link makes some pairs of most of
        its nodes slow.  Pairs of ranks that look slow with everybody do not count.
        """
        chosen = self.visits.choose & ~self.local
        first, second = self.pairs
        crossing, slow = self._usually(SLOW_FROM, chosen)
        switch = self.places.switch
        crossing &= (switch[first] >= 0) & (switch[second] >= 0) & ~self.looks_slow[first] & ~self.looks_slow[second]
        count = int(switch.max(initial=-1)) + 1
        if count < 2 or not crossing.any():
            return []
        slow &= crossing
        totals, bad = (
            np.bincount(np.concatenate([switch[first][those], switch[second][those]]), minlength=count)
            for those in (crossing, slow)
        )
        expected = totals * np.median(bad[totals > 0] / totals[totals > 0])
        found = []
        for number in np.flatnonzero(bad > expected + 3 * np.sqrt(expected) + 2):
            its = slow & ((switch[first] == number) | (switch[second] == number))
            again = its[self.pair] & ~self.visits.choose
            part = self.places.part("link", int(number), "undecided", switch == number)
            if len(np.unique(np.where(switch[first] == number, first, second)[its])) > 1:
                found.append(self._tested(part, again))
        return [part for part in found if part.state == "slow"]
