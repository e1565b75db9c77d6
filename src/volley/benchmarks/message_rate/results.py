"""Compute message rates: one result per transport, message size and number of pairs, over all launches of a series.

All quantities are in SI units.  docs/method/message-rate.md derives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from volley.benchmarks.message_rate.records import MessageRatePoint
from volley.benchmarks.shared.points.results import PointResult, sent, summarise
from volley.grouping import grouped
from volley.run.benchmark import Observable
from volley.run.launch_series import LaunchSeries, series_of
from volley.run.run_log import RunLog
from volley.statistics.estimates import Estimate, median
from volley.statistics.launches import ratio, shown_above_one
from volley.text import count
from volley.units import format_size

WORTHWHILE = 1.05
"""More pairs are worth it if they send this many times as much in total."""


@dataclass(frozen=True)
class PairsResult:
    """So many pairs at once, on one transport at one message size."""

    point: PointResult
    """Its time is that of one window of each pair."""
    kept: Estimate | None
    """The part of the rate of one pair alone that each pair keeps, formed within each launch; ``None`` for one pair,
    and if one pair alone or these pairs were not measured."""

    @property
    def pairs(self) -> int:
        """How many pairs send at once."""
        return len(self.point.ranks) // 2

    @property
    def rates(self) -> Sequence[float | None]:
        """Messages of all pairs per second: the lower bound, the median, the upper bound."""
        time, messages = self.point.time, self.pairs * (self.point.window or 0)
        return [messages / seconds for seconds in (time.high, time.median, time.low)] if time else [None] * 3

    @property
    def rate(self) -> float | None:
        """Messages of all pairs per second."""
        return self.rates[1]

    @property
    def pair_rate(self) -> float | None:
        """Messages of each pair per second, on average over the pairs."""
        return self.rate / self.pairs if self.rate else None


@dataclass(frozen=True)
class Saturation:
    """From which number of pairs on more pairs hardly send more in total."""

    at_least: int
    at_most: int | None
    """Equal to ``at_least`` where the intervals decide it; ``None`` if even all pairs may not be enough."""


@dataclass(frozen=True)
class MessageRates:
    """Launches of the same request and their joint results."""

    series: LaunchSeries
    results: tuple[PairsResult, ...]
    """Ordered by transport, size and number of pairs."""


def results(logs: Iterable[RunLog]) -> list[MessageRates]:
    """Group launches of the same request and compute their message rates."""
    return [_result(series) for series in series_of(logs)]


def _result(series: LaunchSeries) -> MessageRates:
    points = summarise(series)
    alone = {(point.transport, point.size_bytes): point for point in points if len(point.ranks) == 2}
    order = {name: number for number, name in enumerate(dict.fromkeys(point.transport for point in points))}
    found = []
    for point in points:
        one = alone.get((point.transport, point.size_bytes))
        found.append(PairsResult(point, ratio(one.repeated, point.repeated) if one and one is not point else None))
    found.sort(key=lambda each: (order[each.point.transport], each.point.size_bytes, each.pairs))
    return MessageRates(series, tuple(found))


def growth(fewer: PairsResult, more: PairsResult) -> Estimate | None:
    """Return the total rate of more pairs / that of fewer, formed within each launch."""
    found, factor = ratio(fewer.point.repeated, more.point.repeated), more.pairs / fewer.pairs
    return found and replace(found, median=found.median * factor, low=found.low * factor, high=found.high * factor)


def sends_more(one: PairsResult, other: PairsResult) -> bool:
    """Return whether the pairs of one result send more in total for certain, compared within each launch."""
    return shown_above_one(growth(other, one))


def saturation(results: Sequence[PairsResult]) -> Saturation | None:
    """Return where the total rate of one transport at one size saturates.

    A number of pairs saturates if no larger number sends ``WORTHWHILE`` times as much: certainly, if all intervals of
    the growth lie below that; certainly not, if one of them lies above.

    Args:
        results: those of one transport and size, by rising number of pairs.

    Returns:
        ``None`` if fewer than two numbers of pairs were measured, or if a growth has no interval.
    """
    measured = [result for result in results if result.point.time]
    if len(measured) < 2:
        return None
    at_least: int | None = None
    for place, result in enumerate(measured[:-1]):
        growths = [growth(result, more) for more in measured[place + 1 :]]
        known = [each for each in growths if each and each.kind in ("ci", "within")]
        if len(known) < len(growths):
            return None
        if all(each.high < WORTHWHILE for each in known):
            return Saturation(at_least or result.pairs, result.pairs)
        if at_least is None and all(each.low <= WORTHWHILE for each in known):
            at_least = result.pairs
    return Saturation(at_least or measured[-1].pairs, None)


def by_transport_and_size(results: Iterable[PairsResult]) -> dict[tuple[str, int], list[PairsResult]]:
    """Group results by transport and size, in order of appearance."""
    return grouped(results, lambda result: (result.point.transport, result.point.size_bytes))


def observables(log: RunLog) -> Iterator[Observable]:
    """Yield the time of a window of each pair; not if nothing is sent."""
    for point in sent(log, MessageRatePoint):
        series = f"{point.transport}, {count(point.pairs, 'pair')}, window {point.window}"
        yield Observable(series, [format_size(point.size_bytes)], [median(point.times_s)], point.moved_bytes)
