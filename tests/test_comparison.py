from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_records import log, pingpong, stream, transport
from volley.comparison import Crossover, crossovers, curves, half_bandwidth
from volley.records import PingPong
from volley.summary import PointSummary, Series, baseline, series_of, tables

SPREAD = [0.997, 0.998, 0.999, 1.0, 1.001, 1.002, 1.003]
SIZES = [8 << 2 * step for step in range(8)]


def points(name: str, *seconds: float) -> list[PingPong]:
    """One point a size, ±0.3 %."""
    pairs = zip(SIZES, seconds, strict=False)
    return [pingpong([time * factor for factor in SPREAD], size, name) for size, time in pairs]


def series(*records: object, **options: object) -> Series:
    (one,) = series_of([log(*records, **options)])  # type: ignore[arg-type]
    return one


def of(one: Series, name: str, size: int = 8) -> PointSummary:
    return next(point for point in one.points if (point.transport, point.size_bytes) == (name, size))


# ----------------------------------------------------------------------------------------------- speed-ups


def test_a_speedup_is_over_staged_pageable_and_bounded_by_both_intervals() -> None:
    one = series(*points("host", 1e-6), *points("staged/pinned", 4e-6), *points("staged/pageable", 8e-6))
    found = of(one, "host").speedup
    assert found is not None
    assert (found.over, found.ratio) == ("staged/pageable", pytest.approx(8))
    assert (found.low, found.high) == pytest.approx((8 * 0.997 / 1.003, 8 * 1.003 / 0.997))
    assert found.shown
    assert of(one, "staged/pageable").speedup is None


def test_without_pageable_the_first_staged_transport_is_the_baseline() -> None:
    one = series(*points("host", 1e-6), *points("staged/pinned", 4e-6), *points("staged/pipelined", 2e-6))
    found = of(one, "staged/pipelined").speedup
    assert found is not None
    assert (found.over, found.ratio) == ("staged/pinned", pytest.approx(2))


def test_a_baseline_that_measured_nothing_is_none() -> None:
    skipped = pingpong(size=8, name="staged/pageable", status="skipped", reason="no memory")
    assert baseline(series(*points("host", 1e-6), skipped).points) is None
    with_pinned = series(skipped, *points("staged/pinned", 4e-6), *points("host", 1e-6))
    assert baseline(with_pinned.points) == "staged/pinned"


def test_nothing_staged_no_speedup() -> None:
    one = series(*points("host", 1e-6), *points("aware", 2e-6))
    assert [point.speedup for point in one.points] == [None, None]


def test_only_points_with_numbers_on_both_sides_have_a_speedup() -> None:
    bad = pingpong([1e-6] * 6, 32, "aware", status="failed", reason="differs")
    one = series(*points("staged/pageable", 8e-6, 8e-6), *points("aware", 2e-6), bad, *points("peer", 1e-6, 1e-6, 1e-6))
    assert of(one, "aware", 32).speedup is None
    assert of(one, "peer", 32).speedup is not None
    assert of(one, "peer", 128).speedup is None


def test_what_sends_nothing_has_no_speedup() -> None:
    null = transport("null", mpi=False, memory="none")
    records = [*points("staged/pageable", 8e-6), *points("null", 1e-9)]
    assert of(series(*records, transports=[transport("staged/pageable"), null]), "null").speedup is None


def test_overlapping_intervals_show_no_speedup() -> None:
    one = series(*points("staged/pageable", 8e-6), *points("aware", 7.99e-6))
    found = of(one, "aware").speedup
    assert found is not None
    assert not found.shown


def test_single_observations_have_a_ratio_without_bounds() -> None:
    one = series(pingpong([8e-6], 8, "staged/pageable"), pingpong([2e-6], 8, "aware"))
    found = of(one, "aware").speedup
    assert found is not None
    assert (found.ratio, found.low, found.high) == (pytest.approx(4), None, None)


def test_streams_are_compared_by_their_bandwidth() -> None:
    slow = stream([4.0] * 6, [8.0] * 6, transport="staged/pageable")
    found = of(series(slow, stream([2.0] * 6, [1.0] * 6, transport="aware")), "aware").speedup
    assert found is not None
    assert found.ratio == pytest.approx(4)


def test_tables_keep_what_cannot_be_compared_apart() -> None:
    records = [stream([1.0] * 6), stream([1.0] * 6, window=8), stream([1.0] * 6, [1.0] * 6), *points("host", 1e-6)]
    assert [len(table) for table in tables(series(*records).points)] == [1, 1, 1, 1]


# ---------------------------------------------------------------------------------------------- crossovers


def found(first: list[float], second: list[float]) -> list[Crossover]:
    one = series(*points("a", *first), *points("b", *second))
    return crossovers(one.points)


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


def test_points_without_an_interval_overtake_nobody() -> None:
    records = [
        pingpong([time], size, name) for name, size, time in (("a", 8, 1), ("a", 32, 4), ("b", 8, 2), ("b", 32, 2))
    ]
    assert crossovers(series(*records).points) == []


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


# -------------------------------------------------------------------------------------------------- curves


def test_the_measured_half_bandwidth_size_is_interpolated_on_logarithmic_scales() -> None:
    # 8, 16, 64, 64 and 64 B/s: half of the best, 32 B/s, lies in the middle between 32 and 128 B.
    assert half_bandwidth(series(*points("a", 1, 2, 2, 8, 32)).points) == pytest.approx(64)


def test_it_is_the_first_size_that_reaches_half_even_where_bandwidth_falls_again() -> None:
    one = series(*points("a", 1, 1, 1, 32, 64, 512)).points
    assert half_bandwidth(one) == pytest.approx(64)


def test_where_the_smallest_size_reaches_half_or_sizes_are_few_there_is_none() -> None:
    assert half_bandwidth(series(*points("a", 1, 4, 16, 64, 256)).points) is None
    assert half_bandwidth(series(*points("a", 1, 2, 2, 8)).points) is None
    assert half_bandwidth([]) is None


def test_each_transport_that_sends_has_a_curve() -> None:
    null = transport("null", mpi=False, memory="none")
    line = [1e-6 + size / 1e8 for size in SIZES]
    records = [*points("b", *line), *points("a", *line[:2]), *points("null", *line)]
    b, a = curves(series(*records, transports=[transport("b"), transport("a"), null]).points)
    assert (b.transport, a.transport) == ("b", "a")
    assert b.fit is not None
    assert b.fit.bandwidth_Bps == pytest.approx(1e8, rel=0.01)
    assert b.reason is None
    assert a.fit is None
    assert "fewest" in (a.reason or "")


def test_a_stream_has_a_half_bandwidth_size_and_no_latency() -> None:
    (curve,) = curves(
        series(*(stream([time] * 6, size=size) for size, time in zip(SIZES, (1, 1, 1, 2, 4, 8), strict=False))).points
    )
    assert curve.fit is None
    assert curve.half_bandwidth_bytes is not None
