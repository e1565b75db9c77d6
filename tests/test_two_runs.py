"""Whether two runs differ: false alarms over a whole sweep, and changes that are found."""

from __future__ import annotations

import math
import random

import pytest

from volley.statistics.two_runs import LEVEL, comparable, differences

SIZES = range(28)


def run(draw: random.Random, launches: int, factor: float = 1.0) -> dict[int, list[float]]:
    """A sweep whose launches are slow or fast at every size alike."""
    speeds = [draw.gauss(0, 0.01) for _ in range(launches)]
    return {size: [factor * math.exp(speed + draw.gauss(0, 0.01)) for speed in speeds] for size in SIZES}


def test_a_run_does_not_differ_from_itself() -> None:
    one = run(random.Random(1), 6)
    assert all(not each.shown and each.ratio == 1 for each in differences(one, one))


def test_equal_runs_are_seldom_called_different() -> None:
    draw = random.Random(2)
    sweeps = [differences(run(draw, 6), run(draw, 6)) for _ in range(80)]
    alarms = sum(any(each.probability <= 0.05 for each in sweep) for sweep in sweeps)
    assert alarms <= 10  # 0.05 of 80 are 4; 11 and more have a probability of 0.2 %
    assert sum(any(each.shown for each in sweep) for sweep in sweeps) <= 3


def test_a_change_of_one_result_is_found_and_named() -> None:
    draw = random.Random(3)
    before, after = run(draw, 6), run(draw, 6)
    after[7] = [1.2 * time for time in after[7]]
    shown = [each for each in differences(before, after) if each.shown]
    assert [each.key for each in shown] == [7]
    assert shown[0].ratio == pytest.approx(1.2, rel=0.05)


def test_a_change_of_less_than_one_per_cent_is_none() -> None:
    before = {8: [1.0, 1.0001, 1.0002, 1.0003, 1.0004, 1.0005]}
    (small,) = differences(before, {8: [1.005 * time for time in before[8]]})
    assert small.probability <= LEVEL
    assert not small.shown
    (large,) = differences(before, {8: [1.02 * time for time in before[8]]})
    assert large.shown


def test_five_launches_of_each_run_cannot_show_a_difference_and_six_can() -> None:
    assert not comparable(5, 5)
    assert comparable(6, 6)
    assert comparable(4, 8)
    before = {8: [1.0, 1.01, 1.02, 1.03, 1.04]}
    (five,) = differences(before, {8: [9 * time for time in before[8]]})
    assert five.probability == pytest.approx(2 / math.comb(10, 5))
    assert not five.shown


def test_an_outlying_launch_does_not_hide_a_change() -> None:
    before = {8: [1.0, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 3.0]}
    (found,) = differences(before, {8: [1.05 * time for time in before[8]]})
    assert found.shown


def test_many_launches_are_dealt_out_by_lot_and_alike_each_time() -> None:
    draw = random.Random(4)
    before, after = run(draw, 12), run(draw, 9, 1.05)
    assert differences(before, after) == differences(before, after)
    assert all(each.shown for each in differences(before, after))


def test_only_what_both_runs_have_is_compared() -> None:
    draw = random.Random(5)
    before, after = run(draw, 6), run(draw, 6)
    del before[0], after[1]
    assert [each.key for each in differences(before, after)] == list(SIZES[2:])
    assert differences({}, after) == []


def test_results_with_different_numbers_of_launches_are_refused() -> None:
    with pytest.raises(ValueError, match="numbers of launches"):
        differences({1: [1.0] * 6, 2: [1.0] * 5}, {1: [1.0] * 6, 2: [1.0] * 6})
