"""From raw samples to the numbers that reports show: one summary a point, over all launches of the same request.

All quantities are in SI units: seconds and bytes per second.  docs/method.md derives them.
"""

# GB/s and B/s keep their capital letter in names.
# ruff: noqa: N802, N815

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from volley import matrices, nodes, stats
from volley.machine.line_rate import LineRate, line_rate
from volley.records import Mismatch, PingPong, Plan, Point, StreamPoint, Transport
from volley.records_io import RunLog

TAIL_FRACTIONS = {"p90": 0.90, "p99": 0.99, "p99.9": 0.999}
"""The percentiles shown under ``--tail``, where a sample is one exchange."""

DRIFT_WORTH = 2.0
"""A drift is worth a remark from this many intervals asked for: then the first and the last samples cannot both lie
within the interval that the median claims."""

OUTLIERS_WORTH = 0.05
"""Outliers are worth a remark from this share of a point's samples; below it the median hardly moves."""


BASELINE = "staged/pageable"
"""What speed-ups are over: blocking copies of whole messages through pageable host memory, as the tutorial does it."""


@dataclass(frozen=True)
class Remark:
    """Something about a point that a reader should know; ``report.remarks`` makes sentences of them."""

    kind: Literal["wide", "few", "drift", "outliers", "partly"]
    value: float
    """``wide``: half width reached in the time; ``few``: half width of the fewest samples; ``drift``: last third
    against first; ``outliers``: share of the samples; ``partly``: launches that lack the point.  Fractions, except for
    the last."""


@dataclass(frozen=True)
class Rate:
    """Bytes per second, with the bounds that follow from those of the time."""

    median_Bps: float
    low_Bps: float
    high_Bps: float

    @classmethod
    def of(cls, moved_bytes: int, time: stats.Estimate) -> Rate:
        """Divide.  Order statistics survive it: the slowest time is the lowest rate."""
        return cls(moved_bytes / time.median, moved_bytes / time.high, moved_bytes / time.low)


@dataclass(frozen=True)
class Speedup:
    """How many times as fast as the baseline a point is, at the same message size."""

    over: str
    """The baseline: the transport that the others are compared with."""
    ratio: float
    """The baseline's time / this time."""
    low: float | None
    high: float | None
    """Bounds from both 95 % intervals, at least 90 % sure together; ``None`` where either point has no interval."""

    @property
    def shown(self) -> bool:
        """False where the intervals overlap: then which of the two is faster has not been shown."""
        return self.low is None or self.high is None or not self.low <= 1 <= self.high


@dataclass(frozen=True)
class PointSummary:
    """One message size on one transport between two ranks, over all launches."""

    benchmark: Literal["pingpong", "stream"]
    transport: str
    ranks: tuple[int, ...]
    size_bytes: int
    status: Literal["ok", "failed", "skipped"]
    direction: Literal["uni", "bi"] | None = None
    window: int | None = None
    reason: str | None = None
    mismatch: Mismatch | None = None
    time: stats.Estimate | None = None
    """Ping-pong: half round trip.  Stream: one window, for ``bi`` the slower direction of each sample."""
    forward: Rate | None = None
    backward: Rate | None = None
    rate: Rate | None = None
    """Ping-pong: size / half round trip.  Stream: uni, the one direction; bi, the total.  ``None``: nothing is sent."""
    tail_s: dict[str, float] = field(default_factory=dict)
    launches: int = 0
    samples: int = 0
    messages_timed: int = 0
    messages_verified: int = 0
    ended_by: str | None = None
    cold_s: float | None = None
    remarks: tuple[Remark, ...] = ()
    speedup: Speedup | None = None
    """Over the baseline (``baseline``); ``None`` where there is none, or where either point has no numbers."""
    ceiling: LineRate | None = None
    """What the hardware between the two allows; ``None`` where it is not known."""

    @property
    def of_ceiling(self) -> float | None:
        """The bandwidth as a fraction of the ceiling."""
        return self.rate.median_Bps / self.ceiling.of(self.direction) if self.rate and self.ceiling else None

    @property
    def latency_s(self) -> float | None:
        """Half round trip; a stream has none."""
        return self.time.median if self.time and self.benchmark == "pingpong" else None

    @property
    def low_s(self) -> float | None:
        """Lower bound of ``latency_s``."""
        return self.time.low if self.time and self.benchmark == "pingpong" else None

    @property
    def high_s(self) -> float | None:
        """Upper bound of ``latency_s``."""
        return self.time.high if self.time and self.benchmark == "pingpong" else None

    @property
    def bandwidth_Bps(self) -> float | None:
        """The bandwidth to show; for ``bi`` the total."""
        return self.rate.median_Bps if self.rate else None

    @property
    def missed(self) -> bool:
        """The interval that was asked for was not reached."""
        return any(remark.kind in ("wide", "few") for remark in self.remarks)

    @property
    def verified(self) -> bool | None:
        """True: messages were checked and were right.  False: unchecked or wrong.  ``None``: skipped."""
        return None if self.status == "skipped" else self.status == "ok" and self.messages_verified > 0


@dataclass(frozen=True)
class Series:
    """Launches of the same request on the same machine, and what they measured together."""

    logs: tuple[RunLog, ...]
    points: tuple[PointSummary, ...]
    transports: dict[str, Transport]
    matrices: tuple[matrices.Sheet, ...] = ()
    nodes: tuple[nodes.Sheet, ...] = ()

    @property
    def plan(self) -> Plan | None:
        """The plan of the first launch; ``None`` where its record is missing."""
        return next((log.run.plan for log in self.logs if log.run), None)


def series_of(logs: Iterable[RunLog]) -> list[Series]:
    """Put launches of the same plan on the same hosts together, in order of appearance, and summarise each group."""
    groups: dict[Any, list[RunLog]] = {}
    for log in logs:
        key = _request(log)
        groups.setdefault(next((each for each in reversed(groups) if _again(log, groups[each][0])), key), []).append(
            log
        )
    return [_series(tuple(group)) for group in groups.values()]


def _request(log: RunLog) -> Any:
    """What launches must have in common to be repetitions of each other."""
    if log.run is None:
        return id(log)
    plan = msgspec.structs.replace(log.run.plan, launch={})
    if plan.benchmark == "matrix":
        chosen = msgspec.structs.replace(plan.matrix, pairs=[], repeats=1, samples=False)
        plan = msgspec.structs.replace(plan, matrix=chosen, budget_s=None)
    hosts = tuple(rank.host for rank in log.run.ranks)
    gpus = sorted(device.uuid for device in log.node.devices) if log.node else None  # others are another matrix
    return msgspec.json.encode((plan, hosts, gpus, log.run.mpi and log.run.mpi.library, log.run.engine.version))


def _again(log: RunLog, first: RunLog) -> bool:
    """A launch in which suspects of a matrix are measured again, at some of its sizes, belongs to the first."""
    if log.run is None or first.run is None or not log.run.plan.matrix.pairs or first.run.plan.matrix.pairs:
        return False
    plan, whole = log.run.plan, first.run.plan
    sizes = {name: getattr(whole.matrix, name) for name in ("latency_sizes_bytes", "bandwidth_sizes_bytes")}
    if not all(set(getattr(plan.matrix, name)) <= set(those) for name, those in sizes.items()):
        return False
    filled = msgspec.structs.replace(
        plan, matrix=msgspec.structs.replace(plan.matrix, **sizes), transports=whole.transports
    )
    run = msgspec.structs.replace(log.run, plan=filled)
    return set(plan.transports) <= set(whole.transports) and _request(RunLog(run=run)) == _request(first)


def _series(logs: tuple[RunLog, ...]) -> Series:
    transports: dict[str, Transport] = {}
    for transport in (transport for log in logs for transport in log.transports):
        known = transports.get(transport.transport)
        if known is None or known.available:  # one launch that lacks it is worth saying
            transports[transport.transport] = transport
    bounded = [replace(point, ceiling=_ceiling(point, logs)) for point in summarise(logs, transports)]
    points = [point for table in tables(bounded) for point in _compared(table)]
    return Series(logs, tuple(points), transports, matrices.sheets(logs), nodes.sheets(logs))


def tables(points: Iterable[PointSummary]) -> list[list[PointSummary]]:
    """Put points together that can be compared, in order of appearance: by benchmark, ranks, direction and window."""
    found: dict[tuple[Any, ...], list[PointSummary]] = {}
    for point in points:
        found.setdefault((point.benchmark, point.ranks, point.direction, point.window), []).append(point)
    return list(found.values())


def baseline(points: Iterable[PointSummary]) -> str | None:
    """Return what the others are compared with: the tutorial's way through the host, or the first such way.

    ``None`` where nothing is staged through the host.
    """
    staged = [point.transport for point in points if point.rate and point.transport.startswith("staged/")]
    return BASELINE if BASELINE in staged else next(iter(staged), None)


def _compared(points: list[PointSummary]) -> list[PointSummary]:
    """Add to the points of one table how many times as fast as the baseline they are."""
    over = baseline(points)
    times = {point.size_bytes: point.time for point in points if point.transport == over}
    return [replace(point, speedup=_speedup(point, over, times.get(point.size_bytes))) for point in points]


def _speedup(point: PointSummary, over: str | None, slow: stats.Estimate | None) -> Speedup | None:
    fast = point.time
    if over is None or point.transport == over or slow is None or fast is None or point.rate is None:
        return None
    bounded = fast.kind == slow.kind == "interval"
    low, high = (slow.low / fast.high, slow.high / fast.low) if bounded else (None, None)
    return Speedup(over, slow.median / fast.median, low, high)


def _ceiling(point: PointSummary, logs: Iterable[RunLog]) -> LineRate | None:
    """The ceiling of a point, from the first launch whose records tell."""
    found = (
        line_rate(point.transport, [rank for rank in log.run.ranks if rank.rank in point.ranks], log.hardware)
        for log in logs
        if log.run and log.hardware
    )
    return next((each for each in found if each), None)


def summarise(logs: Sequence[RunLog], transports: dict[str, Transport]) -> list[PointSummary]:
    """Summarise the points of launches that repeat each other: by table, then transport, then size."""
    found: dict[tuple[Any, ...], list[Point]] = {}
    for log in logs:
        for point in log.points:
            found.setdefault(_identity(point), []).append(point)
    sampling = next((log.run.plan.sampling for log in logs if log.run), None)
    interval = sampling.interval if sampling and sampling.mode == "adaptive" else None
    tail = sampling is not None and sampling.tail
    order = {name: number for number, name in enumerate(transports)}
    summaries = [
        _summary(points, len(logs), interval, tail, _moves(points[0], transports)) for points in found.values()
    ]
    return sorted(summaries, key=lambda point: (order.get(point.transport, len(order)), point.size_bytes))


def _identity(point: Point) -> tuple[Any, ...]:
    if isinstance(point, PingPong):
        return ("pingpong", point.transport, tuple(point.ranks), point.size_bytes)
    return ("stream", point.transport, tuple(point.ranks), point.size_bytes, point.direction, point.window)


def _moves(point: Point, transports: dict[str, Transport]) -> bool:
    """False for a transport without buffers, which has no bandwidth to speak of."""
    transport = transports.get(point.transport)
    return transport is None or transport.memory != "none"


def _summary(points: list[Point], logs: int, interval: float | None, tail: bool, moves: bool) -> PointSummary:
    first = points[0]
    stream = first if isinstance(first, StreamPoint) else None
    status, deciding = _verdict(points)
    measured = [point for point in points if point.status == "ok" and _times(point)]
    facts = PointSummary(
        benchmark="stream" if stream else "pingpong",
        transport=first.transport,
        ranks=tuple(first.ranks),
        size_bytes=first.size_bytes,
        status=status,
        direction=stream.direction if stream else None,
        window=stream.window if stream else None,
        reason=deciding.reason if status != "ok" else None,
        mismatch=deciding.mismatch,
        messages_timed=sum(point.messages_timed for point in points),
        messages_verified=sum(point.messages_verified for point in points),
        launches=len(measured),
        samples=sum(len(_times(point)) for point in measured),
        ended_by=deciding.ended_by,
    )
    if status != "ok" or not measured:
        return facts
    # A failed point never shows a number, so everything below belongs to good points only.
    partly = () if len(measured) == logs else (Remark("partly", logs - len(measured)),)
    return _with_numbers(facts, measured, tail, moves, (*_remarks(measured, interval), *partly))


def _verdict(points: list[Point]) -> tuple[Literal["ok", "failed", "skipped"], Point]:
    """One launch that failed makes the point failed; it is skipped only where every launch skipped it."""
    for status in ("failed", "ok", "skipped"):
        deciding = next((point for point in points if point.status == status), None)
        if deciding is not None:
            return status, deciding
    raise ValueError("a point without records")


def _times(point: Point) -> list[float]:
    """The series of one time a sample that the point is judged by, in seconds."""
    if isinstance(point, PingPong):
        return point.half_round_trip_s
    if point.direction == "bi":
        return [max(pair) for pair in zip(point.forward_s, point.backward_s, strict=False)]
    return point.forward_s


def _with_numbers(
    facts: PointSummary, measured: list[Point], tail: bool, moves: bool, remarks: tuple[Remark, ...]
) -> PointSummary:
    """Add times and rates."""
    time = stats.across_launches([_times(point) for point in measured])
    one_way = facts.size_bytes * (facts.window or 1)
    bi = facts.direction == "bi"
    streams = [point for point in measured if isinstance(point, StreamPoint)]
    colds = [cold for cold in (_cold(point) for point in measured) if cold is not None]
    samples = [sample for point in measured for sample in _times(point)]
    percentiles = {name: stats.percentile(samples, fraction) for name, fraction in TAIL_FRACTIONS.items()}
    numbers: dict[str, Any] = {
        "time": time,
        "rate": Rate.of(2 * one_way if bi else one_way, time) if moves else None,
        "forward": _directed(one_way, [point.forward_s for point in streams]) if bi and moves else None,
        "backward": _directed(one_way, [point.backward_s for point in streams]) if bi and moves else None,
        "cold_s": stats.median(colds) if colds else None,
        "tail_s": {name: value for name, value in percentiles.items() if value is not None} if tail else {},
        "remarks": remarks,
    }
    if tail:
        numbers["tail_s"]["max"] = max(samples)
    return replace(facts, **numbers)


def _directed(moved_bytes: int, launches: list[list[float]]) -> Rate:
    return Rate.of(moved_bytes, stats.across_launches(launches))


def _cold(point: Point) -> float | None:
    return point.cold_half_round_trip_s if isinstance(point, PingPong) else point.cold_window_s


def _remarks(measured: list[Point], interval: float | None) -> Iterable[Remark]:
    """What the samples of each launch say about the measurement; ``interval`` is what adaptive sampling aimed at."""
    if interval is None:
        return
    series = [_times(point) for point in measured]
    wide, few = (_widest(measured, ended_by) for ended_by in ("time", "few"))
    if len(measured) >= stats.FEWEST:  # the launches have an interval of their own
        over_launches = stats.across_launches(series).half_width
        wide, few = (over_launches if width else 0.0 for width in (wide, few))
    if wide > interval:
        yield Remark("wide", wide)
    if few > interval:
        yield Remark("few", few)
    drift = max((stats.drift(times) for times in series), key=abs)
    if abs(drift) > DRIFT_WORTH * interval:
        yield Remark("drift", drift)
    share = max(stats.outliers(times) / len(times) for times in series)
    if share > OUTLIERS_WORTH:
        yield Remark("outliers", share)


def _widest(measured: list[Point], ended_by: str) -> float:
    """The largest half width of a launch among those that ended so; 0 where none did."""
    ended = (point for point in measured if point.ended_by == ended_by)
    return max((stats.estimate(_times(point)).half_width for point in ended), default=0.0)
