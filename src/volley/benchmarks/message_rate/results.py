"""Message rates: the plan and the records, a result per transport, size and number of pairs.

All quantities are in SI units.  docs/method/message-rate.md derives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import field

from volley.benchmarks.message_rate import Pattern
from volley.benchmarks.points.records import ClockError, EntrySkew, PointRecord, Sizes
from volley.benchmarks.points.results import PointResult, ResultSeries, by_transport, sent, summarise
from volley.document import Count, Frozen, NonNegative, Positive, PositiveSeconds, Seconds, Window, doc
from volley.records.launch_series import LaunchSeries, series_of
from volley.records.plan import Plan
from volley.records.run_log import Observable, RunLog
from volley.statistics.estimates import Estimate, median
from volley.statistics.launches import ratio
from volley.text import count
from volley.units import format_size


class MessageRatePlan(Frozen, frozen=True, kw_only=True):
    """The messages of several pairs of ranks."""

    sizes_bytes: Sizes
    pattern: Annotated[
        Pattern, doc("who sends to whom: the first half of the ranks to the second, all to one, one to all, in a ring.")
    ] = "pairs"
    pairs: Annotated[list[Count], doc("numbers of pairs that send at once; in a ring as many as ranks.", min_length=1)]
    window: Annotated[Window, doc("messages of a pair in flight before one acknowledgement.")] = 64

    @property
    def unusual(self) -> str:
        """The pattern, for names of what was measured; nothing where it is the usual one."""
        return "" if self.pattern == "pairs" else self.pattern

    @property
    def point_sizes(self) -> list[int]:
        return [size for size in self.sizes_bytes for _ in self.pairs]


class MessageRatePoint(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="message_rate"):
    """Pairs of ranks that send at once on one transport at one message size: the senders, then their receivers."""

    pairs: Positive
    window: Positive  # type: ignore[misc]
    times_s: Annotated[
        list[PositiveSeconds],
        doc(
            "one entry per sample: from the first sender's entry to the last sender's exit, when its last "
            "window is acknowledged, / windows_per_sample."
        ),
    ] = field(name="window_s", default_factory=list)
    sender_window_s: Annotated[
        list[PositiveSeconds],
        doc(
            "one entry per sample: the mean of the senders' own times, each from its entry to its exit, "
            "/ windows_per_sample: what osu_mbw_mr divides by."
        ),
    ] = []
    windows_per_sample: Annotated[NonNegative, doc("k: windows of each pair in one timed batch.")] = 0
    cold_s: Annotated[Seconds | None, doc("the first window of so many pairs; null at all sizes but the first.")] = (
        field(name="cold_window_s", default=None)
    )
    entry_skew_s: EntrySkew = []
    clock_error_s: ClockError = 0.0

    @property
    def label(self) -> str:
        """Its name while it is measured: ``2 pairs: host 64 KiB``."""
        return f"{count(self.pairs, 'pair')}: {super().label}"

    def moved_bytes(self, _plan: Plan | None) -> float:
        return self.size_bytes * self.window * self.pairs


WORTHWHILE = 1.05
"""More pairs are worth it if they send this many times as much in total."""


@dataclass(frozen=True, eq=False)
class PairsResult(PointResult):
    """So many pairs at once, on one transport at one message size; ``time`` is that of one window of each pair."""

    kept: Estimate | None = None
    """The part of the rate of one pair alone that each pair keeps, formed within each launch; ``None`` for one pair,
    and if one pair alone or these pairs were not measured."""

    pairs = property(lambda self: int(self.record.pairs))

    @property
    def messages(self) -> Estimate | None:
        time, sent = self.time, self.pairs * (self.window or 0)
        return time and time.map(lambda seconds: sent / seconds)

    @property
    def first_column(self) -> tuple[Estimate | None, float, str]:
        return self.messages, 1e-6, "M/s"

    @property
    def total(self) -> float:
        return self.messages.median if self.messages else 0.0

    @property
    def place(self) -> str:
        """Its name: ``host at 8 B with 4 pairs``."""
        return f"{self.transport} at {format_size(self.size_bytes)} with {count(self.pairs, 'pair')}"


@dataclass(frozen=True)
class Saturation:
    """From which number of pairs on more pairs hardly send more in total."""

    at_least: int
    at_most: int | None
    """Equal to ``at_least`` where the intervals decide it; ``None`` if even all pairs may not be enough."""

    def __str__(self) -> str:
        if self.at_most is None:
            return f"≥ {self.at_least}"
        return " to ".join(dict.fromkeys(map(str, (self.at_least, self.at_most))))


Rates = ResultSeries[PairsResult]


def results(logs: Iterable[RunLog]) -> list[Rates]:
    return [ResultSeries(series, _points(series)) for series in series_of(logs)]


def _points(series: LaunchSeries) -> list[PairsResult]:
    """Return the points ordered by transport, size and number of pairs."""
    points = summarise(series, PairsResult)
    alone = {(point.transport, point.size_bytes): point for point in points if point.pairs == 1}
    order = {name: number for number, name in enumerate(by_transport(points))}
    found = []
    for point in points:
        one = alone.get((point.transport, point.size_bytes))
        kept = ratio(one.repeated, point.repeated) if one and one is not point else None
        found.append(replace(point, kept=kept) if kept else point)
    return sorted(found, key=lambda each: (order[each.transport], each.size_bytes, each.pairs))


def growth(fewer: PairsResult, more: PairsResult) -> Estimate | None:
    """Return the total rate of more pairs / that of fewer, formed within each launch."""
    found, factor = ratio(fewer.repeated, more.repeated), more.pairs / fewer.pairs
    return found and found.map(lambda quotient: quotient * factor)


def saturation(results: Sequence[PairsResult]) -> Saturation | None:
    """Return where the total rate of one transport at one size saturates.

    A number of pairs saturates if no larger number sends ``WORTHWHILE`` times as much: certainly, if all intervals of
    the growth lie below that; certainly not, if one of them lies above.
    """
    measured = [result for result in results if result.time]
    if len(measured) < 2:
        return None
    at_least: int | None = None
    for place, result in enumerate(measured[:-1]):
        growths = [growth(result, more) for more in measured[place + 1 :]]
        known = [each for each in growths if each and each.interval]
        if len(known) < len(growths):
            return None
        if all(each.below(WORTHWHILE) for each in known):
            return Saturation(at_least or result.pairs, result.pairs)
        if at_least is None and not any(each.above(WORTHWHILE) for each in known):
            at_least = result.pairs
    # That at least the fewest measured pairs are needed says nothing.
    return None if at_least == measured[0].pairs else Saturation(at_least or measured[-1].pairs, None)


def observables(log: RunLog) -> Iterator[Observable]:
    """Yield the time of a window of each pair; not if nothing is sent."""
    pattern = log.run.plan.options.unusual if log.run else ""
    among = f", {pattern}" if pattern else ""
    for point in sent(log, MessageRatePoint):
        series = f"{point.transport}{among}, {count(point.pairs, 'pair')}, window {point.window}"
        yield Observable(series, [format_size(point.size_bytes)], [median(point.times_s)], point.moved_bytes(log.plan))
