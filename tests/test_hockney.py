from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volley.statistics.curves import MIN_SIZES, Fit, fit

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


@given(wobbles, st.floats(1e-6, 1e6))
def test_the_unit_of_time_does_not_matter(wobble: list[float], unit: float) -> None:
    times = [time * factor for time, factor in zip(line(5e-6, 2e10), wobble, strict=True)]
    one, other = fitted(SIZES, times), fitted(SIZES, [time * unit for time in times])
    # The least deviation may be reached by more lines than one, so it is what must not change.
    assert _deviation(other, SIZES, [time * unit for time in times]) == pytest.approx(_deviation(one, SIZES, times))


def test_the_unit_of_size_does_not_matter() -> None:
    times = [time * (1 + step % 3 / 50) for step, time in enumerate(line(5e-6, 2e10))]
    one, other = fitted(SIZES, times), fitted([size * 1024 for size in SIZES], times)
    assert other.latency_s == pytest.approx(one.latency_s)
    assert other.bandwidth_Bps == pytest.approx(one.bandwidth_Bps * 1024)
    assert other.worst_size_bytes == one.worst_size_bytes * 1024


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


def test_deviations_are_of_the_measured_time() -> None:
    times = line(1e-6, 1e9)
    times[7] *= 2
    found = fitted(SIZES, times)
    assert found.worst_deviation == pytest.approx(-0.5)
    assert found.worst_size_bytes == SIZES[7]
    assert found.median_deviation == pytest.approx(0, abs=1e-9)
    assert found.sizes == 28


def test_five_sizes_are_the_fewest_that_show_the_quality_of_a_line() -> None:
    reason = fit(SIZES[:4], line(1e-6, 1e8, SIZES[:4]))
    assert isinstance(reason, str)
    assert "at least 5 sizes" in reason
    assert isinstance(fit(SIZES[:5], line(1e-6, 3e7, SIZES[:5])), Fit)


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
