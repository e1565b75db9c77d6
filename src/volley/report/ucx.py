"""Why a small message may take longer than a larger one: UCX's protocols beside the latencies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from volley.machine.ucx_protocols import Protocols, SizeRange, ProtocolTable, of_plan
from volley.units import format_size
from volley.summary import PointSummary, Series
from volley.text import digits, harmless

_AWARE = "aware"
_CALLS = {"pingpong": "(fast-completion)", "stream": "(multi)"}
"""How Open MPI calls ``ucp_tag_send_nbx`` for MPI_Send and for MPI_Isend (ompi/mca/pml/ucx/pml_ucx.c), as UCX's tables
name it."""

_HOST_MEMORY = re.compile(r"^\w+/memory$")
"""UCX's transports through host memory (posix, sysv, cma, xpmem, knem) have one device: ``memory``."""


def sentences(series: Series) -> Iterator[str]:
    """Say how UCX sends GPU memory, and where its change of protocol shows in the latencies."""
    points = [point for point in series.points if point.transport == _AWARE and point.time and point.rate]
    protocols = of_plan(series.plan.launch) if series.plan else None
    table = _table_of(protocols, points[0].benchmark) if protocols and points else None
    if protocols is None or table is None:
        return
    ranges = _used(_merged(table.ranges), points)
    lanes = _rendezvous_lanes(protocols)
    yield f"{_AWARE}: UCX sends {'; '.join(_range(each, ranges, lanes) for each in ranges)}"
    for lower, upper in pairwise(ranges):
        yield from _inverted(lower, upper, points)


def _table_of(protocols: Protocols, benchmark: str) -> ProtocolTable | None:
    """The table of the benchmark's own calls to the other rank; ``None`` where it cannot be told which one that is."""
    others = [table for table in protocols.sends if " self " not in f" {table.connection} "]
    called = [table for table in others if _CALLS[benchmark] in table.operation]
    return called[0] if len(called) == 1 else others[0] if len(others) == 1 else None


def _merged(ranges: Sequence[SizeRange]) -> list[SizeRange]:
    """Put neighbours together that differ in no word."""
    merged: list[SizeRange] = []
    for each in ranges:
        last = merged[-1] if merged else None
        if last and (last.protocol, last.lanes) == (each.protocol, each.lanes):
            merged[-1] = SizeRange(last.first_bytes, each.last_bytes, last.protocol, last.lanes, last.estimated)
        else:
            merged.append(each)
    return merged


def _used(ranges: Sequence[SizeRange], points: Sequence[PointSummary]) -> list[SizeRange]:
    """The ranges in which something was measured."""
    return [each for each in ranges if _within(each, points)]


def _within(each: SizeRange, points: Sequence[PointSummary]) -> list[PointSummary]:
    last = float("inf") if each.last_bytes is None else each.last_bytes
    return [point for point in points if each.first_bytes <= point.size_bytes <= last]


def _rendezvous_lanes(protocols: Protocols) -> str | None:
    """The lanes that carry the data of a rendezvous, from the side that moves it; the sender only estimates them."""
    lanes = {each.lanes for table in protocols.rendezvous for each in table.ranges if each.lanes}
    return lanes.pop() if len(lanes) == 1 else None


def _range(each: SizeRange, ranges: Sequence[SizeRange], rendezvous: str | None) -> str:
    """Say one range: ``up to 2304 B by eager copy-in copy-out through host memory (sysv/memory)``."""
    last = each.last_bytes
    if len(ranges) == 1:
        sizes = "every size"
    elif each is ranges[-1]:
        sizes = "larger ones"
    else:
        sizes = f"up to {format_size(last) if last else '0 B'}"
    lanes = rendezvous if _is_rendezvous(each) and each.estimated and rendezvous else each.lanes
    through = " through host memory" if _HOST_MEMORY.match(lanes) else ""
    return f"{sizes} by {harmless(each.protocol)}{through} ({harmless(lanes)})"


def _is_rendezvous(each: SizeRange) -> bool:
    return each.protocol.startswith("rendezvous")


def _inverted(lower: SizeRange, upper: SizeRange, points: Sequence[PointSummary]) -> Iterator[str]:
    """Say it where a message below the boundary takes longer than one above, interval against interval."""
    below = [point for point in _within(lower, points) if point.latency_s is not None]
    above = [point for point in _within(upper, points) if point.latency_s is not None]
    slower = [
        (small, large) for small in below for large in above if (small.low_s or 0) > (large.high_s or float("inf"))
    ]
    if not slower:
        return
    small, large = min(slower, key=lambda pair: (pair[0].size_bytes, pair[1].latency_s or 0))
    times = [
        f"{format_size(point.size_bytes)} in {digits((point.latency_s or 0) * 1e6, 3)} µs" for point in (small, large)
    ]
    advice = ""
    if not _is_rendezvous(lower) and _is_rendezvous(upper):
        advice = "; UCX_RNDV_THRESH=8 makes UCX take the rendezvous for small messages too"
    yield (
        f"{_AWARE}: small messages take longer than larger ones because UCX sends them another way: "
        f"{' but '.join(times)}{advice}"
    )
