"""Whether two runs differ: ratios and their intervals, false alarms over a whole sweep, and changes that are found."""

from __future__ import annotations

import math
import random
import tracemalloc
from itertools import combinations
from statistics import NormalDist

import pytest

from volley.statistics.launches import NOMINAL
from volley.statistics.two_runs import (
    LEVEL,
    can_decide,
    differences,
    mann_whitney_rank,
    min_to_decide,
    permutations_of_runs,
    ratio_of,
    ratio_of_pairs,
)

SIZES = range(28)
Run = dict[int | str, dict[int, float]]


def run(draw: random.Random, launches: int, factor: float = 1.0) -> Run:
    """A sweep whose launches are slow or fast at every size alike."""
    speeds = [draw.gauss(0, 0.01) for _ in range(launches)]
    return {
        size: {launch: factor * math.exp(speed + draw.gauss(0, 0.01)) for launch, speed in enumerate(speeds)}
        for size in SIZES
    }


def slower(times: dict[int, float], factor: float) -> dict[int, float]:
    return {launch: factor * time for launch, time in times.items()}


def numbered(*times: float) -> dict[int, float]:
    return dict(enumerate(times))


def test_a_run_does_not_differ_from_itself() -> None:
    one = run(random.Random(1), 6)
    assert all(not each.changed and each.ratio.median == 1 for each in differences(one, one))


def test_equal_runs_are_seldom_called_different() -> None:
    draw = random.Random(2)
    sweeps = [differences(run(draw, 6), run(draw, 6)) for _ in range(80)]
    alarms = sum(any(each.probability <= 0.05 for each in sweep) for sweep in sweeps)
    assert alarms <= 10  # 0.05 of 80 are 4; 11 and more have a probability of 0.2 %
    assert sum(any(each.changed for each in sweep) for sweep in sweeps) <= 3


def test_equal_pairs_are_seldom_called_different() -> None:
    draw = random.Random(8)
    sweeps = [differences(run(draw, 8), run(draw, 8), paired=True) for _ in range(80)]
    assert sum(any(each.changed for each in sweep) for sweep in sweeps) <= 5


def test_a_change_of_one_result_is_found_and_named() -> None:
    draw = random.Random(3)
    before, after = run(draw, 6), run(draw, 6)
    after[7] = slower(after[7], 1.2)
    shown = [each for each in differences(before, after) if each.changed]
    assert [each.key for each in shown] == [7]
    assert shown[0].ratio.median == pytest.approx(1.2, rel=0.05)


def test_a_drift_that_both_of_a_pair_share_hides_no_change() -> None:
    draw = random.Random(6)
    drift = [math.exp(0.05 * launch) for launch in range(8)]
    before = {0: {launch: drift[launch] * math.exp(draw.gauss(0, 0.003)) for launch in range(8)}}
    after = {0: {launch: 1.05 * drift[launch] * math.exp(draw.gauss(0, 0.003)) for launch in range(8)}}
    (apart,) = differences(before, after)
    (paired,) = differences(before, after, paired=True)
    assert not apart.changed
    assert paired.changed
    assert paired.ratio.median == pytest.approx(1.05, rel=0.01)


def test_a_change_of_less_than_one_per_cent_is_none() -> None:
    before = {8: numbered(1.0, 1.0001, 1.0002, 1.0003, 1.0004, 1.0005)}
    (small,) = differences(before, {8: slower(before[8], 1.005)})
    assert small.probability <= LEVEL
    assert not small.changed
    (large,) = differences(before, {8: slower(before[8], 1.02)})
    assert large.changed


def test_five_launches_of_each_run_cannot_show_a_change_and_six_can() -> None:
    assert not can_decide(5, 5)
    assert can_decide(6, 6)
    assert can_decide(4, 8)
    assert not can_decide(6, 6, paired=True)
    assert can_decide(7, 7, paired=True)
    assert (min_to_decide(), min_to_decide(paired=True)) == (6, 7)
    before = {8: numbered(1.0, 1.01, 1.02, 1.03, 1.04)}
    (five,) = differences(before, {8: slower(before[8], 9)})
    assert five.probability == 1
    assert not five.changed


def test_outlying_launches_do_not_hide_a_change() -> None:
    before = {8: numbered(1.0, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 3.0)}
    (found,) = differences(before, {8: slower(before[8], 1.05)})
    assert found.changed


def test_a_change_is_found_where_one_run_has_more_launches() -> None:
    draw = random.Random(7)
    (found, *_) = differences(run(draw, 6), run(draw, 20, 1.1))
    assert found.changed


def test_of_many_permutations_some_are_drawn_and_the_same_each_time() -> None:
    draw = random.Random(4)
    before, after = run(draw, 12), run(draw, 12, 1.05)
    for paired in (False, True):
        assert differences(before, after, paired=paired) == differences(before, after, paired=paired)
        assert all(each.changed for each in differences(before, after, paired=paired))


def test_only_what_both_runs_have_is_compared() -> None:
    draw = random.Random(5)
    before, after = run(draw, 6), run(draw, 6)
    del before[0], after[1]
    assert [each.key for each in differences(before, after)] == list(SIZES[2:])
    assert differences({}, after) == []


@pytest.mark.parametrize(("launches", "paired"), [(8, False), (12, True)])
def test_launches_that_miss_a_result_do_not_hide_a_change(launches: int, paired: bool) -> None:
    draw = random.Random(9)
    before, after = run(draw, launches), run(draw, launches, 3.0)
    for missing, size in enumerate(SIZES[:8]):
        del before[size][missing]
    del after[20][7]
    found = differences(before, after, paired=paired)
    assert [each.key for each in found] == list(SIZES)
    assert all(each.changed for each in found)


def test_results_of_too_few_launches_do_not_hide_a_change_of_others() -> None:
    draw = random.Random(14)
    before, after = run(draw, 8), run(draw, 8)
    before["once"], after["once"] = {8: 1.0}, {8: 9.0}
    after[3] = slower(after[3], 1.1)
    changed = {each.key: each.changed for each in differences(before, after)}
    assert [key for key, each in changed.items() if each] == [3]


def test_equal_runs_with_results_missing_are_seldom_called_different() -> None:
    draw = random.Random(15)
    alarms = 0
    for _ in range(80):
        before, after = run(draw, 8), run(draw, 12)
        for times in (*before.values(), *after.values()):
            for launch in list(times):
                if draw.random() < 0.15:
                    del times[launch]
        alarms += any(each.probability <= 0.05 for each in differences(before, after))
    assert alarms <= 10  # as above


def test_pairs_without_a_partner_are_left_out() -> None:
    before, after = {0: numbered(1.0, 1.0, 1.0)}, {0: {0: 2.0, 2: 2.0, 5: 9.0}}
    (found,) = differences(before, after, paired=True)
    assert (found.ratio.count, found.ratio.median) == (2, pytest.approx(2.0))


@pytest.mark.parametrize(
    ("first", "second", "rank"),
    # Critical values of Mann and Whitney's U, two-sided 5 %, plus one: Hollander, Wolfe and Chicken, table A.6.
    [(6, 6, 6), (5, 5, 3), (4, 4, 1), (8, 8, 14), (10, 10, 24), (6, 10, 12), (20, 20, 128)],
)
def test_ranks_are_the_published_ones(first: int, second: int, rank: int) -> None:
    assert mann_whitney_rank(first, second, 0.95) == rank


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
        found = ratio_of(ones, others)
        assert (found.kind, found.low, found.high) == ("ci", ratios[rank - 1], ratios[-rank])
        held += found.low < 1 < found.high
        held_further_in += ratios[rank] < 1 < ratios[-rank - 1]
    assert held_further_in / math.comb(whole, first) < NOMINAL <= held / math.comb(whole, first)


def test_large_runs_have_nearly_exact_ranks() -> None:
    draw = random.Random(10)
    first, second = ([math.exp(draw.gauss(0, 0.01)) for _ in range(40)] for _ in range(2))
    found = ratio_of(first, second)
    # Of two normal samples of 40, the shift is known to ± z · σ · sqrt(2 / 40), but for a few per cent.
    z = NormalDist().inv_cdf((1 + NOMINAL) / 2)
    assert math.log(found.high / found.low) == pytest.approx(2 * z * 0.01 * math.sqrt(2 / 40), rel=0.3)


def test_too_few_launches_have_no_interval() -> None:
    assert ratio_of([1.0], [2.0]).kind == "single"
    assert ratio_of([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3]).kind == "range"
    assert ratio_of_pairs([1.0, 1.0], [2.0, 2.0]).kind == "range"


def test_the_ratio_the_other_way_round_is_the_reciprocal() -> None:
    draw = random.Random(11)
    first, second = ([math.exp(draw.gauss(0, 0.1)) for _ in range(7)] for _ in range(2))
    for compare in (ratio_of, ratio_of_pairs):
        there, back = compare(first, second), compare(second, first)
        assert (there.median, there.low, there.high) == pytest.approx((1 / back.median, 1 / back.high, 1 / back.low))


def test_the_permutations_of_many_results_are_not_all_held_in_memory() -> None:
    one, other = ({result: {launch: 1 + launch / 100 for launch in range(6)} for result in range(500)} for _ in "ab")
    differences({0: one[0]}, {0: other[0]})  # the ways to permute six and six launches are kept
    tracemalloc.start()
    try:
        found = differences(one, other)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == 500
    statistics = len(permutations_of_runs(6, 12)) * len(found)
    assert peak_bytes < 8 * statistics
