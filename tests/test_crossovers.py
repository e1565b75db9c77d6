from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volley.statistics.curves import Crossover, crossovers, half_bandwidth
from volley.statistics.estimates import Estimate, Kind
from volley.statistics.launches import Repeated

SIZES = [8 << 2 * step for step in range(8)]


def found(first: list[float], second: list[float], kind: Kind = "within") -> list[Crossover]:
    """The crossovers of two curves of one launch, each ±0.3 %."""
    curves = {
        name: {
            size: Repeated({1: time}, Estimate(time, 0.997 * time, 1.003 * time, 7, kind))
            for size, time in zip(SIZES, times, strict=False)
        }
        for name, times in (("a", first), ("b", second))
    }
    return crossovers(curves)


def test_a_crossover_names_the_sizes_on_both_sides() -> None:
    (one,) = found([1, 2, 4, 8], [3, 3, 3, 3])
    assert one == Crossover("b", "a", last_bytes=32, from_bytes=128, final=True, again=False)


def test_sizes_where_the_intervals_overlap_belong_to_neither_side() -> None:
    (one,) = found([1, 3, 3, 8], [3, 3.001, 2.999, 3])
    assert (one.last_bytes, one.from_bytes) == (8, 512)


def test_without_a_lead_on_both_sides_there_is_no_crossover() -> None:
    assert found([1, 2, 3], [3, 3, 3.001]) == []
    assert found([3, 3, 8], [3, 3.001, 3]) == []
    assert found([1, 1], [2, 2]) == []


def test_each_turn_is_told_and_the_last_one_is_final() -> None:
    turns = found([1, 4, 1, 4], [2, 2, 2, 2])
    assert [(one.faster, one.final, one.again) for one in turns] == [
        ("b", False, False),
        ("a", False, True),
        ("b", True, True),
    ]


def test_curves_without_an_interval_overtake_nobody() -> None:
    assert found([1, 4], [2, 2], kind="single") == []


def test_a_ratio_that_is_steady_within_launches_leads_where_the_times_overlap() -> None:
    slow_and_fast = [1.0, 1.3, 0.9, 1.2, 1.1, 1.4]
    curves = {
        name: {
            size: Repeated.of({launch: [time * factor[step]] for launch, time in enumerate(slow_and_fast)})
            for step, size in enumerate(SIZES[:2])
        }
        for name, factor in (("a", (1.0, 1.05)), ("b", (1.05, 1.0)))
    }
    (one,) = crossovers(curves)
    assert (one.faster, one.from_bytes) == ("b", SIZES[1])


def test_sizes_that_only_one_of_them_has_do_not_count() -> None:
    assert found([1, 4], [2]) == []


@given(st.lists(st.tuples(st.floats(1e-6, 1e-3), st.floats(1e-6, 1e-3)), min_size=1, max_size=8))
def test_crossovers_of_a_pair_alternate_and_do_not_depend_on_its_order(times: list[tuple[float, float]]) -> None:
    first, second = [one for one, _ in times], [other for _, other in times]
    turns = found(first, second)
    assert sum(one.final for one in turns) == min(1, len(turns))
    assert all(one.last_bytes < one.from_bytes for one in turns)
    assert all(one.faster == other.slower for one, other in pairwise(turns))
    mirrored = {"a": "b", "b": "a"}
    assert [(mirrored[one.faster], one.from_bytes) for one in found(second, first)] == [
        (one.faster, one.from_bytes) for one in turns
    ]


# ------------------------------------------------------------------------------------------------ half bandwidth


def half(*seconds: float) -> float | None:
    sizes = SIZES[: len(seconds)]
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


def test_it_is_the_first_size_that_reaches_half_even_where_bandwidth_falls_again() -> None:
    assert half(1, 1, 1, 32, 64, 512) == pytest.approx(64)


def test_where_the_smallest_size_reaches_half_or_sizes_are_few_there_is_none() -> None:
    assert half(1, 4, 16, 64, 256) is None
    assert half(1, 2, 2, 8) is None
    assert half() is None
