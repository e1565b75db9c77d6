"""The line of the OLCF ping-pong tutorial, to the character, for scripts and people who compare with it.

Its GB/s divide by 2^30 (everywhere else in volley GB/s means 10^9 B/s), and its time is the half round trip.
"""

from __future__ import annotations

from typing import TextIO

from volley.summary import Series
from volley.text import harmless, several

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


def render_olcf(series: list[Series], out: TextIO) -> list[str]:
    """Write one line a point, transport after transport; return what a reader of the lines must know besides."""
    shown: dict[str, None] = {}
    nothing_sent: dict[str, None] = {}
    for point in (point for one in series for point in one.points):
        if point.time and point.rate:
            out.write(line(point.size_bytes, point.time.median))
            shown[harmless(point.transport)] = None
        elif point.time:
            nothing_sent[harmless(point.transport)] = None
    notes = [f"no lines for {name}: it sends nothing" for name in nothing_sent]
    if len(shown) > 1:
        notes.insert(0, f"the lines belong to {several(shown)}, in this order")
    return notes
