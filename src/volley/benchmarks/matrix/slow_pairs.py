"""Which pairs of a matrix are slower than comparable pairs, and what slow pairs share: pure functions of numbers.

Comparable pairs of ranks have both on one socket, or on one node, or on two nodes.  The time that is compared is that
of the least disturbed visit (the lower bound of its interval): on a machine with other work, a median says as much
about that work as about the pair.

A pair is flagged in two steps.  First all pairs are measured, and those that took longer than comparable pairs become
suspects; with thousands of pairs some do by chance.  Then suspects and controls are measured again, in turn, so that
a drift of the machine meets both alike.  That happens in rounds; each round measures the suspects that the rounds
before left undecided.  A suspect is flagged if its ratio to the controls is above a margin for certain: a sign test of
paired observations, which assumes no distribution (W. J. Conover, Practical Nonparametric Statistics, 3.2 and 3.4),
and if it is slow in both halves of the rounds by more than they differ (``lasting``): a round is a launch.
The probability that such a test errs is divided among all suspects and all rounds (Bonferroni), so that it holds for a
whole matrix.  The second step uses new measurements only: judged by the measurements that made it a suspect, the
slowest of many equal pairs would always look slow.

What slow pairs share, a rank, a node, a link between two nodes or the switch of several, says where the fault is: one
bad cable makes every pair slow whose messages cross it.  The machine's network need not be known.  Nodes count as
joined by a slow link if nearly all pairs of their ranks are slow in either direction.  A node with slow links to nearly
all others is a part by itself; several such nodes with fast links between each other share what leads to the others.
What is left are links.  The slow pairs that nodes do not explain are looked at once more by rank, in the same way.

A thousand ranks have a million pairs, so matrices are NumPy arrays: a row for each first end, a column for each second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest

import numpy as np

from volley.statistics import estimates
from volley.statistics.two_runs import Booleans, Floats, Integers, medians_of
from volley.text import grouped
from volley.units import format_cpulist

Pair = tuple[int, int]
"""The first and the second end: numbers of ranks, or of GPUs."""

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


def in_turn(*orders: Sequence[Pair]) -> list[Pair]:
    """Return the first pair of each order, then the second of each, and so on; each pair once."""
    return list(dict.fromkeys(pair for each in zip_longest(*orders) for pair in each if pair is not None))


def suspects(usual: PairComparison, at_best: PairComparison, groups: Sequence[SlowGroup] = ()) -> list[PairRatio]:
    """Return the suspects, the most likely ones first: some of each group, then slow pairs of no group.

    Either order alone can be misled.  The order by the median of the visits puts a good pair among the slowest if
    something disturbed two of its three visits.  The order by the best visit does so with many good pairs if a single
    visit of another pair was unusually fast.  So the slowest pairs of both orders are taken in turn.
    """
    pairs = np.count_nonzero(~np.isnan(usual.ratios))
    most = max(MAX_SUSPECTS, min(int(MAX_SHARE * pairs), MAX_OF_A_LARGE_MATRIX))
    alone = ~any_of(groups, usual.ratios)
    slow = in_turn(*(each.slowest(each.slow & alone, most) for each in (at_best, usual)))[:most]
    standing = in_turn(*(group.again for group in groups))
    return [found for pair in (*standing, *slow) if (found := usual.at(pair))]


def any_of(groups: Sequence[SlowGroup], matrix: Floats) -> Booleans:
    """Return where the pairs of groups are in a matrix."""
    found: Booleans = np.any([np.zeros(matrix.shape, bool), *(group.places for group in groups)], axis=0)
    return found


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


CONTROLS = 5
"""Comparable pairs that are measured again beside the suspects of a kind.  An odd number: among equal pairs a suspect
is as often above the median of the controls as below it, whatever the distribution; a sign test needs no more."""

ROUNDS = (12, 12, 24, 48, 96)
"""Repetitions of each round.  The first two decide about most pairs."""

CLEARED_BELOW = 1.05
"""A suspect is cleared if the upper bound of the 95 % interval of its ratio is below this."""

LONGEST_S = 60.0
"""Measuring again may take this long, or as long as the first launch, whichever is more."""

SHARE_OF_A_ROUND = 1 / 3
"""One round takes at most this share of the time that is left, and leaves out the pairs that look least slow: time
that is spread over all pairs decides about none."""

MIN_AGAIN = 2
"""A round measures this many suspects at least: one pair and its opposite direction."""

FALSE_FLAG = 0.01
"""The largest probability that any good pair of a matrix is flagged."""


@dataclass(frozen=True)
class Remeasurement:
    """The result of measuring a suspect again."""

    first: PairRatio
    """Its ratio in the first launch."""
    again: estimates.Estimate
    """Its ratio to the controls, over the repetitions."""
    at_least: float | None
    """The ratio is above this with the certainty that a flag asks for; ``None``: too few repetitions."""
    lasts: bool = True
    """The launches agree on it."""

    @property
    def flagged(self) -> bool:
        return self.lasts and self.at_least is not None and self.at_least > FLAG_FROM

    @property
    def cleared(self) -> bool:
        return not self.flagged and self.again.kind == "ci" and self.again.high < CLEARED_BELOW

    @property
    def undecided(self) -> bool:
        return not self.flagged and not self.cleared


def controls(comparison: PairComparison, suspects: Sequence[PairRatio]) -> list[PairRatio]:
    """Return comparable pairs to measure beside the suspects: of each kind those nearest to its median."""
    kinds = comparison.kinds
    free = ~np.isnan(comparison.ratios)
    for each in suspects:
        for pair in (each.pair, each.pair[::-1]):
            free[kinds.place(pair)] = False
    chosen: list[PairRatio] = []
    for kind in sorted({each.kind for each in suspects}):
        where = np.argwhere(free & (kinds.numbers == kinds.names.index(kind)))
        off = np.abs(comparison.ratios[tuple(where.T)] - 1)
        nearest = where[np.argsort(off, kind="stable")[:CONTROLS]]
        chosen += [found for pair in kinds.pairs_at(nearest) if (found := comparison.at(pair))]
    return chosen


def undecided(suspects: Sequence[PairRatio], found: Mapping[Pair, Remeasurement]) -> list[Pair]:
    """Return the suspects that are neither flagged nor cleared, the most urgent first.

    First those that were slow again, the slowest first; then those that were not measured again, in their order; then
    the others.
    """

    def urgency(pair: Pair) -> tuple[int, float]:
        if pair not in found:
            return 1, 0
        again = found[pair].again.median
        return 0 if again > FLAG_FROM else 2, -again

    return sorted((each.pair for each in suspects if each.pair not in found or found[each.pair].undecided), key=urgency)


def affordable(undecided_pairs: int, controls: int, wanted: int, pair_s: float, left_s: float) -> tuple[int, int]:
    """Return how many undecided pairs the next round measures, and how often.

    Args:
        undecided_pairs: the number of undecided suspects.
        controls: the number of controls.
        wanted: the repetitions of that round.
        pair_s: seconds that one visit of a pair takes.
        left_s: seconds that are left for all rounds.  A short last round is worth it: all repetitions are judged
            together.
    """
    if pair_s <= 0:
        return undecided_pairs, wanted
    fitting = int(SHARE_OF_A_ROUND * left_s / (wanted * pair_s)) - controls
    pairs = min(undecided_pairs, max(MIN_AGAIN, fitting))
    return pairs, min(wanted, int(left_s / (pair_s * (pairs + controls)))) if pairs else 0


def _ratios(pair: PairRatio, repetitions: Sequence[Mapping[Pair, float]], controls: Sequence[PairRatio]) -> list[float]:
    """Return the ratio of a pair to the median of its controls in each repetition that has both."""
    found = []
    for times in repetitions:
        beside = [times[each.pair] for each in controls if each.kind == pair.kind and each.pair in times]
        if pair.pair in times and beside:
            found.append(times[pair.pair] / estimates.median(beside))
    return found


def judge(
    first: PairRatio, repetitions: Sequence[Mapping[Pair, float]], controls: Sequence[PairRatio], suspects: int
) -> Remeasurement | None:
    """Judge a suspect by its new measurements: the seconds of each pair in its least disturbed visit, by repetition."""
    ratios = _ratios(first, repetitions, controls)
    if not ratios:
        return None
    rank = estimates.interval_rank(len(ratios), FALSE_FLAG / len(ROUNDS) / suspects)
    return Remeasurement(first, estimates.estimate(ratios), sorted(ratios)[rank - 1] if rank else None)


def judge_all(
    suspects: Sequence[PairRatio], launches: Sequence[Sequence[Mapping[Pair, float]]], controls: Sequence[PairRatio]
) -> dict[Pair, Remeasurement]:
    """Judge all suspects by the repetitions of each launch: a pair is flagged only if it is ``lasting``.

    The repetitions of one launch share where its ranks and their memory are, which may make any pair slow in it.
    """
    every = [*chain.from_iterable(launches)]
    judged = {each.pair: found for each in suspects if (found := judge(each, every, controls, len(suspects)))}
    for those in grouped((*suspects, *controls), lambda each: each.kind).values():
        medians = np.array(
            [[estimates.median(_ratios(each, one, controls) or [math.nan]) for each in those] for one in launches]
        )
        there = ~np.isnan(medians)
        for place, each in enumerate(those):
            if each.pair in judged:  # beside those that were measured as long as it was
                own = there[:, place]
                beside = there[own].all(axis=0)
                lasts = lasting([*medians[own][:, beside]])[np.count_nonzero(beside[:place])]
                judged[each.pair] = replace(judged[each.pair], lasts=bool(lasts))
    return judged
