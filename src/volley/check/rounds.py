"""Rounds of disjoint pairs of ranks: in a round every rank meets one other rank.

So all ranks work at the same time, and a round measures as long among 16,384 nodes as among two.  The rounds are some
of those of a round robin among ranks in random order, in which nobody meets the same rank twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import chain

from volley.benchmarks.matrix.slow_pairs import Pair
from volley.text import grouped

PARTNERS = 32
"""How many partners each rank meets in a launch, if there are so many.  Many partners visited seldom say more than few
visited often: what a pair has of its own, a distance or a load that its companions bring, is in all of its visits."""
INSIDE = 16
"""Further rounds in which the partners are on the same switch: they tell a slow node from a slow link of its switch."""


def matchings(ranks: int, dice: random.Random, leaves: Sequence[int], partners: int = PARTNERS) -> list[list[Pair]]:
    """Return rounds of disjoint pairs, in each of which every rank has a partner (but one, if their number is odd).

    Ranks on one leaf switch sit side by side, in random order.  So in each round all of them meet ranks of the same one
    or two other leaves: whatever the distance and the load between two leaves are, they are the same for all of them.

    ``leaves``: the number of the leaf switch of each rank, -1 if unknown; empty if all are.
    """
    members = grouped(range(ranks), lambda rank: leaves[rank] if leaves and leaves[rank] >= 0 else -1 - rank)
    blocks = list(members.values())
    dice.shuffle(blocks)
    for block in blocks:
        dice.shuffle(block)
    seats: list[int | None] = [*chain.from_iterable(blocks), *[None] * (ranks % 2)]
    turning = len(seats) - 1
    rounds = []
    for turn in dice.sample(range(turning), min(partners, turning)):
        met = [(seats[-1], seats[turn])]
        met += [(seats[(turn + i) % turning], seats[(turn - i) % turning]) for i in range(1, len(seats) // 2)]
        rounds.append([(one, other) for one, other in met if one is not None and other is not None])
    if turning <= partners:  # few partners: both directions
        rounds += [[pair[::-1] for pair in pairs] for pairs in rounds]
    else:
        rounds = [_in_any_direction(pairs, dice) for pairs in rounds]
    if sum(len(block) > 1 for block in blocks) > 1:
        within = [matchings(len(block), dice, (0,) * len(block), INSIDE) for block in blocks if len(block) > 1]
        named = [block for block in blocks if len(block) > 1]
        for turn in range(INSIDE):
            pairs = [
                (block[one], block[other])
                for block, its in zip(named, within, strict=True)
                for one, other in (its[turn] if turn < len(its) else ())
            ]
            rounds.append(_in_any_direction(pairs, dice))
    return [pairs for pairs in rounds if pairs]


def _in_any_direction(pairs: Iterable[Pair], dice: random.Random) -> list[Pair]:
    return [pair if dice.random() < 0.5 else pair[::-1] for pair in pairs]
