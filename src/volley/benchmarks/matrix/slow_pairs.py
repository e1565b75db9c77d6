"""Which pairs of ranks are slower than comparable pairs: pure functions of plain numbers.

Comparable pairs have both ranks on one socket, or on one node, or on two nodes.  The time that is compared is that of
the least disturbed visit (the lower bound of its interval): on a machine with other work, a median says as much about
that work as about the pair.

A pair is flagged in two steps.  First all pairs are measured, and those that took longer than comparable pairs become
suspects; with thousands of pairs some do by chance.  Then suspects and controls are measured again, in turn, so that
a drift of the machine meets both alike.  That happens in rounds; each round measures the suspects that the rounds
before left undecided.  A suspect is flagged if its ratio to the controls is above a margin for certain: a sign test of
paired observations, which assumes no distribution (W. J. Conover, Practical Nonparametric Statistics, 3.2 and 3.4).
The probability that such a test errs is divided among all suspects and all rounds (Bonferroni), so that it holds for a
whole matrix.  The second step uses new measurements only: judged by the measurements that made it a suspect, the
slowest of many equal pairs would always look slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volley.benchmarks.matrix import comparable_pairs
from volley.benchmarks.matrix.comparable_pairs import FLAG_FROM, Pair, PairComparison, PairRatio, in_turn
from volley.benchmarks.matrix.slow_groups import SlowGroup, slow_groups
from volley.statistics import estimates

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

    @property
    def flagged(self) -> bool:
        return self.at_least is not None and self.at_least > FLAG_FROM

    @property
    def cleared(self) -> bool:
        return not self.flagged and self.again.kind == "ci" and self.again.high < CLEARED_BELOW

    @property
    def undecided(self) -> bool:
        return not self.flagged and not self.cleared


def suspects(
    usual: PairComparison, at_best: PairComparison, nodes: Sequence[int], hosts: Sequence[str]
) -> tuple[list[SlowGroup], list[PairRatio]]:
    """Return the groups of slow pairs, and the suspects: some of each group, then slow pairs of no group.

    Args:
        usual: the ratios by the median of the visits of each pair.
        at_best: the ratios by the best visit of each pair.
        nodes: the node of each rank; -1 if it is not known.
        hosts: the name of that node.
    """
    groups = slow_groups(usual, nodes, hosts)
    explained = np.zeros(usual.ratios.shape, bool)
    for group in groups:
        explained |= group.places
    pairs = in_turn(*(group.again for group in groups))
    standing = [found for pair in pairs if (found := usual.at(pair))]
    return groups, standing + comparable_pairs.suspects(usual, at_best, explained)


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
        nearest = where[np.argsort(off, kind="stable")[:CONTROLS]].tolist()
        pairs = [(kinds.firsts[row], kinds.seconds[column]) for row, column in nearest]
        chosen += [found for pair in pairs if (found := comparison.at(pair))]
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


def judge(
    first: PairRatio, repetitions: Sequence[Mapping[Pair, float]], controls: Sequence[PairRatio], suspects: int
) -> Remeasurement | None:
    """Judge a suspect by its new measurements.

    Args:
        first: its ratio in the first launch.
        repetitions: seconds of each pair in its least disturbed visit, one mapping a repetition.
        controls: those of its kind count.
        suspects: the number of suspects of this matrix.

    Returns:
        ``None`` if no repetition holds both the suspect and a control.
    """
    ratios = []
    for times in repetitions:
        beside = [times[each.pair] for each in controls if each.kind == first.kind and each.pair in times]
        if first.pair in times and beside:
            ratios.append(times[first.pair] / estimates.median(beside))
    if not ratios:
        return None
    rank = estimates.interval_rank(len(ratios), FALSE_FLAG / len(ROUNDS) / suspects)
    return Remeasurement(first, estimates.estimate(ratios), sorted(ratios)[rank - 1] if rank else None)
