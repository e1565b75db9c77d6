from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path

import blame_rates
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volley import blame, stats
from volley.blame import Pair, Standing


def of(ranks: int, **slow: float) -> dict[Pair, float]:
    """The times of all pairs, in µs: one each but for those named as ``r0_2``."""
    return {(a, b): slow.get(f"r{a}_{b}", 1.0) * 1e-6 for a, b in permutations(range(ranks), 2)}


def alike(times: dict[Pair, float]) -> dict[Pair, str]:
    return dict.fromkeys(times, "same node")


def suspects(times: dict[Pair, float], kinds: dict[Pair, str] | None = None) -> list[Pair]:
    found = blame.standings(times, kinds or alike(times))
    return [each.pair for each in blame.suspects(found, found, kinds or alike(times))]


def test_a_pair_is_held_against_its_like_without_itself_and_its_way_back() -> None:
    times = of(4, r0_2=2.0, r2_0=3.0)
    found = blame.standings(times, alike(times))
    assert found[0, 2] == Standing((0, 2), 2.0, 10)
    assert found[2, 0] == Standing((2, 0), 3.0, 10)
    assert found[1, 3].ratio == 1.0


@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_the_ratio_is_that_to_the_median_of_the_others(ranks: int, dice: random.Random) -> None:
    times = {
        pair: dice.choice([1.0, 2.0, dice.uniform(0.5, 3)])
        for pair in permutations(range(ranks), 2)
        if dice.random() < 0.8
    }
    for pair, standing in blame.standings(times, alike(times)).items():
        others = [time for other, time in times.items() if set(other) != set(pair)]
        assert standing.ratio == pytest.approx(times[pair] / stats.median(others))
        assert standing.like == len(others) >= blame.FEWEST_LIKE


def test_too_few_like_pairs_are_not_judged() -> None:
    assert blame.standings(of(2, r0_1=9.0), alike(of(2))) == {}
    times = of(4)
    kinds = {pair: "off node" if set(pair) == {0, 1} else "same node" for pair in times}
    assert set(blame.standings(times, kinds)) == set(times) - {(0, 1), (1, 0)}


def test_kinds_are_judged_apart() -> None:
    times = {pair: time * (100 if 3 in pair else 1) for pair, time in of(4, r0_1=1.5).items()}
    kinds = {pair: "off node" if 3 in pair else "same node" for pair in times}
    assert suspects(times, kinds) == [(0, 1)]


def test_slow_pairs_are_suspects_the_slowest_first() -> None:
    assert suspects(of(5, r0_2=1.05, r3_1=1.2, r1_2=1.03)) == [(3, 1), (0, 2)]


def test_slow_in_its_best_visit_is_a_suspect_too() -> None:
    usual, best = of(4, r0_2=1.02), of(4, r0_2=1.08, r1_3=1.02)
    found = blame.suspects(*(blame.standings(times, alike(times)) for times in (usual, best)), alike(usual))
    assert found == [Standing((0, 2), pytest.approx(1.02), 10)]


def test_a_lucky_pair_does_not_hide_a_slow_one() -> None:
    """One disturbed twice and one that is slow in its best visit: both are looked at, and the others are not."""
    usual, best = of(5, r0_2=9.0, r1_3=1.1, r3_1=1.1), of(5, r1_3=1.1, r3_1=1.1)
    found = blame.suspects(*(blame.standings(times, alike(times)) for times in (usual, best)), alike(usual))
    assert [each.pair for each in found] == [(1, 3), (0, 2), (3, 1)]


def test_no_more_are_suspects_than_can_be_measured_again() -> None:
    slow = {f"r0_{b}": 2.0 + b / 10 for b in range(1, 40)}
    assert len(suspects(of(16, **slow))) == 15
    more = {f"r{a}_{b}": 2.0 for b in (1, 2) for a in range(4, 16)}
    assert len(suspects(of(16, **slow, **more))) == blame.MOST_SUSPECTS
    many = {f"r{a}_{b}": 2.0 for a in range(3) for b in range(3, 40)}
    assert len(suspects(of(40, **many))) == 111  # fewer than an eighth of 1560


def test_where_a_kind_is_made_of_several_none_is_odd() -> None:
    times = {(a, b): 1.3 if a // 4 == b // 4 else 1.0 for a, b in permutations(range(8), 2)}
    assert suspects(times) == []
    assert blame.uneven(blame.standings(times, alike(times)), alike(times)) == {"same node": 24}
    times[0, 2] = 5.0  # stands out from both sorts
    assert suspects(times) == [(0, 2)]


def test_an_even_kind_is_not_called_uneven() -> None:
    times = of(4, r0_2=2.0, r2_0=2.0)
    assert blame.uneven(blame.standings(times, alike(times)), alike(times)) == {}


def test_controls_are_the_most_usual_of_the_suspects_kinds() -> None:
    times = of(4, r0_2=2.0, r2_0=1.01, r1_3=0.9)
    found = blame.standings(times, alike(times))
    chosen = blame.controls(found, alike(times), blame.suspects(found, found, alike(times)))
    assert len(chosen) == blame.CONTROLS
    assert not {(0, 2), (2, 0), (1, 3)} & set(chosen)
    assert blame.controls(found, alike(times), []) == []


def again(*ratios: float, of: Pair = (0, 2)) -> list[dict[Pair, float]]:
    """Repetitions in which the machine gets slower and slower, which must not matter."""
    return [{of: ratio * drift, (1, 3): 0.9 * drift, (3, 1): drift, (2, 1): 1.1 * drift}
            for drift, ratio in enumerate(ratios, start=1)]  # fmt: skip


LIKE = [(1, 3), (3, 1), (2, 1)]
FIRST = Standing((0, 2), 1.2, 10)


def test_a_pair_that_stays_slow_is_blamed() -> None:
    verdict = blame.verdict(FIRST, again(*[1.1] * 20, *[0.8] * 4), LIKE, 2)  # some repetitions may be off
    assert verdict is not None
    assert verdict.blamed
    assert not verdict.cleared
    assert verdict.again.median == pytest.approx(1.1)


@pytest.mark.parametrize(
    "ratios",
    [
        [1.0] * 24,  # as fast as its like
        [1.02] * 24,  # within the margin
        [1.0] * 19 + [1.5] * 5,
    ],
)
def test_a_pair_that_is_as_fast_as_its_like_is_cleared(ratios: list[float]) -> None:
    verdict = blame.verdict(FIRST, again(*ratios), LIKE, 2)
    assert verdict is not None
    assert (verdict.blamed, verdict.cleared) == (False, True)


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
    verdict = blame.verdict(FIRST, again(*ratios), LIKE, 2)
    assert verdict is not None
    assert (verdict.blamed, verdict.cleared) == (False, False)


def test_the_more_are_tested_the_surer_each_must_be() -> None:
    repetitions = again(*[1.2] * 15, 1.0)
    few, many = (blame.verdict(FIRST, repetitions, LIKE, tested) for tested in (1, 30))
    assert few is not None
    assert many is not None
    assert (few.blamed, many.blamed) == (True, False)


def test_a_good_pair_is_hardly_ever_blamed() -> None:
    """Equal pairs whose times differ by a factor of two or more from one repetition to the next."""
    dice = random.Random(1)
    wrong = 0
    for _ in range(300):
        repetitions = [{pair: dice.lognormvariate(0, 0.5) for pair in [(0, 2), *LIKE]} for _ in range(48)]
        judged = blame.verdict(FIRST, repetitions, LIKE, 1)
        wrong += judged is not None and judged.blamed
    assert wrong <= 3


def test_what_was_slow_again_is_looked_at_first() -> None:
    asked = [Standing((0, each), 1.1, 10) for each in range(1, 7)]
    ratios = {2: [1.0] * 12, 3: [1.02] * 6 + [1.3] * 6, 4: [1.5] * 12, 5: [1.04] * 2 + [1.0] * 3, 6: [1.02, 1.4, 1.4]}
    verdicts = {
        (0, each): verdict
        for each, those in ratios.items()
        if (verdict := blame.verdict(asked[each - 1], again(*those, of=(0, each)), LIKE, 1))
    }
    assert blame.undecided(asked, verdicts) == [(0, 6), (0, 3), (0, 1), (0, 5)]  # 2 is cleared, 4 is blamed


def test_the_time_goes_to_the_slowest() -> None:
    assert blame.affordable(2, 5, 12, 0.1, 60) == (2, 12)  # 8 s
    assert blame.affordable(30, 5, 12, 0.1, 60) == (11, 12)  # a third of a minute
    assert blame.affordable(30, 5, 12, 1.0, 60) == (2, 8)  # two, and fewer times
    assert blame.affordable(2, 5, 12, 1.0, 6) == (2, 0)  # not even once
    assert blame.affordable(0, 5, 12, 1.0, 60) == (0, 0)
    assert blame.affordable(3, 5, 12, 0.0, 60) == (3, 12)


def test_without_a_suspect_or_a_control_there_is_no_verdict() -> None:
    assert blame.verdict(FIRST, [], LIKE, 1) is None
    assert blame.verdict(FIRST, [{(0, 2): 1.0}], LIKE, 1) is None
    assert blame.verdict(FIRST, [{(1, 3): 1.0}], LIKE, 1) is None


@pytest.mark.parametrize("exercise", ["pingpong", "stream"])
def test_the_page_says_how_often_the_recorded_noise_lets_us_be_right(exercise: str) -> None:
    visits = blame_rates.visits_of(blame_rates.RECORDS[0])[exercise]
    line = blame_rates.line(visits, blame_rates.RANKS[0], blame_rates.MATRICES, blame_rates.repeatable())
    page = (Path(__file__).parents[1] / "docs/method.md").read_text("utf-8")
    assert f"| 2-ranks | {exercise} | {line}\n" in page, "run bench/blame_rates.py"
