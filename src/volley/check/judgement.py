"""Which part of a cluster is bad: pure functions over arrays of visits of pairs, which ``Evidence`` tests.

A slow link of a switch is named before nodes: what crossed it says nothing about the nodes beyond it.

A visit whose data was wrong needs no test.  What all such visits have in common is to blame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from volley.check.evidence import LOOKS, SMALLEST, ClusterPart, Evidence, Kind, Places, Visits
from volley.statistics.two_runs import Integers

FEWEST = 12
"""A rank with fewer visits is missing: a sign test that shares its error with others needs more, too."""
SHARED = 0.8
"""A rank that is in this share of the wrong pairs of a switch explains them better than the switch."""


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


def judge(visits: Visits, places: Places, *, one_way: bool) -> Judgement:
    """Judge a cluster by its visits.

    Args:
        visits: all of them; those on one node do not count.
        places: where each rank is.
        one_way: the first rank of a pair sends, so that a rank may be slow in one direction only.
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
    evidence = Evidence(clean, places, one_way)
    if uneven := evidence.uneven():
        return Judgement([*wrong, uneven], missing)
    links, parts = evidence.links(), evidence.parts()
    explained: set[int] = set()
    switches = np.unique(places.switch[places.switch >= 0])
    while len(explained) < LOOKS:
        slow = [part for part in (*links, *parts) if part.kind == "link" and part.number not in explained]
        worst = max(slow, key=lambda part: part.slower or 0.0, default=None)
        if worst is None:
            break
        explained.add(worst.number)
        if len(switches) < SMALLEST:  # of two switches nobody can say whose link is slow
            continue
        # What crosses a slow link says nothing about the nodes beyond it.
        beyond = places.switch != worst.number
        clean = clean.but(beyond[clean.first] == beyond[clean.second])
        links = [*(part for part in links if part.number in explained), worst]
        if not len(clean.first):
            break
        evidence = Evidence(clean, places, one_way)
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


def _wrong_parts(visits: Visits, places: Places) -> list[ClusterPart]:
    """Return what the pairs have in common whose data was wrong; what is left are single pairs.

    A part is to blame if its pairs with two nodes or more were wrong: of one pair nothing says which end it is.
    """
    ranks = len(places.node)
    ends = visits.first[visits.wrong], visits.second[visits.wrong]
    keys = np.unique(np.minimum(*ends) * ranks + np.maximum(*ends))
    first, second = keys // ranks, keys % ranks
    kinds: list[tuple[Kind, Integers]] = [("node", places.node), ("link", places.switch)]
    if places.smallest == "rank":
        kinds.insert(0, ("rank", np.arange(ranks)))
    parts: list[ClusterPart] = []
    while len(first):
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
        parts.append(replace(places.part(kind, number, "wrong", where == number), visits=int(its.sum())))
        first, second = first[~its], second[~its]
    pairs = np.column_stack([first, second]).tolist()
    return [*parts, *(ClusterPart("pair", pair[0], "wrong", pair) for pair in pairs)]


def _partners(first: Integers, second: Integers, where: Integers, node: Integers) -> Integers:
    """Return with how many nodes outside of it each part has pairs among these."""
    part, other = np.concatenate([where[first], where[second]]), np.concatenate([where[second], where[first]])
    keys = part * (int(node.max()) + 1) + np.concatenate([node[second], node[first]])
    found = np.unique(keys[(part >= 0) & (part != other)]) // (int(node.max()) + 1)
    return np.bincount(found, minlength=1)
