"""The reports of message rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from volley.benchmarks.message_rate.overview import overview, place, too_wide
from volley.benchmarks.message_rate.results import (
    WORTHWHILE,
    MessageRates,
    PairsResult,
    Saturation,
    by_transport_and_size,
    saturation,
)
from volley.benchmarks.shared.points.notes import failure, skipped
from volley.benchmarks.shared.points.page import PointColumn, cell_of
from volley.benchmarks.shared.points.results import by_transport, one_launch
from volley.report.cells import plus_minus, ratio_cell, scaled, spread, unclear
from volley.report.model import Axis, Cell, Chart, Column, Data, Mark, Note, Report, Row, Table
from volley.run import report_parts
from volley.statistics.launches import has_interval
from volley.text import count
from volley.units import format_sig, format_size

COLUMNS = (
    "transport", "size_bytes", "pairs", "window", "samples", "messages_per_s", "messages_low_per_s",
    "messages_high_per_s", "messages_of_a_pair_per_s", "bandwidth_GBps", "bandwidth_of_a_pair_GBps", "kept", "kept_low",
    "kept_high", "interval", "verified", "status", "launches", "ranks", "messages_timed", "messages_verified",
    "ended_by", "cold_us", "reason",
)  # fmt: skip

KEYS = ("transport", "size_bytes", "pairs", "window")
ONE_PAIR = Cell(100.0, "dim", "100")
_ALL_VERIFIED = "all verified"


def report(result: MessageRates) -> Report:
    names = list(dict.fromkeys(each.point.transport for each in result.results))
    alone = names if len(names) == 1 else []  # the table names several transports
    sizes = sorted({each.point.size_bytes for each in result.results})
    tables = [_table(result, names, sizes), _saturations(result, names, sizes)]
    return Report(
        heading=report_parts.heading(result.series, "message-rate", *alone),
        tables=[table for table in tables if table],
        overview=overview(result),
        charts=list(_charts(result, sizes)),
        notes=_notes(result),
        data=Data(COLUMNS, KEYS, [_row(each) for each in result.results]),
        runs=result.series.describe_runs(),
    )


# ------------------------------------------------------------------------------------------------- tables


def _columns(result: MessageRates, *, alone: bool, several: bool) -> list[PointColumn]:
    """Return the columns of a transport: more if it is ``alone``, and if there are ``several`` numbers of pairs."""
    one = one_launch(each.point for each in result.results)
    width = PointColumn("spread", "%", lambda each: spread(each.point.time))
    if not one:
        width = PointColumn("", "± %", lambda each: plus_minus(each.point.time))
    columns = [PointColumn("all pairs", "M/s", lambda each: scaled(each.rate, 1e-6)), width]
    if several:
        columns += [
            PointColumn("a pair", "M/s", lambda each: scaled(each.pair_rate, 1e-6)),
            # dim where the difference from one pair alone is not significant
            PointColumn("keeps", "%", lambda each: ratio_cell(each.kept, 100) if each.pairs > 1 else ONE_PAIR),
        ]
    columns.append(PointColumn("all pairs", "GB/s", lambda each: scaled(each.point.bandwidth_Bps, 1e-9)))
    if alone and several:
        columns.append(PointColumn("a pair", "GB/s", lambda each: scaled(each.point.bandwidth_Bps, 1e-9 / each.pairs)))
    if alone:
        columns += [
            PointColumn("samples", "", lambda each: each.point.samples),
            PointColumn("verified", "", lambda each: each.point.verified if each.point.rate else None),
        ]
    return columns


def _table(result: MessageRates, names: Sequence[str], sizes: Sequence[int]) -> Table:
    """Return a table with a row for each number of pairs, in sections of a size; or, of one number, for each size."""
    alone = len(names) == 1
    found = {(each.point.transport, each.point.size_bytes, each.pairs): each for each in result.results}
    numbers = sorted({each.pairs for each in result.results})
    several = len(numbers) > 1
    columns = _columns(result, alone=alone, several=several)
    rows: list[list[Cell]] = []
    sections: dict[int, str] = {}
    for size in sizes:
        if several:
            sections[len(rows)] = format_size(size)
        for pairs in sorted({each.pairs for each in result.results if each.point.size_bytes == size}):
            row = [Cell(pairs) if several else Cell(size, text=format_size(size))]
            for each in (found.get((name, size, pairs)) for name in names):
                row += [cell_of(each.point if each else None, column, columns, of=each) for column in columns]
            rows.append(row)
    titles = ["" if alone else name + report_parts.not_mpi(result.series.transports.get(name)) for name in names]
    shown = [
        Column(column.title, column.unit, group=title, all_true=_ALL_VERIFIED if column.title == "verified" else "")
        for title in titles
        for column in columns
    ]
    title = "" if several or not numbers else count(numbers[0], "pair")
    legend = list(_legend(result, rows, alone=alone, several=several))
    return Table([Column("pairs" if several else "size"), *shown], rows, title, legend, sections=sections)


def _legend(result: MessageRates, rows: Sequence[Row], *, alone: bool, several: bool) -> Iterator[str]:
    results = result.results
    times = [each.point.time for each in results if each.point.time]
    if not times:
        return
    parts = [f"M/s: 10^6 messages per second, {results[0].point.window} of each pair in flight"]
    if several:
        parts += ["keeps: share of the rate of one pair alone", *unclear(rows)]
    parts.append("GB/s: 10^9 B/s")
    launches = max(each.point.launches for each in results)
    parts += report_parts.bounds_legend({time.kind for time in times}, launches, result.series)
    if not alone and all(each.point.verified for each in results if each.point.time and each.point.rate):
        parts.append(_ALL_VERIFIED)
    yield "; ".join(parts)


def _saturations(result: MessageRates, names: Sequence[str], sizes: Sequence[int]) -> Table | None:
    """Return how many pairs saturate each transport that sends data at each size; ``None`` if nowhere known."""
    sending = [each for each in result.results if each.point.rate]
    found = {where: saturation(those) for where, those in by_transport_and_size(sending).items()}
    names = [name for name in names if name in {each.point.transport for each in sending}]
    if not any(found.values()):
        return None
    rows: list[Row] = [
        [Cell(size, text=format_size(size)), *(_limit(found.get((name, size))) for name in names)] for size in sizes
    ]
    legend = f"more pairs than these send less than {(WORTHWHILE - 1) * 100:.0f} % more in total"
    legend += "; ≥: more pairs may send more; –: unknown"
    return Table(
        [Column("size"), *(Column(name) for name in names)], rows, title="pairs that saturate", legend=[legend]
    )


def _limit(found: Saturation | None) -> Cell:
    if found is None:
        return Cell()
    if found.at_most is None:
        return Cell(found.at_least, text=f"≥ {found.at_least}")
    exact = found.at_least == found.at_most
    return Cell(found.at_most, text=str(found.at_most) if exact else f"{found.at_least} to {found.at_most}")


def _notes(result: MessageRates) -> list[Note]:
    points = [each.point for each in result.results]
    doubts = [": reduce other load on the machine or repeat with ".join(wide)] if (wide := too_wide(result)) else []
    return report_parts.notes_of(
        result.series,
        {point.transport for point in points if point.time},
        command="message-rate",
        failed=(f"{place(each)}: {failure(each.point)}" for each in result.results if each.point.status == "failed"),
        missing=skipped(by_transport(points)),
        found=[Note("finding", text) for text in _findings(result)],
        doubts=[Note("warning", text) for text in doubts],
    )


def _findings(result: MessageRates) -> Iterator[str]:
    """Sum up each transport at its smallest size: ``host at 8 B: 6.1 million messages/s with 4 pairs; …``."""
    told: set[str] = set()
    for (name, size), those in by_transport_and_size(result.results).items():
        sent = [each for each in those if each.rate and each.point.rate]
        if not sent or name in told:
            continue
        told.add(name)
        best, most = max(sent, key=lambda each: each.rate or 0), sent[-1]
        million = format_sig((best.rate or 0) / 1e6, 3)
        text = f"{name} at {format_size(size)}: {million} million messages/s with {count(best.pairs, 'pair')}"
        if most.kept:
            kept, low, high = (format_sig(each * 100, 3) for each in (most.kept.median, most.kept.low, most.kept.high))
            bounds = f"{low} to {high} %" if has_interval(most.kept) else "no CI"
            text += f"; per-pair rate of {most.pairs} pairs: {kept} % of one pair alone ({bounds})"
        yield text


def _charts(result: MessageRates, sizes: Sequence[int]) -> Iterator[Chart]:
    """Yield the total rate over the number of pairs at each size, where there are several numbers."""
    for size in sizes:
        here = [each for each in result.results if each.point.size_bytes == size and each.rate and each.point.rate]
        if len({each.pairs for each in here}) > 1:
            axis = Axis("messages of all pairs", "M/s")
            title = f"Message rate at {format_size(size)}"
            marks = []
            for each in here:
                low, middle, high = (scaled(rate, 1e-6) for rate in each.rates)
                marks.append(Mark(each.pairs, middle or 0.0, each.point.transport, low, high))
            yield Chart("curves", title, Axis("pairs", log=True), axis, marks)


def _row(result: PairsResult) -> dict[str, Any]:
    point, time, kept, rate = result.point, result.point.time, result.kept, result.point.rate
    as_they_are = (
        "transport", "size_bytes", "window", "samples", "verified", "status", "reason", "mismatch", "launches", "ranks",
        "messages_timed", "messages_verified", "ended_by",
    )  # fmt: skip
    low, middle, high = result.rates
    return {
        **{name: getattr(point, name) for name in as_they_are},
        "pairs": result.pairs,
        "messages_per_s": middle,
        "messages_low_per_s": low,
        "messages_high_per_s": high,
        "messages_of_a_pair_per_s": result.pair_rate,
        "bandwidth_GBps": rate and rate.median / 1e9,
        "bandwidth_of_a_pair_GBps": rate and rate.median / 1e9 / result.pairs,
        "kept": kept and kept.median,
        "kept_low": kept and kept.low,
        "kept_high": kept and kept.high,
        "interval": time and time.kind,
        "cold_us": scaled(point.cold_s, 1e6),
    }
