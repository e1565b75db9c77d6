"""The exact output line of the OLCF ping-pong tutorial, for comparison with its results.

Its GB is 2^30 bytes (everywhere else in volley GB/s means 10^9 B/s), and its time is the half round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from volley.benchmarks.shared.points.results import PointSeries, by_transport
from volley.text import escape_controls, join_words

BYTES_IN_GB = 1 << 30
"""The tutorial's ``long int B_in_GB = 1 << 30``."""


def line(size_bytes: int, half_round_trip_s: float) -> str:
    """Format as the tutorial's printf does:
    ``"Transfer size (B): %10li, Transfer Time (s): %15.9f, Bandwidth (GB/s): %15.9f\\n"``."""
    bandwidth = size_bytes / BYTES_IN_GB / half_round_trip_s
    return (
        f"Transfer size (B): {size_bytes:10d}, Transfer Time (s): {half_round_trip_s:15.9f}, "
        f"Bandwidth (GB/s): {bandwidth:15.9f}\n"
    )


def render_olcf(results: Sequence[PointSeries], out: TextIO) -> list[str]:
    """Write one line for each point, transport by transport.

    Returns:
        Notes that the lines do not contain.
    """
    timed = [point for result in results for point in result.points if point.time]
    for point in timed:
        if point.time and point.rate:
            out.write(line(point.size_bytes, point.time.median))
    shown = [escape_controls(name) for name in by_transport(point for point in timed if point.rate)]
    silent = [escape_controls(name) for name in by_transport(point for point in timed if not point.rate)]
    notes = [f"the lines belong to {join_words(shown)}, in this order"] if len(shown) > 1 else []
    return [*notes, *(f"no lines for {name}: this transport sends nothing" for name in silent)]
