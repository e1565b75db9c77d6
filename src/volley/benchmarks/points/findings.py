"""What the summary of points says: how much was measured, what failed, is far below the line rate, or takes too long.

What an MPI violates against itself: no user should gain by writing an operation as others of the same library
(J. L. Träff, W. D. Gropp and R. Thakur, Self-Consistent MPI Performance Guidelines, IEEE TPDS 21 (2010) 698-709).  The
ratio is formed within each launch; a violation is one whose whole interval lies above ``WORTH``, with those of all that
were compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import compress, groupby, pairwise, product
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from volley.benchmarks.points.results import PointResult, PointSeries, ResultSeries, by_name, by_transport
from volley.document import part_of
from volley.machine.ucx_protocols import PLACE, Protocols, SizeRange
from volley.records.command_again import OF_RANKS, command_again, of_ranks
from volley.records.plan import Plan
from volley.report.cells import bounds_of, digits_cell, launches_of
from volley.report.model import Note, finding
from volley.run.report_parts import Account, over_launches
from volley.statistics.estimates import Estimate
from volley.statistics.launches import above_of_many, of_ratios, ratio
from volley.text import count, grouped, join_few, join_words
from volley.units import format_sig, format_size

GOOD_SHARE = 0.7
"""The part of the line rate from which a transport between GPUs is called OK.  Packet headers take 5 to 20 %, and of
the transports of this program on two H200s the slowest reaches 74 % (docs/peers.md)."""

JUDGED_FROM_S = 0.25e-3
"""A transport none of whose messages takes as long as this at the line rate is not judged by it: the start of each
message takes a part of its time, however good the link is.  Between two H200s nccl, the slowest to rise, reaches 70 %
at 128 MiB, which take 0.28 ms (docs/method/comparing.md)."""

_LOOK_AT = {
    "aware": ("volley doctor", ("--hosts", "--mpi")),
    "nccl": ("volley tune pingpong -t nccl", OF_RANKS),
    "": ("volley matrix", OF_RANKS),
}
"""What helps a transport far below the line rate, and the options of the run that it takes; of others ``volley matrix``
measures the link that they use."""

MAX_SLOWER = 2
"""The summary has at most this many messages that take longer than they have to."""

WORTH = 1.05
"""Equal times differ by a few per cent, and many pairs are compared."""

IN_CACHE_BYTES = 256 << 10
"""A ping-pong sends the same buffer again and again.  A longer message would not be in the caches as its pieces are, so
only up to this size may pieces be compared with the whole.  Nor would the buffers of two operations in turn: of two
ranks with MPICH 4.0 a reduce-scatter and an allgather of 1 MiB took 0.32 ms together, each alone, and 0.39 ms in turn;
of 64 KiB 39 and 38 µs."""

_PARTS = (
    ("allreduce", ("reduce-scatter", "allgather")),
    ("allreduce", ("reduce", "broadcast")),
    ("reduce", ("allreduce",)),
    ("reduce-scatter", ("allreduce",)),
    ("allgather", ("all-to-all",)),
)
"""An operation, and operations of the same size that give the same result one after the other, and more."""

_RUN_AHEAD = ("reduce", "broadcast")
"""In a batch of these, ranks begin the next operation while others are still in the one before: of two ranks with Open
MPI 4.1 both of 8 B took 0.26 µs together, each in its batch, and 0.86 µs one after the other; an allreduce 0.47 µs."""

_OF_LIBRARIES = ("host", "aware", "nccl")
"""Transports whose messages a library sends, which has settings."""

AWARE = "aware"

RENDEZVOUS = "rendezvous"
"""How the names of UCX's protocols for long messages begin."""


def certainty(result: ResultSeries[Any]) -> str:
    """Say how much was measured: ``all 234 points verified byte for byte; 200 within ±1 % (95 % CI over 8 launches in
    15 s)``, or ``6 of 61 points FAILED, 55 verified byte for byte``.

    One launch says nothing of others; of fewer than six the intervals are wide, and people see the range.
    """
    plan, points = result.series.plan, [point for point in result.points if point.sends]
    parts = [Account.of(result.points).words()]
    if plan and plan.sampling.mode == "adaptive" and points:
        aim, times = f"±{plan.sampling.ci * 100:g} %", [point.time for point in points if point.time]
        close = sum(time.half_width <= plan.sampling.ci for time in times if time.interval)
        several = {time.kind for time in times}
        launches = launches_of(points)
        over = over_launches(launches, result.series)
        how = "in one launch" if launches == 1 else f"95 % CI over {over}" if "ci" in several else over
        parts.append(f"{close or 'none'} {'within' if 'ci' in several else 'known to within'} {aim} ({how})")
    # An operation without data, a barrier, has no row in the table.
    parts += [
        f"{point.name} {digits_cell(point.time, 1e6).text} µs" for point in points if point.operation == "barrier"
    ]
    return "; ".join([*parts, *[COLD_CACHES] * is_cold(points, plan)])


COLD_CACHES = "cold caches: messages pass through buffers larger than the caches"


def is_cold(points: Sequence[PointResult], plan: Plan | None) -> bool:
    """Return whether messages are in no cache; a barrier has none."""
    return bool(plan and getattr(plan.options, "cold_cache", False)) and any(point.sized for point in points)


def findings(result: PointSeries, ucx_operation: str) -> Iterator[Note]:
    """Yield the conclusions of the summary; ``ucx_operation`` as in ``page.report_of``."""
    series, plan, points = result.series, result.series.plan, [point for point in result.points if point.sends]
    yield from broken(result.points, plan)
    yield from _shares(points, plan)
    if any(log.run and log.run.oversubscribed for log in series.logs):
        return  # times include waiting for a core, most where many ranks must have their turn
    # What takes longer than it has to: messages for which UCX uses a slower protocol, then other violations.
    slower = list(_ucx_inversions([point for point in points if point.rate], plan, ucx_operation))
    slower += violations([point for point in points if not slower or point.transport != AWARE], plan)
    yield from (replace(note, first=number < MAX_SLOWER) for number, note in enumerate(slower))


def broken(points: Sequence[PointResult], plan: Plan | None) -> Iterator[Note]:
    failed = [point for point in points if point.status == "failed"]
    (name, those), *others = by_name(failed).items() or [("", [])]
    if those:
        number, names = len(failed) - len(those), join_few(other for other, _ in others)
        more = f"; {count(number, 'point')} of {names} failed too" if others else ""
        yield finding(
            "BROKEN", f"{name} failed at {count(len(those), 'point')}{more}", again([those[0]], plan, size=True)
        )


MAX_SIZES = 3
"""A sentence, or a command, lists at most this many sizes."""


def only(points: Sequence[PointResult]) -> dict[str, str]:
    """Return the options that measure the transports and the operations of these points alone."""
    operations = ",".join(dict.fromkeys(point.operation for point in points if point.operation))
    return {"transport": ",".join(by_transport(points)), **({"operation": operations} if operations else {})}


def again(points: Sequence[PointResult], plan: Plan | None, *, size: bool = False, **changes: Any) -> str:
    """Return the command that measures the transports of points again, with the options of the run but for changes.

    ``size``: only at their sizes, unless these are many.
    """
    first, sized = points[0], dict.fromkeys(str(point.size_bytes) for point in points if point.sized)
    sizes = {"sizes": ",".join(sized)} if size and 0 < len(sized) <= MAX_SIZES else {}
    return command_again(first.benchmark, plan, **only(points), **sizes, **changes)


def _shares(points: Sequence[PointResult], plan: Plan | None) -> Iterator[Note]:
    """Judge by the line rate the transport of MPI, or else the fastest; one that is far below the rate is slow."""
    direct = by_transport(point for point in points if point.rate and not point.transport.startswith("staged/"))
    judged = [
        max(those, key=attrgetter("bandwidth_Bps"))
        for those in direct.values()
        if any(each.line_rate and each.size_bytes / each.line_rate.one_way_Bps >= JUDGED_FROM_S for each in those)
    ]
    fastest = max(judged, key=attrgetter("bandwidth_Bps"), default=None)
    leading = next((point for point in judged if point.transport == AWARE), fastest)
    good = f"{GOOD_SHARE * 100:.0f} %"
    for point in sorted(judged, key=lambda point: point is not leading):
        share, text = point.of_line_rate, _share(point, points)
        assert share
        unsure = f"; too few launches to tell whether that is above {good}"
        if share.interval and not share.widened:
            unsure = f"; may be above or below {good} ({bounds_of(share, 100, '%')})"
        command, names = _LOOK_AT.get(point.transport, _LOOK_AT[""])
        look = of_ranks(command, plan, names)
        if share.below(GOOD_SHARE):
            yield finding("SLOW", text, look)
        elif share.median < GOOD_SHARE:
            yield finding("SLOW?", text + unsure, look)
        elif point is leading and share.above(GOOD_SHARE):
            yield finding("OK", text)
        elif point is leading:
            yield finding("NOISY", text + unsure)


def _share(point: PointResult, points: Sequence[PointResult]) -> str:
    """Describe a peak: ``aware reaches 393 GB/s at 1 GiB: 82 % of line rate (NVLink), 158 × staged/pageable``.

    If the baseline skipped that size, the speed-up is that at the largest size which both have.
    """
    assert point.line_rate
    assert point.of_line_rate
    text = (
        f"{point.transport} reaches {format_sig(point.bandwidth_Bps / 1e9, 3)} GB/s at {format_size(point.size_bytes)}"
    )
    text += f": {point.of_line_rate.median * 100:.0f} % of line rate ({point.line_rate.over})"
    same = [each for each in points if each.name == point.name and each.speedup]
    compared = point if point.speedup else max(same, key=lambda each: each.size_bytes, default=point)
    if compared.speedup and (compared.speedup.above(1) or compared.speedup.below(1)):
        text += f", {format_sig(compared.speedup.median, 3)} × {compared.speedup_over}"
        text += "" if compared is point else f" at {format_size(compared.size_bytes)}"
    return text


# ------------------------------------------------------------------------------------------ protocols of UCX


def ucx_ranges(
    measured: Iterable[PointResult], plan: Plan | None, operation: str
) -> list[tuple[SizeRange, list[PointResult]]]:
    """Return the ranges of sizes with one protocol each for GPU memory, with the points of MPI in each.

    Args:
        measured: points with a time and a rate.
        plan: contains UCX's protocols if the preflight recorded them.
        operation: the name of the measured MPI calls in UCX's tables.
    """
    points = [point for point in measured if point.transport == AWARE]
    protocols = part_of(plan.launch, Protocols, *PLACE) if plan and points and operation else None
    # The table of the operation to the other rank, where only one can be meant.
    others = [table for table in protocols.sends if " self " not in f" {table.connection} "] if protocols else []
    called = [table for table in others if operation in table.operation]
    table = called[0] if len(called) == 1 else others[0] if len(others) == 1 else None
    found = []
    for _, alike in groupby(table.ranges if table else (), attrgetter("protocol", "lanes")):
        rows: list[SizeRange] = list(alike)
        whole = msgspec.structs.replace(rows[0], last_bytes=rows[-1].last_bytes)
        end = float("inf") if whole.last_bytes is None else whole.last_bytes
        if here := [point for point in points if whole.first_bytes <= point.size_bytes <= end]:
            found.append((whole, here))
    return found


def _ucx_inversions(measured: Sequence[PointResult], plan: Plan | None, operation: str) -> Iterator[Note]:
    """Describe the changes of protocol where a smaller message takes significantly longer than a larger one.

    Not of ranks that share a GPU: what they wait for is each other's turn, whatever the protocol.
    """
    if plan and plan.share_device:
        return
    for (lower, below), (upper, above) in pairwise(ucx_ranges(measured, plan, operation)):
        pairs = [
            (small, large, found)
            for small, large in product(below, above)
            if small.latency and large.latency and (found := ratio(small.repeated, large.repeated))
        ]
        if slower := list(compress(pairs, above_of_many([found for *_, found in pairs], WORTH))):
            pair = min(slower, key=lambda each: (each[0].size_bytes, -each[2].median))[:2]
            times = [
                f"{format_size(point.size_bytes)} in {format_sig(point.latency.median * 1e6, 3)} µs"
                for point in pair
                if point.latency
            ]
            command = ""
            if upper.protocol.startswith(RENDEZVOUS) and not lower.protocol.startswith(RENDEZVOUS):
                again = command_again(pair[0].benchmark, plan, transport=AWARE, sizes="8:64Ki")
                command = f"UCX_RNDV_THRESH=8 {again}"
            yield finding(
                "SLOW",
                f"{AWARE}: small messages take longer than larger ones, and UCX uses another protocol for them: "
                f"{' but '.join(times)}",
                command,
            )


# ---------------------------------------------------------------------------------------------- guidelines


class Violation(NamedTuple):
    kind: str
    """``parts``, ``longer`` or ``split``."""
    point: PointResult
    instead: str
    """What takes less time in its place: ``64 KiB``, ``reduce-scatter and allgather``."""
    ratio: Estimate
    """How many times as long the point takes."""


def violations(points: Sequence[PointResult], plan: Plan | None) -> list[Note]:
    """Return the largest violation of each kind by each transport, the largest of all first."""
    cold = is_cold(points, plan)
    named = (point for point in points if point.transport.partition("/")[0] in _OF_LIBRARIES)
    timed = [point for point in named if point.latency and point.repeated and point.sends]
    tried = grouped([*_by_parts(timed, cold=cold), *_by_size(timed)], lambda each: each.point.transport).values()
    found = [each for those in tried for each in compress(those, above_of_many([each.ratio for each in those], WORTH))]
    found.sort(key=lambda each: -each.ratio.median)
    worst = {(each.kind, each.point.name): each for each in reversed(found)}
    option = "--cold-cache" * cold
    return [_conclusion(each, option, plan) for each in sorted(worst.values(), key=lambda each: -each.ratio.median)]


def _conclusion(found: Violation, option: str, plan: Plan | None) -> Note:
    """Return the sentence, and the command line that looks for settings without the violation, with an option."""
    point, ratio = found.point, found.ratio
    longer = f"takes {format_sig(ratio.median, 3)} times as long as {found.instead}"
    ranks = f" --ranks {len(point.ranks)}" if len(point.ranks) > 2 else ""
    what = f"collective --operation {point.operation}" if point.operation else point.benchmark
    return finding(
        "SLOW",
        f"{point.name} of {format_size(point.size_bytes)} {longer} ({bounds_of(ratio)})",
        of_ranks(f"volley tune {what} -t {point.transport}{ranks} {option}".rstrip(), plan),
    )


def _by_parts(timed: Sequence[PointResult], *, cold: bool) -> Iterator[Violation]:
    known = {(point.transport, point.size_bytes, point.operation): point for point in timed}
    for operation, parts in _PARTS:
        for point in (each for each in timed if each.operation == operation):
            in_caches = not cold and point.transport.startswith("host") and point.size_bytes > IN_CACHE_BYTES
            if in_caches and len(parts) > 1:
                continue
            others = [known.get((point.transport, point.size_bytes, part)) for part in parts]
            if all(others) and all(_one_by_one(each) for each in others if each and each.operation in _RUN_AHEAD):
                yield from _compared("parts", point, join_words(parts), [each for each in others if each])


def _one_by_one(point: PointResult) -> bool:
    """Return whether each sample is one operation, which all ranks entered together."""
    records: Sequence[Any] = [*point.measured.values()]
    return all(each.entry_skew_s and each.operations_per_sample == 1 for each in records)


def _by_size(timed: Sequence[PointResult]) -> Iterator[Violation]:
    for those in grouped(timed, lambda point: (point.name, point.ranks)).values():
        ordered = sorted((point for point in those if point.rate), key=lambda point: point.size_bytes)
        for number, small in enumerate(ordered):
            for large in ordered[number + 1 :]:
                yield from _compared("longer", small, format_size(large.size_bytes), [large])
                times, rest = divmod(large.size_bytes, small.size_bytes)
                if not rest and small.operation is None and large.size_bytes <= IN_CACHE_BYTES:
                    instead = f"{times} messages of {format_size(small.size_bytes)}"
                    yield from _compared("split", large, instead, [small], times)


def _compared(
    kind: str, point: PointResult, instead: str, parts: Sequence[PointResult], times: int = 1
) -> Iterator[Violation]:
    """Yield how many times as long the point takes as the parts together, that many times; one launch is too few."""
    own, *others = [each.repeated.medians if each.repeated else {} for each in (point, *parts)]
    common = sorted(set(own).intersection(*others))
    ratio = of_ratios([own[at] / sum(each[at] for each in others) / times for at in common]) if common else None
    if ratio and ratio.interval:
        yield Violation(kind, point, instead, ratio)
