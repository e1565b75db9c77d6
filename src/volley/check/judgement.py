"""Which part of a cluster is bad: pure functions over arrays of visits of pairs.

Distance is never a fault: ranks are compared with their ``neighbors``, then ``groups`` of neighbors with each other.
What all visits with wrong data have in common is to blame without a test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from volley.check.evidence import ClusterPart, Judgement, Kind, Pairs, Places, Reason, State, Visits
from volley.check.groups import STANDS_OUT, Groups
from volley.check.neighbors import FALSE_ALARM, FEWEST, LOOKS, Neighbors
from volley.statistics.by_group import binomial_tail
from volley.statistics.two_runs import Booleans, Integers

COARSEST = float(np.log(1.15))
"""There is no PASS if a node must be slower than this to be seen."""
FEWEST_VISITS = 12
"""A rank with fewer is missing."""
SHARED = 0.8
"""A rank that is in this share of the wrong pairs of a switch explains them better than the switch."""
LOADED = 0.9
"""Rounds differ in load if of most ends the standard error within each round is below this share of that over all."""
HIT_FROM = float(np.log(1.05))
HIT_BEYOND = 0.99
"""A visit that is slower than this, and than this share of all, counts against both its ranks."""
BLOCK = 20
"""Rounds of a repetition that a disturbance may hit together."""
USUAL = 0.8
"""In a block where half of the visits are slower than this share of all, a rank was throttled."""
HARD_HIT_FROM = float(np.log(1.5))
"""So does a visit that is slower than this, tested apart: it may be rarer, and it counts on every core."""


def judge(visits: Visits, places: Places, *, one_way: bool, shared_nodes: bool = False) -> Judgement:
    """Judge a cluster by the visits between its nodes.

    ``one_way``: the first rank of a pair sends, so that a rank may be slow in one direction only; ``shared_nodes``:
    ranks are cores or GPUs of one machine, and what hits some of them at times is the system.
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
    nodes, everybody = len(np.unique(places.node)), list(range(ranks))
    few = ClusterPart("group", "undecided", everybody, "few")
    if nodes < FEWEST:
        return Judgement([*wrong, few])
    among = _neighbors(clean, places, one_way=one_way)
    pairs = among.pairs
    groups = Groups(pairs, among)
    parts = list(_named(among, groups))
    slow = np.isin(np.arange(ranks), [rank for part in parts for rank in part.ranks])
    whole = shared_nodes or nodes < ranks
    often, hit_from = _at_times(pairs, clean, slow, hard_only=whole)
    hidden = accused.union(missing)
    kept = [part for part in (*parts, *often) if not part.ranks or not hidden.issuperset(part.ranks)]
    seen = float(np.expm1(groups.resolution()))
    if seen > math.expm1(COARSEST):  # then nothing is known of those that only look slow
        below = [part for part in kept if part.reason in ("unsure", "lone", "many") and (part.slower or 0) < seen]
        out = list(_standing_out(clean, places, one_way=one_way))
        # What is slow within a switch may be a node that stands out everywhere.
        inside = [part for part in kept if (part.state, part.reason) == ("undecided", "inside")]
        inside = [part for part in inside if any(set(part.ranks).issuperset(each.ranks) for each in out)]
        kept = [part for part in kept if part not in (*below, *inside)]
        far = sorted({rank for part in below if part.reason != "unsure" for rank in part.ranks})
        kept = kept if kept and not inside else kept + out
        kept = kept or [few if nodes == FEWEST else ClusterPart("group", "undecided", far, "coarse", seen)]
    met = np.unique(np.minimum(pairs.first, pairs.second) * ranks + np.maximum(pairs.first, pairs.second))
    partners = int(np.median(np.bincount(np.concatenate([met // ranks, met % ranks]), minlength=ranks)))
    return Judgement([*wrong, *kept], missing, seen, hit_from, partners)


def _neighbors(visits: Visits, places: Places, *, one_way: bool) -> Neighbors:
    """Compare neighbors in all rounds together, or within each round where load makes the rounds differ."""
    in_all = Neighbors(Pairs(visits, places, one_way=one_way))
    if places.leaf.max() < 1:
        return in_all
    in_each = Neighbors(Pairs(visits, places, one_way=one_way, by_round=True))
    tested = in_all.across.number >= FEWEST
    smaller = in_each.across.error[tested] < LOADED * in_all.across.error[tested]
    return in_each if 2 * np.count_nonzero(smaller) > np.count_nonzero(tested) else in_all


def _standing_out(visits: Visits, places: Places, *, one_way: bool) -> Iterator[ClusterPart]:
    """Name the nodes that stand out among all, though they have too few neighbors for a test.

    Among all a node is judged by medians, which a slow partner or neighbor does not move.  Beside fewer than
    three neighbors more visits decide nothing.
    """
    anywhere = replace(places, path=np.full_like(places.path, -1))
    pairs = Pairs(visits, anywhere, one_way=one_way)
    for part in Groups(pairs, Neighbors(pairs)).parts():
        if part.kind == "node":
            few = len(np.unique(places.node[places.leaf == places.leaf[part.ranks[0]]])) <= FEWEST
            yield part if part.state == "slow" or few else replace(part, reason="unsure")


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
    if by_node and not places.kinds_known:
        middle = float(np.median([*slower.values()]))
        differ = any(part.reason in ("inside", "many") for part in of_groups)
        alike = [node for node, each in slower.items() if differ or each < 2 * middle + STANDS_OUT]
        if differ or len(alike) >= FEWEST:
            its = np.flatnonzero(np.isin(places.node, alike)).tolist()
            yield ClusterPart("group", "undecided", its, "alike", math.expm1(middle))
            by_node = {node: ends for node, ends in by_node.items() if node not in alike}
    for node, ends in by_node.items():
        its, own = sorted({end % ranks for end in ends}), np.flatnonzero(places.node == node).tolist()
        reason: Reason = "neighbors"
        state: State = "slow"
        if (across.number[ends] >= FEWEST).all() and (inside.number[ends] >= FEWEST).all():
            if ((inside.mean < across.mean / 2) & inside.good)[ends].all():
                reason = "beyond"
            elif ((across.mean < inside.mean / 2) & across.good)[ends].all():
                reason, state = "misplaced", "undecided"
        its = own if len(its) >= 0.75 * len(own) else its
        yield ClusterPart("node", state, its, reason, math.expm1(slower[node]), int(test.number[ends].min()))
    looks = np.flatnonzero(test.unsure & ~inside.good & ~slow)
    its = sorted({int(end) % ranks for end in looks if int(places.node[end % ranks]) not in by_node})
    if its:
        kind: Kind = "node" if len(np.unique(places.node[its])) == 1 else "group"
        yield ClusterPart(
            kind, "undecided", its, "unsure", math.expm1(float(test.mean[looks].max())), int(test.number[looks].min())
        )


def _at_times(pairs: Pairs, visits: Visits, slow: Booleans, *, hard_only: bool) -> tuple[list[ClusterPart], float]:
    """Return the ranks of which more blocks than of others have visits much slower than those of the pair usually are.

    Blocks are counted and not visits, because a disturbance meets several visits in a row: of a good rank as many as
    the binomial distribution says with the share of all ranks.
    """
    ends = np.concatenate([visits.first, visits.second])
    others = np.concatenate([visits.second, visits.first])
    part = visits.round // BLOCK
    _, block = np.unique(visits.repetition * (part.max() + 1) + part, return_inverse=True)
    blocks = int(block.max()) + 1
    place, off = ends * blocks + np.tile(block, 2), np.tile(pairs.off, 2)
    usual, beyond = (float(np.quantile(pairs.off, share)) for share in (USUAL, HIT_BEYOND))
    rules = [(max(HARD_HIT_FROM, beyond), 0.0)]
    rules += [] if hard_only else [(max(HIT_FROM, beyond), 0.0), (max(HIT_FROM, usual), 0.5)]
    chosen, found = ~slow[others] & ~slow[ends], []

    def counted(its: Booleans) -> Integers:
        return np.bincount(place[its], minlength=pairs.ranks * blocks).reshape(-1, blocks)

    visited = counted(chosen)
    there = np.count_nonzero(visited, axis=1)
    for _ in range(LOOKS):
        best = (math.inf, -1, rules[0][0])
        for level, part_of_block in rules:
            hits = counted(chosen & (off > level))
            hit = np.count_nonzero((hits > 0) & (hits >= part_of_block * visited), axis=1)
            share = float(hit.sum() / max(there.sum(), 1))
            often = np.flatnonzero(hit > there * share)
            often = often[np.argsort(hit[often] / np.maximum(there[often], 1))][-LOOKS:].tolist()
            chances = [(binomial_tail(int(there[rank]), share, int(hit[rank])), rank, level) for rank in often]
            best = min(best, *chances) if chances else best
        chance, rank, level = best
        if chance * pairs.ranks * len(rules) * LOOKS > FALSE_ALARM / 10:  # disturbances may last longer than a block
            break
        its = chosen & (off > level) & (ends == rank)
        found.append(ClusterPart("node", "at times", [rank], "", float(np.expm1(np.median(off[its]))), int(its.sum())))
        chosen &= (ends != rank) & (others != rank)  # its partners were hit by it
    return found, math.expm1(min(level for level, _ in rules[:2]))


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
