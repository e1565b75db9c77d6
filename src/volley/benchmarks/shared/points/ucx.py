"""Relate latencies to UCX's protocols, which explain why a small message may take longer than a larger one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from volley.benchmarks.shared.points.results import PointResult, shown_faster
from volley.machine.ucx_protocols import SizeRange, of_plan
from volley.run.plan import Plan
from volley.units import format_sig, format_size

_AWARE = "aware"

_HOST_MEMORY = re.compile(r"^\w+/memory$")
"""UCX's transports through host memory (posix, sysv, cma, xpmem, knem) have one device: ``memory``."""


def sentences(measured: Sequence[PointResult], plan: Plan | None, operation: str) -> Iterator[str]:
    """Describe UCX's protocols for GPU memory, and changes of protocol that are visible in the latencies.

    Args:
        measured: points with a time and a rate.
        plan: contains UCX's protocols if the preflight recorded them.
        operation: the name of the measured MPI calls in UCX's tables.
    """
    points, ranges = _ranges(measured, plan, operation)
    protocols = of_plan(plan.launch) if plan and ranges else None
    if protocols:
        # The side that moves the data reports the lanes of a rendezvous; the sender only estimates them.
        known = {each.lanes for table in protocols.rendezvous for each in table.ranges if each.lanes}
        lanes = known.pop() if len(known) == 1 else None
        yield f"{_AWARE}: UCX sends {'; '.join(_range(each, ranges, lanes) for each in ranges)}"
        yield from inversions(points, plan, operation)


def inversions(measured: Sequence[PointResult], plan: Plan | None, operation: str) -> Iterator[str]:
    """Describe the changes of protocol where a smaller message takes longer; arguments like those of ``sentences``.

    Not of ranks that share a GPU: what they wait for is each other's turn, whatever the protocol.
    """
    if plan and plan.share_device:
        return
    points, ranges = _ranges(measured, plan, operation)
    for lower, upper in pairwise(ranges):
        yield from _inverted(lower, upper, points)


def changes(measured: Sequence[PointResult], plan: Plan | None, operation: str) -> list[tuple[int, str]]:
    """Return the sizes in bytes from which on UCX uses another protocol for GPU memory, with the protocol's name."""
    _, ranges = _ranges(measured, plan, operation)
    return [(each.first_bytes, each.protocol) for each in ranges[1:]]


def _ranges(
    measured: Sequence[PointResult], plan: Plan | None, operation: str
) -> tuple[list[PointResult], list[SizeRange]]:
    """Return the points of MPI on device memory, and the ranges of sizes with one protocol each that they touch."""
    points = [point for point in measured if point.transport == _AWARE]
    protocols = of_plan(plan.launch) if plan and points and operation else None
    # The table of the operation to the other rank, where only one can be meant.
    others = [table for table in protocols.sends if " self " not in f" {table.connection} "] if protocols else []
    called = [table for table in others if operation in table.operation]
    table = called[0] if len(called) == 1 else others[0] if len(others) == 1 else None
    return points, [each for each in _merged(table.ranges) if _within(each, points)] if table else []


def _merged(ranges: Sequence[SizeRange]) -> list[SizeRange]:
    merged: list[SizeRange] = []
    for each in ranges:
        last = merged[-1] if merged else None
        if last and (last.protocol, last.lanes) == (each.protocol, each.lanes):
            merged[-1] = SizeRange(last.first_bytes, each.last_bytes, last.protocol, last.lanes, last.estimated)
        else:
            merged.append(each)
    return merged


def _within(each: SizeRange, points: Sequence[PointResult]) -> list[PointResult]:
    last = float("inf") if each.last_bytes is None else each.last_bytes
    return [point for point in points if each.first_bytes <= point.size_bytes <= last]


def _range(each: SizeRange, ranges: Sequence[SizeRange], rendezvous: str | None) -> str:
    """Describe one range: ``up to 2304 B by eager copy-in copy-out through host memory (sysv/memory)``."""
    if len(ranges) == 1:
        sizes = "every size"
    elif each is ranges[-1]:
        sizes = "larger sizes"
    else:
        sizes = f"up to {format_size(each.last_bytes or 0)}"
    lanes = rendezvous if _is_rendezvous(each) and each.estimated and rendezvous else each.lanes
    through = " through host memory" if _HOST_MEMORY.match(lanes) else ""
    return f"{sizes} by {each.protocol}{through} ({lanes})"


def _is_rendezvous(each: SizeRange) -> bool:
    return each.protocol.startswith("rendezvous")


def _inverted(lower: SizeRange, upper: SizeRange, points: Sequence[PointResult]) -> Iterator[str]:
    """Report if a message below the boundary takes significantly longer than one above it."""
    slower = [
        (small, large)
        for small in _within(lower, points)
        for large in _within(upper, points)
        if small.latency and large.latency and shown_faster(large, small)
    ]
    if not slower:
        return
    pair = min(slower, key=lambda pair: (pair[0].size_bytes, pair[1].latency.median if pair[1].latency else 0))
    times = [
        f"{format_size(point.size_bytes)} in {format_sig(point.latency.median * 1e6, 3)} µs"
        for point in pair
        if point.latency
    ]
    advice = ""
    if not _is_rendezvous(lower) and _is_rendezvous(upper):
        advice = "; UCX_RNDV_THRESH=8 makes UCX use rendezvous for small messages too"
    yield (
        f"{_AWARE}: small messages take longer than larger ones because UCX uses another protocol for them: "
        f"{' but '.join(times)}{advice}"
    )
