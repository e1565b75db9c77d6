"""The report of an overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from operator import attrgetter

from volley.benchmarks.overlap import LIMITS, Limit
from volley.benchmarks.overlap.results import OverlapResult, OverlapSeries
from volley.benchmarks.points.findings import broken
from volley.benchmarks.points.notes import notes_of
from volley.benchmarks.points.page import CHECKED, INTERVAL, cells
from volley.benchmarks.points.results import by_name
from volley.records.command_again import command_again
from volley.report.cells import (
    BOUNDED,
    BOUNDS,
    Quantity,
    SummaryColumn,
    as_they_are,
    bounds_meaning,
    bounds_of,
    data_of,
    launches_of,
    ratio_cell,
    summary_table,
)
from volley.report.model import Axis, Cell, Chart, Column, Later, Note, Overview, Report, Row, Table, finding
from volley.run import report_parts
from volley.statistics.launches import FEASIBLE, FIRST_LOOK, ratio
from volley.text import grouped, join_words
from volley.units import format_sig, format_size

ABOUT = 1.1
"""Twice the 5 % within which the engine makes the computation as long as the quickest exchange."""

MAX_ROWS = 12
"""So many points fit a screen as they are."""

_SPARES = (1, 3, 0)
"""Which of the smallest, the middle and the largest size a narrow screen leaves out, the highest first."""

TITLES = {"memory": "Beside a computation bound by memory", "arithmetic": "Beside a computation bound by arithmetic"}

EXCHANGE = Quantity("exchange", "µs", lambda point: point.exchange and point.exchange.estimate, digits=3)
ALONE = Quantity("computation", "µs", lambda point: point.alone and point.alone.estimate, "compute", digits=3)
BOTH = Quantity("both", "µs", attrgetter("time"), digits=3)
HIDDEN = Quantity("hidden", "%", attrgetter("hidden"), bounds=BOUNDED, digits=3)
COMPUTATION_SLOWDOWN, EXCHANGE_SLOWDOWN = (
    Quantity(f"{what}_slowdown", "×", attrgetter(f"{what}_slowdown"), f"{title}\nslowed", BOUNDED, digits=3)
    for what, title in (("computation", "compute"), ("exchange", "exchange"))
)


def _share(title: str, name: str) -> Quantity:
    """Return the column with the hidden share or one of its bounds, to a tenth of a per cent."""

    def cell(point: OverlapResult) -> Cell:
        if point.hidden is None or (point.hidden.kind == "single" and name != "median"):
            return Cell()
        share = getattr(point.hidden, name) * 100
        return Cell(share, text=f"{share:.{int(abs(share) < 99.95)}f}")

    return Quantity(title, "%", cell)


COLUMNS = (
    EXCHANGE, ALONE, BOTH, _share("hidden", "median"), _share("from", "low"), _share("to", "high"),
    COMPUTATION_SLOWDOWN, EXCHANGE_SLOWDOWN,
)  # fmt: skip
"""So few letters and digits that a table fits 80 columns."""

QUANTITIES = (
    *as_they_are("computation", "transport", "ranks", "size_bytes", "status", "reason"), EXCHANGE, ALONE, BOTH, HIDDEN,
    COMPUTATION_SLOWDOWN, EXCHANGE_SLOWDOWN, *as_they_are("launches", "samples", "messages_verified"), INTERVAL,
    *as_they_are("operation"),
)  # fmt: skip
KEYS = ("computation", "transport", "ranks", "size_bytes", "operation")


def report(result: OverlapSeries) -> Report:
    series = result.series
    points = result.points
    return Report(
        heading=report_parts.heading(series, "overlap"),
        tables=[table for limit in LIMITS for table in _tables(limit, points)],
        charts=[chart for limit in LIMITS for chart in _charts(limit, points)],
        notes=Later(lambda: notes_of(result)),
        findings=Later(lambda: (*broken(points, series.plan), *_judged(result))),
        summary=lambda: _overview(result),
        results=lambda: data_of(QUANTITIES, KEYS, result.points),
        runs=series.logs,
    )


def _tables(limit: Limit, points: Sequence[OverlapResult]) -> Iterator[Table]:
    verified = report_parts.Account.of(points).all_verified
    columns = [Column("size"), *(each.column() for each in COLUMNS), CHECKED.column(all_true=verified)]
    sections: dict[int, str] = {}
    rows: list[Row] = []
    here = [point for point in points if point.computation == limit and point.status != "skipped"]
    for name, those in by_name(here).items():
        sections[len(rows)] = name
        rows += [[format_size(each.size_bytes), *cells(each, (*COLUMNS, CHECKED))] for each in those]
    if rows:
        yield Table(columns, rows, TITLES[limit], list(_legend(points)), sections=sections)


def _legend(points: Sequence[OverlapResult]) -> Iterator[str]:
    what = "the collective" if any(point.operation for point in points) else "both ranks send a message and receive one"
    yield "; ".join(filter(None, (f"exchange: {what}", _as_long(points), "both: at once")))
    hidden = "hidden: 1 - (both - compute) / exchange, OSU's overlap"
    bounds = bounds_meaning(_kinds(points), "from, to")
    few = "from, to –: one launch with fewer than six samples" * ("single" in _kinds(points))
    yield "; ".join(filter(None, (hidden, _below_0(points), bounds, few, *report_parts.nothing_sent(points))))
    yield "slowed: time while the other runs, from its own start to its own end, / time alone, on the first rank"


def _as_long(points: Iterable[OverlapResult]) -> str:
    """Say how long the computations took beside the exchanges, which is known only when both were measured."""
    ratios = [found.median for point in points if point.hidden and (found := ratio(point.alone, point.exchange))]
    if not ratios:
        return ""
    low, high = min(ratios), max(ratios)
    if low >= 1 / ABOUT and high <= ABOUT:
        return "compute: about as long"
    return f"compute: {' to '.join(dict.fromkeys(format_sig(each, 2) for each in (low, high)))} times as long"


def _below_0(points: Iterable[OverlapResult]) -> str:
    """Say what a share below 0 means, if there is one."""
    any_of_them = any(point.hidden and point.hidden.median < 0 for point in points)
    return "below 0: both at once take longer than one after the other" if any_of_them else ""


def _kinds(points: Iterable[OverlapResult]) -> set[str]:
    return {point.hidden.kind for point in points if point.hidden}


def _charts(limit: Limit, points: Sequence[OverlapResult]) -> Iterator[Chart]:
    shown = [point for point in points if point.computation == limit and point.hidden]
    if shown:
        title = f"Hidden: {TITLES[limit][0].lower()}{TITLES[limit][1:]}"
        marks = [HIDDEN.mark(point.size_bytes, point.name, point) for point in shown]
        caption = bounds_meaning(_kinds(shown))
        x, y = Axis("message size", "B", log=True), Axis("of the exchange", "%")
        yield Chart("curves", title, x, y, marks, caption=caption)


def _overview(result: OverlapSeries) -> Overview | None:
    points = [point for point in result.points if point.hidden]
    if len(points) <= MAX_ROWS:
        return None
    found = {(point.name, point.computation, point.size_bytes): point for point in points}
    limits = [limit for limit in LIMITS if any(point.computation == limit for point in points)]
    sizes = sorted({point.size_bytes for point in points})
    shown = list(dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1])))
    columns: list[SummaryColumn] = []
    for limit, (size, spare) in product(limits, zip(shown, _SPARES[-len(shown) :], strict=True)):
        column = Column(format_size(size), "%", group=f"hidden, {limit}", spare=spare)
        own = {name: each.hidden for (name, *where), each in found.items() if where == [limit, size]}
        columns.append((column, own, partial(ratio_cell, factor=100, same=0)))
    for limit, (what, title, spare) in product(limits, (("computation", "compute", 0), ("exchange", "exchange", 2))):
        column = Column(title, "×", group=limit, spare=spare)
        largest = {name: each for (name, *where), each in found.items() if where == [limit, sizes[-1]]}
        own = {name: getattr(each, f"{what}_slowdown") for name, each in largest.items()}
        columns.append((column, own, ratio_cell))
    hidden = "hidden: share of an exchange that adds no time to a computation that memory or arithmetic limits"
    legend = [
        "; ".join(filter(None, (hidden, _below_0(point for point in points if point.size_bytes in shown)))),
        f"×: time of the computation and of the exchange of {format_size(sizes[-1])}, both at once / alone",
    ]
    launches = report_parts.count_launches(launches_of(points))
    line = f"{report_parts.Account.of(result.points).words()} in {launches}"
    return Overview(line, summary_table(by_name(points), columns, legend))


NONE = 0.05
"""An overlap that is certainly no larger is none: `volley compare` calls two times within 5 % the same."""


def _judged(result: OverlapSeries) -> Iterator[Note]:
    """Say which transport hides most of its largest exchange beside each computation, and which hide nothing."""
    points = [point for point in result.points if point.hidden]
    size_bytes = max((point.size_bytes for point in points), default=0)
    size = format_size(size_bytes)
    largest = [point for point in points if point.size_bytes == size_bytes]
    shares = {(point.name, point.computation): point.hidden for point in largest if point.hidden}
    transport_of = {point.name: point.transport for point in largest}
    for limit in LIMITS:
        here = {name: hidden for (name, beside), hidden in shares.items() if beside == limit}
        best = max(here, key=lambda name: here[name].median, default="")
        if best and here[best].above(0):
            others = [hidden for name, hidden in here.items() if name != best]
            above = bool(others) and all(each.below((here[best].interval or (0.0,))[0]) for each in others)
            most = ", the largest share" * above
            share, bounds = format_sig(here[best].median * 100, 3), bounds_of(here[best], 100, "%")
            text = f"{best} hides {share} % of an exchange of {size} behind a computation bound by {limit}"
            yield finding("", f"{text} ({bounds}){most}")
    by_name = grouped(shares.items(), lambda share: share[0][0])
    both = {name: [hidden for _, hidden in those] for name, those in by_name.items()}
    idle = {name: those for name, those in both.items() if not any(each.above(0) for each in those)}
    most_of = {name: max(each.interval[1] if each.interval else 1.0 for each in those) for name, those in idle.items()}
    nothing = [name for name, most in most_of.items() if most <= NONE]
    plan, known = result.series.plan, result.series.transports
    if nothing:
        used = [transport_of[name] for name in nothing]
        on_host = [name for name in used if name in known and known[name].memory == "host"]
        again = command_again("overlap", plan, transport=on_host[0], progress_calls=8) if on_host else ""
        percent = max(most_of[name] for name in nothing) * 100
        bound = f"at most {format_sig(percent, 2)} %" if percent > 0 else "0 or less"
        what = f"{BOUNDS[idle[nothing[0]][0].kind]}: {bound}"
        yield finding("SLOW", f"no overlap for {join_words(nothing)} at {size} ({what})", again)
    if unsure := [name for name in idle if name not in nothing]:
        enough = all(each.kind in ("ci", "within") for name in unsure for each in idle[name])
        why = f"{BOUNDS[idle[unsure[0]][0].kind]}: below and above 0" if enough else "too few launches for a 95 % CI"
        more = 2 * max(FIRST_LOOK, *(point.launches for point in largest))
        names = ",".join(dict.fromkeys(transport_of[name] for name in unsure))
        again = command_again("overlap", plan, transport=names, launches=more) if more <= FEASIBLE else ""
        yield finding("NOISY", f"no overlap shown for {join_words(unsure)} at {size} ({why})", again)
