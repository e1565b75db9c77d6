"""Figures of docs/method/comparing.md about the lines through the curves of two H200s."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from every_way import sending
from volley.statistics.curves import Fit, fit
from volley.statistics.estimates import median


def fits() -> dict[str, tuple[list[int], list[float], Fit]]:
    """Return sizes, half round trips and the line of each transport that has one."""
    found = {}
    for name, points in sending().items():
        sizes, times = list(points), [point.latency.median for point in points.values() if point.latency]
        line = fit(sizes, times)
        if isinstance(line, Fit):
            found[name] = sizes, times, line
    return found


def aware_line() -> Iterator[str]:
    """Yield how a line by squares and the line that is drawn describe the curve of ``aware``."""
    sizes, times, line = fits()["aware"]
    latency_s, off = by_squares(sizes, times)
    yield (
        f"On two H200s, `aware` sends up to 2 KiB eagerly. Least squares give α = {latency_s * 1e6:.1f} µs and a "
        f"median deviation of {off:.0%}; least absolute deviations give α = {line.latency_s * 1e6:.1f} µs, a median "
        f"deviation of {line.median_deviation:.1%} and a largest deviation of "
        f"{abs(line.worst_deviation):.0%}, which is printed."
    ).replace("%", " %")


def poor_lines() -> Iterator[str]:
    """Yield how many of the curves are no lines."""
    lines = [line for _, _, line in fits().values()]
    yield f"Many lines are poor: {sum(line.poor for line in lines)} of {len(lines)} on two H200s."


def by_squares(sizes: Sequence[int], times: Sequence[float]) -> tuple[float, float]:
    """Return α of the line with the least sum of (t(n) / measured - 1)², and its median deviation."""
    ones, slopes = [1 / t for t in times], [n / t for n, t in zip(sizes, times, strict=True)]
    aa, ab, bb = (
        sum(x * y for x, y in zip(*pair, strict=True)) for pair in ((ones, ones), (ones, slopes), (slopes, slopes))
    )
    a, b = sum(ones), sum(slopes)
    latency = (a * bb - b * ab) / (aa * bb - ab * ab)
    slope = (b * aa - a * ab) / (aa * bb - ab * ab)
    return latency, median([abs((latency + n * slope) / t - 1) for n, t in zip(sizes, times, strict=True)])
