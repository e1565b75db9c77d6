"""What several points tell together: the curve of a transport over the sizes, and where one overtakes another.

Functions of summaries; all quantities are in SI units.  docs/method.md derives them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from volley.fits import FEWEST_SIZES, Fit, fit
from volley.summary import PointSummary


@dataclass(frozen=True)
class Curve:
    """One transport over all sizes of a ping-pong."""

    transport: str
    fit: Fit | None
    reason: str | None
    """Why there is no fit."""
    half_bandwidth_bytes: float | None
    """``half_bandwidth``: measured, whatever the line says."""


@dataclass(frozen=True)
class Crossover:
    """A size from which on another transport of a pair is the faster one; intervals are apart on both sides."""

    faster: str
    slower: str
    last_bytes: int
    """The largest size below, at which ``slower`` was still the faster one."""
    from_bytes: int
    """The first size at which ``faster`` is."""
    final: bool
    """True where no larger size turns it round again."""
    again: bool
    """True where ``faster`` was the faster one already below some smaller crossover."""


def curves(points: Sequence[PointSummary]) -> list[Curve]:
    """Return the curve of each transport of one table; what sends nothing has no bandwidth and no curve."""
    return [_curve(those) for those in _by_transport(points).values()]


def _curve(points: Sequence[PointSummary]) -> Curve:
    line: Fit | str = "a stream has no latency"
    if points[0].benchmark == "pingpong":
        line = fit([point.size_bytes for point in points], [point.time.median for point in points if point.time])
    name, half = points[0].transport, half_bandwidth(points)
    return Curve(name, line, None, half) if isinstance(line, Fit) else Curve(name, None, line, half)


def _by_transport(points: Sequence[PointSummary]) -> dict[str, list[PointSummary]]:
    """The points of each transport that have a bandwidth, by size."""
    found: dict[str, list[PointSummary]] = {}
    for point in sorted((point for point in points if point.rate), key=lambda point: point.size_bytes):
        found.setdefault(point.transport, []).append(point)
    names = [point.transport for point in points]
    return dict(sorted(found.items(), key=lambda item: names.index(item[0])))


def half_bandwidth(points: Sequence[PointSummary]) -> float | None:
    """Return the size, in bytes, at which a transport first reaches half of its best measured bandwidth.

    Between the sizes below and above, size and bandwidth are interpolated on logarithmic scales.  ``None`` where the
    smallest size reaches it already, or where there are too few sizes to interpolate between (``FEWEST_SIZES``).

    Args:
        points: of one transport in one table, by size; they have a bandwidth.
    """
    rates = [point.rate.median_Bps for point in points if point.rate]
    if len(rates) < FEWEST_SIZES:
        return None
    half = max(rates) / 2
    above = next(number for number, rate in enumerate(rates) if rate >= half)
    if above == 0:
        return None
    low, high = points[above - 1].size_bytes, points[above].size_bytes
    part = math.log(half / rates[above - 1]) / math.log(rates[above] / rates[above - 1])
    return float(low * (high / low) ** part)


def crossovers(points: Sequence[PointSummary]) -> list[Crossover]:
    """Return every crossover between the transports of one table, pair by pair, then by size."""
    found = _by_transport(points)
    return [one for first, second in combinations(found, 2) for one in _between(found[first], found[second])]


def _between(first: Sequence[PointSummary], second: Sequence[PointSummary]) -> Iterator[Crossover]:
    there = {point.size_bytes: point for point in second}
    pairs = [(point, there[point.size_bytes]) for point in first if point.size_bytes in there]
    leads = [(fast, slow) for fast, slow in map(_lead, pairs) if fast and slow]
    changes = [(old, new) for old, new in pairwise(leads) if old[0].transport != new[0].transport]
    for number, ((before, _), (fast, slow)) in enumerate(changes, start=1):
        yield Crossover(
            faster=fast.transport,
            slower=slow.transport,
            last_bytes=before.size_bytes,
            from_bytes=fast.size_bytes,
            final=number == len(changes),
            again=number > 1,
        )


def _lead(pair: tuple[PointSummary, PointSummary]) -> tuple[PointSummary, PointSummary] | tuple[None, None]:
    """Order two points by speed; none leads where their intervals overlap, or where either has no interval."""
    one, other = pair
    if not (one.time and other.time and one.time.kind == other.time.kind == "interval"):
        return None, None
    if one.time.high < other.time.low:
        return one, other
    return (other, one) if other.time.high < one.time.low else (None, None)
