"""The interval over launches, ratios within launches, groups of launches."""

import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volley.statistics.estimates import Estimate, estimate
from volley.statistics.launches import (
    FIRST_LOOK,
    NOMINAL,
    Repeated,
    enough,
    groups,
    of_observations,
    ratio,
)

TIMES = st.floats(1e-9, 1e3)
SIX = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]


def repeated(*medians: float, first: int = 1) -> Repeated:
    return Repeated.of({launch: [value] for launch, value in enumerate(medians, start=first)})


# ------------------------------------------------------------------------------------------------ intervals


def test_one_launch_has_the_interval_of_its_samples_and_does_not_call_it_one_over_launches() -> None:
    assert Repeated.of({1: SIX}).estimate == replace(estimate(SIX), kind="within")
    assert Repeated.of({1: SIX[:5]}).estimate == estimate(SIX[:5])
    assert Repeated.of({1: [1.0]}).estimate.kind == "single"


@pytest.mark.parametrize(("count", "part"), [(3, 2.0), (4, 0.65), (5, 0.3), (6, 0.1)])
def test_the_range_of_few_launches_is_widened_on_a_logarithmic_scale(count: int, part: float) -> None:
    found = of_observations([2.0 ** (step / (count - 1)) for step in range(count)])
    assert found.kind == ("ci" if count == 6 else "range")
    assert [math.log2(bound) for bound in found.interval] == [pytest.approx(-part), pytest.approx(1 + part)]


@pytest.mark.parametrize("count", [7, 8, 9, 10, 12, 20, 45])
def test_of_independent_launches_the_interval_covers_what_it_is_made_for(count: int) -> None:
    """Of normal and of two-sided exponential logarithms: 4,000 draws are known to within 0.9 %."""
    draw = random.Random(count)
    for once in (lambda: draw.gauss(0, 1), lambda: draw.choice((-1, 1)) * draw.expovariate(1)):
        hits = 0
        for _ in range(4000):
            found = of_observations([math.exp(once()) for _ in range(count)])
            hits += found.low <= 1 <= found.high
        assert hits / 4000 == pytest.approx(NOMINAL, abs=0.012)


@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_of_few_independent_launches_it_covers_as_much_if_their_logarithms_are_normal(count: int) -> None:
    draw = random.Random(count)
    hits = 0
    for _ in range(4000):
        found = of_observations([math.exp(draw.gauss(0, 1)) for _ in range(count)])
        hits += found.interval[0] <= 1 <= found.interval[1]
    assert hits / 4000 == pytest.approx(NOMINAL, abs=0.006)


@given(st.lists(TIMES, min_size=1, max_size=50))
def test_bounds_enclose_the_median(observations: list[float]) -> None:
    found = of_observations(observations)
    assert found.low <= found.median <= found.high
    assert found.count == len(observations)


# --------------------------------------------------------------------------------------------------- ratios


def test_a_ratio_is_formed_launch_by_launch() -> None:
    speeds = [1.0, 2.0, 3.0, 0.5, 1.5, 2.5]
    found = ratio(repeated(*(2.2 * each for each in speeds)), repeated(*speeds))
    assert (found.median, found.low, found.high) == pytest.approx((2.2, 2.2, 2.2))
    assert (found.count, found.kind) == (6, "ci")


def test_launches_that_lack_one_of_the_two_do_not_count() -> None:
    found = ratio(repeated(2.0, 2.0, 9.0), repeated(1.0, 1.0))
    assert (found.median, found.count, found.kind) == (2.0, 2, "range")
    assert ratio(repeated(1.0), repeated(1.0, first=2)) is None


def test_a_ratio_within_one_launch_has_the_bounds_of_both_intervals() -> None:
    slow, fast = Repeated.of({1: [2 * each for each in SIX]}), Repeated.of({1: SIX})
    found = ratio(slow, fast)
    assert (found.median, found.low, found.high) == pytest.approx((2.0, 2 * 1.0 / 1.5, 2 * 1.5 / 1.0))
    assert found.kind == "within"


@given(st.lists(st.tuples(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3)), min_size=1, max_size=12))
def test_the_ratio_the_other_way_round_is_the_reciprocal(pairs: list[tuple[float, float]]) -> None:
    one, other = repeated(*(pair[0] for pair in pairs)), repeated(*(pair[1] for pair in pairs))
    there, back = ratio(one, other), ratio(other, one)
    assert (1 / back.high, 1 / back.median, 1 / back.low) == pytest.approx((there.low, there.median, there.high))
    assert not (there.above(1) and back.above(1))


# --------------------------------------------------------------------------------------------------- groups


def numbered(*medians: float) -> dict[int, float]:
    return dict(enumerate(medians, start=1))


def test_two_states_of_a_machine_are_told_with_their_launches() -> None:
    draw = random.Random(1)
    fast, slow = (0.11, 0.11, 0.112, 0.109), [0.35 * math.exp(draw.gauss(0, 0.03)) for _ in range(36)]
    low, high = groups(numbered(*slow[:10], *fast, *slow[10:]))
    assert low.launches == (11, 12, 13, 14)
    assert low.median == 0.11
    assert len(high.launches) == 36
    assert high.median == pytest.approx(0.35, rel=0.03)


def test_one_launch_apart_is_no_group_and_two_are() -> None:
    assert groups(numbered(*[1.0] * 9, 5.0)) == ()
    assert [group.launches[-2:] for group in groups(numbered(*[1.0] * 9, 5.0, 5.0))] == [(8, 9), (10, 11)]
    assert [group.launches[:2] for group in groups(numbered(1.0, 1.0, *[5.0] * 9))] == [(1, 2), (3, 4)]


@pytest.mark.parametrize(("count", "factor"), [(6, 1 + 300 / 36), (20, 1.75)])
@pytest.mark.parametrize("order", [1, -1])
def test_groups_are_further_apart_than_either_is_wide(count: int, factor: float, order: int) -> None:
    """One side is as wide as 1 : 1.1, the other has no width; ``order`` is which of them is the slow one."""
    wide = [1.1 ** (place / (count // 2 - 1)) for place in range(count // 2)]
    for part, number in ((0.99, 0), (1.01, 2)):
        medians = [*wide, *[1.1 ** (1 + factor * part)] * (count // 2)]
        assert len(groups(numbered(*(each**order for each in medians)))) == number


def test_few_launches_and_small_differences_are_no_groups() -> None:
    assert groups(numbered(1.0, 1.0, 2.0, 2.0, 2.0)) == ()
    assert groups(numbered(*[1.0] * 10, *[1.04] * 10)) == ()
    assert len(groups(numbered(*[1.0] * 10, *[1.06] * 10))) == 2


@given(st.dictionaries(st.integers(1, 99), TIMES, max_size=40))
def test_groups_share_the_launches_out_in_rising_order(medians: dict[int, float]) -> None:
    found = groups(medians)
    assert len(found) != 1
    assert not found or sorted(launch for group in found for launch in group.launches) == sorted(medians)
    for lower, upper in pairwise(found):
        assert max(medians[launch] for launch in lower.launches) < min(medians[launch] for launch in upper.launches)


# ----------------------------------------------------------------------------------------- when to stop launching


def over(count: int, half_width: float) -> Estimate:
    return Estimate(1.0, 1 - half_width, 1 + half_width, count, "ci")


def test_a_run_goes_on_until_every_interval_is_as_narrow_as_asked() -> None:
    # Sums of powers of two are exact, so a half width of 2^-6 is as narrow as asked.
    assert enough([over(6, 2**-6), over(6, 2**-7)], 2**-6)
    assert not enough([over(6, 2**-6), over(6, 2**-5)], 2**-6)


def test_it_does_not_look_before_the_first_look_and_not_at_intervals_within_a_launch() -> None:
    assert not enough([over(FIRST_LOOK - 1, 0.0)], 0.01)
    assert not enough([replace(over(60, 0.0), kind="within")], 0.01)
