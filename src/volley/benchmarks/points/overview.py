"""The summary of many points: findings, and a table with one row for each transport at a few sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from volley.benchmarks.points.notes import (
    again,
    few_launches,
    range_words,
    shown_width,
    size_range,
    slower_than_needed,
    too_wide,
)
from volley.benchmarks.points.results import PointResult, PointSeries, by_name, by_transport, one_launch
from volley.report.cells import bounds_of, known_digits, percent, ratio_cell, unclear
from volley.report.model import EMPTY, Cell, Column, Conclusion, Overview, Table
from volley.run.report_parts import machine_notes, over_launches
from volley.statistics.estimates import Estimate
from volley.statistics.launches import has_interval, shows_change
from volley.text import count, grouped
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

UNCERTAIN = 0.1
"""A number whose interval is wider than ± this has a question mark: its second digit is not certain."""

MAX_UNCERTAIN = 4
"""At most this many uncertain numbers are listed."""

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


def overview(result: PointSeries, ucx_operation: str) -> Overview | None:
    """Return the overview of one series; ``None`` if its tables fit a screen or its points are not comparable.

    ``ucx_operation`` as in ``page.report_of``.
    """
    compared = [table for table in result.tables if any(point.sends for point in table)]
    points = [point for table in compared for point in table if point.sends]
    operations = len({point.operation for point in points})
    if len(compared) != operations:  # these points are not comparable
        return None
    rows = len(by_name(point for point in points if point.rate))
    few = len(points) < MIN_POINTS and len({point.size_bytes for point in points}) < MIN_SIZES
    if rows < 2 or (operations == 1 and few):
        return None
    return Overview(_line(result, points), list(_conclusions(result, points, ucx_operation)), _table(result, points))


def _line(result: PointSeries, points: Sequence[PointResult]) -> str:
    """Say how much was measured: ``234 points, all verified byte for byte; 200 within ±1 % (95 % CI over 8 launches in
    15 s; conditions may change later)``, or ``61 points, 6 failed, all others verified byte for byte``.

    One launch says nothing of others, so it is not called ±; two launches have no interval.
    """
    plan = result.series.plan
    checked = sum(bool(point.verified) for point in points)
    failed = sum(point.status == "failed" for point in result.points)
    found = [count(len(points) + failed, "point"), *([f"{failed} failed"] if failed else [])]
    empty = sum(point.empty for point in points)
    share = f"all{' others' * bool(failed)}" if checked + empty == len(points) else str(checked)
    nothing = " (0 B: nothing to compare)" * bool(empty)
    parts = [", ".join([*found, f"{share} verified byte for byte{nothing}"])]
    if plan and plan.sampling.mode == "adaptive":
        kind, aim = "within" if one_launch(points) else "ci", plan.sampling.ci
        launches = max(point.launches for point in points)
        known = [point.time for point in points if point.time and point.time.kind == kind]
        close = sum(time.half_width <= aim for time in known)
        if one_launch(points):
            spread = {0: "none spreads", 1: "1 spreads"}.get(close, f"{close} spread")
            parts.append(f"within one launch, {spread} by {aim * 100:g} % or less")
        elif few_launches(points):
            parts.append(f"{close or 'none'} known to ±{aim * 100:g} % ({over_launches(launches, result.series)})")
        else:
            parts.append(
                f"{close or 'none'} within ±{aim * 100:g} % (95 % CI over {over_launches(launches, result.series)})"
            )
    # An operation without data, a barrier, has no row in the table.
    parts += [f"{point.name} {_number(point, 1e6).text} µs" for point in points if not point.carries]
    return "; ".join(parts)


# -------------------------------------------------------------------------------------------- conclusions


def _conclusions(result: PointSeries, points: Sequence[PointResult], ucx_operation: str) -> Iterator[Conclusion]:
    plan = result.series.plan
    failed = [point for point in result.points if point.status == "failed"]
    for name, those in list(by_name(failed).items())[:1]:
        others = len(failed) - len(those)
        more = f"; {count(others, 'point')} of other transports failed too" if others else ""
        yield Conclusion(
            "BROKEN", f"{name} failed at {count(len(those), 'size')}{more}", again([those[0]], plan, size=True)
        )
    yield from _shares(points)
    yield from slower_than_needed(points, plan, ucx_operation)[:2]
    yield from (Conclusion("NOISY", note.text) for note in list(machine_notes(result.series))[:1])
    yield from too_wide(points, plan)


def _shares(points: Sequence[PointResult]) -> Iterator[Conclusion]:
    """Judge by the line rate the transport of MPI, or else the fastest; one that is far below the rate is slow."""
    direct = by_transport(point for point in points if point.rate and not point.transport.startswith("staged/"))
    judged = [
        max(those, key=lambda point: point.bandwidth_Bps or 0)
        for those in direct.values()
        if any(each.line_rate and each.size_bytes / each.line_rate.one_way_Bps >= JUDGED_FROM_S for each in those)
    ]
    fastest = max(judged, key=lambda point: point.bandwidth_Bps or 0, default=None)
    leading = next((point for point in judged if point.transport == "aware"), fastest)
    for point in sorted(judged, key=lambda point: point is not leading):
        share, text = _of_line_rate(point), _share(point, points)
        low, high = (share.low, share.high) if has_interval(share) else (0.0, math.inf)
        unsure = f"; neither above nor below {GOOD_SHARE * 100:.0f} % for certain ({bounds_of(share, 100, '%')})"
        if high < GOOD_SHARE:
            yield Conclusion("SLOW", text, _LOOK_AT.get(point.transport, "volley matrix"))
        elif share.median < GOOD_SHARE:
            yield Conclusion("SLOW?", text + unsure, _LOOK_AT.get(point.transport, "volley matrix"))
        elif point is leading and low >= GOOD_SHARE:
            yield Conclusion("OK", text)
        elif point is leading:
            yield Conclusion("NOISY", text + unsure)


def _of_line_rate(point: PointResult) -> Estimate:
    line = point.line_rate_Bps
    assert point.rate
    assert line
    return point.rate.map(lambda rate: rate / line)


def _share(point: PointResult, points: Sequence[PointResult]) -> str:
    """Describe a peak: ``aware reaches 393 GB/s at 1 GiB: 82 % of line rate (NVLink), 158 × staged/pageable``.

    If the baseline skipped that size, the speed-up is that at the largest size which both have.
    """
    assert point.line_rate
    assert point.of_line_rate is not None
    rate = format_sig((point.bandwidth_Bps or 0) / 1e9, 3)
    text = f"{point.transport} reaches {rate} GB/s at {format_size(point.size_bytes)}"
    text += f": {point.of_line_rate * 100:.0f} % of line rate ({point.line_rate.over})"
    same = [each for each in points if each.name == point.name and each.speedup]
    compared = point if point.speedup else max(same, key=lambda each: each.size_bytes, default=point)
    if compared.speedup and shows_change(compared.speedup):
        text += f", {format_sig(compared.speedup.median, 3)} × {compared.speedup_over}"
        text += "" if compared is point else f" at {format_size(compared.size_bytes)}"
    return text


# -------------------------------------------------------------------------------------------------- table


def _table(result: PointSeries, points: Sequence[PointResult]) -> Table:
    sizes = sorted({point.size_bytes for point in points if point.carries})
    # A transport with a limit of length, such as one word, has the first size only.
    last = {those[-1].size_bytes for those in by_name(point for point in points if point.rate).values()}
    largest = min(last - {sizes[0]} or last)
    timed = [sizes[0], *_nearest(sizes, LATENCIES)] if points[0].latency else []
    timed = list(dict.fromkeys(timed))
    rated = sorted({*_nearest(sizes, BANDWIDTHS[1:] if timed else BANDWIDTHS), largest, sizes[-1]})
    over = next((point.speedup_over for point in points if point.speedup), None)
    compared = sorted({point.size_bytes for point in points if point.transport == over}.intersection(sizes))
    compared = [compared[0], compared[-1]] if compared else []
    words = ("time", "bus bandwidth") if points[0].operation else ("latency", "bandwidth")
    shares = any(point.line_rate for point in points)
    one = Cell(1, "dim", "1")
    number = partial(_number, repeated=not (one_launch(points) or few_launches(points)))
    rows: list[list[Cell]] = []
    sections: dict[int, str] = {}
    for section, transports in _sections(result, points).items():
        sections[len(rows)] = section
        for name, those in transports.items():
            here = {point.size_bytes: point for point in those}
            ratios = {size: point.speedup for size, point in here.items()}
            # one size, such as a word, has no peak
            best = max(those, key=lambda point: point.bandwidth_Bps or 0) if len(those) > 1 else None
            share = best.of_line_rate if best else None
            rows.append(
                [
                    Cell(f"  {name}"),
                    *(number(here.get(size), 1e6) for size in timed),
                    *(number(here.get(size), 1e-9) for size in rated),
                    number(best, 1e-9),
                    *([EMPTY if share is None else Cell(share * 100, text=f"{share * 100:.0f} %")] if shares else []),
                    *(one if name == over and size in here else ratio_cell(ratios.get(size)) for size in compared),
                ]
            )
    # Of bandwidths first go sizes between others, then the one that slow transports skipped.
    spare_rates = {**dict.fromkeys(rated, 6), sizes[-1]: 4, rated[0]: 0, largest: 0}
    before_ratios = unclear(row[: len(row) - len(compared)] for row in rows)  # narrow screens have no ratios
    of_ratios = (mark for mark in unclear(rows) if mark not in before_ratios)
    relative = "; ".join([f"speed-up: relative to {over}", *of_ratios])
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
    return Table(columns, rows, legend=[*_legend(points), *before_ratios], sections=sections)


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


def _number(point: PointResult | None, factor: float, *, repeated: bool = False) -> Cell:
    """Return a time in the unit of ``factor`` or, if it is less than 1, a bandwidth, with the digits that are known.

    ``repeated``: other points have intervals over launches; a number without one is in parentheses.
    """
    if point is None or point.time is None:
        return EMPTY
    value = (point.time.median if factor > 1 else point.bandwidth_Bps or 0) * factor
    unsure = point.half_width > UNCERTAIN
    text = format_sig(value, known_digits(point.half_width)) + "?" * unsure
    alone = repeated and point.time.shown.kind != "ci"
    return Cell(value, "warning" if unsure else "", f"({text})" if alone else text)


def _legend(points: Sequence[PointResult]) -> Iterator[str]:
    unsure = [point for point in points if point.half_width > UNCERTAIN]
    unsure = sorted(unsure, key=shown_width)[::-1]
    if unsure:
        few, sign = few_launches(points), "" if one_launch(points) else "±"
        widths = [range_words(point) if few else percent(point.half_width, 0, sign) for point in unsure[:MAX_UNCERTAIN]]
        named = [
            " ".join(filter(None, (point.name, size_range([point]), width)))
            for point, width in zip(unsure, widths, strict=False)
        ]
        rest = f" and {len(unsure) - MAX_UNCERTAIN} more" if len(unsure) > MAX_UNCERTAIN else ""
        which = "spread within one launch of more than " if one_launch(points) else "95 % CI wider than ±"
        which = "not known to ±" if few else which
        what = f"; range of {max(point.launches for point in points)} launches" if few else ""
        yield f"? {which}{UNCERTAIN * 100:g} %{what}: {', '.join(named)}{rest}"
    if points[0].direction == "bi":
        yield "bandwidth: of both directions, twice that of the slower one"
