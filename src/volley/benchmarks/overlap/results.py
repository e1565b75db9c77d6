"""The plan and the records of an overlap, their results, and the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from operator import attrgetter
from typing import Annotated

from volley.benchmarks.overlap import LIMITS, MAX_PROGRESS_CALLS, Limit
from volley.benchmarks.points import Operation
from volley.benchmarks.points.findings import broken
from volley.benchmarks.points.notes import notes_of
from volley.benchmarks.points.page import CHECKED, INTERVAL, cells
from volley.benchmarks.points.records import PointRecord, Sizes
from volley.benchmarks.points.results import PointResult, ResultSeries, by_name, sent, summarise
from volley.document import Frozen, NonNegative, PositiveSeconds, Seconds, doc
from volley.records.command_again import command_again
from volley.records.launch_series import LaunchSeries, series_of
from volley.records.run_log import Observable, RunLog
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
from volley.statistics.estimates import Estimate, median
from volley.statistics.launches import FEASIBLE, FIRST_LOOK, Repeated, of_numbers, ratio
from volley.text import grouped, join_words
from volley.units import format_sig, format_size

Times = list[PositiveSeconds]


class OverlapPlan(Frozen, frozen=True, kw_only=True):
    """What is exchanged and computed."""

    sizes_bytes: Sizes
    computations: Annotated[
        list[Limit], doc("`memory`: y = a x + y, larger than the caches; `arithmetic`: in registers.", min_length=1)
    ]
    progress_calls: Annotated[
        int, doc("calls of the transport while a rank computes on its core, evenly.", ge=0, le=MAX_PROGRESS_CALLS)
    ] = 0
    operations: Annotated[
        list[Operation], doc("non-blocking collectives among all ranks; none: an exchange between two.")
    ] = []

    @property
    def point_sizes(self) -> list[int]:
        subjects = len(self.computations) * max(len(self.operations), 1)
        return [size for size in self.sizes_bytes for _ in range(subjects)]


class OverlapPoint(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="overlap"):
    """An exchange of one size on one transport, one computation, and both at once; timed by the first rank.

    Of collectives the times are from the last rank's entry to the last rank's exit.
    """

    computation: Limit
    operation: Annotated[  # type: ignore[misc]
        Operation | None, doc("what takes the place of the exchange; null: nothing does.")
    ] = None
    steps: Annotated[NonNegative, doc("length of the computation: about as long as the exchange.")] = 0
    working_set_bytes: Annotated[
        NonNegative, doc("bytes of the arrays that a rank's computation goes through; 0: registers.")
    ] = 0
    exchange_s: Annotated[Times, doc("one entry per sample: both ranks send a message and receive one, / count.")] = []
    computation_s: Annotated[Times, doc("one entry per sample: the computation alone, / count.")] = []
    both_s: Annotated[
        Times, doc("one entry per sample: the exchange is started, the rank computes, both are awaited, / count.")
    ] = []
    computation_alone_s: Annotated[
        list[Seconds], doc("of `computation_s`, from the computation's start to its end; on a GPU by events.")
    ] = []
    computation_beside_s: Annotated[list[Seconds], doc("the same of `both_s`.")] = []
    exchange_alone_s: Annotated[
        list[Seconds], doc("of `exchange_s`, from the exchange's start until the rank knows that it is complete.")
    ] = []
    exchange_beside_s: Annotated[
        list[Seconds], doc("the same of `both_s`; a rank that computes on its core knows when it has computed.")
    ] = []
    exchanges_per_sample: Annotated[NonNegative, doc("k of `exchange_s`.")] = 0
    computations_per_sample: Annotated[NonNegative, doc("k of `computation_s`.")] = 0
    both_per_sample: Annotated[NonNegative, doc("k of `both_s`.")] = 0

    @property
    def times_s(self) -> Sequence[float]:
        return self.both_s

    @property
    def label(self) -> str:
        """Its name while it is measured: ``host 64 KiB beside arithmetic``."""
        return f"{super().label} beside {self.computation}"


ABOUT = 1.1
"""Twice the 5 % within which the engine makes the computation as long as the quickest exchange."""

MAX_ROWS = 12
"""So many points fit a screen as they are."""

_SPARES = (1, 3, 0)
"""Which of the smallest, the middle and the largest size a narrow screen leaves out, the highest first."""

TITLES = {"memory": "Beside a computation bound by memory", "arithmetic": "Beside a computation bound by arithmetic"}


@dataclass(frozen=True, eq=False)
class OverlapResult(PointResult):
    """A message size on one transport beside one computation, over all launches; ``time`` is that of both at once.

    Ratios are formed within each launch; their interval is over launches.
    """

    computation = property(lambda self: self.record.computation)

    @cached_property
    def exchange(self) -> Repeated | None:
        """Seconds of the exchange alone; this and what follows is ``None`` where nothing was measured."""
        return self._repeated("exchange_s")

    @cached_property
    def alone(self) -> Repeated | None:
        """Seconds of the computation alone."""
        return self._repeated("computation_s")

    def _repeated(self, name: str) -> Repeated | None:
        samples = {
            launch: [each for each in getattr(point, name) if each > 0] for launch, point in self.measured.items()
        }
        known = {launch: those for launch, those in samples.items() if those}
        return Repeated.of(known) if known else None

    @cached_property
    def hidden(self) -> Estimate | None:
        """The share of the exchange that is hidden behind the computation, OSU's overlap / 100: 1 − (both − alone) /
        exchange, not clipped at 0.  (OSU Micro-Benchmarks 7.4, c/util/osu_util_mpi.c, print_stats_nbc.)  A transport
        that moves nothing has no exchange to hide."""
        if not (self.rate and self.exchange and self.alone and self.repeated):
            return None
        return _hidden(self.exchange, self.alone, self.repeated)

    @cached_property
    def computation_slowdown(self) -> Estimate | None:
        """Time of the computation beside the exchange / alone, from its own start to its own end."""
        return ratio(self._repeated("computation_beside_s"), self._repeated("computation_alone_s"))

    @cached_property
    def exchange_slowdown(self) -> Estimate | None:
        """Time from its start until the rank knows that it is complete, beside the computation / alone."""
        slowdown = ratio(self._repeated("exchange_beside_s"), self._repeated("exchange_alone_s"))
        return slowdown if self.rate else None

    @property
    def place(self) -> str:
        """Its name: ``host at 64 KiB beside arithmetic``."""
        return f"{super().place} beside {self.computation}"

    @property
    def short(self) -> str:
        if self.hidden and self.hidden.median < 0:
            return "nothing hidden"
        return f"{format_sig(self.hidden.median * 100, 3)} % hidden" if self.hidden else ""


OverlapSeries = ResultSeries[OverlapResult]

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


def results(logs: Iterable[RunLog]) -> list[OverlapSeries]:
    return [ResultSeries(series, _points(series)) for series in series_of(logs)]


def times(logs: Sequence[RunLog]) -> list[Estimate]:
    """Return the times that decide whether a run has enough launches: of the exchange alone and of both at once."""
    points = [point for series in results(logs) for point in series.points]
    return [each.estimate for point in points for each in (point.exchange, point.repeated) if each]


def _points(series: LaunchSeries) -> list[OverlapResult]:
    """Return the points ordered by operation, transport, computation and size."""
    found = grouped(summarise(series, OverlapResult), attrgetter("name", "computation"))
    return [point for points in found.values() for point in points]


def _hidden(exchange: Repeated, alone: Repeated, both: Repeated) -> Estimate | None:
    """Return 1 − (both − alone) / exchange, formed within each launch that measured all three; its interval is over
    launches.

    Where there is one launch, the bounds follow from the intervals of the three within it.
    """
    common = [launch for launch in exchange.medians if launch in alone.medians and launch in both.medians]
    if not common:
        return None
    shares = [1 - (both.medians[launch] - alone.medians[launch]) / exchange.medians[launch] for launch in common]
    if len(shares) > 1:
        return of_numbers(shares)
    apart, beside, together = exchange.estimate, alone.estimate, both.estimate
    if {apart.kind, beside.kind, together.kind} != {"within"}:
        return Estimate(shares[0], shares[0], shares[0], 1, "single")
    added = (together.low - beside.high, together.high - beside.low)
    ends = [1 - more / whole for more in added for whole in (apart.low, apart.high)]
    return Estimate(shares[0], min(ends), max(ends), 1, "within")


def observables(log: RunLog) -> Iterator[Observable]:
    """Yield the time of both at once of each point, and that of each exchange alone; not if nothing is sent."""
    for point in sent(log, OverlapPoint):
        at = format_size(point.size_bytes)
        yield Observable(f"{point.name} beside {point.computation}", [at], [median(point.both_s)])
        if point.exchange_s:
            yield Observable(f"{point.name} alone ({point.computation})", [at], [median(point.exchange_s)])


# ------------------------------------------------------------------------------------------------------ report


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
    yield f"exchange: {what}; compute: {_as_long(points)}; both: at once"
    hidden = "hidden: 1 - (both - compute) / exchange, OSU's overlap"
    bounds = bounds_meaning(_kinds(points), "from, to")
    few = "from, to –: one launch with fewer than six samples" * ("single" in _kinds(points))
    yield "; ".join(filter(None, (hidden, _below_0(points), bounds, few, *report_parts.nothing_sent(points))))
    yield "slowed: time while the other runs, from its own start to its own end, / time alone, on the first rank"


def _as_long(points: Iterable[OverlapResult]) -> str:
    """Say how long the computations took beside the exchanges, which is known only when both were measured."""
    ratios = [found.median for point in points if point.hidden and (found := ratio(point.alone, point.exchange))]
    low, high = min(ratios, default=1.0), max(ratios, default=1.0)
    if low >= 1 / ABOUT and high <= ABOUT:
        return "about as long"
    return f"{' to '.join(dict.fromkeys(format_sig(each, 2) for each in (low, high)))} times as long"


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


# ------------------------------------------------------------------------------------------------ the summary


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
