"""Which pairs of a matrix took longer than comparable pairs: pure functions of plain numbers.

A pair is compared with the other pairs of its kind only, for example with pairs whose ranks are both on one socket.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

Pair = tuple[int, int]
"""The first and the second end: numbers of ranks, or of GPUs."""

SUSPECT_FROM = 1.04
"""A pair is a suspect if it took this many times as long as comparable pairs."""

FLAG_FROM = 1.03
"""A pair is flagged if the lower bound of its ratio is above this.  Nobody repairs a fault of a few per cent, and
differences of placement are of that size."""

FEWEST_COMPARABLE = 3
"""With fewer other pairs of its kind, it is not possible to say which pair is unusual."""

MOST_SUSPECTS = 32
"""The slowest pairs are suspects: this many, or the share ``MOST_SHARE`` of all pairs, whichever is more."""

MOST_SHARE = 1 / 8
"""Twelve repetitions of this share of the pairs take half as long as three visits of all pairs."""

MOST_OF_A_KIND = 1 / 3
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


def compare(times: Mapping[Pair, float], kinds: Mapping[Pair, str]) -> dict[Pair, PairRatio]:
    """Compare every pair with the other pairs of its kind.

    Args:
        times: seconds of each measured pair.
        kinds: the kind of each pair; pairs of one kind are compared.

    Returns:
        The ratio of each pair that has ``FEWEST_COMPARABLE`` others of its kind.
    """
    by_kind: dict[str, list[tuple[float, Pair]]] = {}
    for pair, time_s in times.items():
        by_kind.setdefault(kinds[pair], []).append((time_s, pair))
    found: dict[Pair, PairRatio] = {}
    for kind, members in by_kind.items():
        ordered = sorted(members)
        places = {pair: place for place, (_, pair) in enumerate(ordered)}
        for time_s, pair in members:
            own = sorted({places[each] for each in (pair, pair[::-1]) if each in places})
            comparable = len(ordered) - len(own)
            if comparable >= FEWEST_COMPARABLE:
                found[pair] = PairRatio(pair, kind, time_s / _median_without(ordered, own), comparable)
    return found


def _median_without(ordered: Sequence[tuple[float, Pair]], own: Sequence[int]) -> float:
    """Return the median of the sorted times without those at the places ``own``, which are sorted too."""
    left = len(ordered) - len(own)
    middle = [(left - 1) // 2, left // 2]
    for skipped in own:
        middle = [place + 1 if place >= skipped else place for place in middle]
    return sum(ordered[place][0] for place in middle) / 2


def in_turn(*orders: Sequence[Pair]) -> list[Pair]:
    """Return the first pair of each order, then the second of each, and so on; each pair once."""
    return list(dict.fromkeys(pair for each in zip_longest(*orders) for pair in each if pair is not None))


def suspects(usual: Mapping[Pair, PairRatio], at_best: Mapping[Pair, PairRatio]) -> list[PairRatio]:
    """Return the suspects, the most likely ones first.

    By the median of its visits, a pair becomes a suspect if a disturbance met two visits out of three.  By the best
    visit, many pairs become suspects if one pair had a visit that was luckier than all others.  So the slowest pairs
    of both orders are taken in turn.

    Args:
        usual: the ratios by the median of the visits of each pair.
        at_best: the ratios by the best visit of each pair.
    """
    slow = in_turn(_slow(at_best), _slow(usual))
    return [usual[pair] for pair in slow[: max(MOST_SUSPECTS, int(MOST_SHARE * len(usual)))]]


def _slow(ratios: Mapping[Pair, PairRatio]) -> list[Pair]:
    """Return the pairs that took longer than comparable pairs, the slowest first.

    A pair is one of them only if few pairs of its kind are even half as far out; else the kind is made of several.
    """
    by_kind = _ratios_by_kind(ratios)
    found = []
    for each in sorted(ratios.values(), key=lambda compared: (-compared.ratio, compared.pair)):
        members = by_kind[each.kind]
        half_as_far = len(members) - bisect_right(members, 1 + (each.ratio - 1) / 2)
        if each.ratio > SUSPECT_FROM and half_as_far <= MOST_OF_A_KIND * len(members):
            found.append(each.pair)
    return found


def uneven(ratios: Mapping[Pair, PairRatio]) -> dict[str, int]:
    """Return the kinds of which more than the share ``MOST_OF_A_KIND`` looks slow, with the number of those pairs."""
    found = {}
    for kind, members in _ratios_by_kind(ratios).items():
        slow = len(members) - bisect_right(members, SUSPECT_FROM)
        if slow > MOST_OF_A_KIND * len(members):
            found[kind] = slow
    return found


def _ratios_by_kind(ratios: Mapping[Pair, PairRatio]) -> dict[str, list[float]]:
    """Return the ratios of each kind, the smallest first."""
    found: dict[str, list[float]] = {}
    for each in ratios.values():
        found.setdefault(each.kind, []).append(each.ratio)
    return {kind: sorted(members) for kind, members in found.items()}
