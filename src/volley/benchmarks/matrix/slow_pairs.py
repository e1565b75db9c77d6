"""Which pairs of a matrix are slower than comparable pairs: pure functions of numbers.

Comparable pairs of ranks have both on one socket, or on one node, or on two nodes.  The time that is compared is that
of the least disturbed visit (the lower bound of its interval): on a machine with other work, a median says as much
about that work as about the pair.

A thousand ranks have a million pairs, so matrices are NumPy arrays: a row for each first end, a column for each second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from volley.statistics.two_runs import Booleans, Floats, Integers, medians_of
from volley.text import grouped

Pair = tuple[int, int]
"""The first and the second end: numbers of ranks, or of GPUs."""

SUSPECT_FROM = 1.04
"""A pair is a suspect if it took this many times as long as comparable pairs."""

FLAG_FROM = 1.03
"""A pair is flagged if the lower bound of its ratio is above this.  Nobody repairs a fault of a few per cent, and
differences of placement are of that size."""

MIN_COMPARABLE = 3
"""With fewer other pairs of its kind, it is not possible to say which pair is unusual."""

UNEVEN_FROM = 1 / 3
"""If more than this share looks slow, of a kind of pairs or of the ranks of a check, nothing says which are good."""


@dataclass(frozen=True)
class PairRatio:
    """How the time of a pair compares with that of comparable pairs."""

    pair: Pair
    kind: str
    ratio: float
    """The time of the pair / the median time of comparable pairs: above 1 is slower."""
    comparable: int
    """The number of comparable pairs: all of its kind but the pair itself and its opposite direction."""


@dataclass(frozen=True)
class PairKinds:
    firsts: tuple[int, ...]
    """The ends that have a row."""
    second_ends: tuple[int, ...]
    """The ends that have a column."""
    numbers: Integers
    """The kind of each pair, as a place in ``names``."""
    names: tuple[str, ...]

    @cached_property
    def rows(self) -> dict[int, int]:
        return {end: place for place, end in enumerate(self.firsts)}

    @cached_property
    def columns(self) -> dict[int, int]:
        return {end: place for place, end in enumerate(self.second_ends)}

    def place(self, pair: Pair) -> Pair:
        """Return the row and the column of a pair; a KeyError if the matrix does not have it."""
        return self.rows[pair[0]], self.columns[pair[1]]

    def kind(self, pair: Pair) -> str:
        return self.names[int(self.numbers[self.place(pair)])]

    def pairs(self, where: Booleans) -> list[Pair]:
        return self.pairs_at(np.argwhere(where))

    def pairs_at(self, places: Integers) -> list[Pair]:
        return [(self.firsts[row], self.second_ends[column]) for row, column in places.tolist()]


@dataclass(frozen=True)
class PairComparison:
    """How the time of every pair compares with that of comparable pairs."""

    kinds: PairKinds
    ratios: Floats
    """As in :class:`PairRatio`; NaN where a pair was not measured, or has fewer than ``MIN_COMPARABLE`` others."""
    comparable: Integers

    def at(self, pair: Pair) -> PairRatio | None:
        """Return the ratio of a pair; ``None`` if it has none."""
        place = self.kinds.place(pair)
        if np.isnan(self.ratios[place]):
            return None
        return PairRatio(pair, self.kinds.kind(pair), float(self.ratios[place]), int(self.comparable[place]))

    @cached_property
    def slow(self) -> Booleans:
        """The pairs that took longer than comparable pairs.

        A pair is one of them only if few pairs of its kind are even half as far out; else the kind is made of several.
        """
        slow = np.zeros(self.ratios.shape, bool)
        for _, where in self._by_kind():
            ratios = self.ratios[where]
            far = where & (self.ratios > SUSPECT_FROM)
            half_way = 1 + (self.ratios[far] - 1) / 2
            half_as_far = ratios.size - np.searchsorted(np.sort(ratios), half_way, side="right")
            slow[far] = half_as_far <= UNEVEN_FROM * ratios.size
        return slow

    def slowest(self, among: Booleans, most: int | None = None) -> list[Pair]:
        """Return pairs in the order of their ratios, the slowest first."""
        where = np.argwhere(among)
        order = np.argsort(-self.ratios[tuple(where.T)], kind="stable")[:most]
        return self.kinds.pairs_at(where[order])

    def uneven(self) -> dict[str, int]:
        """Return the kinds of which more than ``UNEVEN_FROM`` looks slow, with the number of those pairs."""
        found = {}
        for name, where in self._by_kind():
            slow = int(np.count_nonzero(self.ratios[where] > SUSPECT_FROM))
            if slow > UNEVEN_FROM * np.count_nonzero(where):
                found[name] = slow
        return found

    def lasting(self, launches: Sequence[Floats]) -> Booleans:
        """Return the pairs that ``lasting`` finds among those of their kind; of each launch its ratios."""
        found = np.zeros(self.ratios.shape, bool)
        for _, where in self._by_kind():
            found[where] = lasting([ratios[where] for ratios in launches])
        return found

    def _by_kind(self) -> Iterator[tuple[str, Booleans]]:
        judged = ~np.isnan(self.ratios)
        for number, name in enumerate(self.kinds.names):
            where = judged & (self.kinds.numbers == number)
            if where.any():
                yield name, where


def matrix_of(times: Mapping[Pair, float], kinds: Mapping[Pair, str]) -> tuple[Floats, PairKinds]:
    """Return the matrix of a few pairs, from the seconds of each measured pair and the kind of every pair."""
    ends = [sorted({pair[side] for pair in kinds}) for side in (0, 1)]
    if set(ends[0]) & set(ends[1]):  # else between one sort of ends and another
        ends = [sorted({*ends[0], *ends[1]})] * 2
    firsts, seconds = ends
    names = tuple(dict.fromkeys(kinds.values()))
    numbers = np.full((len(firsts), len(seconds)), -1, np.int64)
    found = PairKinds(tuple(firsts), tuple(seconds), numbers, names)
    matrix = np.full(numbers.shape, np.nan)
    for pair, kind in kinds.items():
        numbers[found.place(pair)] = names.index(kind)
    for pair, time_s in times.items():
        matrix[found.place(pair)] = time_s
    return matrix, found


def compare(times: Floats, kinds: PairKinds) -> PairComparison:
    """Compare every pair with the other pairs of its kind, by seconds; NaN where it was not measured."""
    ratios, comparable = np.full(times.shape, np.nan), np.zeros(times.shape, np.int64)
    for number in range(len(kinds.names)):
        where = ~np.isnan(times) & (kinds.numbers == number)
        members = times[where]
        ordered = np.argsort(members)
        none = members.size
        own = np.empty(none, np.int64)
        own[ordered] = np.arange(none)
        places = np.full(times.shape, none)
        places[where] = own
        opposite = places.T[where] if kinds.firsts == kinds.second_ends else own
        opposite = np.where(opposite == own, none, opposite)
        others = members.size - 1 - (opposite < none)
        sorted_times = members[ordered]
        middle = [_without(own, opposite, (others - 1 + step) // 2).clip(0, none - 1) for step in (0, 1)]
        usual = (sorted_times[middle[0]] + sorted_times[middle[1]]) / 2
        ratios[where] = np.where(others >= MIN_COMPARABLE, members / usual, np.nan)
        comparable[where] = others
    return PairComparison(kinds, ratios, comparable)


def _without(one: Integers, other: Integers, places: Integers) -> Integers:
    """Return where the elements at ``places`` of a list without ``one`` and ``other`` are in the whole list."""
    places = places + (places >= np.minimum(one, other))
    return places + (places >= np.maximum(one, other))


def lasting(launches: Sequence[Floats]) -> Booleans:
    """Return which comparable pairs are slow whatever the launch, by their ratios in each launch; none by one launch.

    The samples of a pair in one launch share its state, so one launch says nothing of the next.  Where every second
    launch and the others (their medians) differ, that is noise.  A pair lasts if both halves put it above
    ``FLAG_FROM`` by more than they differ for any comparable pair.  No distribution is assumed; of noise with two
    states it is enough that some other pair changes its state (docs/method/rank-matrix.md has error rates).
    """
    logarithms = np.log(np.array(launches))
    if len(launches) < 2:
        return np.zeros(logarithms.shape[1:], bool)
    one, other = (medians_of(logarithms[half::2]) for half in (0, 1))
    differ = np.abs(one - other)
    most = np.max(differ, initial=0.0, where=~np.isnan(differ))
    found: Booleans = np.minimum(one, other) - math.log(FLAG_FROM) > most
    return found


def steady_ratios(times: Mapping[Pair, float], kinds: Mapping[Pair, str], numbers: PairKinds) -> Floats:
    """Return the ratios of one launch, by the seconds of its pairs in the order in which they were measured.

    A clock that slows down during each launch would make the pairs that are measured last slow in all of them.  So the
    line through the medians of the first and the second half of comparable pairs is divided out.
    """
    steady = dict(times)
    for those in grouped(times, kinds.__getitem__).values():
        logarithms, half = np.log([times[pair] for pair in those]), len(those) // 2
        rise = np.median(logarithms[-half:]) - np.median(logarithms[:half]) if half else 0.0
        line = rise * np.arange(len(those)) / (len(those) - half)
        steady |= dict(zip(those, np.exp(logarithms - line).tolist(), strict=True))
    return compare(matrix_of(steady, kinds)[0], numbers).ratios
