"""Groups of neighbors compared with each other: a switch, or a node of which no neighbor is known.

Of a slower one nobody can say whether it is slow or farther away, unless a comparable group is known, or it is slower
than any distance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from volley.check.evidence import ClusterPart, Kind, Pairs, Reason, State
from volley.check.neighbors import FEWEST, SLOW_FROM, Neighbors
from volley.statistics.by_group import group_quantile
from volley.statistics.two_runs import Booleans

STANDS_OUT = float(np.log(1.02))
FARTHEST = float(np.log(3.0))
"""No two places of one cluster differ in distance by more than this."""


class Groups:
    """The groups compared with each other; a node whose switch is unknown is a group of its own."""

    def __init__(self, pairs: Pairs, among: Neighbors) -> None:
        self.pairs, self.among, self.count = pairs, among, among.groups
        one_way = pairs.ends > pairs.ranks
        self.ends = self.count * (1 + one_way)
        good = (~among.slow[pairs.end] & ~among.slow[pairs.partner])[: len(pairs.value)]
        first, second = among.group[pairs.first], among.group[pairs.second]
        if not one_way:
            first, second = np.minimum(first, second), np.maximum(first, second)
        keys, of_pair = np.unique((first * self.count + second)[good], return_inverse=True)
        self.first, self.second = keys // self.count, keys % self.count
        self.value = group_quantile(of_pair, pairs.value[good], 0.5, len(keys), middle=True)
        size = np.bincount(of_pair)
        off = np.abs(pairs.value[good] - self.value[of_pair])[size[of_pair] > 1]
        load = 2 * 1.2533 * 1.4826 * float(np.median(off)) / math.sqrt(np.median(size[size > 1])) if len(off) else 0.0
        self.margin = STANDS_OUT + load
        """What is slower by more than this stands out: load makes pairs differ, and so the medians of groups."""
        self.sample = np.zeros(self.count, int)
        """A rank of each group."""
        self.sample[among.group] = np.arange(pairs.ranks)
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
            # A class in which one group is everywhere says nothing of that group; nodes of another kind have neighbors.
            comparable = its.sum() >= FEWEST and members.max() < its.sum()
            comparable |= (low[its] != high[its]).all() and self.nodes[members.argmax()] > 1
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
            enough = max(1, min(FEWEST, len(np.unique(partner[within])) - 1))
            few = np.bincount(end[within], minlength=self.ends) < enough
            high = group_quantile(end[within], above[within], 0.75, self.ends)
            high = np.where(few, group_quantile(end, above, 0.75, self.ends), high)
            both = core[end] & core[partner]
            most = float(np.quantile(above[both], 0.95)) if both.any() else float(np.nanmedian(above))
            new = seen & (high <= most + self.margin)
            if (new == core).all():
                break
            core = new
        self.most, self.middle, self.stands_out = most, high, seen & ~core

    def resolution(self) -> float:
        """Return how slow, as a logarithm, nine of ten nodes must be at least to be named or to stand out."""
        by_group = np.fmax(self.most + self.margin - self.middle, self.margin) + 1.65 * self.pairs.error
        group = np.tile(self.among.group, self.pairs.ends // self.pairs.ranks)
        side = np.arange(self.pairs.ends) // self.pairs.ranks
        among = np.fmin(self.among.all.seen_from, self.among.within.seen_from)
        seen = np.where(self.nodes[group] < 2, by_group[group + side * self.count], among)
        seen = seen[~np.isnan(seen)]
        return float(np.quantile(seen, 0.9, method="higher")) if len(seen) else math.inf

    def ranks_of(self, group: int) -> list[int]:
        return [int(rank) for rank in np.flatnonzero(self.among.group == group)]

    def parts(self) -> Iterator[ClusterPart]:
        """Name the groups that are slower than the others."""
        inside = self._slow_inside()
        yield from inside
        named = {rank for part in inside for rank in part.ranks}
        out = sorted({int(end) % self.count for end in np.flatnonzero(self.stands_out)} if self.count > 2 else ())
        out = [group for group in out if not named.issuperset(self.ranks_of(group))]
        if self.count <= FEWEST + 1:  # one is in half of all pairs or more, so that all groups look alike
            apart = np.flatnonzero(self.nodes < 2).tolist()
            out = [group for group in apart if self._beyond(group) > self.margin] or out
        far = [group for group in out if self._beyond(group) > FARTHEST]
        for group in far:
            yield replace(self._part([group], "slow", "far"), slower=math.expm1(self._beyond(group)))
        rest = [group for group in out if group not in far]
        if self.count > 2 and 3 * self.nodes[rest].sum() > len(np.unique(self.pairs.places.node)):
            yield self._part(rest, "undecided", "many")
            return
        for group in (each for each in rest if self.nodes[each] > 1):
            certain = self._comparable(group)
            yield self._part([group], "slow", "uplinks") if certain else self._part([group], "undecided", "lone")
        if lone := [group for group in rest if self.nodes[group] < 2]:
            yield self._part(lone, "undecided", "lone")

    def _part(self, groups: list[int], state: State, reason: Reason) -> ClusterPart:
        """Return what is said of groups, which are one node or several."""
        ranks = np.flatnonzero(np.isin(self.among.group, groups)).tolist()
        above = float(np.nanmedian(self.middle.reshape(-1, self.count)[:, groups])) - self.most
        if self.count <= FEWEST + 1:  # half of all pairs or more are of one of them
            above = max(above, *map(self._beyond, groups))
        kind: Kind = "node" if self.nodes[groups].sum() < 2 else "group"
        return ClusterPart(kind, state, ranks, reason, math.expm1(max(0.0, above)))

    def _touches(self, group: int) -> Booleans:
        touches: Booleans = (self.first == group) | (self.second == group)
        return touches

    def _beyond(self, group: int) -> float:
        """Return how much slower most pairs of the group are than the slowest of others with each other."""
        its = self._touches(group)
        out = np.flatnonzero(self.stands_out) % self.count
        others = ~its & ~np.isin(self.first, out) & ~np.isin(self.second, out)
        others = others if others.any() else ~its
        if not others.any() or not (its & ~self.own).any():
            return 0.0
        return float(np.quantile(self.value[its & ~self.own], 0.25) - np.quantile(self.value[others], 0.95))

    def _comparable(self, group: int) -> bool:
        """Return whether the whole tree is known and other groups have as far to others."""
        across = self._touches(group) & ~self.own
        return self.pairs.places.path.shape[1] > 1 and not self.lone[across].any()

    def _slow_inside(self) -> list[ClusterPart]:
        """Compare what the groups measure within themselves, without what one of their nodes explains."""
        pairs, among, node = self.pairs, self.among, self.pairs.places.node
        edges = among.inside & ~(among.slow[pairs.end] | among.slow[pairs.partner])
        edges = edges[: len(pairs.value)]
        first, second, value = pairs.first[edges], pairs.second[edges], pairs.value[edges]
        group = among.group[first]
        number = np.bincount(group, minlength=self.count)
        middle, low = (group_quantile(group, value, q, self.count, middle=q == 0.5) for q in (0.5, 0.25))
        kind = pairs.places.kind[self.sample]
        found: list[ClusterPart] = []
        for each in np.unique(kind[number > 0]).tolist():
            its = np.flatnonzero((kind == each) & (number > 0))
            if len(its) < 2:
                continue
            usual = np.sort(middle[its])[: max(1, len(its) * 2 // 3)]
            top, noise = float(usual[-1]), 3 * pairs.error / np.sqrt(np.maximum(number, 1))
            for one in its[middle[its] > top + STANDS_OUT + noise[its]].tolist():
                ranks, mine = self.ranks_of(one), group == one
                without = [mine & (node[first] != bad) & (node[second] != bad) for bad in np.unique(node[ranks])]
                left = [float(np.median(value[those])) for those in without if those.any()]
                if left and min(left) <= top + STANDS_OUT + noise[one]:
                    continue
                certain = len(its) > 2 and number[one] >= FEWEST and low[one] > top + SLOW_FROM
                certain = certain and len(left) == len(without)  # else perhaps all that was measured is of one node
                state: State = "slow" if certain and pairs.places.kinds_known else "undecided"
                slower = math.expm1(float(middle[one] - np.median(usual)))
                found.append(ClusterPart("group", state, ranks, "inside", slower, int(number[one])))
        return found
