"""The plan and the records of an overlap, and their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Annotated

from volley.benchmarks.overlap import MAX_PROGRESS_CALLS, Limit
from volley.benchmarks.points import Operation
from volley.benchmarks.points.records import PointRecord, Sizes
from volley.benchmarks.points.results import PointResult, ResultSeries, sent, summarise
from volley.document import Frozen, NonNegative, PositiveSeconds, Seconds, doc
from volley.records.launch_series import LaunchSeries, series_of
from volley.records.run_log import Observable, RunLog
from volley.statistics.estimates import Estimate, median
from volley.statistics.launches import Repeated, of_numbers, ratio
from volley.text import grouped
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
