"""The results of overlaps: records → numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volley.benchmarks.overlap import Limit
from volley.benchmarks.overlap.records import OverlapPoint
from volley.benchmarks.shared.points.results import sent
from volley.run.benchmark import Observable
from volley.run.launch_series import LaunchSeries, series_of
from volley.run.records import Status
from volley.run.run_log import RunLog
from volley.statistics.estimates import Estimate, median
from volley.statistics.launches import Repeated, of_numbers, ratio
from volley.units import format_size


@dataclass(frozen=True)
class OverlapResult:
    """A message size on one transport beside one computation, over all launches."""

    transport: str
    computation: Limit
    size_bytes: int
    status: Status
    reason: str | None
    ranks: tuple[int, ...]
    launches: int
    """Those that measured it."""
    samples: int
    """Of both at once."""
    messages_verified: int
    exchange: Repeated | None = None
    """Seconds of the exchange alone; this and what follows is ``None`` where nothing was measured."""
    alone: Repeated | None = None
    """Seconds of the computation alone."""
    both: Repeated | None = None
    """Seconds of both at once."""
    hidden: Estimate | None = None
    """The share of the exchange that is hidden behind the computation, OSU's overlap / 100: 1 − (both − alone) /
    exchange, not clipped at 0.  (OSU Micro-Benchmarks 7.4, c/util/osu_util_mpi.c, print_stats_nbc.)"""
    computation_slowdown: Estimate | None = None
    """Time of the computation beside the exchange / alone, from its own start to its own end."""
    exchange_slowdown: Estimate | None = None
    """Time from the start of the exchange until the rank knows that it is complete, beside the computation / alone."""


@dataclass(frozen=True)
class OverlapSeries:
    """Launches of the same request and their joint results."""

    series: LaunchSeries
    points: tuple[OverlapResult, ...]


def results(logs: Iterable[RunLog]) -> list[OverlapSeries]:
    """Group launches of the same request and compute the results of their points."""
    return [OverlapSeries(series, tuple(_points(series.logs))) for series in series_of(logs)]


def times(logs: Sequence[RunLog]) -> list[Estimate]:
    """Return the times that decide whether a run has enough launches: of the exchange alone and of both at once."""
    return [each.estimate for point in _points(logs) for each in (point.exchange, point.both) if each]


def _points(logs: Sequence[RunLog]) -> Iterator[OverlapResult]:
    """Yield the points of all launches, transport by transport, each from the smallest size on."""
    found: dict[tuple[str, str], dict[int, dict[int, OverlapPoint]]] = {}
    for launch, log in enumerate(logs, start=1):
        for point in log.of(OverlapPoint):
            sizes = found.setdefault((point.transport, point.computation), {})
            sizes.setdefault(point.size_bytes, {})[launch] = point
    silent = {each.transport for log in logs for each in log.transports if each.memory == "none"}
    for (transport, _), sizes in found.items():
        for size_bytes in sorted(sizes):
            yield result_of(sizes[size_bytes], moves=transport not in silent)


def result_of(by_launch: Mapping[int, OverlapPoint], *, moves: bool = True) -> OverlapResult:
    """Return the result of one point of each launch.

    It failed if it failed in any launch; it is skipped only if every launch skipped it.  Ratios are formed within each
    launch; their interval is over launches.  A transport that moves nothing has no exchange to hide.
    """
    deciding = min(by_launch.values(), key=lambda point: ("failed", "ok", "skipped").index(point.status))
    measured = {launch: point for launch, point in by_launch.items() if point.status == "ok" and point.both_s}
    good = measured if deciding.status == "ok" else {}
    exchange, alone, both = (_repeated(good, f"{what}_s") for what in ("exchange", "computation", "both"))
    return OverlapResult(
        transport=deciding.transport,
        computation=deciding.computation,
        size_bytes=deciding.size_bytes,
        status=deciding.status,
        reason=deciding.reason if deciding.status != "ok" else None,
        ranks=tuple(deciding.ranks),
        launches=len(measured),
        samples=sum(len(point.both_s) for point in measured.values()),
        messages_verified=sum(point.messages_verified for point in by_launch.values()),
        exchange=exchange,
        alone=alone,
        both=both,
        hidden=_hidden(exchange, alone, both) if moves and exchange and alone and both else None,
        computation_slowdown=_slowdown(good, "computation"),
        exchange_slowdown=_slowdown(good, "exchange") if moves else None,
    )


def _repeated(by_launch: Mapping[int, OverlapPoint], name: str) -> Repeated | None:
    """Summarise the positive samples in a field of the records; ``None`` where there are none."""
    samples = {launch: [each for each in getattr(point, name) if each > 0] for launch, point in by_launch.items()}
    known = {launch: those for launch, those in samples.items() if those}
    return Repeated.of(known) if known else None


def _slowdown(by_launch: Mapping[int, OverlapPoint], what: str) -> Estimate | None:
    """Return the time beside the other / the time alone."""
    return ratio(_repeated(by_launch, f"{what}_beside_s"), _repeated(by_launch, f"{what}_alone_s"))


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
        yield Observable(f"{point.transport} beside {point.computation}", [at], [median(point.both_s)])
        if point.exchange_s:
            yield Observable(f"{point.transport} without {point.computation}", [at], [median(point.exchange_s)])
