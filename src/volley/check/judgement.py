"""Which part of a cluster is bad: pure functions over arrays of visits of pairs.

Distance is never a fault.  A rank is compared with its neighbors, the ranks on the same switch and of the same kind,
towards the same places: so the distance cancels, whatever it is.  Groups of neighbors are then compared with each
other; a node whose switch is unknown is a group of its own.  Of a group that is slower than the others nobody can say
whether it is slow or farther away, unless a comparable group is known, or it is slower than any distance.

A visit whose data was wrong needs no test.  What all such visits have in common is to blame.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from volley.check.evidence import (
    ClusterPart,
    Judgement,
    Kind,
    Pairs,
    Places,
    Reason,
    State,
    Visits,
    binomial_tail,
    group_quantile,
    student,
)
from volley.statistics.two_runs import Booleans, Floats, Integers

LOOKS = 5
"""How often growing data is judged, at most, until everything is decided."""
FALSE_ALARM = 0.01
"""The largest probability that anything good of a cluster is called slow."""
MISSED = 0.01
"""The largest probability that an end is called good that is slower than ``GOOD_BELOW``."""
STANDS_OUT = float(np.log(1.02))
SLOW_FROM = float(np.log(1.02))
GOOD_BELOW = float(np.log(1.04))
CLEAR = 0.5
"""What is slow exceeds ``SLOW_FROM`` by this many standard deviations over its partners: else load or distance vary."""
FARTHEST = float(np.log(3.0))
"""No two places of a cluster differ in distance by more than this."""
COARSEST = float(np.log(1.15))
"""There is no PASS if a node must be slower than this to be seen."""
FEWEST_VISITS = 12
"""A rank with fewer is missing."""
FEWEST = 3
"""Partners that a test needs; also nodes, or switches: of two nobody can say which one is slow."""
SHARED = 0.8
"""A rank that is in this share of the wrong pairs of a switch explains them better than the switch."""
HIT_FROM = float(np.log(1.05))
HIT_BEYOND = 0.99
"""A visit that is slower than this, and than this share of all, counts against both its ranks."""
HARD_HIT_FROM = float(np.log(1.5))
"""So does a visit that is slower than this, tested apart: it may be rarer, and it counts on every core."""


def judge(visits: Visits, places: Places, *, one_way: bool, shared_nodes: bool = False) -> Judgement:
    """Judge a cluster by its visits.

    Args:
        visits: all of them; those on one node do not count.
        places: where each rank is.
        one_way: the first rank of a pair sends, so that a rank may be slow in one direction only.
        shared_nodes: ranks are cores or GPUs of one machine: what hits some of them at times is the system.
    """
    ranks = len(places.node)
    visits = visits.but(places.node[visits.first] != places.node[visits.second])
    wrong = _wrong_parts(visits, places)
    accused = {rank for part in wrong for rank in part.ranks}
    clean = visits.but(~visits.wrong & ~np.isnan(visits.time_s))
    measured = np.bincount(clean.first, minlength=ranks) + np.bincount(clean.second, minlength=ranks)
    missing = [int(rank) for rank in np.flatnonzero(measured < FEWEST_VISITS) if rank not in accused]
    if not len(clean.first):
        return Judgement(wrong, missing)
    if len(np.unique(places.node)) < FEWEST:
        return Judgement([*wrong, ClusterPart("group", "undecided", list(range(ranks)), "two")])
    pairs = Pairs(clean, places, one_way=one_way)
    among = Neighbors(pairs)
    groups = Groups(pairs, among)
    parts = list(_named(among, groups))
    slow = np.isin(np.arange(ranks), [rank for part in parts for rank in part.ranks])
    whole = shared_nodes or len(np.unique(places.node)) < ranks
    often, hit_from = _at_times(pairs, clean, slow, hard_only=whole)
    hidden = accused.union(missing)
    kept = [part for part in (*parts, *often) if not part.ranks or not hidden.issuperset(part.ranks)]
    seen = float(np.expm1(groups.resolution(among)))
    if seen > math.expm1(COARSEST):  # then nothing is known of those that only look slow
        kept = [part for part in kept if part.reason != "unsure"]
        kept += [] if kept else [ClusterPart("group", "undecided", [], "coarse", seen)]
    return Judgement([*wrong, *kept], missing, seen, hit_from)


# --------------------------------------------------------------------------------------- a rank and its neighbors


@dataclass(frozen=True)
class Test:
    """Differences of each end from what is comparable: their number, mean and spread, and what is certain."""

    number: Integers
    mean: Floats
    spread: Floats
    error: Floats
    tests: int
    """By how many tests the probability of a false alarm is divided."""

    def _quantiles(self, probability: float) -> Floats:
        enough = self.number >= FEWEST
        found = np.full(len(self.number), np.inf)
        for number in np.unique(self.number[enough]).tolist():
            found[self.number == number] = student(probability, number - 1)
        return found

    @cached_property
    def slow(self) -> Booleans:
        certain = self.mean - SLOW_FROM > self._quantiles(1 - FALSE_ALARM / self.tests) * self.error
        return certain & (self.mean - SLOW_FROM >= CLEAR * self.spread)

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
        return SLOW_FROM + (self._quantiles(1 - FALSE_ALARM / self.tests) + 1.65) * self.error


class Neighbors:
    """Each end compared with the ends of its group towards the same group.

    A group are the ranks on one leaf switch and of one kind.  ``group`` is the number of each rank's.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs, places = pairs, pairs.places
        leaf = np.where(places.leaf >= 0, places.leaf, places.leaf.max() + 1 + places.node)
        _, self.group = np.unique(leaf * (int(places.kind.max()) + 1) + places.kind, return_inverse=True)
        self.groups = int(self.group.max()) + 1
        rank, partner = pairs.end % pairs.ranks, pairs.partner % pairs.ranks
        self.inside = self.group[rank] == self.group[partner]
        sends = (pairs.end >= pairs.ranks).astype(int)
        self.cell = (sends * self.groups + self.group[rank]) * self.groups + self.group[partner]
        self.slow = np.zeros(pairs.ends, bool)
        for _ in range(LOOKS):  # a slow end is no yardstick, neither as a neighbor nor as a partner
            self._compare()
            found = (self.all.slow | self.within.slow) & ~self.slow
            if not found.any():
                break
            # Of neighbors in a small group the slowest goes first: it makes others look fast, never slow.
            self.slow |= found

    def _compare(self) -> None:
        """Take from each edge the median of the neighbors' edges towards the same group."""
        pairs = self.pairs
        clean = ~self.slow[pairs.partner]
        units, of_edge = np.unique(self.cell * pairs.ends + pairs.end, return_inverse=True)
        end, cell = units % pairs.ends, units // pairs.ends
        middle = group_quantile(of_edge[clean], pairs.edge_value[clean], 0.5, len(units), middle=True)
        there = ~np.isnan(middle) & ~self.slow[end]
        others, reference = _median_of_others(cell, middle, there)
        offs = np.abs(middle - reference)[others > 1]
        deviation = 1.4826 * float(np.nanmedian(offs)) if len(offs) else pairs.error
        self.difference = pairs.edge_value - reference[of_edge]
        self.usable = clean & (others[of_edge] > 0) & ~np.isnan(self.difference)
        self.reference_error = np.maximum(deviation, pairs.error) * 1.2533 / np.sqrt(np.maximum(others, 1))
        self.of_edge = of_edge
        self.all = self.test(self.usable)
        self.within, self.across = (self.test(self.usable & where) for where in (self.inside, ~self.inside))

    def test(self, chosen: Booleans) -> Test:
        """Test the mean difference of each end over the chosen edges."""
        ends, its = self.pairs.ends, self.pairs.end[chosen]
        number = np.bincount(its, minlength=ends)
        low, high = (group_quantile(its, self.difference[chosen], q, ends)[its] for q in (0.1, 0.9))
        values = np.clip(self.difference[chosen], low, high)  # a slow pair says nothing about a rank
        mean = np.bincount(its, values, ends) / np.maximum(number, 1)
        around = np.bincount(its, (values - mean[its]) ** 2, ends) / np.maximum(number - 1, 1)
        spread = np.maximum(np.sqrt(1.5 * around), self.pairs.error)  # 1.5: clipping makes it smaller
        # The reference of a cell is shared by all edges of the end in it.
        edges = np.bincount(self.of_edge[chosen], minlength=len(self.reference_error))
        owner = np.zeros(len(edges), int)
        owner[self.of_edge] = self.pairs.end
        shared = np.bincount(owner, (edges * self.reference_error) ** 2, ends) / np.maximum(number, 1) ** 2
        error = np.sqrt(spread**2 / np.maximum(number, 1) + shared)
        return Test(number, np.where(number > 0, mean, np.nan), spread, error, 2 * LOOKS * ends)


def _median_of_others(cell: Integers, value: Floats, there: Booleans) -> tuple[Integers, Floats]:
    """Return of each value how many others its cell has, and their median; only values that are ``there`` count."""
    order = np.lexsort((value, cell, ~there))
    count = int(there.sum())
    cells, start, size = np.unique(cell[order[:count]], return_index=True, return_counts=True)
    place = np.searchsorted(cells, cell)
    known = (place < len(cells)) & (cells[np.minimum(place, len(cells) - 1)] == cell) if count else there
    place = np.where(known, place, 0)
    position = np.full(len(cell), len(cell))
    if not count:
        return np.zeros(len(cell), int), np.full(len(cell), np.nan)
    position[order[:count]] = np.arange(count) - start[np.searchsorted(cells, cell[order[:count]])]
    others = np.where(known, size[place] - there, 0)
    sorted_values = value[order[:count]]

    def at(rank: Integers) -> Floats:
        rank = rank + (there & (rank >= position))
        found: Floats = sorted_values[np.minimum(start[place] + rank, count - 1)]
        return found

    middle = (at(np.maximum(others - 1, 0) // 2) + at(others // 2)) / 2
    return others, np.where(others > 0, middle, np.nan)


# -------------------------------------------------------------------------------------------- a group and the others


class Groups:
    """The groups compared with each other; a node whose switch is unknown is a group of its own."""

    def __init__(self, pairs: Pairs, among: Neighbors) -> None:
        self.pairs, self.among, self.count = pairs, among, among.groups
        one_way = pairs.ends > pairs.ranks
        self.ends = self.count * (1 + one_way)
        good = ~among.slow[pairs.end] & ~among.slow[pairs.partner]
        good = good[: len(pairs.value)]
        first, second = among.group[pairs.first], among.group[pairs.second]
        if not one_way:
            first, second = np.minimum(first, second), np.maximum(first, second)
        keys, of_pair = np.unique((first * self.count + second)[good], return_inverse=True)
        self.first, self.second = keys // self.count, keys % self.count
        self.value = group_quantile(of_pair, pairs.value[good], 0.5, len(keys), middle=True)
        self.size = np.bincount(of_pair)
        sample = np.zeros(self.count, int)
        sample[among.group] = np.arange(pairs.ranks)
        self.sample = sample
        """A rank of each group."""
        members = np.unique(np.stack([among.group, pairs.places.node], axis=1), axis=0)
        self.nodes = np.bincount(members[:, 0], minlength=self.count)
        self.own = self.first == self.second
        self._classes()
        self._core()

    def _classes(self) -> None:
        """Take from each value the level of its class: what is known of its distance and kinds."""
        path, kind = self.pairs.places.path, self.pairs.places.kind
        a, b = self.sample[self.first], self.sample[self.second]
        same = (path[a] == path[b]) & (path[a] >= 0)
        level = np.where(same.any(axis=1), same.argmax(axis=1), path.shape[1])
        low, high = np.minimum(kind[a], kind[b]), np.maximum(kind[a], kind[b])
        kinds = low * (int(kind.max()) + 1) + high
        self.lone = np.zeros(len(self.value), bool)
        center = np.full(len(self.value), np.nan)
        nearer: dict[int, float] = {}
        for number, distance in np.unique(np.stack([kinds, level], axis=1), axis=0).tolist():
            its = (kinds == number) & (level == distance)
            members = np.bincount(np.concatenate([self.first[its & ~self.own], self.second[its]]))
            # A class in which one group is everywhere says nothing of that group.
            comparable = its.sum() >= FEWEST and members.max() < its.sum()
            if comparable:
                nearer[number] = float(np.quantile(self.value[its], 0.25))
            self.lone |= its & (not comparable)
            center[its] = nearer.get(number, np.nan)
        usual = float(np.nanmin(center)) if not np.isnan(center).all() else float(np.quantile(self.value, 0.25))
        self.above = self.value - np.where(np.isnan(center), usual, center)

    def _core(self) -> None:
        """Find the groups that are not slower than the others with each other, and how slow those pairs are at most."""
        across = ~self.own
        shift = self.count * (self.ends > self.count)
        one, other = self.first[across], self.second[across] + shift
        end, partner = np.concatenate([one, other]), np.concatenate([other, one])
        above = np.tile(self.above[across], 2)
        self.stands_out = np.zeros(self.ends, bool)
        self.most = float(np.max(self.above)) if len(above) == 0 else float(np.median(above))
        self.middle = np.full(self.ends, np.nan)
        if not len(above):
            return
        low = group_quantile(end, above, 0.25, self.ends)
        seen = ~np.isnan(low)
        core = seen & (low <= np.nanmedian(low))
        for _ in range(20):
            within = core[partner]
            few = np.bincount(end[within], minlength=self.ends) < FEWEST
            high = group_quantile(end[within], above[within], 0.75, self.ends)
            high = np.where(few, group_quantile(end, above, 0.75, self.ends), high)
            both = core[end] & core[partner]
            most = float(np.quantile(above[both], 0.95)) if both.any() else float(np.nanmedian(above))
            new = seen & (high <= most + STANDS_OUT)
            if (new == core).all():
                break
            core = new
        self.most, self.middle, self.stands_out = most, high, seen & ~core
        self.spread = float(np.nanmedian(np.abs(high[core] - most))) if core.any() else math.inf

    def resolution(self, among: Neighbors) -> float:
        """Return how slow, as a logarithm, nine of ten nodes must be at least to be named or to stand out."""
        by_group = np.fmax(self.most + STANDS_OUT - self.middle, STANDS_OUT) + 1.65 * self.pairs.error
        side = np.arange(self.pairs.ends) // self.pairs.ranks * (self.ends > self.count)
        own = by_group[among.group[np.arange(self.pairs.ends) % self.pairs.ranks] + side * self.count]
        alone = self.nodes[among.group[np.arange(self.pairs.ends) % self.pairs.ranks]] < 2
        seen = np.where(alone, own, np.fmin(among.all.seen_from, among.within.seen_from))
        seen = seen[~np.isnan(seen)]
        return float(np.quantile(seen, 0.9, method="higher")) if len(seen) else math.inf

    def ranks_of(self, group: int) -> list[int]:
        return [int(rank) for rank in np.flatnonzero(self.among.group == group)]

    def parts(self) -> Iterator[ClusterPart]:
        """Name the groups that are slower than the others."""
        inside = self._slow_inside()
        yield from inside
        named = {rank for part in inside for rank in part.ranks}
        out = sorted({int(end) % self.count for end in np.flatnonzero(self.stands_out)})
        out = [group for group in out if not named.issuperset(self.ranks_of(group))]
        if self.count == 2:
            beyond = np.median(self.value[~self.own]) - np.max(self.value[self.own], initial=-math.inf)
            out = np.flatnonzero(self.nodes < 2).tolist() if beyond > STANDS_OUT else []
        far = [group for group in out if self._beyond(group) > FARTHEST]
        for group in far:
            slower = math.expm1(self._beyond(group))
            yield ClusterPart("node" if self.nodes[group] < 2 else "group", "slow", self.ranks_of(group), "far", slower)
        rest = [group for group in out if group not in far]
        if not rest:
            return
        nodes = sum(int(self.nodes[group]) for group in rest)
        if self.count > 2 and 3 * nodes > len(np.unique(self.pairs.places.node)):
            ranks = sorted(rank for group in rest for rank in self.ranks_of(group))
            yield ClusterPart("group", "undecided", ranks, "many", self._slower(rest))
            return
        lone = [group for group in rest if self.nodes[group] < 2]
        for group in (each for each in rest if each not in lone):
            about = partial(ClusterPart, "group", ranks=self.ranks_of(group), slower=self._slower([group]))
            certain = self._comparable(group)
            yield about(state="slow", reason="uplinks") if certain else about(state="undecided", reason="lone")
        if lone:
            ranks = sorted(rank for group in lone for rank in self.ranks_of(group))
            yield ClusterPart("node" if len(lone) == 1 else "group", "undecided", ranks, "lone", self._slower(lone))

    def _slower(self, groups: list[int]) -> float:
        values = [self.middle[group + side] for group in groups for side in range(0, self.ends, self.count)]
        return math.expm1(max(0.0, float(np.nanmedian(values)) - self.most)) if values else 0.0

    def _touches(self, group: int) -> Booleans:
        touches: Booleans = (self.first == group) | (self.second == group)
        return touches

    def _beyond(self, group: int) -> float:
        """Return how much slower most pairs of the group are than the slowest of others with each other."""
        its = self._touches(group)
        out = np.flatnonzero(self.stands_out) % self.count
        others = ~its & ~np.isin(self.first, out) & ~np.isin(self.second, out)
        if not others.any() or not (its & ~self.own).any():
            return 0.0
        return float(np.quantile(self.value[its & ~self.own], 0.25) - np.quantile(self.value[others], 0.95))

    def _comparable(self, group: int) -> bool:
        """Return whether the whole tree is known and other groups have as far to others."""
        across = self._touches(group) & ~self.own
        return self.pairs.places.path.shape[1] > 1 and not self.lone[across].any()

    def _slow_inside(self) -> list[ClusterPart]:
        """Compare what the groups measure within themselves."""
        pairs, among = self.pairs, self.among
        edges = (
            among.inside[: len(pairs.value)] & ~(among.slow[pairs.end] | among.slow[pairs.partner])[: len(pairs.value)]
        )
        group = among.group[pairs.first[edges]]
        value = pairs.value[edges]
        number = np.bincount(group, minlength=self.count)
        middle, low = (group_quantile(group, value, q, self.count, middle=q == 0.5) for q in (0.5, 0.25))
        kind = pairs.places.kind[self.sample]
        found: list[ClusterPart] = []
        for each in np.unique(kind[number > 0]).tolist():
            its = np.flatnonzero((kind == each) & (number > 0))
            if len(its) < 2:
                continue
            usual = np.sort(middle[its])[: max(1, len(its) * 2 // 3)]
            top = float(usual[-1])
            noise = 3 * pairs.error / np.sqrt(number[its])
            for one in its[middle[its] > top + STANDS_OUT + noise].tolist():
                slower = float(middle[one] - np.median(usual))
                certain = (
                    pairs.places.kinds_known and len(its) > 2 and number[one] >= FEWEST and low[one] > top + SLOW_FROM
                )
                state: State = "slow" if certain else "undecided"
                found.append(
                    ClusterPart("group", state, self.ranks_of(one), "inside", math.expm1(slower), int(number[one]))
                )
        return found


# --------------------------------------------------------------------------------------------------------- the parts


def _named(among: Neighbors, groups: Groups) -> Iterator[ClusterPart]:
    """Name what is slower than comparable parts: the groups, then the nodes and ranks in them."""
    places, ranks = among.pairs.places, among.pairs.ranks
    of_groups = list(groups.parts())
    yield from of_groups
    hidden = {rank for part in of_groups for rank in part.ranks if part.state == "slow" and part.kind == "node"}
    test = among.all
    slow, inside, across = among.slow, among.within, among.across
    by_node: dict[int, list[int]] = {}
    for end in np.flatnonzero(slow).tolist():
        if end % ranks not in hidden:
            by_node.setdefault(int(places.node[end % ranks]), []).append(end)
    slower = {node: max(float(test.mean[end]) for end in ends) for node, ends in by_node.items()}
    total = len(np.unique(places.node))
    fast = 0 if by_node else np.count_nonzero(test.fast)
    if 3 * len(by_node) > total or 3 * fast > len(test.mean):  # many are slow; or so many that the good ones stand out
        good = np.unique(places.node[np.flatnonzero(test.fast) % ranks])
        its = np.flatnonzero(np.isin(places.node, [*by_node]) if by_node else ~np.isin(places.node, good)).tolist()
        usual = float(np.median([*slower.values()])) if slower else -float(np.median(test.mean[test.fast]))
        yield ClusterPart("group", "undecided", its, "many" if by_node else "unsure", math.expm1(usual))
        return
    if len(by_node) >= FEWEST and not places.kinds_known:
        middle = float(np.median([*slower.values()]))
        alike = [node for node, each in slower.items() if each < 2 * middle + STANDS_OUT]
        if len(alike) >= FEWEST:
            its = np.flatnonzero(np.isin(places.node, alike)).tolist()
            yield ClusterPart("group", "undecided", its, "alike", math.expm1(middle))
            by_node = {node: ends for node, ends in by_node.items() if node not in alike}
    for node, ends in by_node.items():
        its, own = sorted({end % ranks for end in ends}), np.flatnonzero(places.node == node).tolist()
        reason: Reason = "neighbors"
        if (across.number[ends] >= FEWEST).all() and (inside.number[ends] >= FEWEST).all():
            half = inside.mean[ends] < across.mean[ends] / 2
            reason = "beyond" if (half & inside.good[ends]).all() else "neighbors"
        its = own if len(its) >= 0.75 * len(own) else its
        yield ClusterPart("node", "slow", its, reason, math.expm1(slower[node]), int(test.number[ends].min()))
    looks = np.flatnonzero(test.unsure & ~inside.good & ~slow)
    its = sorted({int(end) % ranks for end in looks if int(places.node[end % ranks]) not in by_node})
    if its:
        kind: Kind = "node" if len(np.unique(places.node[its])) == 1 else "group"
        yield ClusterPart(
            kind, "undecided", its, "unsure", math.expm1(float(test.mean[looks].max())), int(test.number[looks].min())
        )


def _at_times(pairs: Pairs, visits: Visits, slow: Booleans, *, hard_only: bool) -> tuple[list[ClusterPart], float]:
    """Return the ranks of which more blocks than of others have a visit that is much slower than its pair usually is.

    Blocks are counted and not visits, because a disturbance meets several visits in a row: of a good rank as many as
    the binomial distribution says with the share of all ranks.
    """
    ends = np.concatenate([visits.first, visits.second])
    others = np.concatenate([visits.second, visits.first])
    blocks = int(visits.block.max(initial=0)) + 1
    place, off = ends * blocks + np.tile(visits.block, 2), np.tile(pairs.off, 2)
    beyond = float(np.quantile(pairs.off, HIT_BEYOND))
    levels = [max(each, beyond) for each in ((HARD_HIT_FROM,) if hard_only else (HARD_HIT_FROM, HIT_FROM))]
    usual, found = ~slow[others] & ~slow[ends], []
    there = np.count_nonzero(np.bincount(place[usual], minlength=pairs.ranks * blocks).reshape(-1, blocks), axis=1)
    for _ in range(LOOKS):
        best = (math.inf, -1, levels[0])
        for level in levels:
            hits = usual & (off > level)
            hit = np.count_nonzero(np.bincount(place[hits], minlength=pairs.ranks * blocks).reshape(-1, blocks), axis=1)
            share = float(hit.sum() / max(there.sum(), 1))
            often = np.flatnonzero(hit > there * share)
            often = often[np.argsort(hit[often] / np.maximum(there[often], 1))][-LOOKS:].tolist()
            chances = [(binomial_tail(int(there[rank]), share, int(hit[rank])), rank, level) for rank in often]
            best = min(best, *chances) if chances else best
        chance, rank, level = best
        if chance * pairs.ranks * len(levels) * LOOKS > FALSE_ALARM / 10:  # disturbances may last longer than a block
            break
        its = usual & (off > level) & (ends == rank)
        found.append(ClusterPart("node", "at times", [rank], "", float(np.expm1(np.median(off[its]))), int(its.sum())))
        usual &= (ends != rank) & (others != rank)  # its partners were hit by it
    return found, math.expm1(min(levels))


# ------------------------------------------------------------------------------------------------------- wrong data


def _wrong_parts(visits: Visits, places: Places) -> list[ClusterPart]:
    """Return what the pairs have in common whose data was wrong; what is left are single pairs.

    A part is to blame if its pairs with two nodes or more were wrong: of one pair nothing says which end it is.
    """
    ranks = len(places.node)
    ends = visits.first[visits.wrong], visits.second[visits.wrong]
    keys = np.unique(np.minimum(*ends) * ranks + np.maximum(*ends))
    first, second = keys // ranks, keys % ranks
    parts: list[ClusterPart] = []
    while len(first):
        best: tuple[int, ClusterPart, Integers] | None = None
        for where in (np.arange(ranks), places.node, places.leaf):  # the larger part only if it explains clearly more
            partners = _partners(first, second, where, places.node)
            most, number = int(partners.max(initial=0)), int(partners.argmax())
            if most > 1 and (best is None or best[0] < SHARED * most):
                part = ClusterPart(
                    "group" if where is places.leaf else "node", "wrong", np.flatnonzero(where == number).tolist()
                )
                best = most, part, where
        if best is None:
            break
        _, part, where = best
        number = int(where[part.ranks[0]])
        its = (where[first] == number) | (where[second] == number)
        parts.append(replace(part, pairs=int(its.sum())))
        first, second = first[~its], second[~its]
    return [*parts, *(ClusterPart("pair", "wrong", pair) for pair in np.column_stack([first, second]).tolist())]


def _partners(first: Integers, second: Integers, where: Integers, node: Integers) -> Integers:
    """Return with how many nodes outside of it each part has pairs among these."""
    part, other = np.concatenate([where[first], where[second]]), np.concatenate([where[second], where[first]])
    keys = part * (int(node.max()) + 1) + np.concatenate([node[second], node[first]])
    found = np.unique(keys[(part >= 0) & (part != other)]) // (int(node.max()) + 1)
    return np.bincount(found, minlength=1)
