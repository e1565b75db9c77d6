import math
import random
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import slow_pair_rates
from hypothesis import given
from hypothesis import strategies as st

from volley.benchmarks.matrix import remeasurement, slow_pairs
from volley.benchmarks.matrix.slow_pairs import Pair, PairComparison, PairRatio
from volley.statistics import estimates


def of(ranks: int, **slow: float) -> dict[Pair, float]:
    """The times of all pairs, in µs: one each but for those named as ``r0_2``."""
    return {(a, b): slow.get(f"r{a}_{b}", 1.0) * 1e-6 for a, b in permutations(range(ranks), 2)}


def one_kind(times: dict[Pair, float]) -> dict[Pair, str]:
    return dict.fromkeys(times, "same node")


def compared(times: dict[Pair, float], kinds: dict[Pair, str] | None = None) -> PairComparison:
    return slow_pairs.compare(*slow_pairs.matrix_of(times, kinds or one_kind(times)))


def ratios(times: dict[Pair, float], kinds: dict[Pair, str] | None = None) -> dict[Pair, PairRatio]:
    found = compared(times, kinds)
    return {pair: ratio for pair in times if (ratio := found.at(pair))}


def suspects(times: dict[Pair, float], kinds: dict[Pair, str] | None = None) -> list[Pair]:
    found = compared(times, kinds)
    return [each.pair for each in remeasurement.suspects(found, found)]


Noise = Callable[[np.random.Generator, int, int], Any]
"""Of so many launches of so many pairs, in the order in which they are measured: the logarithms of their times."""


def autoregressive(draw: np.random.Generator, launches: int, pairs: int) -> Any:
    """Samples, and so pairs, that follow each other are alike."""
    noise, at = np.empty((launches, pairs)), draw.normal(0, 0.012, launches)
    for place in range(pairs):
        noise[:, place] = at = 0.6 * at + draw.normal(0, 0.01, launches)
    return noise


NOISES: dict[str, Noise] = {
    "independent": lambda draw, *shape: np.median(draw.normal(0, 0.05, (*shape, 24)), axis=-1),
    "autoregressive": autoregressive,
    "visits": lambda draw, *shape: np.median(draw.normal(0, 0.015, (*shape, 3)), axis=-1),
    "pairs": lambda draw, *shape: draw.normal(0, 0.01, shape),
    "launches": lambda draw, *shape: draw.normal(0, 0.1, (shape[0], 1)) + draw.normal(0, 0.005, shape),
    "heavy tails": lambda draw, *shape: 0.005 * draw.standard_t(2, shape),
    "disturbed": lambda draw, *shape: np.abs(0.02 * draw.standard_t(2, shape)),
    "two states": lambda draw, *shape: draw.normal(0, 0.002, shape) + 0.12 * (draw.random(shape) < 0.15),
    "drift": lambda draw, *shape: draw.normal(0, 0.005, shape) + draw.uniform(0, 0.15) * np.linspace(0, 1, shape[1]),
    "walk": lambda draw, *shape: np.cumsum(draw.normal(0, 0.003, shape), axis=1),
}
FAINT = {"heavy tails", "disturbed", "two states"}
"""Two launches of them do not show 10 % for certain."""


def found_slow(draw: np.random.Generator, noise: Noise, ranks: int, launches: int, slow: Pair | None) -> set[Pair]:
    """The pairs that are called slow; every second launch measures them in the opposite order."""
    pairs = list(permutations(range(ranks), 2))
    kinds, ratios = dict.fromkeys(pairs, "peer access"), []
    for launch, off in enumerate(noise(draw, launches, len(pairs)).tolist()):
        order = pairs[::-1] if launch % 2 else pairs
        times = {pair: math.exp(each) * (1.1 if pair == slow else 1) for pair, each in zip(order, off, strict=True)}
        ratios.append(slow_pairs.steady_ratios(times, kinds, slow_pairs.matrix_of(times, kinds)[1]))
    comparison = compared(dict.fromkeys(pairs, 1.0), kinds)
    return set(comparison.kinds.pairs(comparison.lasting(ratios)))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("ranks", "launches", "matrices"),
    [
        (4, 3, 40),
        (8, 2, 40),
        *(pytest.param(*shape, marks=pytest.mark.long) for shape in ((4, 2, 200), (8, 3, 100), (8, 10, 40))),
        *(pytest.param(64, launches, 10, marks=pytest.mark.long) for launches in (2, 3, 10)),
    ],
)
def test_of_equal_pairs_hardly_a_matrix_has_a_slow_one(noise: str, ranks: int, launches: int, matrices: int) -> None:
    draw = np.random.default_rng([ranks, launches])
    wrong = [bool(found_slow(draw, NOISES[noise], ranks, launches, None)) for _ in range(matrices)]
    assert sum(wrong) <= 0.05 * matrices
    if noise not in FAINT and ranks < 64:
        right = [found_slow(draw, NOISES[noise], ranks, launches, (1, 2)) == {(1, 2)} for _ in range(matrices // 3)]
        assert sum(right) >= 0.6 * len(right)


def test_a_pair_is_compared_with_others_but_not_with_its_opposite_direction() -> None:
    times = of(4, r0_2=2.0, r2_0=3.0)
    found = ratios(times)
    assert found[0, 2] == PairRatio((0, 2), "same node", 2.0, 10)
    assert found[2, 0] == PairRatio((2, 0), "same node", 3.0, 10)
    assert found[1, 3].ratio == 1.0


@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_the_ratio_is_that_to_the_median_of_the_others(ranks: int, dice: random.Random) -> None:
    times = {
        pair: dice.choice([1.0, 2.0, dice.uniform(0.5, 3)])
        for pair in permutations(range(ranks), 2)
        if dice.random() < 0.8
    }
    for pair, found in ratios(times).items():
        others = [time for other, time in times.items() if set(other) != set(pair)]
        assert found.ratio == pytest.approx(times[pair] / estimates.median(others))
        assert found.comparable == len(others) >= slow_pairs.MIN_COMPARABLE


def test_too_few_comparable_pairs_are_not_judged() -> None:
    assert ratios(of(2, r0_1=9.0)) == {}
    times = of(4)
    kinds = {pair: "off node" if set(pair) == {0, 1} else "same node" for pair in times}
    assert set(ratios(times, kinds)) == set(times) - {(0, 1), (1, 0)}


def test_slow_pairs_are_suspects_the_slowest_first() -> None:
    assert suspects(of(5, r0_2=1.05, r3_1=1.2, r1_2=1.03)) == [(3, 1), (0, 2)]


def test_slow_in_its_best_visit_is_a_suspect_too() -> None:
    usual, best = of(4, r0_2=1.02), of(4, r0_2=1.08, r1_3=1.02)
    found = remeasurement.suspects(compared(usual), compared(best))
    assert found == [PairRatio((0, 2), "same node", pytest.approx(1.02), 10)]


def test_a_lucky_pair_does_not_hide_a_slow_one() -> None:
    """One disturbed twice and one that is slow in its best visit: both are looked at, and the others are not."""
    usual, best = of(5, r0_2=9.0, r1_3=1.1, r3_1=1.1), of(5, r1_3=1.1, r3_1=1.1)
    found = remeasurement.suspects(compared(usual), compared(best))
    assert [each.pair for each in found] == [(1, 3), (0, 2), (3, 1)]


def test_no_more_are_suspects_than_can_be_measured_again() -> None:
    slow = {f"r0_{b}": 2.0 + b / 10 for b in range(1, 40)}
    assert len(suspects(of(16, **slow))) == 15
    more = {f"r{a}_{b}": 2.0 for b in (1, 2) for a in range(4, 16)}
    assert len(suspects(of(16, **slow, **more))) == remeasurement.MAX_SUSPECTS
    many = {f"r{a}_{b}": 2.0 for a in range(3) for b in range(3, 40)}
    assert len(suspects(of(40, **many))) == 111  # fewer than an eighth of 1560


def test_where_a_kind_is_made_of_several_none_is_odd() -> None:
    times = {(a, b): 1.3 if a // 4 == b // 4 else 1.0 for a, b in permutations(range(8), 2)}
    assert suspects(times) == []
    assert compared(times).uneven() == {"same node": 24}
    times[0, 2] = 5.0  # stands out from both sorts
    assert suspects(times) == [(0, 2)]


def again(*ratios: float, of: Pair = (0, 2)) -> list[dict[Pair, float]]:
    """Repetitions in which the machine gets slower and slower, which must not matter."""
    return [{of: ratio * drift, (1, 3): 0.9 * drift, (3, 1): drift, (2, 1): 1.1 * drift}
            for drift, ratio in enumerate(ratios, start=1)]  # fmt: skip


CONTROLS = [PairRatio(pair, "same node", 1.0, 10) for pair in ((1, 3), (3, 1), (2, 1))]
FIRST = PairRatio((0, 2), "same node", 1.2, 10)


def test_a_pair_that_stays_slow_is_flagged() -> None:
    verdict = remeasurement.judge(FIRST, again(*[1.1] * 20, *[0.8] * 4), CONTROLS, 2)  # some repetitions may be off
    assert verdict.flagged
    assert not verdict.cleared
    assert verdict.again.median == pytest.approx(1.1)


@pytest.mark.parametrize(
    "ratios",
    [
        [1.0] * 24,  # as fast as comparable pairs
        [1.02] * 24,  # within the margin
        [1.0] * 19 + [1.5] * 5,
    ],
)
def test_a_pair_that_is_as_fast_as_comparable_pairs_is_cleared(ratios: list[float]) -> None:
    verdict = remeasurement.judge(FIRST, again(*ratios), CONTROLS, 2)
    assert (verdict.flagged, verdict.cleared) == (False, True)


@pytest.mark.parametrize(
    "ratios",
    [
        [1.2] * 15 + [1.0] * 9,  # not for certain
        [1.5] * 5,  # too few to be certain
        [1.0] * 5,
        [1.02] * 6 + [1.06] * 6,
    ],
)
def test_others_stay_undecided(ratios: list[float]) -> None:
    verdict = remeasurement.judge(FIRST, again(*ratios), CONTROLS, 2)
    assert (verdict.flagged, verdict.cleared) == (False, False)


def test_the_more_are_tested_the_surer_each_must_be() -> None:
    repetitions = again(*[1.2] * 15, 1.0)
    few, many = (remeasurement.judge(FIRST, repetitions, CONTROLS, tested) for tested in (1, 30))
    assert (few.flagged, many.flagged) == (True, False)


def test_a_good_pair_is_hardly_ever_flagged() -> None:
    """Equal pairs whose times differ by a factor of two or more from one repetition to the next."""
    dice = random.Random(1)
    wrong = 0
    for _ in range(300):
        repetitions = [{pair: dice.lognormvariate(0, 0.5) for pair in [(0, 2), *CONTROLS]} for _ in range(48)]
        judged = remeasurement.judge(FIRST, repetitions, CONTROLS, 1)
        wrong += judged is not None and judged.flagged
    assert wrong <= 3


def test_what_slows_a_pair_in_some_launches_flags_none() -> None:
    """Of equal pairs each is slow in a third of the launches; no repetition within one tells."""
    dice, pairs, wrong = random.Random(1), [PairRatio((0, each), "same node", 1.1, 10) for each in range(1, 14)], 0
    suspects, controls = pairs[:8], pairs[8:]
    for _ in range(100):
        launches = []
        for repeats in remeasurement.ROUNDS[:4]:
            usual = {each.pair: 1.1 if dice.random() < 1 / 3 else 1.0 for each in pairs}
            launches.append([{pair: s * dice.gauss(1, 0.01) for pair, s in usual.items()} for _ in range(repeats)])
        wrong += any(each.flagged for each in remeasurement.judge_all(suspects, launches, controls).values())
        assert not any(each.flagged for each in remeasurement.judge_all(suspects, launches[:1], controls).values())
    assert wrong <= 5
    steady = [[{each.pair: 1.1 if each is pairs[0] else 1.0 for each in pairs}] * 12] * 2
    judged = remeasurement.judge_all(suspects, steady, controls)
    assert [each.flagged for each in judged.values()] == [True] + [False] * 7


def test_what_was_slow_again_is_measured_first() -> None:
    asked = [PairRatio((0, each), "same node", 1.1, 10) for each in range(1, 7)]
    ratios = {2: [1.0] * 12, 3: [1.02] * 6 + [1.3] * 6, 4: [1.5] * 12, 5: [1.04] * 2 + [1.0] * 3, 6: [1.02, 1.4, 1.4]}
    verdicts = {
        (0, each): verdict
        for each, those in ratios.items()
        if (verdict := remeasurement.judge(asked[each - 1], again(*those, of=(0, each)), CONTROLS, 1))
    }
    assert remeasurement.undecided(asked, verdicts) == [(0, 6), (0, 3), (0, 1), (0, 5)]  # 2 is cleared, 4 is flagged


def test_the_time_goes_to_the_slowest() -> None:
    assert remeasurement.affordable(2, 5, 12, 0.1, 60) == (2, 12)  # 8 s
    assert remeasurement.affordable(30, 5, 12, 0.1, 60) == (11, 12)  # a third of a minute
    assert remeasurement.affordable(30, 5, 12, 1.0, 60) == (2, 8)  # two, and fewer times
    assert remeasurement.affordable(2, 5, 12, 1.0, 6) == (2, 0)  # not even once
    assert remeasurement.affordable(0, 5, 12, 1.0, 60) == (0, 0)
    assert remeasurement.affordable(3, 5, 12, 0.0, 60) == (3, 12)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["pingpong", "stream"])
def test_the_page_says_how_often_the_recorded_noise_lets_us_be_right(pattern: str) -> None:
    visits = slow_pair_rates.visits_of(slow_pair_rates.RECORDS[0])[pattern]
    smallest, dice = slow_pair_rates.RANKS[0], slow_pair_rates.repeatable()
    line = slow_pair_rates.line(visits, smallest, slow_pair_rates.MATRICES, dice)
    page = (Path(__file__).parents[2] / "docs/method/rank-matrix.md").read_text("utf-8")
    assert f"| 2-ranks | {pattern} | {line}\n" in page, "run bench/slow_pair_rates.py"
