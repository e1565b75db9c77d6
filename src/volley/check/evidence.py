"""Visits of pairs of ranks as arrays, what is known of the places of the ranks, and the values of the pairs.

A visit is one measurement of one pair of ranks, while all other ranks measured with other partners.  All visits of a
pair share its distance: so the pair is the unit of evidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from volley.statistics.by_group import group_quantile
from volley.statistics.two_runs import Booleans, Floats, Integers

FEW_VISITS = 3
"""With fewer of a pair in a round these do not say how much visits differ."""

Kind = Literal["node", "group", "pair"]
State = Literal["slow", "at times", "wrong", "undecided"]
Reason = Literal[
    "neighbors", "beyond", "misplaced", "inside", "uplinks", "far",
    "lone", "alike", "many", "unsure", "few", "coarse", "",
]  # fmt: skip
"""Why a part is named; ``findings`` says each in words."""


class Visits(NamedTuple):
    """Visits of pairs, as columns."""

    first: Integers
    second: Integers
    repetition: Integers
    """Visits of one repetition were close in time, and are compared with each other."""
    round: Integers
    """Its number in all launches: a pair has the same companions, and so the same load, in all visits of a round."""
    time_s: Floats
    """NaN: not measured."""
    wrong: Booleans
    """The data that arrived was wrong."""

    def but(self, chosen: Booleans) -> Visits:
        """Return some of the visits."""
        return self if chosen.all() else Visits._make(column[chosen] for column in self)


def joined(*parts: Visits) -> Visits:
    """Return all of these visits."""
    return Visits._make(map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class Places:
    """Where each rank is, as far as it is known."""

    node: Integers
    """The number of its node."""
    path: Integers
    """The numbers of its switches, from the leaf up: (ranks, levels); -1 is unknown.  With one level only, the distance
    between leaves is unknown."""
    kind: Integers
    """The number of its kind of hardware."""
    kinds_known: bool = True

    @property
    def leaf(self) -> Integers:
        return self.path[:, 0]


@dataclass(frozen=True)
class ClusterPart:
    """A part of the cluster and what is known about it."""

    kind: Kind
    state: State
    ranks: Sequence[int]
    reason: Reason = ""
    slower: float | None = None
    """How much more time its pairs take than comparable ones, as a fraction."""
    pairs: int = 0
    """Those by which it was judged."""


@dataclass(frozen=True)
class Judgement:
    """What the visits say about the cluster."""

    parts: list[ClusterPart] = field(default_factory=list)
    """All that is not good."""
    missing: list[int] = field(default_factory=list)
    """Ranks of which nothing was measured, or too little to call them good."""
    seen_from: float = math.inf
    """A node that is slower than this, as a fraction, would have been found."""
    hit_from: float = math.inf
    """How much slower a visit must be, as a fraction, to count: what comes and goes and costs less is not seen."""
    partners: int = 0
    """With how many others the usual rank was measured."""

    @property
    def bad(self) -> list[ClusterPart]:
        return [part for part in self.parts if part.state != "undecided"]

    @property
    def open(self) -> list[ClusterPart]:
        return [part for part in self.parts if part.state == "undecided"]

    @property
    def again(self) -> bool:
        """Whether more visits may decide what is open."""
        return any(part.reason in ("unsure", "coarse", "inside") for part in self.open)


class Pairs:
    """The pairs of ranks on different nodes, their values, and their ends.

    An end is a rank; where only the first rank of a pair sends, it has two ends: ``rank`` sends, ``ranks + rank``
    receives.

    ``by_round``: two ranks on different switches are another pair in each round in which they meet, to be compared with
    what met in this round.
    """

    def __init__(self, visits: Visits, places: Places, *, one_way: bool, by_round: bool = False) -> None:
        self.places, self.ranks = places, len(places.node)
        self.ends = self.ranks * (1 + one_way)
        first, second = visits.first, visits.second
        if not one_way:
            first, second = np.minimum(first, second), np.maximum(first, second)
        apart = by_round & (places.leaf[first] != places.leaf[second])
        keys = ((visits.round + 1) * apart * self.ranks + first) * self.ranks + second
        keys, of_visit = np.unique(keys, return_inverse=True)
        self.first, self.second = keys // self.ranks % self.ranks, keys % self.ranks
        logs, repetitions = np.log(visits.time_s), int(visits.repetition.max()) + 1
        usual = np.zeros(len(keys))
        for _ in range(2):  # what a slow node and a disturbance hit in a repetition together may be most of it
            logs -= group_quantile(visits.repetition, logs - usual[of_visit], 0.5, repetitions)[visits.repetition]
            usual = group_quantile(of_visit, logs, 0.5, len(keys))
        self.value = group_quantile(of_visit, logs, 0.25, len(keys))
        _, together = np.unique(of_visit * (int(visits.round.max()) + 1) + visits.round, return_inverse=True)
        self.off = logs - group_quantile(together, logs, 0.25, int(together.max()) + 1)[together]
        visits_of = np.bincount(of_visit)
        often = float(np.median(np.bincount(together)[together])) >= FEW_VISITS
        off = self.off if often else self.value - np.median(self.value)  # these also differ in distance
        deviation = 1.4826 * float(np.median(np.abs(off)))
        self.error = 1.2533 * deviation / math.sqrt(float(np.median(visits_of)))
        """The standard error of a value: 1.2533 σ/√n is that of the median of a normal distribution."""
        # Each pair is two edges: from one of its ends to the other.
        one, other = self.first, self.second + self.ranks * one_way
        self.end, self.partner = np.concatenate([one, other]), np.concatenate([other, one])
        self.edge_value, self.edge_round = np.tile(self.value, 2), np.tile(keys // self.ranks**2, 2)
