from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volley.statistics.curves import MIN_SIZES, Crossover, Fit, Order, crossovers, fit, half_bandwidth
from volley.statistics.estimates import Estimate, Kind
from volley.statistics.launches import Repeated

# ------------------------------------------------------------------------------------------------ Hockney's line

SIZES = [8 << step for step in range(28)]
"""8 B to 1 GiB."""

bandwidths = st.floats(1e8, 1e12)


def line(latency: float, bandwidth: float, sizes: list[int] = SIZES) -> list[float]:
    return [latency + size / bandwidth for size in sizes]


def fitted(sizes: list[int], times: list[float]) -> Fit:
    found = fit(sizes, times)
    assert isinstance(found, Fit), found
    return found


@given(st.integers(4, 1 << 29), bandwidths, st.integers(0, 20), st.integers(MIN_SIZES, 28))
def test_a_line_is_found_exactly(half: int, bandwidth: float, first: int, number: int) -> None:
    sizes = SIZES[first : first + number]
    latency = half / bandwidth
    if len(sizes) < MIN_SIZES or not sizes[0] * 1.001 < half < sizes[-1] * 0.999:
        return
    found = fitted(sizes, line(latency, bandwidth, sizes))
    assert found.latency_s == pytest.approx(latency, rel=1e-9)
    assert found.bandwidth_Bps == pytest.approx(bandwidth, rel=1e-9)
    assert found.half_bandwidth_bytes == pytest.approx(half, rel=1e-9)
    assert found.median_deviation < 1e-9
    assert abs(found.worst_deviation) < 1e-9
    assert not found.poor


wobbles = st.lists(st.floats(0.8, 1.25), min_size=28, max_size=28)


@given(wobbles, st.floats(0.5, 2), st.floats(0.5, 2))
def test_no_other_line_deviates_less(wobble: list[float], more_latency: float, more_bandwidth: float) -> None:
    times = [time * factor for time, factor in zip(line(5e-6, 2e10), wobble, strict=True)]
    found = fitted(SIZES, times)
    other = Fit(found.latency_s * more_latency, found.bandwidth_Bps * more_bandwidth, 0, 0, 0, 28)
    assert _deviation(found, SIZES, times) <= _deviation(other, SIZES, times) + 1e-9


def _deviation(found: Fit, sizes: list[int], times: list[float]) -> float:
    return sum(abs(found.time_s(size) / time - 1) for size, time in zip(sizes, times, strict=True))


@given(st.floats(1e-8, 1e-3), st.integers(0, 7), st.floats(1.5, 4))
def test_a_minority_on_another_protocol_does_not_move_the_line(latency: float, number: int, slower: float) -> None:
    bandwidth = 1e6 / latency  # 17 sizes lie below 1 MB and tell the latency; fewer than half of them are slower
    times = line(latency, bandwidth)
    eager = [time * slower for time in times[:number]]
    found = fitted(SIZES, eager + times[number:])
    assert found.bandwidth_Bps == pytest.approx(bandwidth, rel=1e-6)
    assert found.latency_s == pytest.approx(latency, rel=1e-6)
    if number:
        assert found.worst_deviation == pytest.approx(1 / slower - 1)
        assert found.worst_size_bytes in SIZES[:number]
        assert found.poor == (1 - 1 / slower > 0.25)


@pytest.mark.parametrize(("sizes", "word"), [(SIZES[:8], "larger messages"), (SIZES[15:], "smaller messages")])
def test_sizes_on_one_side_of_the_half_bandwidth_size_show_one_term_only(sizes: list[int], word: str) -> None:
    reason = fit(sizes, line(1e-5, 1e9, sizes))
    assert isinstance(reason, str)
    assert word in reason


@given(st.lists(st.tuples(st.integers(1, 1 << 40), st.floats(1e-9, 1e3)), max_size=40, unique_by=lambda one: one[0]))
def test_whatever_was_measured_gives_a_line_or_a_reason(points: list[tuple[int, float]]) -> None:
    found = fit([size for size, _ in points], [time for _, time in points])
    if isinstance(found, Fit):
        assert found.latency_s > 0
        assert found.bandwidth_Bps > 0
        assert min(size for size, _ in points) * 0.999 <= found.half_bandwidth_bytes
        assert found.half_bandwidth_bytes <= max(size for size, _ in points) * 1.001
        assert found.median_deviation <= abs(found.worst_deviation)


# ---------------------------------------------------------------------------------------------------- crossovers

FEW = [8 << 2 * step for step in range(8)]


def turns_of(first: list[float], second: list[float], kind: Kind = "within") -> list[Crossover]:
    """The crossovers of two curves of one launch, each ±0.3 %."""
    curves = {
        name: {
            size: Repeated({1: time}, Estimate(time, 0.997 * time, 1.003 * time, 7, kind))
            for size, time in zip(FEW, times, strict=False)
        }
        for name, times in (("a", first), ("b", second))
    }
    return crossovers(Order(curves))


def test_a_crossover_names_the_sizes_on_both_sides() -> None:
    (one,) = turns_of([1, 2, 4, 8], [3, 3, 3, 3])
    assert one == Crossover("b", "a", last_bytes=32, from_bytes=128, final=True, again=False)


def test_sizes_where_the_intervals_overlap_belong_to_neither_side() -> None:
    (one,) = turns_of([1, 3, 3, 8], [3, 3.001, 2.999, 3])
    assert (one.last_bytes, one.from_bytes) == (8, 512)


def test_without_a_lead_on_both_sides_there_is_no_crossover() -> None:
    assert turns_of([1, 2, 3], [3, 3, 3.001]) == []
    assert turns_of([3, 3, 8], [3, 3.001, 3]) == []
    assert turns_of([1, 1], [2, 2]) == []


def test_each_turn_is_told_and_the_last_one_is_final() -> None:
    turns = turns_of([1, 4, 1, 4], [2, 2, 2, 2])
    assert [(one.faster, one.final, one.again) for one in turns] == [
        ("b", False, False),
        ("a", False, True),
        ("b", True, True),
    ]


def test_a_ratio_that_is_steady_within_launches_leads_where_the_times_overlap() -> None:
    slow_and_fast = [1.0, 1.3, 0.9, 1.2, 1.1, 1.4]
    curves = {
        name: {
            size: Repeated.of({launch: [time * factor[step]] for launch, time in enumerate(slow_and_fast)})
            for step, size in enumerate(FEW[:2])
        }
        for name, factor in (("a", (1.0, 1.05)), ("b", (1.05, 1.0)))
    }
    (one,) = crossovers(Order(curves))
    assert (one.faster, one.from_bytes) == ("b", FEW[1])


@given(st.lists(st.tuples(st.floats(1e-6, 1e-3), st.floats(1e-6, 1e-3)), min_size=1, max_size=8))
def test_crossovers_of_a_pair_alternate_and_do_not_depend_on_its_order(times: list[tuple[float, float]]) -> None:
    first, second = [one for one, _ in times], [other for _, other in times]
    turns = turns_of(first, second)
    assert sum(one.final for one in turns) == min(1, len(turns))
    assert all(one.last_bytes < one.from_bytes for one in turns)
    assert all(one.faster == other.slower for one, other in pairwise(turns))
    mirrored = {"a": "b", "b": "a"}
    assert [(mirrored[one.faster], one.from_bytes) for one in turns_of(second, first)] == [
        (one.faster, one.from_bytes) for one in turns
    ]


# ------------------------------------------------------------------------------------------------ half bandwidth


def half(*seconds: float) -> float | None:
    sizes = FEW[: len(seconds)]
    return half_bandwidth(sizes, [size / time for size, time in zip(sizes, seconds, strict=True)])


def test_its_time_is_interpolated_between_two_sizes() -> None:
    # The best is 64 B/s.  From 5 s at 128 B to 8 s at 512 B a line goes through 16/3 s at 512/3 B, which are 32 B/s.
    assert half(1, 2, 5, 8, 32) == pytest.approx(512 / 3)


def test_of_a_latency_and_a_time_for_each_byte_it_is_the_same_for_few_sizes_and_for_many() -> None:
    def of(sizes: list[int]) -> float | None:
        return half_bandwidth(sizes, [size / (8e-6 + size / 400e9) for size in sizes])

    dense = [8 << step for step in range(28)]
    assert of(dense) == pytest.approx(8e-6 * 400e9, rel=0.01)
    assert of([8, 4 << 10, 64 << 10, 1 << 20, 1 << 30]) == pytest.approx(of(dense))


def test_where_the_smallest_size_reaches_half_or_sizes_are_few_there_is_none() -> None:
    assert half(1, 4, 16, 64, 256) is None
    assert half(1, 2, 2, 8) is None
    assert half() is None
