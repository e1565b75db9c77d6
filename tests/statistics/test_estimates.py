import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volley.statistics import estimates as stats

TIMES = st.floats(1e-9, 1e3)
SAMPLES = st.lists(TIMES, min_size=1, max_size=60)


def test_no_samples_have_no_median() -> None:
    with pytest.raises(ValueError, match="no samples"):
        stats.median([])


def test_the_rank_is_the_largest_that_covers_95_per_cent() -> None:
    """Against exact whole-number arithmetic: P(Binomial(n, 1/2) < r) <= 1/40."""
    for count in range(1, 400):
        below, rank = 0, 0
        while rank < count // 2 and 40 * (below + math.comb(count, rank)) <= 2**count:
            below += math.comb(count, rank)
            rank += 1
        assert stats.interval_rank(count) == rank, count


@pytest.mark.parametrize("count", [1000, 3000])
def test_the_rank_of_many_samples_covers_95_per_cent_and_no_more_than_it_must(count: int) -> None:
    rank = stats.interval_rank(count)
    below = sum(math.comb(count, i) for i in range(rank))
    assert 40 * below <= 2**count < 40 * (below + math.comb(count, rank))


def test_six_samples_are_the_fewest_with_an_interval() -> None:
    assert [stats.interval_rank(count) for count in range(9)] == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    found = stats.estimate([5.0, 1.0, 4.0, 2.0, 6.0, 3.0])
    assert (found.low, found.median, found.high, found.kind) == (1.0, 3.5, 6.0, "ci")


def test_fewer_samples_give_their_range_and_one_gives_itself() -> None:
    assert stats.estimate([2.0, 1.0, 3.0]) == stats.Estimate(2.0, 1.0, 3.0, 3, "range")
    assert stats.estimate([2.0]) == stats.Estimate(2.0, 2.0, 2.0, 1, "single")


@pytest.mark.parametrize("count", [6, 9, 30, 101])
@pytest.mark.parametrize("distribution", ["exponential", "bimodal"])
def test_the_interval_covers_the_true_median_95_times_in_100(count: int, distribution: str) -> None:
    """A simulation with a fixed seed; 3 standard deviations of 2000 draws at 95 % are 1.5 %."""
    source = random.Random(20260102)
    draws = 2000

    def draw() -> float:
        if distribution == "exponential":
            return source.expovariate(1.0)
        return source.gauss(1.0, 0.01) if source.random() < 0.7 else source.gauss(5.0, 0.5)

    # The bimodal median is the point of the first mode below which 0.5 / 0.7 of that mode lie: z = 0.5660.
    truth = math.log(2) if distribution == "exponential" else 1.0 + 0.01 * 0.5660
    hits = 0
    for _ in range(draws):
        found = stats.estimate([draw() for _ in range(count)])
        hits += found.low <= truth <= found.high
    assert hits / draws >= 0.935


@given(SAMPLES)
def test_an_estimate_is_ordered_and_within_the_samples(samples: list[float]) -> None:
    found = stats.estimate(samples)
    assert min(samples) <= found.low <= found.median <= found.high <= max(samples)
    assert found.half_width >= 0
    assert found.count == len(samples)


def test_what_people_see_passes_on_when_an_estimate_is_scaled_or_inverted() -> None:
    time = stats.Estimate(2.0, 1.0, 4.0, 3, "range", widened=(0.5, 8.0))
    assert time.interval == (0.5, 8.0)
    rate = time.map(lambda seconds: 8 / seconds)
    assert rate == stats.Estimate(4.0, 2.0, 8.0, 3, "range", widened=(1.0, 16.0))
    many = stats.Estimate(2.0, 1.0, 4.0, 6, "ci")
    assert many.interval == (1.0, 4.0)
    assert stats.Estimate(2.0, 1.0, 4.0, 2, "range").interval is None
    assert many.map(lambda seconds: -seconds) == stats.Estimate(-2.0, -4.0, -1.0, 6, "ci")


def test_percentiles_are_samples_and_need_one_beyond_them() -> None:
    samples = [float(n) for n in range(1, 101)]
    assert stats.percentile(samples, 0.90) == 90.0
    assert stats.percentile(samples, 0.99) == 99.0
    assert stats.percentile(samples, 0.999) is None
    assert stats.percentile(samples[:99], 0.99) is None


def test_outliers_are_far_above_the_median() -> None:
    calm = [1.00, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99]
    assert stats.outliers(calm) == 0
    assert stats.outliers([*calm, 5.0, 9.0]) == 2
    assert [stats.outliers([*calm, far]) for far in (1.14, 1.16)] == [0, 1]  # 14.8 deviations of 0.01 above the median
    assert stats.outliers([]) == 0


def test_samples_that_are_equal_but_for_clock_ticks_have_no_outliers() -> None:
    assert stats.outliers([1.0] * 10 + [1.0001]) == 0
    assert stats.outliers([1.0] * 10 + [2.0]) == 1


def test_drift_compares_the_last_third_with_the_first() -> None:
    source = random.Random(1)
    still = [1 + source.uniform(-0.01, 0.01) for _ in range(60)]
    assert stats.drift(still) == 0.0
    rising = [value + number / 100 for number, value in enumerate(still)]
    assert stats.drift(rising) == pytest.approx(0.36, abs=0.03)
    assert stats.drift(rising[::-1]) < -0.2


def test_thirds_whose_intervals_touch_and_too_few_samples_do_not_drift() -> None:
    rising = [float(number) for number in range(1, 7)]
    assert stats.drift([*rising, *rising, *(5 + each for each in rising)]) == 0.0
    assert stats.drift([*rising, *rising, *(6 + each for each in rising)]) == pytest.approx(6 / 3.5)
    assert stats.drift([1.0, 2.0] * 8) == 0.0


def steps(time_ns: float, _rng: random.Random) -> float:
    """A clock with steps of 10 ns."""
    return 10 * round(time_ns / 10)


def ticks(time_ns: float, rng: random.Random) -> float:
    """A clock with ticks of 10.016 ns, told in whole nanoseconds: the difference of two readings."""
    begin_ns = rng.uniform(0, 1e6)
    begin, end = (round(10.016 * int(at_ns / 10.016)) for at_ns in (begin_ns, begin_ns + time_ns))
    return end - begin


@pytest.mark.parametrize("clock", [steps, ticks])
def test_the_interval_of_times_that_a_coarse_clock_read_covers_the_median(clock: Callable[..., float]) -> None:
    rng = random.Random(20261130)
    held = 0
    for _ in range(200):
        true_ns = rng.uniform(300, 310)
        found = stats.estimate([clock(rng.gauss(true_ns, 4), rng) for _ in range(1000)])
        assert found.low < found.median < found.high
        assert found.half_width <= 0.055  # a step and a half
        held += found.low <= true_ns <= found.high
    assert held >= 0.95 * 200


def test_times_without_steps_have_none() -> None:
    rng = random.Random(20261130)
    assert stats.clock_step(sorted(rng.gauss(300, 4) for _ in range(1000))) == 0
    two = sorted(steps(rng.gauss(rng.choice((300, 600)), 10), rng) for _ in range(1000))
    assert stats.clock_step(two) == 10  # not the distance of the two levels
