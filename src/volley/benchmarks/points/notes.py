"""The notes below a table of points, what failed, is missing or doubtful; and the conclusions that ``--full`` adds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from volley.benchmarks.points.findings import AWARE, MAX_SIZES, RENDEZVOUS, again, only, ucx_ranges
from volley.benchmarks.points.results import (
    PointResult,
    PointSeries,
    PointWarning,
    ResultSeries,
    by_name,
    by_transport,
    crossovers_of,
    observables,
    order_of,
)
from volley.document import part_of
from volley.machine.ucx_protocols import PLACE, Protocols, SizeRange
from volley.records.command_again import command_again
from volley.records.launch_series import LaunchSeries
from volley.records.plan import OUT_OF_TIME, Plan
from volley.references import beside_equal, gpus_of
from volley.report.cells import launches_of, percent, percent_above, range_text
from volley.report.model import Note, finding
from volley.run import report_parts
from volley.statistics.launches import FEASIBLE, FIRST_LOOK
from volley.text import count, grouped, join_words, of_several
from volley.units import approximate_size, format_cpulist, format_sig, format_size

_HOST_MEMORY = re.compile(r"^\w+/memory$")
"""UCX's transports through host memory (posix, sysv, cma, xpmem, knem) have one device: ``memory``."""


def _ucx_sends(measured: Sequence[PointResult], plan: Plan | None, operation: str) -> Iterator[str]:
    """Describe UCX's protocols for GPU memory."""
    found = [each for each, _ in ucx_ranges(measured, plan, operation)]
    protocols = part_of(plan.launch, Protocols, *PLACE) if plan and found else None
    if protocols:
        # The side that moves the data reports the lanes of a rendezvous; the sender only estimates them.
        known = {each.lanes for table in protocols.rendezvous for each in table.ranges if each.lanes}
        lanes = known.pop() if len(known) == 1 else None
        yield f"{AWARE}: UCX sends {'; '.join(_range(each, found, lanes) for each in found)}"


def _range(each: SizeRange, found: list[SizeRange], rendezvous: str | None) -> str:
    """Describe one range: ``up to 2304 B by eager copy-in copy-out through host memory (sysv/memory)``."""
    if len(found) == 1:
        sizes = "every size"
    else:
        sizes = "larger sizes" if each is found[-1] else f"up to {format_size(each.last_bytes or 0)}"
    estimated = each.estimated and each.protocol.startswith(RENDEZVOUS)
    lanes = rendezvous if estimated and rendezvous else each.lanes
    through = " through host memory" if _HOST_MEMORY.match(lanes) else ""
    return f"{sizes} by {each.protocol}{through}{lanes and f' ({lanes})'}"


_MAX_REASONS = 3
"""The notes list at most this many reasons for the skipped sizes of one transport."""

MAX_NAMED = 3
"""At most this many noisy transports are named."""

_MAX_GROUPS = 3
"""The notes list the values of groups of launches for at most this many sizes."""

_MAX_NUMBERS = 6
"""The notes list the launches of a group if they are at most this many numbers and ranges."""

_WITHIN = ", within one launch"
"""Added to a verdict that rests on one launch."""

_MEMORY = {"host": "host", "device": "GPU"}


def notes_of(result: ResultSeries[Any], doubts: Iterable[Note] = ()) -> Iterator[Note]:
    """Return the notes on points, without findings."""
    points, logs = result.points, result.series.logs
    plan = None if logs[-1].launches_without_time else result.series.plan  # then a note says how to make all launches
    return report_parts.notes_of(
        result.series,
        by_transport(point for point in points if point.time),
        failed=(f"{point.place}: {failure(point)}" for point in points if point.status == "failed"),
        missing=skipped(by_name(points), plan, whole=len(logs) < FIRST_LOOK),
        doubts=doubts,
    )


def details(result: PointSeries, ucx_operation: str) -> Iterator[Note]:
    """Yield the conclusions that only ``--full`` shows; ``ucx_operation`` as in ``page.report_of``."""
    plan = result.series.plan
    timed = [point for point in result.points if point.time]
    yield from (Note("finding", text) for text in _sentences(result))
    yield from (Note("finding", text) for text in _ucx_sends([p for p in timed if p.rate], plan, ucx_operation))
    yield from (Note("finding", text) for text in _compared(point for point in timed if point.verified))
    on_gpus = (observables(log, on_gpus=True) for log in result.series.logs)  # host memory is the processor's matter
    yield from beside_equal(gpus_of(result.series.run), plan.benchmark if plan else "", on_gpus)
    yield from report_parts.one_launch_note(result.series, by_transport(timed))


def doubts(points: Sequence[PointResult], plan: Plan | None) -> Iterator[Note]:
    yield from (Note("warning", text) for text in (*_groups(points), *_warnings(points, plan)))


# ----------------------------------------------------------------------------------- what failed or is missing


def failure(point: PointResult) -> str:
    reason = point.reason or "no reason is recorded"
    wrong = point.mismatch
    if wrong is None:
        return reason
    guard = "" if 0 <= wrong.offset_bytes < point.size_bytes else "a guard byte, "
    return f"{reason} ({guard}{wrong.byte})"


_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LATE = f": {OUT_OF_TIME}"


def skipped(by_name: Mapping[str, Sequence[PointResult]], plan: Plan | None, *, whole: bool = False) -> Iterator[str]:
    """Say who skipped which sizes and why: one sentence for all that skipped the same for one reason.

    Reasons that differ in one number are one, with the range of this number, unless that is the smallest size.  What a
    budget left out is measured by the command without one; with ``whole``, which measures all of the run again.
    """
    told: list[tuple[str, str, str]] = []
    for name, points in by_name.items():
        those = (point for point in points if point.status == "skipped")
        reasons = list(grouped(those, lambda point: point.reason or "no reason is recorded").items())
        for reason, same in reasons[:_MAX_REASONS]:
            told.append((name, f"skipped {size_range(same)}".rstrip(), f": {reason}"))
        if rest := [point for _, alike in reasons[_MAX_REASONS:] for point in alike]:
            told.append((name, f"also skipped {size_range(rest)}", ", for other reasons (see --format csv)"))
    for (what, _), alike in grouped(told, lambda each: (each[1], _alike(each[2]))).items():
        for why, names in _ranges([(why, name) for name, _, why in alike]).items():
            late = [point for name in names for point in by_name[name] if f": {point.reason}" == why == _LATE]
            command = ""
            if late and plan and (whole or len(names) > MAX_NAMED):
                command = f": {command_again(plan.benchmark, plan, launches=FIRST_LOOK)}"
            elif late and plan:
                command = f": {again(late, plan, size=True, launches=FIRST_LOOK)}"
            yield f"{join_words(names)} {what}{of_several(why) if len(names) > 1 else why}{command}"


def _alike(why: str) -> str:
    return why if "the smallest size" in why else _NUMBER.sub("", why)


def _ranges(told: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return names by reason; ``told`` has reasons with their names that differ in nothing but numbers."""
    numbers = [dict.fromkeys(those) for those in zip(*(_NUMBER.findall(why) for why, _ in told), strict=True)]
    if sum(len(those) > 1 for those in numbers) > 1:
        return {why: [name for _, name in those] for why, those in grouped(told, itemgetter(0)).items()}
    ends = [[min(those, key=float), max(those, key=float)] for those in numbers]
    texts = iter([" to ".join(dict.fromkeys(each)) for each in ends])
    return {_NUMBER.sub(lambda _: next(texts), told[0][0]): [name for _, name in told]}


def size_range(points: Iterable[PointResult]) -> str:
    """List a few sizes; describe more by their range: ``5 sizes from 64 MiB to 1 GiB``.  A barrier has none."""
    sizes = list(dict.fromkeys(point.size_bytes for point in points if point.sized))
    if len(sizes) <= MAX_SIZES:
        return join_words(format_size(size) for size in sizes)
    return f"{len(sizes)} sizes from {format_size(min(sizes))} to {format_size(max(sizes))}"


def _sentences(result: PointSeries) -> Iterator[str]:
    halves = grouped(
        ((points[0].operation, curve) for points, curves in result.with_curves for curve in curves),
        lambda each: (each[0], each[1].transport),
    )
    for name, points in by_name(point for point in result.points if point.time).items():
        if points[0].latency or any(point.rate for point in points):  # else windows without data
            same = halves.get((points[0].operation, points[0].transport), [])
            yield f"{name}: {_summary(points, same[0][1].half_bandwidth_bytes if len(same) == 1 else None)}"
    for points in result.tables:
        measured = [point for point in points if point.time and point.rate]
        if measured:
            yield from _races(measured, {point.size_bytes for point in points if point.size_bytes}, result)
    yield from _line_rates(point for point in result.points if point.time and point.rate)


def _compared(points: Iterable[PointResult]) -> Iterator[str]:
    """Say where the pass that compares every message had fewer messages in flight than the samples, or was missing."""
    known = [point for point in points if point.size_bytes and point.compared_in_flight is not None]
    for (in_flight, window), alike in grouped(known, attrgetter("compared_in_flight", "window")).items():
        if in_flight < (window or 1):
            named = "; ".join(f"{name} at {size_range(those)}" for name, those in by_name(alike).items())
            yield report_parts.compared_fewer(in_flight, window, named)


def _summary(points: Sequence[PointResult], half: float | None) -> str:
    """Sum up the points of one transport: ``17.1 µs at 8 B, peak 388 GB/s at 256 MiB, 81 % of line rate, N½ 3 MiB``."""
    first = points[0]
    best = max(points, key=attrgetter("bandwidth_Bps"))
    parts = []
    if first.latency:
        at = f" at {format_size(first.size_bytes)}" if first.sized else ""
        parts.append(f"{format_sig(first.latency.median * 1e6, 3)} µs{at}")
    if not best.rate:
        return parts[0] if best.sends else f"{parts[0]}, the overhead of the measurement: this transport sends nothing"
    both = " in both directions together" if best.direction == "bi" else ""
    parts.append(f"peak {format_sig(best.bandwidth_Bps / 1e9, 3)} GB/s at {format_size(best.size_bytes)}{both}")
    if best.of_line_rate:
        parts.append(f"{percent(best.of_line_rate.median, 0)} of line rate")
    if half is not None:
        parts.append(f"N½ {approximate_size(half)}")
    return ", ".join(parts)


def _line_rates(points: Iterable[PointResult]) -> Iterator[str]:
    found: dict[str, dict[str, None]] = {}
    for point in points:
        if point.line_rate:
            found.setdefault(point.line_rate.describe(), {})[point.transport] = None
    if found:
        each = (f"{what} for {join_words(names)}" for what, names in found.items())
        yield f"line rate in each direction: {'; '.join(each)} (packet overhead not subtracted)"


def _races(points: Sequence[PointResult], sizes: set[int], result: PointSeries) -> Iterator[str]:
    """Compare the transports of one table, of these sizes, with messages in the same kind of memory: host or GPU."""
    memories: dict[str, str | None] = {name: each.memory for name, each in result.series.transports.items()}
    kinds = grouped(points, lambda point: memories.get(point.transport))
    if all(len(by_transport(those)) == 1 for those in kinds.values()):
        kinds = {None: list(points)}  # one transport of each kind: the user wants to compare these
    operation = points[0].operation
    for memory, those in kinds.items():
        where = f" between buffers in {_MEMORY[memory]} memory" if memory in _MEMORY and len(kinds) > 1 else ""
        transports = len(by_transport(those))
        if transports > 1 and (fastest := _fastest(those, sizes, result.series.plan)):
            what = f"fastest{f' for {operation}' if operation else ''}{where}{_WITHIN * (launches_of(those) == 1)}"
            yield f"{what}: {fastest}"
        if transports > 2:  # with two, the note on the fastest says it all
            for sentence in _overtaking(those):
                yield f"{f'{operation}: ' if operation else ''}{sentence}{_WITHIN * (launches_of(those) == 1)}"


def _fastest(points: Sequence[PointResult], sizes: set[int], plan: Plan | None) -> str:
    """Name the fastest transport by size, or all that may be; nothing at a size that only one of them measured.

    Args:
        points: measured points of transports that can be compared.
        sizes: those of the whole table.
        plan: that of the run.
    """
    if not any(point.time and point.time.interval for point in points):
        again = command_again(points[0].benchmark, plan, launches=FIRST_LOOK)
        return f"not known without a 95 % CI; repeat with {again}"
    leads: list[tuple[list[str], int]] = []
    order = order_of(points)
    by_size = grouped(sorted(points, key=attrgetter("size_bytes")), attrgetter("size_bytes"))
    raced = {size: here for size, here in by_size.items() if len(here) > 1}
    for size, here in raced.items():
        best = max(here, key=attrgetter("bandwidth_Bps")).transport
        ahead = [point.transport for point in here if not order.faster(best, point.transport, size)]
        if not leads or leads[-1][0] != ahead:
            leads.append((ahead, size))
    names = [_undecided(names) if len(names) > 1 else names[0] for names, _ in leads]
    if len(leads) > 1:
        parts = [f"{name} from {format_size(size)}" for name, (_, size) in zip(names, leads, strict=True)]
        if (last := max(raced)) < max(sizes):
            alone = f"{names[-1]} at {format_size(last)}"
            parts[-1] = alone if leads[-1][1] == last else f"{parts[-1]} to {format_size(last)}"
        return ", then ".join(parts)
    every = 1 < len(sizes) == len(raced)
    where = "every size" if every else size_range(point for here in raced.values() for point in here)
    return f"{names[0]} at {where}" if names else ""


def _undecided(names: Sequence[str]) -> str:
    few = len(names) <= MAX_NAMED
    return f"{join_words(names, 'or')} (undecided)" if few else f"undecided between {len(names)} transports"


def _overtaking(points: Sequence[PointResult]) -> Iterator[str]:
    """Name for each transport the others than which it is faster from a size on, and the sizes."""
    found: dict[str, dict[tuple[int, bool], list[str]]] = {}
    for one in sorted(crossovers_of(points), key=lambda one: one.from_bytes):
        if one.final:
            found.setdefault(one.faster, {}).setdefault((one.from_bytes, one.again), []).append(one.slower)
    for faster, when in found.items():
        parts = [
            f"than {join_words(slower)} {'again ' if again else ''}from {format_size(size)}"
            for (size, again), slower in when.items()
        ]
        yield f"{faster} is faster {', '.join(parts)}"


# ----------------------------------------------------------------------------------------------- warnings


def _groups(points: Sequence[PointResult]) -> Iterator[str]:
    for name, those in by_name(point for point in points if point.groups).items():
        where = [f"{size_range([point])} {_shares(point)}".lstrip() for point in those[:_MAX_GROUPS]]
        more = f"; and at {size_range(those[_MAX_GROUPS:])}" if len(those) > _MAX_GROUPS else ""
        yield f"{name}: launches cluster around two values or more: {'; '.join(where)}{more}"


def _shares(point: PointResult) -> str:
    """Describe the groups of one point: ``0.110 µs in 4 of 12 launches (1-3,7), 0.350 µs in 8 (4-6,8-12)``."""
    shares: list[str] = []
    for group in point.groups:
        of_all = f" of {point.launches} launches" if not shares else ""
        numbers = format_cpulist(group.launches)
        listed = f" ({numbers})" if numbers.count(",") < _MAX_NUMBERS else ""
        shares.append(f"{format_sig(group.median * 1e6, 3)} µs in {len(group.launches)}{of_all}{listed}")
    return ", ".join(shares)


def too_wide(points: Sequence[PointResult], series: LaunchSeries) -> list[Note]:
    """Sum up points with a wider interval than was asked for, with the command that measures the widest again.

    ``3 points of host vary by more than ±1 %, up to ±4.2 % (host at 8 B)``.  Of few launches people see the range,
    which may be narrower than that: such points are apart.
    """
    missed = [point for point in points if point.missed and point.sends]
    groups = grouped(missed, lambda point: bool((shown := point.first_column[0]) and shown.widened))
    # Where a budget left out points and launches, one command measures them and these again (``skipped``, ``whole``).
    whole = len(series.logs) < FIRST_LOOK and any(point.reason == OUT_OF_TIME for point in points)
    return [_too_wide(those, series.plan, whole=whole) for _, those in sorted(groups.items()) if series.plan]


def _too_wide(missed: Sequence[PointResult], plan: Plan, *, whole: bool) -> Note:
    worst = max(missed, key=_shown_width)
    launches, found, factor, unit = launches_of(missed), *worst.first_column
    which, aim = f"{count(len(missed), 'point')} of {_names(missed)}", f"{plan.sampling.ci * 100:g} %"
    more = max(FIRST_LOOK, 2 * launches)
    feasible = more <= FEASIBLE and not whole
    if found and found.widened:
        up_to = "up to " * any(point.launches < launches for point in missed)
        known = f"{'is' if len(missed) == 1 else 'are'} less certain than ±{aim} after {up_to}{launches} launches"
        text = f"{which} {known}: {worst.place} has the widest range, {range_text(found, factor)} {unit}"
    else:
        within, vary = " within one launch" * (launches == 1), "varies" if len(missed) == 1 else "vary"
        most = percent_above(found.half_width if found else 0.0, plan.sampling.ci)
        text = f"{which} {vary} by more than ±{aim}{within}, up to {most} ({worst.place})"
    return finding("NOISY", text, again([worst], plan, size=True, launches=more) if feasible else "", "warning")


def _shown_width(point: PointResult) -> float:
    """Return how wide the bounds in tables are, which of few launches are not those of verdicts: largest / smallest."""
    found = point.first_column[0]
    if found is None:
        return 0.0
    return found.high / found.low if found.widened else found.half_width


def _names(points: Sequence[PointResult]) -> str:
    """Name a few transports, of collectives with their operation; count many: whichever there are more of."""
    names = by_name(points)
    if len(names) <= MAX_NAMED:
        return join_words(names)
    operations = len({point.operation for point in points if point.operation})
    transports = len(by_transport(points))
    return count(operations, "operation") if operations > transports else count(transports, "transport")


def _warnings(points: Sequence[PointResult], plan: Plan | None) -> Iterator[str]:
    """Report each other reason to doubt numbers once, for all points that it concerns."""
    for kind in ("drift", "outliers", "partly"):
        # One warning per point is enough: drift and outliers are omitted if the CI was not reached.
        told = [point for point in points if not (point.missed and kind in ("drift", "outliers"))]
        found = [(point, warning) for point in told for warning in point.warnings if warning.kind == kind]
        for hits in grouped(found, lambda hit: hit[0].launches if hit[1].kind == "partly" else 0).values():
            if not plan:
                return
            alike = grouped(by_name(point for point, _ in hits).items(), lambda named: size_range(named[1]))
            # ``host and aware at 8 B; nccl at 5 sizes from 512 B to 1 MiB``
            named = ((join_words(name for name, _ in those), sizes) for sizes, those in alike.items())
            yield _warning(hits, "; ".join(" at ".join(filter(None, each)) for each in named), plan)


def _warning(hits: Sequence[tuple[PointResult, PointWarning]], where: str, plan: Plan) -> str:
    """Return the sentence about points that have a warning of one kind."""
    points = [point for point, _ in hits]
    worst, warning = max(hits, key=lambda hit: abs(hit[1].value))
    if warning.kind == "partly":
        return f"measured in only {worst.launches} of {worst.launches + warning.value:.0f} launches: {where}"
    launches = f" in {warning.launches} of {worst.launches} launches" if worst.launches > 1 else ""
    most = f"{percent(abs(warning.value), 1)}{launches}"
    where += f" (worst: {most}, {worst.place})" if len(points) > 1 else f" ({most})"
    if warning.kind == "drift":
        # From that number on, the launches of this run already show what drifts.
        repeat = command_again(plan.benchmark, plan, **only(points), launches=FIRST_LOOK)
        more = "" if launches_of(points) >= FIRST_LOOK else f"; repeat with {repeat} for a CI that includes the drift"
        return f"the samples drifted: {where}: clock frequencies or other load may have changed{more}"
    single = points[0].latency and not plan.sampling.tail
    shown = f"; {again(points, plan, tail=True)} shows how long single exchanges take" if single else ""
    return f"many samples took far longer than most: {where}: other work may share these cores{shown}"
