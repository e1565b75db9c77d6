"""Which part of a cluster is bad: pure functions over arrays of visits of pairs.

A visit is one measurement of one pair of ranks, while all other ranks measured with other partners.  Its ratio is its
time over the median of comparable visits of the same repetition, so that a drift of the machine cancels: the population
is the yardstick.

Every rank, node and switch is tested by its visits with ranks that look good: a sign test (W. J. Conover, Practical
Nonparametric Statistics, 3.2 and 3.4) says whether it is slow for certain, and the interval of its median whether it is
good.  What is neither is undecided, and is measured again.  The probability that a test errs is divided among all parts
and all looks at growing data (Bonferroni).

A bad link above a switch makes a few pairs of many nodes slow.  So the first visits choose the pairs that look slow,
and the others decide: judged by the visits that chose them, the slowest of many equal pairs would always look slow.

A visit whose data was wrong needs no test.  What all such visits have in common is to blame.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from volley.statistics.estimates import interval_rank

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

SUSPECT_FROM = np.log(1.02)
"""A suspect is slower than the population by this much.  It is below what is called slow: a suspect costs time only."""
SLOW_FROM = np.log(1.025)
"""A part is slow if it is slower than this for certain."""
GOOD_BELOW = np.log(1.04)
"""A part is good if it is not slower than this for certain."""
QUARTER = 0.25
"""A rank is judged by the quarter of its partners with which it is fastest: a slow partner says nothing about it."""
MOST = 0.75
"""A node or a switch is to blame if at least this share of its ranks, or of its nodes, is slow."""
UNEVEN_FROM = 1 / 3
"""If more ranks than this share are slow, the population is no yardstick: nothing says which of them are good."""
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
"""How often growing data may be judged."""
SMALLEST = 3
"""Of two nodes, or two switches, nobody can say which one is slow."""
FEWEST = 12
"""A rank with fewer visits is missing: a sign test that shares its error with others needs more, too."""
SHARED = 0.8
"""A rank that is in this share of the wrong pairs of a switch explains them better than the switch."""

Kind = Literal["rank", "node", "switch", "link", "node or link", "joint", "pair", "some"]
"""``link``: one of the links between a switch and the others; ``joint``: what joins several nodes whose switch
is unknown; ``some``: more than a third of the cluster."""
State = Literal["slow", "at times", "wrong", "good", "undecided", "uneven"]


@dataclass(frozen=True)
class Visits:
    """Visits of pairs, as columns."""

    first: Integers
    second: Integers
    repetition: Integers
    """Visits of one repetition were close in time, and are compared with each other."""
    time_s: Floats
    """NaN: not measured."""
    wrong: Flags
    """The data that arrived was wrong."""
    choose: Flags
    """Visits that make suspects; the others decide about them."""

    def but(self, chosen: Flags) -> Visits:
        """Return some of the visits."""
        return self if chosen.all() else Visits(*(column[chosen] for column in self.columns))

    @property
    def columns(self) -> tuple[Any, ...]:
        return self.first, self.second, self.repetition, self.time_s, self.wrong, self.choose


@dataclass(frozen=True)
class Places:
    """Where each rank is: the number of its node and of its switch (-1: unknown)."""

    node: Integers
    switch: Integers
    one_machine: bool = False
    """The ranks are on cores of one machine, and each is a node here."""

    @property
    def alike(self) -> bool:
        """Whether each rank is alone on its node: of the cores of a node some do the work of the system, too."""
        return not self.one_machine and len(np.unique(self.node)) == len(self.node)


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


@dataclass(frozen=True)
class Judgement:
    """What the visits say about the cluster."""

    parts: list[ClusterPart] = field(default_factory=list)
    """All that is not good, and the suspects that were found good."""
    missing: list[int] = field(default_factory=list)
    """Ranks of which nothing was measured, or too little to call them good."""
    hit_from: float = math.inf
    """How much slower a visit must be, as a fraction, to count: what comes and goes and costs less is not seen."""

    @property
    def bad(self) -> list[ClusterPart]:
        return [part for part in self.parts if part.state in ("slow", "at times", "wrong")]

    @property
    def open(self) -> list[ClusterPart]:
        return [part for part in self.parts if part.state in ("undecided", "uneven")]

    @property
    def suspects(self) -> list[int]:
        """The ranks that more visits are to decide about: whether they are slow, or whether they or a link."""
        unsure = [part for part in self.parts if part.state == "undecided" or part.kind == "node or link"]
        return sorted({rank for part in unsure for rank in part.ranks})


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


def judge(visits: Visits, places: Places, *, one_way: bool, looks: int = LOOKS) -> Judgement:
    """Judge a cluster by its visits.

    Args:
        visits: all of them; those on one node do not count.
        places: where each rank is.
        one_way: the first rank of a pair sends, so that a rank may be slow in one direction only.
        looks: how often such data is judged, at most, until everything is decided.
    """
    ranks = len(places.node)
    visits = visits.but(places.node[visits.first] != places.node[visits.second])
    wrong = _wrong_parts(visits, places)
    accused = {rank for part in wrong for rank in part.ranks}
    clean = visits.but(~visits.wrong & ~np.isnan(visits.time_s))
    measured = np.bincount(clean.first, minlength=ranks) + np.bincount(clean.second, minlength=ranks)
    missing = [int(rank) for rank in np.flatnonzero(measured < FEWEST) if rank not in accused]
    if not len(clean.first):
        return Judgement(wrong, missing)
    if len(np.unique(places.node)) < SMALLEST:
        return Judgement([*wrong, ClusterPart("some", -1, "uneven", list(range(ranks)))])
    evidence = Evidence(clean, _ratios(clean, places), places, one_way, looks)
    if uneven := evidence.uneven():
        return Judgement([*wrong, uneven], missing)
    links, parts = evidence.links(), evidence.parts()
    explained: set[int] = set()
    switches = np.unique(places.switch[places.switch >= 0])
    while len(explained) < LOOKS and (worst := _worst_link([*links, *parts], explained)):
        explained.add(worst.number)
        if len(switches) < SMALLEST:  # of two switches nobody can say whose link is slow
            continue
        # What crosses a slow link says nothing about the nodes beyond it.
        clean = clean.but(~_crossing(clean, places, worst.number))
        links = [*(part for part in links if part.number in explained), worst]
        if not len(clean.first):
            break
        evidence = Evidence(clean, _ratios(clean, places), places, one_way, looks)
        links += evidence.links()
        parts = evidence.parts()
    hidden = accused.union(missing)
    kept = {
        (part.kind, part.number): part
        for part in (*evidence.at_times(), *evidence.joined(parts), *links)
        if not hidden.issuperset(part.ranks)
        and (part.kind not in ("rank", "node") or int(places.switch[part.ranks[0]]) not in explained)
    }
    return Judgement([*wrong, *kept.values()], missing, math.expm1(min(evidence.hits_from)))


def _worst_link(parts: Sequence[ClusterPart], explained: set[int]) -> ClusterPart | None:
    """Return the slowest of the slow links that are not among these."""
    slow = [part for part in parts if part.kind == "link" and part.state == "slow" and part.number not in explained]
    return max(slow, key=lambda part: part.slower or 0.0, default=None)


def _crossing(visits: Visits, places: Places, switch: int) -> Flags:
    """Return which pairs have one rank on this switch."""
    crossing: Flags = (places.switch[visits.first] == switch) != (places.switch[visits.second] == switch)
    return crossing


def _inside(visits: Visits, places: Places) -> Flags:
    """Return which pairs are on one switch."""
    switch = places.switch
    inside: Flags = (switch[visits.first] == switch[visits.second]) & (switch[visits.first] >= 0)
    return inside


def _ratios(visits: Visits, places: Places) -> Floats:
    """Return the logarithm of each time over the median of its repetition and kind: within or between switches."""
    group = visits.repetition * 2 + _inside(visits, places)
    logs = np.log(visits.time_s)
    return logs - group_quantile(group, logs, 0.5, int(group.max(initial=-1)) + 1)[group]


@dataclass(frozen=True)
class Counts:
    """What sign tests need of the visits of several parts."""

    visits: Integers
    fast: Integers
    """Ratios that are not above what is called slow."""
    slow: Integers
    """Ratios that are not below what is called good."""

    def states(self, tests: int) -> tuple[Flags, Flags]:
        """Return which parts are slow for certain, and which are good."""
        certain, usual = np.zeros_like(self.visits), np.zeros_like(self.visits)
        for count in np.unique(self.visits):
            these = self.visits == count
            certain[these] = interval_rank(int(count), FALSE_ALARM / tests)
            usual[these] = interval_rank(int(count), MISSED)
        return self.fast < certain, self.slow < usual


@cache
def binomial_tail(count: int, share: float, least: int) -> float:
    """Return the probability of at least so many successes."""
    return math.fsum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(least, count + 1))


class Evidence:
    """The visits of a cluster, ready to test its parts."""

    def __init__(self, visits: Visits, ratio: Floats, places: Places, one_way: bool, looks: int) -> None:
        """Find out which ranks look slow, and compare all visits with those of the other ranks."""
        self.visits, self.places, self.one_way = visits, places, one_way
        self.ranks = len(places.node)
        self.looks, self.tests = looks, looks * 4 * self.ranks
        pairs, self.pair = np.unique(visits.first * self.ranks + visits.second, return_inverse=True)
        self.pairs = pairs // self.ranks, pairs % self.ranks
        self.local = _inside(visits, places)
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
        if places.alike and good.any():
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

    def _usually(self, above: float, chosen: Flags) -> tuple[Flags, Flags]:
        """Return which pairs the chosen visits have, and of which their median is above this."""
        pairs = self.pair[chosen]
        visits = np.bincount(pairs, minlength=len(self.pairs[0]))
        slow = np.bincount(pairs[self.ratio[chosen] > above], minlength=len(visits))
        return visits > 0, slow > visits // 2

    def _ends(self, number: Integers) -> list[tuple[Integers, Integers]]:
        """Return what each part measured with ranks outside that look good, as first rank and as second one.

        Of each such visit the number of the part, and the place of the visit.
        """
        found = []
        for one, other in ((self.visits.first, self.visits.second), (self.visits.second, self.visits.first)):
            its = np.flatnonzero((number[one] >= 0) & ~self.looks_slow[other] & (number[one] != number[other]))
            found.append((number[one[its]], its))
        return found

    def _counts(self, parts: Integers, its: Integers, count: int) -> Counts:
        these = (parts, parts[self.ratio[its] <= SLOW_FROM], parts[self.ratio[its] >= GOOD_BELOW])
        return Counts(*(np.bincount(those, minlength=count) for those in these))

    def _medians(self, ends: Sequence[tuple[Integers, Integers]], count: int, *, middle: bool) -> list[Floats]:
        """Return the median ratio of each part beyond its switch, at each end."""
        beyond = [(parts[~self.local[its]], its[~self.local[its]]) for parts, its in ends]
        return [group_quantile(parts, self.ratio[its], 0.5, count, middle=middle) for parts, its in beyond]

    def _states(self, chosen: Flags, number: Integers) -> tuple[Flags, Flags]:
        """Return which parts are slow in either direction, and which are good in both.  Round trips have one."""
        ends = [(parts[chosen[its]], its[chosen[its]]) for parts, its in self._ends(number)]
        if not self.one_way:
            ends = [_both(ends)]
        count = int(number.max(initial=-1)) + 1
        slow, good = zip(*(self._counts(*each, count).states(self.tests) for each in ends), strict=True)
        return np.logical_or.reduce(slow), np.logical_and.reduce(good)

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
        part = self._tested(ClusterPart("some", -1, "undecided", np.flatnonzero(apart).tolist()), within)
        if part.state != "slow":
            return None
        certain = apart & self._states(~self.local, np.arange(self.ranks))[0]
        return replace(part, state="uneven" if certain.sum() > UNEVEN_FROM * self.ranks else "undecided")

    def parts(self) -> list[ClusterPart]:
        """Test switches, nodes and ranks; return the largest that are slow, and what is undecided."""
        beyond = ~self.local
        found: list[ClusterPart] = []
        explained = np.zeros(self.ranks, bool)
        rank = np.arange(self.ranks)
        levels: list[tuple[Kind, Integers]] = [("switch", self.places.switch), ("node", self.places.node)]
        if len(np.unique(self.places.node)) < self.ranks:
            levels.append(("rank", rank))
        for kind, number in levels:
            slow, good = self._states(beyond, number)
            share = _share(self.looks_slow | explained, number)
            named = []
            for each in np.flatnonzero(slow if kind == levels[-1][0] else slow & (share >= MOST)).tolist():
                inside = number == each
                if explained[inside].all() or (kind == "switch" and len(np.unique(self.places.node[inside])) < 2):
                    continue
                named.append(ClusterPart(kind, each, "slow", np.flatnonzero(inside).tolist()))
                explained |= inside
            found += self._placed(named)
            if kind == levels[-1][0]:
                unsure = np.where((~slow & ~good)[number] & ~explained, number, -1)
                slower = np.fmax(*self._medians(self._ends(unsure), len(slow), middle=False))
                found += [
                    ClusterPart(
                        kind,
                        int(number[each]),
                        "undecided",
                        [each],
                        np.nan_to_num(np.expm1(slower[number[each]])),
                    )
                    for each in np.flatnonzero(unsure >= 0).tolist()
                ]
        return found

    def joined(self, parts: list[ClusterPart]) -> list[ClusterPart]:
        """Put slow nodes together that are good with each other: not they are slow, but what joins them with the rest.

        Only where no switch is known: else its nodes were compared already.
        """
        slow = [part for part in parts if part.kind in ("node", "rank") and part.state == "slow"]
        if len(slow) < SMALLEST or (self.places.switch >= 0).any():
            return parts
        inside = np.zeros(self.ranks, bool)
        inside[[rank for part in slow for rank in part.ranks]] = True
        joint = ClusterPart("joint", -1, "undecided", np.flatnonzero(inside).tolist())
        if self._tested(joint, inside[self.visits.first] & inside[self.visits.second]).state != "good":
            return parts
        return [*(part for part in parts if part not in slow), *self._estimated([replace(joint, state="slow")])]

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
        kind: Kind = "rank" if len(np.unique(self.places.node)) < self.ranks else "node"
        found: dict[int, ClusterPart] = {}
        usual = ~self.looks_slow[others]
        everywhere = np.ones(len(self.ratio), bool)
        pairs = [np.tile(~self._usually(level / 2, everywhere)[1][self.pair], 2) for level in self.hits_from]

        def most_hit(level: float, counted: Flags) -> tuple[float, int, Flags]:
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
            part = ClusterPart(kind, rank, "undecided", [rank])
            if chance * self.looks < FALSE_ALARM:
                its = ratio[hits & (ends == rank)]
                part = replace(part, state="at times", slower=float(np.expm1(np.median(its))), visits=len(its))
            found[rank] = self._estimated([part])[0] if part.state == "undecided" else part
            usual &= (ends != rank) & (others != rank)  # its partners were hit by it
        return list(found.values())

    def _placed(self, parts: Sequence[ClusterPart]) -> list[ClusterPart]:
        """Return the parts; a node that is slow beyond its switch only is good: a link of the switch is slow."""
        parts = self._estimated(parts)
        numbers, its = self._own(parts)
        near = self.local[its]
        slow, good = self._counts(numbers[near], its[near], len(parts)).states(self.tests)
        placed = []
        for part, is_slow, is_good in zip(parts, slow, good, strict=True):
            switch = int(self.places.switch[part.ranks[0]])
            if part.kind == "switch" or switch < 0 or not self.local.any() or is_slow:
                placed.append(part)
            elif is_good:
                ranks = np.flatnonzero(self.places.switch == switch).tolist()
                placed.append(replace(part, kind="link", number=switch, ranks=ranks))
            else:
                placed.append(replace(part, kind="node or link"))
        return placed

    def _own(self, parts: Sequence[ClusterPart]) -> tuple[Integers, Integers]:
        """Return the visits between these parts and ranks that look good: the place of the part, and that of the visit.

        A part that looks slow in one direction only is judged by that one.
        """
        number = np.full(self.ranks, -1)
        for place, part in enumerate(parts):
            number[part.ranks] = place
        ends = self._ends(number)
        if self.one_way:
            slow = [median > SUSPECT_FROM for median in self._medians(ends, len(parts), middle=True)]
            keep = [(own | ~other)[places] for own, other, (places, _) in zip(slow, slow[::-1], ends, strict=True)]
            ends = [(places[these], its[these]) for these, (places, its) in zip(keep, ends, strict=True)]
        return _both(ends)

    def _estimated(self, parts: Sequence[ClusterPart]) -> list[ClusterPart]:
        places, its = self._own(parts)
        places, its = places[~self.local[its]], its[~self.local[its]]
        slower = np.expm1(group_quantile(places, self.ratio[its], 0.5, len(parts), middle=True))
        visits = np.bincount(places, minlength=len(parts))
        return [
            replace(part, slower=float(slower[place]), visits=int(visits[place])) if visits[place] else part
            for place, part in enumerate(parts)
        ]

    def _tested(self, part: ClusterPart, chosen: Flags) -> ClusterPart:
        """Test these visits together."""
        its = np.flatnonzero(chosen)
        if not len(its):
            return part
        slow, good = self._counts(np.zeros_like(its), its, 1).states(self.tests)
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
            part = ClusterPart("link", int(number), "undecided", np.flatnonzero(switch == number).tolist())
            if len(np.unique(np.where(switch[first] == number, first, second)[its])) > 1:
                found.append(self._tested(part, again))
        return [part for part in found if part.state == "slow"]


def _both(ends: Sequence[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    parts, its = (np.concatenate(each) for each in zip(*ends, strict=True))
    return parts, its


def _share(chosen: Flags, number: Integers) -> Floats:
    """Return the share of the ranks of each part that is chosen."""
    placed, count = number >= 0, int(number.max(initial=-1)) + 1
    sizes = np.bincount(number[placed], minlength=count)
    share: Floats = np.bincount(number[placed & chosen], minlength=count) / np.maximum(sizes, 1)
    return share


def _wrong_parts(visits: Visits, places: Places) -> list[ClusterPart]:
    """Return what the pairs have in common whose data was wrong; what is left are single pairs.

    A part is to blame if its pairs with two nodes or more were wrong: of one pair nothing says which end it is.
    """
    ranks = len(places.node)
    ends = visits.first[visits.wrong], visits.second[visits.wrong]
    keys = np.unique(np.minimum(*ends) * ranks + np.maximum(*ends))
    first, second = keys // ranks, keys % ranks
    several_ranks = len(np.unique(places.node)) < ranks
    parts: list[ClusterPart] = []
    while len(first):
        kinds: list[tuple[Kind, Integers]] = [("node", places.node), ("link", places.switch)]
        if several_ranks:
            kinds.insert(0, ("rank", np.arange(ranks)))
        best: tuple[int, Kind, int, Integers] | None = None
        for kind, where in kinds:  # the larger part only if it explains clearly more
            partners = _partners(first, second, where, places.node)
            most = int(partners.max(initial=0))
            if most > 1 and (best is None or best[0] < SHARED * most):
                best = most, kind, int(partners.argmax()), where
        if best is None:
            break
        _, kind, number, where = best
        its = (where[first] == number) | (where[second] == number)
        parts.append(
            ClusterPart(kind, number, "wrong", np.flatnonzero(where == number).tolist(), visits=int(its.sum()))
        )
        first, second = first[~its], second[~its]
    parts += [
        ClusterPart("pair", int(one), "wrong", [int(one), int(other)]) for one, other in zip(first, second, strict=True)
    ]
    return parts


def _partners(first: Integers, second: Integers, where: Integers, node: Integers) -> Integers:
    """Return with how many nodes outside of it each part has pairs among these."""
    part, other = np.concatenate([where[first], where[second]]), np.concatenate([where[second], where[first]])
    keys = part * (int(node.max()) + 1) + np.concatenate([node[second], node[first]])
    found = np.unique(keys[(part >= 0) & (part != other)]) // (int(node.max()) + 1)
    return np.bincount(found, minlength=1)
