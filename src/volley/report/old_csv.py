"""Comma-separated values, one row a point.  The first nine columns and their order are a promise."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import TextIO

from volley.blame import Pair
from volley.matrices import Sheet
from volley.summary import TAIL_FRACTIONS, PointSummary, Rate, Series
from volley.text import harmless


def _number(value: float | None, scale: float) -> str:
    """Nine significant digits: a clock has fewer.  Nothing where there is no number."""
    return "" if value is None else f"{value * scale:.9g}"


def _rate(rate: Rate | None, which: str = "median_Bps") -> str:
    return "" if rate is None else _number(getattr(rate, which), 1e-9)


def _verified(point: PointSummary) -> str:
    return {True: "yes", False: "no", None: ""}[point.verified]


def _percentile(name: str) -> Callable[[PointSummary], str]:
    return lambda point: _number(point.tail_s.get(name), 1e6)


COLUMNS: dict[str, Callable[[PointSummary], object]] = {
    "transport": lambda point: harmless(point.transport),
    "size_bytes": lambda point: point.size_bytes,
    "samples": lambda point: point.samples,
    "latency_us": lambda point: _number(point.latency_s, 1e6),
    "latency_low_us": lambda point: _number(point.low_s, 1e6),
    "latency_high_us": lambda point: _number(point.high_s, 1e6),
    "bandwidth_GBps": lambda point: _rate(point.rate),
    "verified": _verified,
    "status": lambda point: point.status,
    "benchmark": lambda point: point.benchmark,
    "direction": lambda point: point.direction or "",
    "window": lambda point: point.window or "",
    "ranks": lambda point: "-".join(map(str, point.ranks)),
    "launches": lambda point: point.launches,
    "interval": lambda point: point.time.kind if point.time else "",
    "bandwidth_low_GBps": lambda point: _rate(point.rate, "low_Bps"),
    "bandwidth_high_GBps": lambda point: _rate(point.rate, "high_Bps"),
    "forward_GBps": lambda point: _rate(point.forward),
    "backward_GBps": lambda point: _rate(point.backward),
    "messages_timed": lambda point: point.messages_timed,
    "messages_verified": lambda point: point.messages_verified,
    "ended_by": lambda point: point.ended_by or "",
    "cold_us": lambda point: _number(point.cold_s, 1e6),
    **{f"{name.replace('.', '_')}_us": _percentile(name) for name in (*TAIL_FRACTIONS, "max")},
    "reason": lambda point: harmless(point.reason or ""),
    "speedup": lambda point: _number(point.speedup.ratio, 1) if point.speedup else "",
    "speedup_low": lambda point: _number(point.speedup.low, 1) if point.speedup else "",
    "speedup_high": lambda point: _number(point.speedup.high, 1) if point.speedup else "",
    "speedup_over": lambda point: harmless(point.speedup.over) if point.speedup else "",
}
"""``cold_us`` is half the first round trip of fresh buffers (a stream's: its first window).  ``interval`` says what the
bounds are: a 95 % ``interval``, the ``range`` of too few observations, or a ``single`` one."""

MATRIX_COLUMNS: dict[str, Callable[[Sheet, Pair], object]] = {
    "transport": lambda sheet, _: harmless(sheet.transport),
    "size_bytes": lambda sheet, _: sheet.size_bytes,
    "mode": lambda sheet, _: sheet.mode,
    "exercise": lambda sheet, _: sheet.exercise,
    "direction": lambda sheet, _: sheet.direction or "",
    "window": lambda sheet, _: sheet.window or "",
    "first_rank": lambda _, pair: pair[0],
    "second_rank": lambda _, pair: pair[1],
    "kind": lambda sheet, pair: sheet.kinds[pair],
    "status": lambda sheet, pair: sheet.cells[pair].status,
    "samples": lambda sheet, pair: sheet.cells[pair].samples,
    "time_us": lambda sheet, pair: _number(sheet.times.get(pair), 1e6),
    "time_low_us": lambda sheet, pair: _number(sheet.cells[pair].low_s, 1e6),
    "time_high_us": lambda sheet, pair: _number(sheet.cells[pair].high_s, 1e6),
    "bandwidth_GBps": lambda sheet, pair: _number(sheet.rate_Bps(pair), 1e-9),
    "of_ceiling": lambda sheet, pair: _number(sheet.of_ceiling(pair), 1),
    "ratio": lambda sheet, pair: _number(standing.ratio, 1) if (standing := sheet.standings.get(pair)) else "",
    "ratio_again": lambda sheet, pair: _number(verdict.again.median, 1) if (verdict := sheet.verdict(pair)) else "",
    "ratio_again_low": lambda sheet, pair: _number(verdict.again.low, 1) if (verdict := sheet.verdict(pair)) else "",
    "blamed": lambda sheet, pair: ("yes" if verdict.blamed else "no") if (verdict := sheet.verdict(pair)) else "",
    "reason": lambda sheet, pair: harmless(sheet.cells[pair].reason or ""),
}
"""``time_us`` is the half round trip of a ping-pong and a window of a stream, the median over the visits; its bounds
are their range, those of a single visit its 95 % interval; ``ratio`` that time over the median of like pairs,
``ratio_again`` the same where the pair was measured again."""

PROBE_COLUMNS = ("transport", "available", "mpi", "memory", "summary", "reason")


def render_csv(series: list[Series], out: TextIO) -> list[str]:
    """Write all points, or the transports where nothing but those was asked for; no remarks of its own."""
    writer = csv.writer(out, lineterminator="\n")
    if series and all(one.plan is not None and one.plan.benchmark == "probe" for one in series):
        writer.writerow(PROBE_COLUMNS)
        for transport in (transport for one in series for transport in one.transports.values()):
            yes_no = ("yes" if flag else "no" for flag in (transport.available, transport.mpi))
            texts = (transport.memory, transport.summary, transport.reason or "")
            writer.writerow([harmless(transport.transport), *yes_no, *map(harmless, texts)])
        return []
    if any(one.matrices for one in series):
        writer.writerow(MATRIX_COLUMNS)
        for sheet in (sheet for one in series for sheet in one.matrices):
            writer.writerows([cell(sheet, pair) for cell in MATRIX_COLUMNS.values()] for pair in sorted(sheet.cells))
        return []
    writer.writerow(COLUMNS)
    for point in (point for one in series for point in one.points):
        writer.writerow([cell(point) for cell in COLUMNS.values()])
    return []
