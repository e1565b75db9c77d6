"""What slow pairs of a matrix share: pure functions of numbers.

What slow pairs share, a rank, a node, a link between two nodes or the switch of several, says where the fault is: one
bad cable makes every pair slow whose messages cross it.  The machine's network need not be known.  Nodes count as
joined by a slow link if nearly all pairs of their ranks are slow in either direction.  A node with slow links to nearly
all others is a part by itself; several such nodes with fast links between each other share what leads to the others.
What is left are links.  The slow pairs that nodes do not explain are looked at once more by rank, in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from volley.benchmarks.matrix.slow_pairs import Pair, PairComparison
from volley.statistics.two_runs import Booleans, Floats, Integers
from volley.text import grouped
from volley.units import format_cpulist

NEARLY_ALL = 3 / 4
"""A part is the cause if this share of its pairs, or of its ranks, is slow: noise makes some look fast."""

MIN_PAIRS = 8
"""Fewer pairs are named one by one."""

MIN_OTHERS = 3
"""With links to fewer others, it is not possible to say which end of a slow link is slow."""

MAX_AGAIN = 8
"""Pairs of a group that are measured again."""


@dataclass(frozen=True)
class SlowGroup:
    """Pairs that share a part of the machine, nearly all of them slow."""

    name: str
    """The part, for a sentence: ``node 3 (cn003) ↔ node 9 (cn009)``."""
    places: Booleans = field(repr=False)
    """Its pairs, in the matrix."""
    slow: int
    """How many of them took longer than comparable pairs."""
    again: tuple[Pair, ...]
    """Pairs that stand for the others when they are measured again: those nearest to the median of their ratios."""
    hint: str = ""
    """What else is known of it."""

    @property
    def pairs(self) -> int:
        return int(np.count_nonzero(self.places))


def any_of(groups: Sequence[SlowGroup], matrix: Floats) -> Booleans:
    """Return where the pairs of groups are in a matrix."""
    found: Booleans = np.any([np.zeros(matrix.shape, bool), *(group.places for group in groups)], axis=0)
    return found


def slow_groups(
    comparison: PairComparison, nodes: Sequence[int], hosts: Sequence[str], ends: str = "rank"
) -> list[SlowGroup]:
    """Return the groups of slow pairs, the largest first; ``ends``: what pairs are of."""
    judged = ~np.isnan(comparison.ratios)
    left = comparison.slow.copy()
    ranks = np.arange(len(nodes))
    found: list[SlowGroup] = []

    def take(name: str, one: Booleans, other: Booleans, among: Booleans, hint: str = "") -> None:
        places = np.zeros(left.shape, bool)
        for part in (np.outer(one, other) & among, np.outer(other, one) & among):
            if np.count_nonzero(left & part) >= NEARLY_ALL * np.count_nonzero(part):
                places |= part
        if np.count_nonzero(places) >= MIN_PAIRS:
            found.append(_group(comparison, name, places, hint))
            left[places] = False

    units, node_of = np.unique(np.array(nodes, np.int64), return_inverse=True)
    if len(units) > 1 and -1 not in nodes:
        host_of = dict(zip(nodes, hosts, strict=True))
        apart = node_of != node_of[:, np.newaxis]
        slow, there = _between_nodes(left, node_of), _between_nodes(judged, node_of)
        for part in _parts((slow >= NEARLY_ALL * there) & (there > 0), there > 0):
            one, other = (np.isin(node_of, side) for side in (part.one, part.other))
            names = [_nodes(units[list(side)].tolist(), host_of) for side in (part.one, part.other)]
            if part.one == part.other:
                among, word = (judged & apart, "between") if len(part.one) > 1 else (judged, "within")
                take(f"{word} {names[0]}", one, other, among)
            elif part.all_others:
                take(f"{names[0]} ↔ all other nodes", one, other, judged, _SHARED if len(part.one) > 1 else "")
            else:
                take(" ↔ ".join(names), one, other, judged)
    for part in _parts(left, judged):
        if not part.all_others:
            break  # pairs that no rank explains
        numbers = [comparison.kinds.firsts[place] for place in part.one]
        name = f"{ends}{'s' if len(numbers) > 1 else ''} {format_cpulist(numbers)}"
        where = f" ({host})" if len(numbers) == 1 and (host := hosts[part.one[0]]) else ""
        take(f"{name}{where} ↔ all other {ends}s", np.isin(ranks, part.one), np.isin(ranks, part.other), judged)
    return sorted(found, key=lambda each: -each.pairs)


_SHARED = "pairs among these nodes are not slow: look at what the nodes share, such as a switch"


def _group(comparison: PairComparison, name: str, places: Booleans, hint: str) -> SlowGroup:
    ratios = comparison.ratios[places]
    nearest = np.argwhere(places)[np.argsort(np.abs(ratios - np.median(ratios)), kind="stable")]
    return SlowGroup(
        name=name,
        places=places,
        slow=int(np.count_nonzero(comparison.slow & places)),
        again=tuple(comparison.kinds.pairs_at(nearest[:MAX_AGAIN])),
        hint=hint,
    )


def _nodes(numbers: Sequence[int], host_of: Mapping[int, str]) -> str:
    if len(numbers) == 1:
        return f"node {numbers[0]} ({host_of[numbers[0]]})"
    return f"nodes {format_cpulist(numbers)}"


def _between_nodes(pairs: Booleans, node_of: Integers) -> Integers:
    members = node_of == np.arange(node_of.max() + 1)[:, np.newaxis]
    counted: Floats = members.astype(np.float64) @ pairs.astype(np.float64) @ members.T.astype(np.float64)
    return counted.astype(np.int64)


@dataclass(frozen=True)
class _Part:
    """Two sets of nodes or of ranks with slow links between them."""

    one: tuple[int, ...]
    other: tuple[int, ...]
    all_others: bool = False
    """``other`` is every one that is not in ``one``."""


def _parts(slow: Booleans, there: Booleans) -> Iterator[_Part]:
    """Yield what explains the slow links between units, the most that one part explains first."""
    apart = ~np.eye(len(slow), dtype=bool)
    slow, there = slow | slow.T, there | there.T
    number = np.count_nonzero(there & apart, axis=1)
    bad = (number >= MIN_OTHERS) & (np.count_nonzero(slow & apart, axis=1) >= NEARLY_ALL * number)
    everyone = frozenset(range(len(slow)))
    for some in _connected(there & ~slow & apart, np.flatnonzero(bad).tolist()):
        yield _Part(some, tuple(everyone - set(some)), all_others=True)
    yield from (_Part((each,), (each,)) for each in np.flatnonzero(np.diag(slow)).tolist())
    rest = slow & apart & ~bad & ~bad[:, np.newaxis]
    for some in _alike(rest | ~apart):
        if len(some) > 2 and rest[some[0], some[1]]:
            yield _Part(some, some)
            rest[np.ix_(some, some)] = False
    sets = _alike(rest)
    for place, one in enumerate(sets):
        yield from (_Part(one, other) for other in sets[place + 1 :] if rest[one[0], other[0]])


def _connected(links: Booleans, units: Sequence[int]) -> Iterator[tuple[int, ...]]:
    left = set(units)
    while left:
        found, new = set[int](), {min(left)}
        while new:
            found |= new
            new = {other for unit in new for other in left - found if links[unit, other]}
        left -= found
        yield tuple(sorted(found))


def _alike(links: Booleans) -> list[tuple[int, ...]]:
    """Return the sets of units that have the same links; units without links are left out."""
    units: list[int] = np.flatnonzero(links.any(axis=1)).tolist()
    return [tuple(each) for each in grouped(units, lambda unit: links[unit].tobytes()).values()]
