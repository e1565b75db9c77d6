"""The charts of points: latency and bandwidth of each transport over the message size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley.benchmarks.shared.points import ucx
from volley.benchmarks.shared.points.results import PointResult, PointSeries, one_launch
from volley.report.model import Axis, Chart, Mark, ReferenceLine
from volley.statistics.estimates import Estimate
from volley.units import format_sig

_SIZE = Axis("message size", "B", log=True)


def charts(points: Sequence[PointResult], result: PointSeries, ucx_operation: str) -> Iterator[Chart]:
    """Yield the charts of one table, without transports that send nothing."""
    sent = [point for point in points if point.time and point.rate]
    if not sent:
        return
    changes = [
        ReferenceLine("x", size, f"aware: {protocol}")
        for size, protocol in ucx.changes(sent, result.series.plan, ucx_operation)
    ]
    what = "within one launch" if one_launch(points) else "over launches"
    caption = f"bars: 95 % confidence interval {what}, or the range of too few observations"
    if changes:
        caption += "; vertical lines: UCX uses another protocol from this size on"
    if all(point.latency for point in sent):
        marks = [_mark(point, point.time, 1e6) for point in sent if point.time]
        operation = sent[0].operation
        title = f"Latency of {operation}" if operation else "Latency"
        axis = Axis(operation or "half round trip", "µs", log=True)
        yield Chart("curves", title, _SIZE, axis, marks, None, changes, caption)
    both = "Bandwidth of both directions together" if sent[0].direction == "bi" else "Bandwidth"
    both = f"Bus bandwidth of {sent[0].operation}" if sent[0].operation else both
    rates = {
        point.line_rate_Bps / 1e9: f"line rate of {point.line_rate.over}"
        for point in sent
        if point.line_rate and point.line_rate_Bps
    }
    lines = [ReferenceLine("y", rate, f"{words}: {format_sig(rate, 4)} GB/s") for rate, words in rates.items()]
    marks = [_mark(point, point.rate, 1e-9) for point in sent if point.rate]
    yield Chart("curves", both, _SIZE, Axis("bandwidth", "GB/s", log=True), marks, None, [*lines, *changes], caption)


def _mark(point: PointResult, shown: Estimate, factor: float) -> Mark:
    bounds = (None, None) if shown.kind == "single" else (shown.low * factor, shown.high * factor)
    return Mark(point.size_bytes, shown.median * factor, point.transport, *bounds)
