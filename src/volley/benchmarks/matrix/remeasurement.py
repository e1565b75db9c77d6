"""Which pairs of a matrix are measured again, and which of these are flagged: pure functions of numbers.

A pair is flagged in two steps.  First all pairs are measured, and those that took longer than comparable pairs become
suspects; with thousands of pairs some do by chance.  Then suspects and controls are measured again, in turn, so that
a drift of the machine meets both alike.  That happens in rounds; each round measures the suspects that the rounds
before left undecided.  A suspect is flagged if its ratio to the controls is above a margin for certain: a sign test of
paired observations, which assumes no distribution (W. J. Conover, Practical Nonparametric Statistics, 3.2 and 3.4),
and if it is slow in both halves of the rounds by more than they differ (``lasting``): a round is a launch.
The probability that such a test errs is divided among all suspects and all rounds (Bonferroni), so that it holds for a
whole matrix.  The second step uses new measurements only: judged by the measurements that made it a suspect, the
slowest of many equal pairs would always look slow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import numpy as np

from volley.benchmarks.matrix.slow_groups import SlowGroup, any_of
from volley.benchmarks.matrix.slow_pairs import FLAG_FROM, Pair, PairComparison, PairRatio, lasting
from volley.statistics import estimates
from volley.text import grouped

MAX_SUSPECTS = 32
"""The slowest pairs are suspects: this many, or the share ``MAX_SHARE`` of all pairs, whichever is more."""

MAX_SHARE = 1 / 8
"""Twelve repetitions of this share of the pairs take half as long as three visits of all pairs."""

MAX_OF_A_LARGE_MATRIX = 1000
"""No more pairs are suspects, however many there are: each further test makes all others less certain."""

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
