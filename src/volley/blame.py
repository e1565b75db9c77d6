"""Which pairs of ranks are slower than their like: pure functions of plain numbers.

A pair is judged against like pairs only: both ranks on one socket, or on one node, or on two nodes.  What is compared
is how long a pair takes when it is disturbed least (the lower bound of a visit's interval): on a machine with other
work a median says as much about that work as about the pair.

A pair is named in two steps.  First, all pairs are measured, and those that took longer than their like become
suspects; with thousands of pairs some do by chance.  Then suspects and controls are measured again, in turn, so that
a drift of the machine meets both alike; that is done in rounds, each between those that the rounds before have not
decided about.  A suspect is blamed where its ratio to the controls is above a margin for certain: a sign test of
paired observations, which assumes no distribution (W. J. Conover, Practical Nonparametric Statistics, 3.2 and 3.4).
The probability that such a test errs is divided among all suspects and all rounds (Bonferroni), so that it holds for a
whole matrix.  The second step looks at new measurements only: judged by those that made it a suspect, the slowest of
many equal pairs would always look slow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from volley import stats

Pair = tuple[int, int]
"""First and second rank."""

SUSPECT_FROM = 1.04
"""A pair that took this many times as long as its like is looked at again."""

BLAME_FROM = 1.03
"""A pair is blamed where the lower bound of its ratio to the controls is above this.  A fault of a few per cent is no
fault that anybody would mend; differences of placement are of that size."""

FEWEST_LIKE = 3
"""With fewer other pairs of its kind nobody knows which one is out of line."""

MOST_SUSPECTS = 32
"""The slowest are looked at again, so many or a share of all pairs (``MOST_SHARE``), whichever is more."""

MOST_SHARE = 1 / 8
"""Twelve repetitions of so many pairs take half as long as three visits of all."""

CONTROLS = 5
"""Like pairs that are measured again beside the suspects of a kind.  An odd number: among equals a suspect is as often
above their median as below it, whatever the distribution, and that is all that a sign test needs."""

ROUNDS = (12, 12, 24, 48, 96)
"""Repetitions of each round.  Most pairs are decided about by the first two."""

CLEARED_BELOW = 1.05
"""Not looked at any longer where the upper bound of the 95 % interval of the ratio is below this."""

LONGEST_S = 60.0
"""Measuring again may take so long, or as long as the first launch, whichever is more."""

A_ROUND = 1 / 3
"""Of the time that is left, one round takes so much at most, and leaves out the pairs that look least slow: time that
is spread over all of them decides about none."""

FEWEST_AGAIN = 2
"""But so many are always measured: one pair and its way back."""

FALSE_BLAME = 0.01
"""The probability that any good pair of a matrix is blamed, at most."""

MOST_OF_A_KIND = 1 / 3
"""Where more of a kind than this are out of line, none is: the kind is made of several."""


@dataclass(frozen=True)
class Standing:
    """How a pair stands among its like."""

    pair: Pair
    ratio: float
    """Its time / the median of its like: above 1 is slower."""
    like: int
    """Pairs of its kind, itself and its way back left out."""


@dataclass(frozen=True)
class Verdict:
    """What measuring a suspect again has shown."""

    first: Standing
    """How it stood at first."""
    again: stats.Estimate
    """Its ratio to the controls, over the repetitions."""
    at_least: float | None
    """The ratio is above this, with the certainty that blaming asks for; ``None``: too few repetitions to tell."""

    @property
    def blamed(self) -> bool:
        """True where it is slower for certain, as far as these launches can tell."""
        return self.at_least is not None and self.at_least > BLAME_FROM

    @property
    def cleared(self) -> bool:
        """True where it is not slower by anything worth blaming."""
        return not self.blamed and self.again.kind == "interval" and self.again.high < CLEARED_BELOW


def standings(times: Mapping[Pair, float], kinds: Mapping[Pair, str]) -> dict[Pair, Standing]:
    """Hold every pair against its like.

    Args:
        times: seconds of each measured pair when it was disturbed least.
        kinds: what each pair is like; pairs of one kind are compared.

    Returns:
        A standing for each pair that has ``FEWEST_LIKE`` others of its kind.
    """
    of_kind: dict[str, list[tuple[float, Pair]]] = {}
    for pair, time_s in times.items():
        of_kind.setdefault(kinds[pair], []).append((time_s, pair))
    found: dict[Pair, Standing] = {}
    for members in of_kind.values():
        ordered = sorted(members)
        places = {pair: number for number, (_, pair) in enumerate(ordered)}
        for time_s, pair in members:
            own = {places[each] for each in (pair, pair[::-1]) if each in places}
            like = len(ordered) - len(own)
            if like >= FEWEST_LIKE:
                found[pair] = Standing(pair, time_s / _median_without(ordered, own), like)
    return found


def _median_without(ordered: Sequence[tuple[float, Pair]], own: set[int]) -> float:
    """The median of sorted times without those at ``own``: only the few around the middle are looked at."""
    left = len(ordered) - len(own)
    middle = (left - 1) // 2, left // 2
    window = range(max(0, middle[0] - 2), min(len(ordered), middle[1] + 3))
    skipped = sum(place < window.start for place in own)
    near = [ordered[place][0] for place in window if place not in own]
    return sum(near[place - (window.start - skipped)] for place in middle) / 2


def suspects(
    found: Mapping[Pair, Standing], at_best: Mapping[Pair, Standing], kinds: Mapping[Pair, str]
) -> list[Standing]:
    """Return the pairs to be measured again, those that are most likely to be slow first.

    Going by the median of a pair's visits, a disturbance of two out of three makes a suspect; going by the best visit,
    one that was luckier than all others' makes suspects of many.  So the slowest are taken from both in turn.

    Args:
        found: how pairs stand, going by the median of their visits.
        at_best: the same, going by the best visit of each.
        kinds: what each pair is like.
    """
    orders = [
        sorted(_odd(each, kinds), key=lambda standing: (-standing.ratio, standing.pair)) for each in (at_best, found)
    ]
    odd = dict.fromkeys(each.pair for both in zip_longest(*orders) for each in both if each)
    return [found[pair] for pair in odd][: max(MOST_SUSPECTS, int(MOST_SHARE * len(found)))]


def _odd(found: Mapping[Pair, Standing], kinds: Mapping[Pair, str]) -> list[Standing]:
    """The pairs that took longer than their like.

    A pair is odd only where few of its kind are even half as far out as it is; else the kind is made of several.
    """
    ratios = _ratios(found, kinds)
    slow = []
    for each in found.values():
        members = ratios[kinds[each.pair]]
        half_as_far = len(members) - bisect_right(members, 1 + (each.ratio - 1) / 2)
        if each.ratio > SUSPECT_FROM and half_as_far <= MOST_OF_A_KIND * len(members):
            slow.append(each)
    return slow


def uneven(found: Mapping[Pair, Standing], kinds: Mapping[Pair, str]) -> dict[str, int]:
    """Return the kinds of which more than ``MOST_OF_A_KIND`` look slow, and how many do."""
    slow = {kind: len(members) - bisect_right(members, SUSPECT_FROM) for kind, members in _ratios(found, kinds).items()}
    members = Counter(kinds[pair] for pair in found)
    return {kind: many for kind, many in slow.items() if many > MOST_OF_A_KIND * members[kind]}


def _ratios(found: Mapping[Pair, Standing], kinds: Mapping[Pair, str]) -> dict[str, list[float]]:
    """The ratios of each kind, sorted."""
    ratios: dict[str, list[float]] = {}
    for pair, standing in found.items():
        ratios.setdefault(kinds[pair], []).append(standing.ratio)
    return {kind: sorted(members) for kind, members in ratios.items()}


def controls(found: Mapping[Pair, Standing], kinds: Mapping[Pair, str], asked: Iterable[Standing]) -> list[Pair]:
    """Return like pairs to be measured beside the suspects: of each kind those nearest to its median."""
    wanted = {kinds[each.pair] for each in asked}
    out = {end for each in asked for end in (each.pair, each.pair[::-1])}
    chosen: list[Pair] = []
    for kind in sorted(wanted):
        members = [each for each in found.values() if kinds[each.pair] == kind and each.pair not in out]
        members.sort(key=lambda each: (abs(each.ratio - 1), each.pair))
        chosen += [each.pair for each in members[:CONTROLS]]
    return chosen


def undecided(asked: Sequence[Standing], verdicts: Mapping[Pair, Verdict]) -> list[Pair]:
    """Return the suspects that are neither blamed nor cleared, in the order in which they are worth another look:
    those that were slow again, the slowest first; those that were not measured again, in their order; the others."""

    def worth(place: int) -> tuple[int, float]:
        verdict = verdicts.get(asked[place].pair)
        if verdict is None:
            return 1, place
        return (0 if verdict.again.median > BLAME_FROM else 2), -verdict.again.median

    ordered = (asked[place].pair for place in sorted(range(len(asked)), key=worth))
    return [pair for pair in ordered if not (pair in verdicts and (verdicts[pair].blamed or verdicts[pair].cleared))]


def affordable(open_pairs: int, beside: int, wanted: int, pair_s: float, left_s: float) -> tuple[int, int]:
    """Return how many undecided pairs the next round measures, and how often.

    Args:
        open_pairs: those that are not decided about.
        beside: controls.
        wanted: repetitions of that round.
        pair_s: seconds that visiting a pair takes.
        left_s: seconds that are left for all rounds.  A short last round is worth it: all repetitions are judged
            together.
    """
    if pair_s <= 0:
        return open_pairs, wanted
    fitting = int(A_ROUND * left_s / (wanted * pair_s)) - beside
    pairs = min(open_pairs, max(FEWEST_AGAIN, fitting))
    return pairs, min(wanted, int(left_s / (pair_s * (pairs + beside)))) if pairs else 0


def in_turn(suspects: Sequence[Pair], controls: Sequence[Pair]) -> list[Pair]:
    """Return suspects and controls in the order in which they are measured: one of each as long as there are both."""
    mixed = [pair for two in zip(suspects, controls, strict=False) for pair in two]
    return [*mixed, *suspects[len(controls) :], *controls[len(suspects) :]]


def verdict(
    first: Standing, again: Sequence[Mapping[Pair, float]], like: Sequence[Pair], tested: int
) -> Verdict | None:
    """Judge a suspect by what measuring it again gave.

    Args:
        first: how it stood at first.
        again: seconds of each pair when it was disturbed least, one mapping a repetition.
        like: the controls of its kind.
        tested: suspects of this matrix.

    Returns:
        ``None`` where no repetition holds both the suspect and a control.
    """
    ratios = []
    for times in again:
        beside = [times[pair] for pair in like if pair in times]
        if first.pair in times and beside:
            ratios.append(times[first.pair] / stats.median(beside))
    if not ratios:
        return None
    place = stats.interval_rank(len(ratios), FALSE_BLAME / len(ROUNDS) / tested)
    return Verdict(first, stats.estimate(ratios), sorted(ratios)[place - 1] if place else None)
