"""Whether two runs differ: ratios and their intervals, false alarms over a whole sweep, and changes that are found."""

import math
import random
import tracemalloc
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from volley.statistics.launches import NOMINAL
from volley.statistics.two_runs import (
    LEVEL,
    Floats,
    _permutations_of_runs,
    can_decide,
    differences,
    mann_whitney_rank,
    min_to_decide,
    ratio_of,
)

SIZES = 28


def run(draw: random.Random, launches: int, factor: float = 1.0) -> Floats:
    """A sweep, a row for each size, whose launches are slow or fast at every size alike."""
    speeds = [draw.gauss(0, 0.01) for _ in range(launches)]
    return np.array([[factor * math.exp(speed + draw.gauss(0, 0.01)) for speed in speeds] for _ in range(SIZES)])


def test_equal_runs_are_seldom_called_different() -> None:
    draw = random.Random(2)
    sweeps = [differences(run(draw, 6), run(draw, 6)) for _ in range(80)]
    alarms = sum(sweep.probability.min() <= 0.05 for sweep in sweeps)
    assert alarms <= 10  # 0.05 of 80 are 4; 11 and more have a probability of 0.2 %
    assert sum(sweep.changed.any() for sweep in sweeps) <= 3


def test_equal_pairs_are_seldom_called_different() -> None:
    draw = random.Random(8)
    sweeps = [differences(run(draw, 8), run(draw, 8), paired=True) for _ in range(80)]
    assert sum(sweep.changed.any() for sweep in sweeps) <= 5


def test_a_change_of_one_result_is_found_and_named() -> None:
    draw = random.Random(3)
    before, after = run(draw, 6), run(draw, 6)
    after[7] *= 1.2
    found = differences(before, after)
    assert np.flatnonzero(found.changed) == [7]
    assert found.ratio[7] == pytest.approx(1.2, rel=0.05)


def test_a_drift_that_both_of_a_pair_share_hides_no_change() -> None:
    draw = random.Random(6)
    drift = [math.exp(0.05 * launch) for launch in range(8)]
    before, after = (
        np.array([[factor * slow * math.exp(draw.gauss(0, 0.003)) for slow in drift]]) for factor in (1.0, 1.05)
    )
    assert not differences(before, after).changed
    paired = differences(before, after, paired=True)
    assert paired.changed
    assert paired.ratio == pytest.approx(1.05, rel=0.01)


def one_after_the_other(draw: random.Random, kind: str) -> Floats:
    """Launches of two runs of the same thing: the machine drifts, or each launch resembles the one before."""

    def times() -> Iterator[float]:
        off = draw.gauss(0, 0.015)
        for launch in range(16):
            off = 0.9 * off + draw.gauss(0, 0.0065)
            yield math.exp({"drift": 0.05 * launch / 15 + draw.gauss(0, 0.01), "alike": off}[kind])

    return np.array([[*times()] for _ in range(8)])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("kind", "differ", "changed"), [("drift", 50, 8), ("alike", 35, 18)])
def test_what_a_drift_may_explain_is_no_change_and_more_is_one(
    kind: str, differ: int, changed: int, reverse: bool
) -> None:
    draw = random.Random(5)
    times = [one_after_the_other(draw, kind) for _ in range(60)]
    sides = [(each[:, :8], each[:, 8:])[:: -1 if reverse else 1] for each in times]
    found = [differences(*each, reverse=reverse) for each in sides]
    assert sum(bool(each.differ.any()) for each in found) >= differ
    assert sum(bool(each.changed.any()) for each in found) <= changed
    assert sum(bool(differences(one, 1.1 * two, reverse=reverse).changed[3]) for one, two in sides) >= 54


def test_a_change_of_less_than_one_per_cent_is_none() -> None:
    before = np.array([[1.0, 1.0001, 1.0002, 1.0003, 1.0004, 1.0005]])
    small = differences(before, before * 1.005)
    assert small.probability <= LEVEL
    assert not small.changed
    assert differences(before, before * 1.02).changed


def test_five_launches_of_each_run_cannot_show_a_change_and_six_can() -> None:
    assert not can_decide(5, 5)
    assert can_decide(6, 6)
    for few, more in ((4, 6), (3, 9)):  # docs/compare.md says so
        before, after = (np.linspace(1, 1.01, launches)[None] for launches in (few, more))
        assert can_decide(few, more)
        assert not can_decide(few, more - 1)
        assert differences(before, 2 * after).changed
    assert not can_decide(6, 6, paired=True)
    assert can_decide(7, 7, paired=True)
    assert (min_to_decide(), min_to_decide(paired=True)) == (6, 7)
    before = np.array([[1.0, 1.01, 1.02, 1.03, 1.04]])
    five = differences(before, before * 9)
    assert five.probability == 1
    assert not five.changed


def test_outlying_launches_do_not_hide_a_change() -> None:
    before = np.array([[1.0, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 3.0]])
    assert differences(before, before * 1.05).changed


def test_of_many_permutations_some_are_drawn_and_the_same_each_time() -> None:
    draw = random.Random(4)
    before, after = run(draw, 12), run(draw, 12, 1.1)
    for paired in (False, True):
        one, other = (differences(before, after, paired=paired) for _ in range(2))
        assert (one.probability == other.probability).all()
        assert one.changed.all()


@pytest.mark.parametrize(("launches", "paired"), [(8, False), (12, True)])
def test_launches_that_miss_a_result_do_not_hide_a_change(launches: int, paired: bool) -> None:
    draw = random.Random(9)
    before, after = run(draw, launches), run(draw, launches, 3.0)
    before[range(8), range(8)] = after[20, 7] = np.nan
    if paired:
        before[20, 7] = after[range(8), range(8)] = np.nan
    found = differences(before, after, paired=paired)
    assert found.changed.all()
    assert found.launches[0].tolist() == [launches - (size < 8 or (paired and size == 20)) for size in range(SIZES)]


def test_results_of_too_few_launches_do_not_hide_a_change_of_others() -> None:
    draw = random.Random(14)
    before, after = run(draw, 8), run(draw, 8)
    before[5], after[5] = np.nan, np.nan
    before[5, 0], after[5, 0] = 1.0, 9.0
    after[3] *= 1.1
    assert np.flatnonzero(differences(before, after).changed) == [3]


@pytest.mark.slow
def test_equal_runs_with_results_missing_are_seldom_called_different() -> None:
    draw = random.Random(15)
    alarms = 0
    for _ in range(80):
        before, after = run(draw, 8), run(draw, 12)
        for times in (before, after):
            times[[[draw.random() < 0.15 for _ in row] for row in times]] = np.nan
        alarms += differences(before, after).probability.min() <= 0.05
    assert alarms <= 10  # as above


@pytest.mark.parametrize(
    ("first", "second", "rank"),
    # Critical values of Mann and Whitney's U, two-sided 5 %, plus one: Hollander, Wolfe and Chicken, table A.6.
    [(6, 6, 6), (5, 5, 3), (4, 4, 1), (8, 8, 14), (10, 10, 24), (6, 10, 12), (20, 20, 128)],
)
def test_ranks_are_the_published_ones(first: int, second: int, rank: int) -> None:
    assert mann_whitney_rank(first, second, 0.95) == rank


@pytest.mark.parametrize("many", [1, 50, 200, 1025, 2000, 5000])
def test_one_launch_beside_many_has_the_ranks_of_its_place_among_them(many: int) -> None:
    """All places of one launch among others are equally likely, so r of them have a probability of r / (many + 1)."""
    assert mann_whitney_rank(1, many) == mann_whitney_rank(many, 1) == math.floor((1 - NOMINAL) / 2 * (many + 1))


def test_more_launches_never_widen_the_range_of_ranks() -> None:
    for first in (2, 4, 8, 16, 32, 33, 40):
        shares = [mann_whitney_rank(first, second) / (first * second) for second in (40, 80, 300)]
        assert shares == sorted(shares)
        assert shares[0] > 0


@pytest.mark.parametrize(("first", "second"), [(5, 5), (5, 6), (6, 6), (4, 8)])
def test_the_interval_of_a_ratio_holds_as_often_as_its_level_says(first: int, second: int) -> None:
    """In every order that launches of the same thing can have: one rank further in, it would hold too seldom."""
    whole = first + second
    rank = mann_whitney_rank(first, second)
    held = held_further_in = 0
    for places in combinations(range(whole), first):
        ones = [math.exp(place) for place in places]
        others = [math.exp(place) for place in range(whole) if place not in places]
        ratios = sorted(other / one for one in ones for other in others)
        _, (low, high, kind), _ = ratio_of(np.array([ones]), np.array([others]))
        assert (kind, low, high) == ("ci", ratios[rank - 1], ratios[-rank])
        held += bool(low < 1 < high)
        held_further_in += ratios[rank] < 1 < ratios[-rank - 1]
    assert held_further_in / math.comb(whole, first) < NOMINAL <= held / math.comb(whole, first)


def test_of_few_pairs_people_see_the_range_and_verdicts_follow_from_the_interval() -> None:
    first, second = np.array([[1.0, 1.0, 1.0]]), np.array([[1.1, 1.2, 1.4]])
    found = differences(first, second, paired=True)
    assert (found.kind, found.shown.kind) == (["ci"], ["range"])
    assert (found.shown.low, found.shown.high) == (pytest.approx(1.1), pytest.approx(1.4))
    assert (found.low < 1.1) & (found.high > 1.4)
    many = differences(np.repeat(first, 2, axis=1), np.repeat(second, 2, axis=1), paired=True)
    assert (many.shown.kind, many.shown.low) == (many.kind, many.low) == (["ci"], many.shown.low)


def test_the_ratio_the_other_way_round_is_the_reciprocal() -> None:
    draw = random.Random(11)
    first, second = (np.array([[math.exp(draw.gauss(0, 0.1)) for _ in range(7)]]) for _ in range(2))
    for paired in (False, True):
        there, back = differences(first, second, paired=paired), differences(second, first, paired=paired)
        for one, other in ((there.ratio, back.ratio), (there.low, back.high), (there.high, back.low)):
            assert one == pytest.approx(1 / other)


def test_the_permutations_of_many_results_are_not_all_held_in_memory() -> None:
    one = np.tile(1 + np.arange(6) / 100, (500, 1))
    differences(one[:1], one[:1])  # the ways to permute six and six launches are kept
    tracemalloc.start()
    try:
        found = differences(one, one)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    statistics = len(_permutations_of_runs(6, 12)) * len(found.ratio)
    assert peak_bytes < 8 * statistics
