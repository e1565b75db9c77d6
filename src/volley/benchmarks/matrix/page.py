"""What all matrices show: cells, lines about kinds of pairs and rows, notes, and the data of a pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import asdict

from volley.benchmarks.matrix.case import CellT, MatrixCase
from volley.benchmarks.matrix.comparable import SUSPECT_FROM, Pair
from volley.benchmarks.matrix.records import MatrixCell
from volley.report.cells import scaled
from volley.report.model import EMPTY, Cell, Column, Note, Style
from volley.statistics import estimates
from volley.text import count
from volley.units import format_sig

MOST_NAMED = 6
"""Pairs that a sentence names one by one; more are counted."""

Naming = Callable[[Sequence[Pair]], str]
"""How a sentence names a few pairs."""


def columns(case: MatrixCase[CellT], group: str = "") -> list[Column]:
    """Return a column for each second end, under a header that they may share."""
    return [Column(str(second), digits=3, group=group) for second in case.seconds]


def shown_cell(case: MatrixCase[CellT], pair: Pair, style: Style) -> Cell:
    """Return what a table shows of a pair; ``style`` is that of a number."""
    number, cell = case.shown(pair), case.cells.get(pair)
    if cell is None:
        return EMPTY
    if cell.status == "failed":
        return Cell(text="FAILED", style="error")
    return Cell(number, "dim" if number is None else style)


def kind_line(name: str, case: MatrixCase[CellT], pairs: Sequence[Pair], line_rate: str) -> str:
    """Sum up the measured pairs of a kind: ``same socket: 12 pairs, median 0.31, 0.30 to 0.35 µs``.

    Args:
        name: what the line is about.
        case: the matrix.
        pairs: one at least, all with a number.
        line_rate: how to call the line rate of these pairs; the share is left out if no line rate is known.
    """
    numbers = [number for pair in pairs if (number := case.shown(pair)) is not None]
    middle = f"median {format_sig(estimates.median(numbers), 3)}, " if len(numbers) > 2 else ""
    shares = (
        [100 * share for pair in pairs if (share := case.of_line_rate(pair)) is not None] if case.shows_rate else []
    )
    of = f", {_spread(shares, 2)} % of {line_rate}" if shares else ""
    return f"{name}: {count(len(numbers), 'pair')}, {middle}{_spread(numbers, 3)} {case.unit}{of}"


def _spread(numbers: Sequence[float], significant: int) -> str:
    low, high = format_sig(min(numbers), significant), format_sig(max(numbers), significant)
    return low if low == high else f"{low} to {high}"


def row_in_short(name: str, cells: Sequence[MatrixCell], moved_bytes: int | None) -> str:
    """Return the range of a row: ``host 8 B, rank 3 first: 0.31 to 0.35 µs``.

    Args:
        name: of the row.
        cells: of the row.
        moved_bytes: in the time of a cell; ``None``: the time itself is shown.
    """
    failed = sum(cell.status == "failed" for cell in cells)
    times = [cell.median_s for cell in cells if cell.median_s is not None]
    if not times:
        return f"{name}: {'FAILED' if failed else 'skipped'}"
    numbers = [time_s * 1e6 if moved_bytes is None else moved_bytes / time_s / 1e9 for time_s in times]
    lost = f", {failed} FAILED" if failed else ""
    return f"{name}: {_spread(numbers, 3)} {'µs' if moved_bytes is None else 'GB/s'}{lost}"


# ------------------------------------------------------------------------------------------------------- notes


def failed(name: str, case: MatrixCase[CellT], names: Naming) -> Iterator[Note]:
    """Name the cells whose data was wrong, or that hung."""
    wrong = [(pair, cell) for pair, cell in case.cells.items() if cell.status == "failed"]
    for pair, cell in wrong[:MOST_NAMED]:
        yield Note("error", f"FAILED: {name}, {names([pair])}: {cell.reason or 'no reason is recorded'}")
    if len(wrong) > MOST_NAMED:
        more = count(len(wrong) - MOST_NAMED, "pair")
        yield Note("error", f"FAILED: {name}: {more} more (--format csv names them)")


def skipped(name: str, case: MatrixCase[CellT], names: Naming) -> Iterator[Note]:
    """Say what was not measured, and why."""
    reasons: dict[str, list[Pair]] = {}
    for pair, cell in case.cells.items():
        if cell.status == "skipped":
            reasons.setdefault(cell.reason or "no reason is recorded", []).append(pair)
    for reason, pairs in reasons.items():
        yield Note("missing", f"{name} skipped {few_or_count(pairs, names)}: {reason}")


def uneven(name: str, case: MatrixCase[CellT], consequence: str = "") -> Iterator[Note]:
    """Name the kinds of which too many pairs look slow."""
    for kind, pairs in case.uneven.items():
        yield Note(
            "finding",
            f"{name}: {count(pairs, 'pair')} of the kind {kind} took over {percent(SUSPECT_FROM - 1)} longer than "
            f"comparable pairs: this kind is uneven{consequence}",
        )


def few_or_count(pairs: Sequence[Pair], names: Naming) -> str:
    """Name a few pairs, or count many."""
    return names(pairs) if len(pairs) <= MOST_NAMED else count(len(pairs), "pair")


def percent(fraction: float) -> str:
    """Return a fraction with two digits: ``61 %``."""
    return f"{format_sig(100 * fraction, 2)} %"


# -------------------------------------------------------------------------------------------------------- data


_LEFT_OUT = ("median_s", "low_s", "high_s", "samples_s", "visits", "gpu", "rank")
"""What a row for programs has in columns of its own, or leaves out of the cell: its samples."""


def data_of(case: MatrixCase[CellT], pair: Pair) -> dict[str, Any]:
    """Return the part of a row for programs that all matrices have.

    ``ratio`` is the time over the median of comparable pairs, ``of_ceiling`` the bandwidth over the line rate.
    """
    cell, compared = case.cells[pair], case.ratios.get(pair)
    return {
        **{name: value for name, value in asdict(cell).items() if name not in _LEFT_OUT},
        "kind": case.kinds[pair],
        "time_us": scaled(cell.median_s, 1e6),
        "time_low_us": scaled(cell.low_s, 1e6),
        "time_high_us": scaled(cell.high_s, 1e6),
        "bandwidth_GBps": scaled(case.rate_Bps(pair), 1e-9),
        "of_ceiling": case.of_line_rate(pair),
        "ratio": compared and compared.ratio,
        "comparable_pairs": compared and compared.comparable,
    }
