"""Compute the results of points from their samples: one result per point, over all launches of a series.

All quantities are in SI units: seconds and bytes per second.  docs/method derives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Generic, Literal, TypeVar

from volley.benchmarks.points import Direction
from volley.benchmarks.points.records import PointRecord
from volley.machine.line_rate import LineRate
from volley.records.launch_series import LaunchSeries, series_of
from volley.records.run_log import Observable, RunLog
from volley.statistics.curves import Crossover, Fit, Order, crossovers, fit, half_bandwidth
from volley.statistics.estimates import Estimate, clock_step, drift, median, outliers, percentile
from volley.statistics.launches import Group, Repeated, groups, ratio
from volley.text import grouped
from volley.units import format_sig, format_size

Point = TypeVar("Point", bound=PointRecord)
Result = TypeVar("Result", bound="PointResult")

TAIL_FRACTIONS = {"p90": 0.90, "p99": 0.99, "p99.9": 0.999}
"""The percentiles shown under ``--tail``, where a sample is one exchange."""

DRIFT_WORTH = 2.0
"""A drift is reported if it is larger than this multiple of the requested CI: then the first and the last samples
cannot both lie within the CI of the median."""

OUTLIERS_WORTH = 0.05
"""Outliers are reported if they are more than this fraction of a launch's samples; fewer hardly move the median."""

LAUNCHES_WORTH = 0.25
"""Drift and outliers are reported if at least this part of the launches has them.  If a quarter of the launches is
slower than all others, the median over launches is the 67th percentile (0.5 / 0.75) of the others; less hardly moves
it, and its interval contains the differences between launches."""

BASELINE = "staged/pageable"
"""The baseline of speed-ups: blocking copies of whole messages through pageable host memory, as in the OLCF
tutorial."""


@dataclass(frozen=True)
class PointWarning:
    """A reason to doubt the samples of a point, which a note reports (``points.notes``)."""

    kind: Literal["wide", "few", "drift", "outliers", "partly"]
    value: float
    """``wide``: half width of the CI over launches (of few, of their range), or within a single launch at the time
    limit; ``few``: half width of
    the CI of the minimum number of samples of a single launch; ``drift``: change from the first to the last third, in
    the launch with the largest; ``outliers``: fraction of the samples, in the launch with the most; ``partly``: number
    of launches that ended without the point.  All but the last are fractions."""
    launches: int = 0
    """``drift``, ``outliers``: the number of launches with it."""


@dataclass(frozen=True, eq=False)
class PointResult:
    """One message size on one transport, over all launches.  A failed point never shows a number."""

    series: LaunchSeries = field(repr=False)
    by_launch: Mapping[int, PointRecord] = field(repr=False)
    """The records, by the number of the launch in the series; one at least."""
    record: PointRecord
    """That which decides: the point failed if it failed in any launch, and is skipped only if every launch skipped
    it."""
    verified: bool | None
    """True: messages were checked and correct.  False: not checked, or wrong.  ``None``: skipped, or no data."""
    launches: int
    """The launches with numbers."""
    samples: int
    measured: Mapping[int, PointRecord] = field(repr=False)
    """The records of the launches with numbers; none if one launch failed."""
    repeated: Repeated | None
    """Seconds of half a round trip, or of one window, in each launch; for ``bi`` the slower way of each sample."""
    time: Estimate | None
    """The same over all launches; of the samples if there is one launch."""
    latency: Estimate | None
    """Half round trip, or time of a collective; ``None`` for windows."""
    sends: bool
    """Whether it was measured and its transport sends messages.  Only such points are counted."""
    rate: Estimate | None
    """Bytes per second: those of a half round trip or of a window, for ``bi`` the total, divided by ``time`` and its
    bounds.  ``None`` if the transport sends nothing, and of messages without data."""
    bandwidth_Bps: float
    """Its median, or 0, so that points can be compared."""
    speedup: Estimate | None = None
    """The baseline's time / this time, formed within each launch; ``None`` if there is no baseline or either point has
    no numbers."""
    speedup_over: str | None = None
    """The baseline."""

    benchmark = property(lambda self: str(self.record.__struct_config__.tag))
    transport = property(lambda self: self.record.transport)
    name = property(lambda self: self.record.name)
    sized = property(lambda self: self.record.sized)
    size_bytes = property(lambda self: self.record.size_bytes)
    status = property(lambda self: self.record.status)
    direction = property(lambda self: self.record.direction)
    window = property(lambda self: self.record.window)
    """``None``: a round trip of one message; half of it is the latency."""
    operation = property(lambda self: self.record.operation)
    """The collective operation; ``None``: messages between two ranks."""
    mismatch = property(lambda self: self.record.mismatch)
    ended_by = property(lambda self: self.record.ended_by)
    ranks = property(lambda self: tuple(self.record.ranks))
    reason = property(lambda self: self.record.reason if self.status != "ok" else None)
    messages_timed = property(lambda self: sum(point.messages_timed for point in self.by_launch.values()))
    messages_verified = property(lambda self: sum(point.messages_verified for point in self.by_launch.values()))

    @property
    def compared_in_flight(self) -> int | None:
        """Messages in flight of the pass that compared every one, in the launch with the fewest; 0: there was no pass.
        ``None``: the records do not say."""
        known = (each for each in self.measured.values() if each.compared_counts is not None)
        return min((each.compared_in_flight or 0 for each in known), default=None)

    def _median_of(self, of_samples: str) -> float | None:
        """Return the median over all samples of a field with one entry for each."""
        found = [each for point in self.by_launch.values() for each in getattr(point, of_samples, ())]
        return median(found) if found else None

    entry_skew_s = property(lambda self: self._median_of("entry_skew_s"))
    """How much later than the first rank the last one entered a batch; only of benchmarks that compare the clocks of
    ranks."""
    rank_mean_s = property(lambda self: self._median_of("rank_operation_s") or self._median_of("sender_window_s"))
    """The mean of the ranks' own times, of a message rate of the senders'; of the same benchmarks."""

    @property
    def clock_error_s(self) -> float:
        """How far the clocks of two nodes may have been apart."""
        return max(getattr(point, "clock_error_s", 0.0) for point in self.by_launch.values())

    @property
    def place(self) -> str:
        """The point, for a sentence: ``host at 64 KiB``."""
        return f"{self.name} at {format_size(self.size_bytes)}" if self.sized else self.name

    @property
    def short(self) -> str:
        """Its numbers in a few words: ``3.41 µs, 19.2 GB/s``."""
        parts = [f"{format_sig(self.latency.median * 1e6, 3)} µs"] if self.latency else []
        parts += [f"{format_sig(self.bandwidth_Bps / 1e9, 3)} GB/s"] if self.bandwidth_Bps else []
        return ", ".join(parts)

    @property
    def first_column(self) -> tuple[Estimate | None, float, str]:
        """The quantity that tables show first, and the factor and the unit in which they show it."""
        return (self.latency, 1e6, "µs") if self.latency else (self.rate, 1e-9, "GB/s")

    @cached_property
    def each_way_Bps(self) -> Sequence[float | None]:
        """Bytes per second forward and backward if both ranks send at once."""
        both = [point.each_way_s for point in self.measured.values() if point.each_way_s and self.rate]
        one_way = self.size_bytes * (self.window or 1)
        return [one_way / median(list(map(median, times))) for times in zip(*both, strict=True)] or (None, None)

    @cached_property
    def tail_s(self) -> dict[str, float]:
        """The percentiles of all samples, and the maximum."""
        plan = self.series.plan
        samples = [sample for point in self.measured.values() for sample in point.times_s]
        if not samples or not plan or not plan.sampling.tail:
            return {}
        known = {name: percentile(samples, fraction) for name, fraction in TAIL_FRACTIONS.items()}
        return {**{name: value for name, value in known.items() if value is not None}, "max": max(samples)}

    @property
    def cold_s(self) -> float | None:
        colds = [point.cold_s for point in self.measured.values() if point.cold_s is not None]
        return median(colds) if colds else None

    @cached_property
    def warnings(self) -> tuple[PointWarning, ...]:
        """What makes its samples doubtful, and launches without it."""
        found: list[PointWarning] = []
        sampling, time = self.series.plan and self.series.plan.sampling, self.time
        # Fixed sampling aims at no interval within a launch; that over launches means the same with both.
        if time and sampling and (sampling.mode == "adaptive" or self.launches > 1):
            ci, launches = sampling.ci, [point.times_s for point in self.measured.values()]
            if time.half_width > ci and (self.launches > 1 or self.ended_by == "time"):
                found.append(PointWarning("wide", max(time.high - time.median, time.median - time.low) / time.median))
            elif time.half_width > ci and self.ended_by == "few":
                found.append(PointWarning("few", time.half_width))
            drifts = [change for times in launches if abs(change := drift(times)) > DRIFT_WORTH * ci]
            if drifts and len(drifts) >= LAUNCHES_WORTH * len(launches):
                found.append(PointWarning("drift", max(drifts, key=abs), len(drifts)))
            shares = [share for times in launches if (share := outliers(times) / len(times)) > OUTLIERS_WORTH]
            if shares and len(shares) >= LAUNCHES_WORTH * len(launches):
                found.append(PointWarning("outliers", max(shares), len(shares)))
        ended = {number for number, log in enumerate(self.series.logs, start=1) if log.end}  # others are INCOMPLETE
        if time and (without := ended - self.measured.keys()):
            found.append(PointWarning("partly", len(without)))
        return tuple(found)

    @cached_property
    def line_rate(self) -> LineRate | None:
        """``None`` if unknown."""
        known = (
            log.line_rate(self.transport, [rank for rank in log.run.ranks if rank.rank in self.ranks])
            for log in self.series.logs
            if log.run and self.measured and not self.operation
        )
        return next(filter(None, known), None)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups into which the launches fall; empty if they form one."""
        medians = self.repeated.medians if self.repeated else {}
        if found := groups(medians):
            step_s = max(clock_step(sorted(point.times_s)) for point in self.measured.values())
            found = groups(medians, step_s) if step_s else found
        return found

    @property
    def of_line_rate(self) -> Estimate | None:
        """Its rate / the line rate; for ``bi`` of both directions together."""
        line = self.line_rate.of(self.direction) if self.line_rate else None
        return self.rate.map(lambda rate: rate / line) if self.rate and line else None

    @property
    def missed(self) -> bool:
        return any(warning.kind in ("wide", "few") for warning in self.warnings)


@dataclass(frozen=True)
class ResultSeries(Generic[Result]):
    """Launches of the same request and their joint results."""

    series: LaunchSeries
    points: Sequence[Result]

    @cached_property
    def tables(self) -> list[list[Result]]:
        """The points that can be compared together: of one operation, with the same ranks, direction and window."""
        return list(grouped(self.points, _comparable).values())

    @cached_property
    def with_curves(self) -> list[tuple[list[Result], list[TransportCurve]]]:
        return [(points, curves(points)) for points in self.tables]


PointSeries = ResultSeries[PointResult]

_comparable = attrgetter("benchmark", "operation", "ranks", "direction", "window")


def results(logs: Iterable[RunLog]) -> list[PointSeries]:
    found: list[PointSeries] = []
    for series in series_of(logs):
        tables = grouped(summarise(series, PointResult), _comparable).values()
        found.append(ResultSeries(series, [point for points in tables for point in _compared(points, series)]))
    return found


def times(logs: Sequence[RunLog]) -> list[Estimate]:
    """Return the time of every measured point over all launches: what decides whether a run has enough of them."""
    return [point.time for result in results(logs) for point in result.points if point.time]


def by_transport(points: Iterable[Result]) -> dict[str, list[Result]]:
    return grouped(points, attrgetter("transport"))


def by_name(points: Iterable[PointResult]) -> dict[str, list[PointResult]]:
    return grouped(points, attrgetter("name"))


def _compared(points: list[PointResult], series: LaunchSeries) -> list[PointResult]:
    """Add the speed-up to the points of one table with messages in the same kind of memory as the baseline's: that is
    ``BASELINE``, or else the first staged transport."""
    staged = [point.transport for point in points if point.rate and point.transport.startswith("staged/")]
    over = BASELINE if BASELINE in staged else next(iter(staged), None)
    memories = {name: transport.memory for name, transport in series.transports.items()}
    times = {point.size_bytes: point.repeated for point in points if point.transport == over}
    compared = []
    for point in points:
        comparable = (
            point.rate and point.transport != over and memories.get(point.transport) == memories.get(over or "")
        )
        slow = times.get(point.size_bytes) if comparable else None
        found = ratio(slow, point.repeated)
        compared.append(replace(point, speedup=found, speedup_over=over) if found else point)
    return compared


# ------------------------------------------------------------------------------------------ from samples to numbers


def summarise(series: LaunchSeries, kind: type[Result]) -> list[Result]:
    """Summarise the points of all launches of a series, ordered by transport and size."""
    found: dict[tuple[object, ...], dict[int, PointRecord]] = {}
    for launch, log in enumerate(series.logs, start=1):
        for point in log.of(PointRecord):
            flow = (point.operation, point.direction, point.window, getattr(point, "computation", None))
            what = (type(point), point.transport, tuple(point.ranks), point.size_bytes, flow)
            found.setdefault(what, {})[launch] = point
    order = {name: number for number, name in enumerate(series.transports)}
    summaries = [_summary(kind, series, by_launch) for by_launch in found.values()]
    return sorted(summaries, key=lambda point: (order.get(point.transport, len(order)), point.size_bytes))


def _summary(kind: type[Result], series: LaunchSeries, by_launch: Mapping[int, PointRecord]) -> Result:
    record = min(by_launch.values(), key=lambda point: ("failed", "ok", "skipped").index(point.status))
    times = {at: point.times_s for at, point in by_launch.items() if point.status == "ok" and point.times_s}
    good = times if record.status == "ok" else {}
    nothing = record.status == "skipped" or (record.sized and record.size_bytes == 0)
    checked = record.status == "ok" and any(point.messages_verified for point in by_launch.values())
    repeated = Repeated.of(good, {at: point.visits for at, point in by_launch.items()}) if good else None
    time = repeated.estimate if repeated else None
    transport = series.transports.get(record.transport)
    sends = time is not None and (transport is None or transport.memory != "none")
    moved = record.moved_bytes(series.plan) if sends else 0
    rate = time.map(lambda seconds: moved / seconds) if time and moved else None
    return kind(
        series,
        by_launch,
        record,
        verified=None if nothing else checked,
        launches=len(times),
        samples=sum(map(len, times.values())),
        measured={at: by_launch[at] for at in good},
        repeated=repeated,
        time=time,
        latency=time if record.window is None else None,
        sends=sends,
        rate=rate,
        bandwidth_Bps=rate.median if rate else 0.0,
    )


def labels(name: str, size_bytes: int, direction: Direction | None, window: int | None) -> tuple[str, str]:
    """Return the series and the place of a point under which ``volley compare`` and references have it."""
    ways = {None: "", "uni": ", one way", "bi": ", both ways"}[direction]
    return f"{name}{ways}{f', window {window}' if window else ''}", format_size(size_bytes)


def observables(log: RunLog, *, on_gpus: bool = False) -> Iterator[Observable]:
    """Yield the time of each point: half a round trip, a window, a collective; not if nothing is sent.

    ``on_gpus``: only where GPU memory is sent.
    """
    on_host = {each.transport for each in log.transports if on_gpus and each.memory == "host"}
    for point in sent(log, PointRecord):
        if point.transport in on_host:
            continue
        series, at = labels(point.name, point.size_bytes, point.direction, point.window)
        yield Observable(series, [at], [median(point.times_s)], point.moved_bytes(log.plan) or None)


def sent(log: RunLog, kind: type[Point]) -> list[Point]:
    """Return the measured points of a launch, without those of transports that send nothing."""
    silent = {each.transport for each in log.transports if each.memory == "none"}
    return [each for each in log.of(kind) if each.status == "ok" and each.times_s and each.transport not in silent]


# ------------------------------------------------------------------------------------------------------- curves


@dataclass(frozen=True)
class TransportCurve:
    """One transport over all sizes of a table."""

    transport: str
    fit: Fit | None
    reason: str | None
    """Why there is no fit."""
    half_bandwidth_bytes: float | None
    """The measured N½, independent of the fit."""


def curves(points: Sequence[PointResult]) -> list[TransportCurve]:
    found = []
    for name, those in _with_rates(points).items():
        line: Fit | str = "a stream has no latency"
        sizes = [point.size_bytes for point in those]
        if all(point.latency for point in those):
            line = fit(sizes, [point.time.median for point in those if point.time])
        half = half_bandwidth(sizes, [point.rate.median for point in those if point.rate])
        fitted, reason = (line, None) if isinstance(line, Fit) else (None, line)
        found.append(TransportCurve(name, fitted, reason, half))
    return found


def order_of(points: Sequence[PointResult]) -> Order:
    """Return which transports of one table are faster."""
    return Order(
        {
            name: {point.size_bytes: point.repeated for point in those if point.repeated}
            for name, those in _with_rates(points).items()
        }
    )


def crossovers_of(points: Sequence[PointResult]) -> list[Crossover]:
    return crossovers(order_of(points))


def _with_rates(points: Iterable[PointResult]) -> dict[str, list[PointResult]]:
    found = by_transport(point for point in points if point.rate)
    return {name: sorted(those, key=lambda point: point.size_bytes) for name, those in found.items()}
