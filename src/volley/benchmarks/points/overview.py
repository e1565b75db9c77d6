"""The summary of many points: a line, and a table with one row for each transport at a few sizes; and the findings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from volley.benchmarks.points.notes import broken, slower_than_needed
from volley.benchmarks.points.results import PointResult, PointSeries, ResultSeries, by_name, by_transport, one_launch
from volley.report.cells import bounds_of, digits_cell, launches_of, ratio_cell, unclear
from volley.report.model import EMPTY, Cell, Column, Note, Overview, Table, finding
from volley.run.report_parts import Account, over_launches
from volley.text import grouped
from volley.units import format_sig, format_size

MIN_SIZES = 6
MIN_POINTS = 20
"""Fewer sizes and fewer points than these fit a screen as they are."""

LATENCIES = (1 << 12, 1 << 16)
"""The latency columns, after the smallest size: the measured sizes next to these."""

BANDWIDTHS = (1 << 16, 1 << 20, 1 << 24)
"""The bandwidth columns, before the largest size; of latencies only the last two."""

_SPARE_TIMES = (0, 2, 5)
_SPARE_RATIOS = (3, 1)
"""Which columns of latencies and speed-ups a narrow screen leaves out, the highest first (``Column.spare``)."""

GOOD_SHARE = 0.7
"""The part of the line rate from which a transport between GPUs is called OK.  Packet headers take 5 to 20 %, and of
the transports of this program on two H200s the slowest reaches 74 % (docs/peers.md)."""

JUDGED_FROM_S = 0.25e-3
"""A transport none of whose messages takes as long as this at the line rate is not judged by it: the start of each
message takes a part of its time, however good the link is.  Between two H200s nccl, the slowest to rise, reaches 70 %
at 128 MiB, which take 0.28 ms (docs/method/comparing.md)."""

_LOOK_AT = {"aware": "volley doctor", "nccl": "volley tune pingpong -t nccl"}
"""What helps a transport far below the line rate; of others ``volley matrix`` measures the link that they use."""

_PLACES = {"host": "host memory", "device": "GPU memory", "none": "nothing is sent"}


def overview(result: PointSeries) -> Overview | None:
    """Return the overview of one series; ``None`` if its tables fit a screen or its points are not comparable."""
    compared = [table for table in result.tables if any(point.sends for point in table)]
    points = [point for table in compared for point in table if point.sends]
    operations = len({point.operation for point in points})
    if len(compared) != operations:  # these points are not comparable
        return None
    rows = len(by_name(point for point in points if point.rate))
    few = len(points) < MIN_POINTS and len({point.size_bytes for point in points}) < MIN_SIZES
    if rows < 2 or (operations == 1 and few):
        return None
    return Overview(certainty(result), _table(result, points))


def certainty(result: ResultSeries[Any]) -> str:
    """Say how much was measured: ``all 234 points verified byte for byte; 200 within ±1 % (95 % CI over 8 launches in
    15 s)``, or ``6 of 61 points FAILED, 55 verified byte for byte``.

    One launch says nothing of others; of fewer than six the intervals are wide, and people see the range.
    """
    plan, points = result.series.plan, [point for point in result.points if point.sends]
    parts = [Account.of(result.points).words()]
    if plan and plan.sampling.mode == "adaptive" and points:
        aim = f"±{plan.sampling.ci * 100:g} %"
        close = sum(point.half_width <= plan.sampling.ci for point in points if point.time and point.time.interval)
        several = {point.time.kind for point in points if point.time}
        over = over_launches(launches_of(points), result.series)
        how = "within one launch" if one_launch(points) else f"95 % CI over {over}" if "ci" in several else over
        parts.append(f"{close or 'none'} {'within' if 'ci' in several else 'known to within'} {aim} ({how})")
    # An operation without data, a barrier, has no row in the table.
    parts += [
        f"{point.name} {digits_cell(point.time, 1e6).text} µs" for point in points if point.operation == "barrier"
    ]
    return "; ".join(parts)


# -------------------------------------------------------------------------------------------- conclusions


def findings(result: PointSeries, ucx_operation: str) -> Iterator[Note]:
    """Yield the conclusions of the summary; ``ucx_operation`` as in ``page.report_of``."""
    plan, points = result.series.plan, [point for point in result.points if point.sends]
    yield from broken(result.points, plan)
    yield from _shares(points)
    yield from slower_than_needed(points, plan, ucx_operation)


def _shares(points: Sequence[PointResult]) -> Iterator[Note]:
    """Judge by the line rate the transport of MPI, or else the fastest; one that is far below the rate is slow."""
    direct = by_transport(point for point in points if point.rate and not point.transport.startswith("staged/"))
    judged = [
        max(those, key=_rate)
        for those in direct.values()
        if any(each.line_rate and each.size_bytes / each.line_rate.one_way_Bps >= JUDGED_FROM_S for each in those)
    ]
    leading = next((point for point in judged if point.transport == "aware"), max(judged, key=_rate, default=None))
    good = f"{GOOD_SHARE * 100:.0f} %"
    for point in sorted(judged, key=lambda point: point is not leading):
        share, text = point.of_line_rate, _share(point, points)
        assert share
        unsure = f"; too few launches to tell whether that is above {good}"
        if share.interval and not share.widened:
            unsure = f"; may be above or below {good} ({bounds_of(share, 100, '%')})"
        if share.below(GOOD_SHARE):
            yield finding("SLOW", text, _LOOK_AT.get(point.transport, "volley matrix"))
        elif share.median < GOOD_SHARE:
            yield finding("SLOW?", text + unsure, _LOOK_AT.get(point.transport, "volley matrix"))
        elif point is leading and share.above(GOOD_SHARE):
            yield finding("OK", text)
        elif point is leading:
            yield finding("NOISY", text + unsure)


def _rate(point: PointResult) -> float:
    return point.bandwidth_Bps or 0.0


def _share(point: PointResult, points: Sequence[PointResult]) -> str:
    """Describe a peak: ``aware reaches 393 GB/s at 1 GiB: 82 % of line rate (NVLink), 158 × staged/pageable``.

    If the baseline skipped that size, the speed-up is that at the largest size which both have.
    """
    assert point.line_rate
    assert point.of_line_rate
    text = f"{point.transport} reaches {format_sig(_rate(point) / 1e9, 3)} GB/s at {format_size(point.size_bytes)}"
    text += f": {point.of_line_rate.median * 100:.0f} % of line rate ({point.line_rate.over})"
    same = [each for each in points if each.name == point.name and each.speedup]
    compared = point if point.speedup else max(same, key=lambda each: each.size_bytes, default=point)
    if compared.speedup and (compared.speedup.above(1) or compared.speedup.below(1)):
        text += f", {format_sig(compared.speedup.median, 3)} × {compared.speedup_over}"
        text += "" if compared is point else f" at {format_size(compared.size_bytes)}"
    return text


# -------------------------------------------------------------------------------------------------- table


def _table(result: PointSeries, points: Sequence[PointResult]) -> Table:
    sizes = sorted({point.size_bytes for point in points if point.carries})
    # A transport with a limit of length, such as one word, has the first size only.
    last = {those[-1].size_bytes for those in by_name(point for point in points if point.rate).values()}
    largest = min(last - {sizes[0]} or last)
    timed = list(dict.fromkeys([sizes[0], *_nearest(sizes, LATENCIES)])) if points[0].latency else []
    rated = sorted({*_nearest(sizes, BANDWIDTHS[1:] if timed else BANDWIDTHS), largest, sizes[-1]})
    over = next((point.speedup_over for point in points if point.speedup), None)
    compared = sorted({point.size_bytes for point in points if point.transport == over}.intersection(sizes))
    compared = [compared[0], compared[-1]] if compared else []
    words = ("time", "bus bandwidth") if points[0].operation else ("latency", "bandwidth")
    shares = any(point.line_rate for point in points)
    one = Cell(1, "dim", "1")
    rows: list[list[Cell]] = []
    sections: dict[int, str] = {}
    for section, transports in _sections(result, points).items():
        sections[len(rows)] = section
        for name, those in transports.items():
            here = {point.size_bytes: point for point in those}
            ratios = {size: point.speedup for size, point in here.items()}
            # one size, such as a word, has no peak
            best = max(those, key=_rate) if len(those) > 1 else None
            share = best.of_line_rate.median * 100 if best and best.of_line_rate else None
            line = EMPTY if share is None else Cell(share, text=f"{share:.0f} %")
            rows.append(
                [
                    Cell(f"  {name}"),
                    *(digits_cell(here[size].time, 1e6) if size in here else EMPTY for size in timed),
                    *(digits_cell(here[size].rate, 1e-9) if size in here else EMPTY for size in rated),
                    digits_cell(best.rate if best else None, 1e-9),
                    *([line] if shares else []),
                    *(one if name == over and size in here else ratio_cell(ratios.get(size)) for size in compared),
                ]
            )
    # Of bandwidths first go sizes between others, then the one that slow transports skipped.
    spare_rates = {**dict.fromkeys(rated, 6), sizes[-1]: 4, rated[0]: 0, largest: 0}
    relative = "; ".join([f"speed-up: relative to {over}", *unclear(rows)])  # narrow screens have no ratios
    columns = [
        Column("transport", align="left"),
        *(
            Column(format_size(size), group=f"{words[0]}, µs", spare=spare)
            for size, spare in zip(timed, _SPARE_TIMES, strict=False)
        ),
        *(Column(format_size(size), group=f"{words[1]}, GB/s", spare=spare_rates[size]) for size in rated),
        Column("GB/s", group="peak"),
        *([Column("line", group="peak", meaning="line: share of the line rate")] if shares else []),
        *(
            Column(format_size(size), group="speed-up", spare=spare, meaning=relative)
            for size, spare in zip(compared, _SPARE_RATIOS, strict=False)
        ),
    ]
    both = ["bandwidth: of both directions, twice that of the slower one"] if points[0].direction == "bi" else []
    return Table(columns, rows, legend=both, sections=sections)


def _nearest(sizes: Sequence[int], wanted: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(min(sizes, key=lambda size: abs(math.log(max(size, 1) / each))) for each in wanted))


def _sections(result: PointSeries, points: Sequence[PointResult]) -> dict[str, dict[str, list[PointResult]]]:
    """Group the transports of collectives by operation, others by the path of their bytes.

    The fastest path comes first, host memory last.
    """
    found: dict[tuple[float, str], dict[str, list[PointResult]]] = {}
    operations = grouped((point for point in points if point.carries), lambda point: point.operation)
    for number, (operation, those) in enumerate(operations.items()):
        if operation:
            found[number, operation] = by_transport(those)
    for name, those in by_transport(operations.get(None, ())).items():
        transport, rate = result.series.transports.get(name), those[0].line_rate
        place = _PLACES[transport.memory] if transport else "unknown memory"
        path = f"{place}, {rate.describe()} in each direction" if rate else place
        on_host = transport is not None and transport.memory == "host"
        order = math.inf if on_host else -(rate.one_way_Bps if rate else 0.0)
        found.setdefault((order, path), {})[name] = those
    return {name: found[order, name] for order, name in sorted(found)}
