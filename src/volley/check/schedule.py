"""Which pairs of ranks meet in which round: random perfect matchings, pure functions of plain numbers.

In a round every rank meets one other rank, so that all ranks work at the same time and a round measures as long among
16,384 nodes as among two.  The rounds are some of those of a round robin among ranks in random order, in which nobody
meets the same rank twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from volley.grouping import grouped

Pair = tuple[int, int]
"""The first and the second rank; in a one-way stream the first one sends."""

PARTNERS = 16
"""How many partners each rank meets.  A slow partner is then no reason to call a rank slow: among 16 at least a quarter
is good with a probability of 98 %, even if half of all nodes are slow."""


INSIDE = 4
"""Further rounds in which the partners are on the same switch: they tell a slow node from a slow link of its switch."""


def matchings(ranks: int, dice: random.Random, switches: Sequence[int] = ()) -> list[list[Pair]]:
    """Return rounds of disjoint pairs, in each of which every rank has a partner (but one, if their number is odd).

    ``switches``: the switch of each rank; empty if unknown.
    """
    seats: list[int | None] = [*range(ranks), *[None] * (ranks % 2)]
    dice.shuffle(seats)
    turning = len(seats) - 1
    rounds = []
    for turn in dice.sample(range(turning), min(PARTNERS, turning)):
        met = [(seats[-1], seats[turn])]
        met += [(seats[(turn + i) % turning], seats[(turn - i) % turning]) for i in range(1, len(seats) // 2)]
        rounds.append([(one, other) for one, other in met if one is not None and other is not None])
    if ranks <= PARTNERS:  # few partners: both directions
        rounds += [[pair[::-1] for pair in pairs] for pairs in rounds]
    else:
        rounds = [_in_any_direction(pairs, dice) for pairs in rounds]
    return rounds + _inside(range(ranks), switches, dice)


def with_known_good(
    ranks: int, suspects: Iterable[int], dice: random.Random, switches: Sequence[int] = ()
) -> list[list[Pair]]:
    """Return rounds in which each suspect meets a rank that is none; the other ranks meet as controls at the same time.

    Where more than a third of the ranks are suspects, there are too few others: these are rounds of all ranks.
    """
    asked = sorted(set(suspects))
    if 3 * len(asked) > ranks:
        return matchings(ranks, dice, switches)
    others = sorted(set(range(ranks)).difference(asked))
    rounds = []
    for _ in range(PARTNERS):
        dice.shuffle(others)
        rest = others[len(asked) :]
        pairs = [*zip(asked, others, strict=False), *zip(rest[::2], rest[1::2], strict=False)]
        rounds.append(_in_any_direction(pairs, dice))
    return rounds + _inside(asked, switches, dice) + _inside(range(ranks), switches, dice)


def _in_any_direction(pairs: Iterable[Pair], dice: random.Random) -> list[Pair]:
    return [pair if dice.random() < 0.5 else pair[::-1] for pair in pairs]


def _inside(first: Iterable[int], switches: Sequence[int], dice: random.Random) -> list[list[Pair]]:
    """Return rounds within the switches; ranks in ``first`` have a partner that is not among them, if there is one."""
    wanted = set(first)
    members = grouped(range(len(switches)), lambda rank: switches[rank])
    rounds = []
    for _ in range(INSIDE if len(members) > 1 else 0):
        pairs: list[Pair] = []
        for those in members.values():
            dice.shuffle(those)
            those.sort(key=lambda rank: rank not in wanted)
            pairs += zip(those[: len(those) // 2], reversed(those), strict=False)
        rounds.append(_in_any_direction(pairs, dice))
    return rounds
