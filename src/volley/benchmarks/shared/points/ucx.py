"""Relate latencies to UCX's protocols, which explain why a small message may take longer than a larger one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from volley.benchmarks.shared.points.results import PointResult
from volley.machine.ucx_protocols import SizeRange, of_plan
from volley.records.plan import Plan
from volley.statistics.launches import ratio, shown_above_one
from volley.units import format_sig, format_size

_AWARE = "aware"

_HOST_MEMORY = re.compile(r"^\w+/memory$")
"""UCX's transports through host memory (posix, sysv, cma, xpmem, knem) have one device: ``memory``."""

RENDEZVOUS = "rendezvous"
"""The beginning of the names of these protocols."""


def ranges(
    measured: Iterable[PointResult], plan: Plan | None, operation: str
) -> list[tuple[SizeRange, list[PointResult]]]:
    """Return the ranges of sizes with one protocol each for GPU memory, with the points of MPI in each.

    Args:
        measured: points with a time and a rate.
        plan: contains UCX's protocols if the preflight recorded them.
        operation: the name of the measured MPI calls in UCX's tables.
    """
    points = [point for point in measured if point.transport == _AWARE]
    protocols = of_plan(plan.launch) if plan and points and operation else None
    # The table of the operation to the other rank, where only one can be meant.
    others = [table for table in protocols.sends if " self " not in f" {table.connection} "] if protocols else []
    called = [table for table in others if operation in table.operation]
    table = called[0] if len(called) == 1 else others[0] if len(others) == 1 else None
    merged: list[SizeRange] = []
    for each in table.ranges if table else ():
        last = merged[-1] if merged else None
        if last and (last.protocol, last.lanes) == (each.protocol, each.lanes):
            merged[-1] = SizeRange(last.first_bytes, each.last_bytes, last.protocol, last.lanes, last.estimated)
        else:
            merged.append(each)
    found = []
    for each in merged:
        end = float("inf") if each.last_bytes is None else each.last_bytes
        if here := [point for point in points if each.first_bytes <= point.size_bytes <= end]:
            found.append((each, here))
    return found


def sentences(measured: Iterable[PointResult], plan: Plan | None, operation: str) -> Iterator[str]:
    """Describe UCX's protocols for GPU memory, and changes of protocol that are visible in the latencies.

    The arguments are those of ``ranges``.
    """
    measured = list(measured)
    found = [each for each, _ in ranges(measured, plan, operation)]
    protocols = of_plan(plan.launch) if plan and found else None
    if protocols:
        # The side that moves the data reports the lanes of a rendezvous; the sender only estimates them.
        known = {each.lanes for table in protocols.rendezvous for each in table.ranges if each.lanes}
        lanes = known.pop() if len(known) == 1 else None
        yield f"{_AWARE}: UCX sends {'; '.join(_range(each, found, lanes) for each in found)}"
        yield from inversions(measured, plan, operation)


def _range(each: SizeRange, found: list[SizeRange], rendezvous: str | None) -> str:
    """Describe one range: ``up to 2304 B by eager copy-in copy-out through host memory (sysv/memory)``."""
    if len(found) == 1:
        sizes = "every size"
    else:
        sizes = "larger sizes" if each is found[-1] else f"up to {format_size(each.last_bytes or 0)}"
    estimated = each.estimated and each.protocol.startswith(RENDEZVOUS)
    lanes = rendezvous if estimated and rendezvous else each.lanes
    through = " through host memory" if _HOST_MEMORY.match(lanes) else ""
    return f"{sizes} by {each.protocol}{through} ({lanes})"


def inversions(measured: Iterable[PointResult], plan: Plan | None, operation: str) -> Iterator[str]:
    """Describe the changes of protocol where a smaller message takes significantly longer than a larger one.

    Not of ranks that share a GPU: what they wait for is each other's turn, whatever the protocol.
    """
    if plan and plan.share_device:
        return
    for (lower, below), (upper, above) in pairwise(ranges(measured, plan, operation)):
        slower = [
            (small.size_bytes, large.latency.median, small, large)
            for small in below
            for large in above
            if small.latency and large.latency and shown_above_one(ratio(small.repeated, large.repeated))
        ]
        if slower:
            pair = min(slower, key=lambda each: each[:2])[2:]
            times = [
                f"{format_size(point.size_bytes)} in {format_sig(point.latency.median * 1e6, 3)} µs"
                for point in pair
                if point.latency
            ]
            advice = ""
            if upper.protocol.startswith(RENDEZVOUS) and not lower.protocol.startswith(RENDEZVOUS):
                advice = "; UCX_RNDV_THRESH=8 makes UCX use rendezvous for small messages too"
            yield (
                f"{_AWARE}: small messages take longer than larger ones because UCX uses another protocol for them: "
                f"{' but '.join(times)}{advice}"
            )
