"""Which pairs of a matrix took longer than comparable pairs: pure functions of numbers.

A pair is compared with the other pairs of its kind only, for example with pairs whose ranks are both on one socket.
A thousand ranks have a million pairs, so matrices are NumPy arrays: a row for each first end, a column for each second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]
"""The first and the second end: numbers of ranks, or of GPUs."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

SUSPECT_FROM = 1.04
"""A pair is a suspect if it took this many times as long as comparable pairs."""

FLAG_FROM = 1.03
"""A pair is flagged if the lower bound of its ratio is above this.  Nobody repairs a fault of a few per cent, and
differences of placement are of that size."""

MIN_COMPARABLE = 3
"""With fewer other pairs of its kind, it is not possible to say which pair is unusual."""

MAX_SUSPECTS = 32
"""The slowest pairs are suspects: this many, or the share ``MAX_SHARE`` of all pairs, whichever is more."""

MAX_SHARE = 1 / 8
"""Twelve repetitions of this share of the pairs take half as long as three visits of all pairs."""

MAX_OF_A_LARGE_MATRIX = 1000
"""No more pairs are suspects, however many there are: each further test makes all others less certain."""

MAX_OF_A_KIND = 1 / 3
"""If more than this share of a kind looks slow, no pair of it is a suspect: the kind is made of several kinds."""


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
    """The ends of a matrix, and which of its pairs are comparable."""

    firsts: tuple[int, ...]
    """The ends that have a row."""
    seconds: tuple[int, ...]
    """The ends that have a column."""
    numbers: Integers
    """The kind of each pair, as a place in ``names``."""
    names: tuple[str, ...]

    @cached_property
    def rows(self) -> dict[int, int]:
        return {end: place for place, end in enumerate(self.firsts)}

    @cached_property
    def columns(self) -> dict[int, int]:
        return {end: place for place, end in enumerate(self.seconds)}

    @cached_property
    def _seconds(self) -> Integers:
        return np.array(self.seconds, np.int64)

    def places_of(self, seconds: Sequence[int]) -> Integers:
        """Return the columns of some second ends; the matrix has all of them, rising."""
        return np.searchsorted(self._seconds, seconds)

    def place(self, pair: Pair) -> Pair:
        """Return the row and the column of a pair; a KeyError if the matrix does not have it."""
        return self.rows[pair[0]], self.columns[pair[1]]

    def kind(self, pair: Pair) -> str:
        return self.names[int(self.numbers[self.place(pair)])]

    def pairs(self, where: Booleans) -> list[Pair]:
        return [(self.firsts[row], self.seconds[column]) for row, column in np.argwhere(where).tolist()]


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
            slow[far] = half_as_far <= MAX_OF_A_KIND * ratios.size
        return slow

    def slowest(self, most: int, apart: Booleans) -> list[Pair]:
        """Return the slow pairs without those that are ``apart``, the slowest first."""
        where = np.argwhere(self.slow & ~apart)
        order = np.argsort(-self.ratios[tuple(where.T)], kind="stable")[:most]
        return [(self.kinds.firsts[row], self.kinds.seconds[column]) for row, column in where[order].tolist()]

    def uneven(self) -> dict[str, int]:
        """Return the kinds of which more than ``MAX_OF_A_KIND`` looks slow, with the number of those pairs."""
        found = {}
        for name, where in self._by_kind():
            slow = int(np.count_nonzero(self.ratios[where] > SUSPECT_FROM))
            if slow > MAX_OF_A_KIND * np.count_nonzero(where):
                found[name] = slow
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
        opposite = places.T[where] if kinds.firsts == kinds.seconds else own
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


def in_turn(*orders: Sequence[Pair]) -> list[Pair]:
    """Return the first pair of each order, then the second of each, and so on; each pair once."""
    return list(dict.fromkeys(pair for each in zip_longest(*orders) for pair in each if pair is not None))


def suspects(usual: PairComparison, at_best: PairComparison, apart: Booleans | None = None) -> list[PairRatio]:
    """Return the suspects, the most likely ones first.

    Either order alone can be misled.  The order by the median of the visits puts a good pair among the slowest if
    something disturbed two of its three visits.  The order by the best visit does so with many good pairs if a single
    visit of another pair was unusually fast.  So the slowest pairs of both orders are taken in turn.

    Args:
        usual: the ratios by the median of the visits of each pair.
        at_best: the ratios by the best visit of each pair.
        apart: pairs that are no suspects.
    """
    pairs = np.count_nonzero(~np.isnan(usual.ratios))
    most = max(MAX_SUSPECTS, min(int(MAX_SHARE * pairs), MAX_OF_A_LARGE_MATRIX))
    without = np.zeros(usual.ratios.shape, bool) if apart is None else apart
    slow = in_turn(at_best.slowest(most, without), usual.slowest(most, without))[:most]
    return [found for pair in slow if (found := usual.at(pair))]
