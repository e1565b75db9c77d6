"""The one screen of many overlaps: findings, and a table with one row for each transport at a few sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley.benchmarks.overlap import LIMITS
from volley.benchmarks.overlap.results import OverlapResult, OverlapSeries
from volley.benchmarks.shared.verified import verified_points
from volley.grouping import grouped
from volley.report.cells import ratio_cell, unclear
from volley.report.model import EMPTY, Cell, Column, Conclusion, Overview, Table
from volley.run.command_again import command_again, launch_again
from volley.statistics.estimates import Estimate
from volley.statistics.launches import FIRST_LOOK, has_interval
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


def hidden_words(hidden: Estimate) -> str:
    """Return how much of the exchange is hidden, with the interval: ``53.7 % (-119 to 144 %)``."""
    middle, low, high = (format_sig(each * 100, 3) for each in (hidden.median, hidden.low, hidden.high))
    return f"{middle} % ({f'{low} to {high} %' if has_interval(hidden) else 'no CI'})"


def _hidden(point: OverlapResult | None) -> Cell:
    if point is None or point.hidden is None:
        return EMPTY
    number = point.hidden.median * 100
    shown = format_sig(number, 3)
    sure = has_interval(point.hidden) and not point.hidden.low <= 0 <= point.hidden.high
    return Cell(number, text=shown) if sure else Cell(number, "dim", f"~{shown}")


def _conclusions(result: OverlapSeries, largest: Sequence[OverlapResult]) -> Iterator[Conclusion]:
    """Say what failed, which transport hides most of the largest exchange, and which hide nothing of it."""
    if failed := sum(point.status == "failed" for point in result.points):
        yield Conclusion("BROKEN", f"{count(failed, 'point')} failed")
    size = format_size(largest[0].size_bytes)
    shares = {(point.transport, point.computation): point.hidden for point in largest if point.hidden}
    for limit in LIMITS:
        here = {name: hidden for (name, beside), hidden in shares.items() if beside == limit}
        best = max(here, key=lambda name: here[name].median, default="")
        if best and _hides(here[best]):
            others = [hidden for name, hidden in here.items() if name != best]
            most = ", the largest share" * _above_all(here[best], others)
            yield Conclusion("OK", f"{best} hides {hidden_words(here[best])} of {size} ({limit}){most}")
    by_name = grouped(shares.items(), lambda share: share[0][0])
    idle = {name: [hidden for _, hidden in those] for name, those in by_name.items()}
    idle = {name: those for name, those in idle.items() if not any(map(_hides, those))}
    nothing = [name for name, those in idle.items() if all(has_interval(each) and each.high <= 0 for each in those)]
    plan, known = result.series.plan, result.series.transports
    if nothing:
        on_host = [name for name in nothing if name in known and known[name].memory == "host"]
        again = command_again("overlap", plan, transport=on_host[0], progress_calls=8) if on_host else ""
        yield Conclusion(
            "SLOW", f"{join_words(nothing)} {'hides' if len(nothing) == 1 else 'hide'} nothing of {size}", again
        )
    if unsure := [name for name in idle if name not in nothing]:
        known_bounds = all(has_interval(each) for name in unsure for each in idle[name])
        why = "95 % CI includes 0" if known_bounds else "too few launches for a 95 % CI"
        launches = 2 * max(FIRST_LOOK, *(point.launches for point in largest))
        again = launch_again("overlap", launches, plan, transport=",".join(unsure))
        yield Conclusion("NOISY", f"no overlap shown for {join_words(unsure)} at {size} ({why})", again)


def _hides(hidden: Estimate) -> bool:
    return has_interval(hidden) and hidden.low > 0


def _above_all(best: Estimate, others: Sequence[Estimate]) -> bool:
    return bool(others) and all(has_interval(each) and each.high < best.low for each in others)
