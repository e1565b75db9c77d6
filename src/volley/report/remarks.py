"""The sentences under a table: what failed, what is missing and why, what stands out, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from volley.comparison import crossovers, curves, half_bandwidth
from volley.fits import Fit
from volley.records import Plan, Transport
from volley.report import ceilings, matrix_remarks, node_remarks, ucx
from volley.sizes import approximate_size, format_size
from volley.stats import FEWEST
from volley.summary import PointSummary, Remark, Series, tables
from volley.text import count, digits, harmless, several

Level = Literal["error", "missing", "finding", "warning"]

_MOST_REASONS = 3
"""Skipped sizes of one transport are told apart by reason up to this many reasons."""


@dataclass(frozen=True)
class Sentence:
    """One sentence for people; ``level`` decides its colour, and the words say the same without it."""

    text: str
    level: Level


def sentences(series: Series) -> list[Sentence]:
    """Return all sentences about one series, the most important ones first."""
    return [
        *(Sentence(text, "error") for text in _broken(series)),
        *(Sentence(text, "error") for text in _failed(series.points)),
        *(Sentence(text, "error") for text in matrix_remarks.failed(series.matrices)),
        *(Sentence(text, "error") for text in node_remarks.failed(series.nodes)),
        *(Sentence(text, "missing") for text in _unavailable(series)),
        *(Sentence(text, "missing") for text in _hardly_tried(series)),
        *(Sentence(text, "missing") for text in _skipped(series.points)),
        *(Sentence(text, "missing") for text in matrix_remarks.skipped(series.matrices)),
        *(Sentence(text, "missing") for text in node_remarks.missing(series.nodes, series.logs)),
        *(Sentence(text, "finding") for text in _findings(series)),
        *(Sentence(text, "finding") for text in matrix_remarks.findings(series.matrices)),
        *(Sentence(text, "finding") for text in node_remarks.findings(series.nodes)),
        *(Sentence(text, "warning") for text in _warnings(series)),
    ]


# ---------------------------------------------------------------------- what broke, failed or is missing


def _broken(series: Series) -> Iterator[str]:
    for number, log in enumerate(series.logs, start=1):
        which = f"launch {number} of {len(series.logs)}" if len(series.logs) > 1 else "this run"
        for problem in log.problems:
            yield f"UNREADABLE in {which}: {harmless(problem)}"
        if log.end is None:
            points = count(len(log.statuses), "point")
            yield f"INCOMPLETE: {which} broke off before its last record; it had measured {points}"
            continue
        why = f": {harmless(log.end.reason)}" if log.end.reason else ""
        if log.end.status == "stopped":
            yield f"INCOMPLETE: {which} was stopped before its last point{why}"
        elif why:
            yield f"INCOMPLETE: {which} ended early{why}"


def _failed(points: Sequence[PointSummary]) -> Iterator[str]:
    for point in points:
        if point.status == "failed":
            yield f"FAILED: {place(point)}: {failure(point)}"


def failure(point: PointSummary) -> str:
    """Say why a point failed: the reason in the record, and the first wrong byte."""
    reason = harmless(point.reason or "no reason is recorded")
    wrong = point.mismatch
    if wrong is None:
        return reason
    guard = "" if 0 <= wrong.offset_bytes < point.size_bytes else "a guard byte, "
    return f"{reason} ({guard}0x{wrong.found:02x} instead of 0x{wrong.expected:02x})"


def place(point: PointSummary) -> str:
    """Name a point: ``host at 64 KiB``."""
    return f"{harmless(point.transport)} at {format_size(point.size_bytes)}"


def _unavailable(series: Series) -> Iterator[str]:
    """Say what cannot be used; transports with the same reason share a sentence."""
    by_reason: dict[str, list[Transport]] = {}
    for transport in series.transports.values():
        if not transport.available:
            by_reason.setdefault(harmless(transport.reason or "no reason is recorded"), []).append(transport)
    for reason, transports in by_reason.items():
        names = several(harmless(transport.transport) for transport in transports)
        if len(transports) == 1:
            yield f"{names} ({harmless(transports[0].summary)}) is unavailable: {reason}"
        else:
            yield f"{names} are unavailable: {reason}"


def _hardly_tried(series: Series) -> Iterator[str]:
    """Say what was tried in a weaker way than two ranks would, where it was not found out by measuring."""
    measured = {point.transport for point in series.points if point.status == "ok"}
    tried = series.plan.launch.get("tried_alone") if series.plan else None
    for transport in series.transports.values():
        name = transport.transport
        if isinstance(tried, list) and name in tried and transport.available and name not in measured:
            yield (
                f"{harmless(name)} counts as available because a process could send GPU memory to itself: weaker "
                "evidence than a message between two ranks, which inside a launcher would end the job if it failed"
            )


def _skipped(points: Sequence[PointSummary]) -> Iterator[str]:
    by_transport: dict[str, dict[str, list[int]]] = {}
    for point in points:
        if point.status == "skipped":
            reasons = by_transport.setdefault(point.transport, {})
            reasons.setdefault(point.reason or "no reason is recorded", []).append(point.size_bytes)
    for transport, reasons in by_transport.items():
        for reason, sizes in list(reasons.items())[:_MOST_REASONS]:
            yield f"{harmless(transport)} skipped {size_range(sizes)}: {harmless(reason)}"
        rest = [size for sizes in list(reasons.values())[_MOST_REASONS:] for size in sizes]
        if rest:
            yield f"{harmless(transport)} skipped {size_range(rest)} too, each for a reason of its own (--format csv)"


def size_range(sizes: Sequence[int]) -> str:
    """Name sizes: up to three by name, more by their ends: ``5 sizes from 64 MiB to 1 GiB``."""
    if len(sizes) <= 3:
        return several(format_size(size) for size in sizes)
    return f"{len(sizes)} sizes from {format_size(min(sizes))} to {format_size(max(sizes))}"


# ---------------------------------------------------------------------------------------- what stands out


def _findings(series: Series) -> Iterator[str]:
    for transport in dict.fromkeys(point.transport for point in series.points):
        points = [point for point in series.points if point.transport == transport and point.time]
        if points and points[0].latency_s is None and not any(point.rate for point in points):
            continue  # a stream of nothing
        if points:
            yield f"{harmless(transport)}: {_in_short(points)}"
    measured = [point for point in series.points if point.time and point.rate]
    for points in tables(measured):
        found = curves(points)
        if len(found) == 1 and found[0].fit and not found[0].fit.poor:  # several have a table
            yield f"{harmless(found[0].transport)}: {_line(found[0].fit)}"
        yield from _races(points, series)
    yield from ceilings.sentences(measured)
    yield from ucx.sentences(series)


def _in_short(points: Sequence[PointSummary]) -> str:
    """Sum up the points of one transport."""
    first = points[0]
    best = max(points, key=lambda point: point.bandwidth_Bps or 0)
    latency = f"{digits((first.latency_s or 0) * 1e6, 3)} µs at {format_size(first.size_bytes)}"
    if best.bandwidth_Bps is None:
        return f"{latency}, where nothing is sent: the cost of the measuring itself"
    bandwidth = f"{digits(best.bandwidth_Bps / 1e9, 3)} GB/s at {format_size(best.size_bytes)}"
    if best.direction == "bi":
        bandwidth += " in both directions together"
    bandwidth += ceilings.share(best)
    half = half_bandwidth(points) if len(tables(points)) == 1 else None
    if half is not None:
        bandwidth += f", half of it at {approximate_size(half)}"
    return f"at most {bandwidth}" if best.benchmark == "stream" else f"{latency}, at most {bandwidth}"


def _line(fit: Fit) -> str:
    """Say which line goes through a curve, and how well."""
    line = f"{digits(fit.latency_s * 1e6, 3)} µs + n / ({digits(fit.bandwidth_Bps / 1e9, 3)} GB/s)"
    off = f"{digits(fit.median_deviation * 100, 2)} % in the median and {digits(abs(fit.worst_deviation) * 100, 2)} %"
    return (
        f"t(n) = {line}, n½ = {approximate_size(fit.half_bandwidth_bytes)}, is off by {off} "
        f"at {format_size(fit.worst_size_bytes)}"
    )


def _races(points: Sequence[PointSummary], series: Series) -> Iterator[str]:
    """Compare the transports of one table that serve the same need: messages in host memory, or in GPU memory."""
    kinds: dict[str | None, list[PointSummary]] = {}
    for point in points:
        transport = series.transports.get(point.transport)
        kinds.setdefault(transport.memory if transport else None, []).append(point)
    if all(len({point.transport for point in those}) == 1 for those in kinds.values()):
        kinds = {None: list(points)}  # one of each kind: to compare them is what was asked for
    for memory, those in kinds.items():
        where = f" between buffers in {_MEMORY[memory]} memory" if memory in _MEMORY and len(kinds) > 1 else ""
        yield from _fastest(those, where)
        if len({point.transport for point in those}) > 2:  # of two, the lead has told it
            yield from _overtaking(those)


_MEMORY = {"host": "host", "device": "GPU"}


def _fastest(points: Sequence[PointSummary], where: str) -> Iterator[str]:
    """Say which transport is the fastest from which size on.  A lead changes only where the intervals are apart."""
    if len({point.transport for point in points}) < 2:
        return
    leads: list[tuple[str, int]] = []
    for size in sorted({point.size_bytes for point in points}):
        here = {point.transport: point for point in points if point.size_bytes == size}
        best = max(here.values(), key=lambda point: point.bandwidth_Bps or 0)
        leader = here.get(leads[-1][0]) if leads else None
        if leader is None or _apart(best, leader):
            leads.append((best.transport, size))
    spans = [f"{harmless(name)} from {format_size(size)}" for name, size in leads]
    same = len(leads) == 1
    yield f"fastest{where}: {harmless(leads[0][0])} at every size" if same else f"fastest{where}: {', '.join(spans)}"


def _apart(fast: PointSummary, slow: PointSummary) -> bool:
    """True when the rate of ``fast`` lies above that of ``slow`` with its whole interval."""
    return bool(fast.rate and slow.rate and fast.rate.low_Bps > slow.rate.high_Bps)


def _overtaking(points: Sequence[PointSummary]) -> Iterator[str]:
    """Say for each transport which others it overtakes for good, and from which sizes on."""
    found: dict[str, dict[tuple[int, bool], list[str]]] = {}
    for one in sorted(crossovers(points), key=lambda one: one.from_bytes):
        if one.final:
            found.setdefault(one.faster, {}).setdefault((one.from_bytes, one.again), []).append(one.slower)
    for faster, when in found.items():
        parts = [
            f"{several(map(harmless, slower))}{' again' if again else ''} from {format_size(size)}"
            for (size, again), slower in when.items()
        ]
        yield f"{harmless(faster)} overtakes {', '.join(parts)} on"


# ----------------------------------------------------------------------------------------------- warnings


def _warnings(series: Series) -> Iterator[str]:
    plan = series.plan
    yield from ceilings.slowed(series.logs)
    for transport in dict.fromkeys(point.transport for point in series.points):
        points = [point for point in series.points if point.transport == transport and point.rate]
        for kind, sentence in _WARNINGS.items():
            hits = [(point, remark) for point in points for remark in _worth_saying(point) if remark.kind == kind]
            if hits and plan:
                yield f"{harmless(transport)}: {sentence(hits, plan)}"
    if plan:
        yield from _few(series.points, plan)
    if plan and not plan.verify and (series.matrices or series.nodes or any(point.time for point in series.points)):
        yield "nothing was verified: leave out --no-verify to have every number stand for data that arrived"


Hits = Sequence[tuple[PointSummary, Remark]]


def _worth_saying(point: PointSummary) -> Iterator[Remark]:
    """Leave out what only explains an interval that was not reached: one warning a point is enough."""
    return (remark for remark in point.remarks if not point.missed or remark.kind not in ("drift", "outliers"))


def _worst(hits: Hits) -> str:
    point, remark = max(hits, key=lambda hit: abs(hit[1].value))
    return f"{_percent(abs(remark.value))} at {format_size(point.size_bytes)}"


def _percent(fraction: float) -> str:
    return f"{fraction:.1%}".replace("%", " %")


def _sizes(hits: Hits) -> str:
    return size_range([point.size_bytes for point, _ in hits])


def _wide(hits: Hits, plan: Plan) -> str:
    aim, time_s = plan.sampling.interval * 100, plan.sampling.point_time_s
    return (
        f"±{aim:g} % was not reached within {time_s:g} s at {_sizes(hits)} (at worst ±{_worst(hits)}): "
        f"quiet the machine, allow more time with --point-time {5 * time_s:g}, or widen --interval"
    )


def _few(points: Sequence[PointSummary], plan: Plan) -> Iterator[str]:
    """Say for all transports together where the fewest samples were not enough for the interval that was asked for."""
    hits = [(point, remark) for point in points if point.rate for remark in point.remarks if remark.kind == "few"]
    if not hits:
        return
    by_transport: dict[str, list[int]] = {}
    for point, _ in hits:
        by_transport.setdefault(point.transport, []).append(point.size_bytes)
    where = "; ".join(f"{harmless(name)} at {size_range(sizes)}" for name, sizes in by_transport.items())
    worst, remark = max(hits, key=lambda hit: hit[1].value)
    launches = max(point.launches for point, _ in hits)
    more = FEWEST if launches < FEWEST else 2 * launches
    yield (
        f"±{plan.sampling.interval * 100:g} % was not reached by the fewest samples that have an interval, all that a "
        f"long exchange gets: {where} (at worst ±{_percent(remark.value)}, {place(worst)}): repeat with --launches "
        f"{more} for an interval over launches, or widen --interval"
    )


def _drift(hits: Hits, _plan: Plan) -> str:
    return (
        f"the samples drifted while measuring {_sizes(hits)} (at worst by {_worst(hits)}): clocks or neighbours are "
        f"changing; repeat with --launches {FEWEST} for an interval that includes this"
    )


def _outliers(hits: Hits, _plan: Plan) -> str:
    return (
        f"many samples were interrupted at {_sizes(hits)} (at worst {_worst(hits)}): other work shares these cores; "
        "the median bears it, and --tail shows how long the interruptions are"
    )


def _partly(hits: Hits, _plan: Plan) -> str:
    return f"not every launch measured {_sizes(hits)}: those rows stand for fewer launches"


_WARNINGS = {"wide": _wide, "drift": _drift, "outliers": _outliers, "partly": _partly}
