"""The one screen of many overlaps: findings, and a table with one row for each transport at a few sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley.benchmarks.overlap import LIMITS
from volley.benchmarks.overlap.results import OverlapResult, OverlapSeries
from volley.benchmarks.shared.verified import verified_points
from volley.report.cells import ratio_cell, unclear
from volley.report.model import EMPTY, Cell, Column, Conclusion, Overview, Table
from volley.run.command_again import command_again
from volley.text import count, join_words
from volley.units import format_sig, format_size

MAX_ROWS = 12
"""So many points fit a screen as they are."""

_SPARES = (1, 3, 0)
"""Which of the smallest, the middle and the largest size a narrow screen leaves out, the highest first."""


def overview(result: OverlapSeries) -> Overview | None:
    """Return the overview of one series; ``None`` if its tables fit a screen."""
    points = [point for point in result.points if point.hidden]
    if len(points) <= MAX_ROWS:
        return None
    found = {(point.transport, point.computation, point.size_bytes): point for point in points}
    limits = [limit for limit in LIMITS if any(point.computation == limit for point in points)]
    sizes = sorted({point.size_bytes for point in points})
    shown = list(dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1])))
    columns = [
        Column("transport", align="left"),
        *(
            Column(format_size(size), "%", group=f"hidden, {limit}", spare=spare)
            for limit in limits
            for size, spare in zip(shown, _SPARES[-len(shown) :], strict=True)
        ),
        *(
            Column(what, "×", group=limit, spare=spare)
            for limit in limits
            for what, spare in (("compute", 0), ("exchange", 2))
        ),
    ]
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(point.transport for point in points):
        row = [Cell(name)]
        row += [_hidden(found.get((name, limit, size))) for limit in limits for size in shown]
        for point in (found.get((name, limit, sizes[-1])) for limit in limits):
            slowdowns = (point.computation_slowdown, point.exchange_slowdown) if point else (None, None)
            row += [ratio_cell(each) for each in slowdowns]
        rows.append(row)
    legend = [
        "hidden: share of an exchange that adds no time to a computation that memory or arithmetic limits",
        f"×: time of the computation and of the exchange of {format_size(sizes[-1])}, both at once / alone",
        *unclear(rows),
    ]
    largest = [point for point in points if point.size_bytes == sizes[-1]]
    measured = [point for point in result.points if point.hidden]  # without what sends nothing
    line = verified_points(
        [point.messages_verified > 0 for point in measured], max(point.launches for point in measured)
    )
    return Overview(line, list(_conclusions(result, largest)), Table(columns, rows, legend=legend))


def percent(point: OverlapResult) -> str:
    """Return how much of the exchange is hidden: ``96.5``."""
    return format_sig(point.hidden.median * 100, 3) if point.hidden else "–"


def _hidden(point: OverlapResult | None) -> Cell:
    return Cell(point.hidden.median * 100, text=percent(point)) if point and point.hidden else EMPTY


def _conclusions(result: OverlapSeries, largest: Sequence[OverlapResult]) -> Iterator[Conclusion]:
    """Say what failed, which transport hides most of the largest exchange, and which hide nothing of it."""
    if failed := sum(point.status == "failed" for point in result.points):
        yield Conclusion("BROKEN", f"{count(failed, 'point')} failed")
    hiding = [point for point in largest if point.hidden and point.hidden.low > 0]
    for limit in LIMITS:
        here = [point for point in hiding if point.computation == limit]
        best = max(here, key=lambda point: point.hidden.median if point.hidden else 0.0, default=None)
        if best:
            size = format_size(best.size_bytes)
            yield Conclusion("OK", f"{best.transport} hides {percent(best)} % of {size} ({limit}), the largest share")
    able = {point.transport for point in hiding}
    idle = [name for name in dict.fromkeys(point.transport for point in largest) if name not in able]
    if idle:
        known = result.series.transports
        on_host = [name for name in idle if name in known and known[name].memory == "host"]
        again = command_again("overlap", result.series.plan, transport=on_host[0], progress_calls=8) if on_host else ""
        hide = "hides" if len(idle) == 1 else "hide"
        text = f"{join_words(idle)} {hide} nothing of {format_size(largest[0].size_bytes)}"
        yield Conclusion("SLOW", text, again)
