"""What all matrices show: cells, lines about kinds of pairs and rows, notes, and the data of a pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import asdict

from volley.benchmarks.matrix.case import MatrixCase
from volley.benchmarks.matrix.comparable import SUSPECT_FROM, Pair, uneven
from volley.benchmarks.matrix.records import MatrixCell
from volley.report.cells import scaled
from volley.report.model import EMPTY, Cell, Note, Style
from volley.run import notes
from volley.run.series import Series
from volley.statistics.estimates import median
from volley.text import count
from volley.units import format_sig

CaseT = TypeVar("CaseT", bound=MatrixCase)

MOST_NAMED = 6
"""Pairs that a sentence names one by one; more are counted."""

Naming = Callable[[Sequence[Pair]], str]
"""How a sentence names a few pairs."""


# ------------------------------------------------------------------------------------------------------ tables


def shown_cell(case: MatrixCase, pair: Pair, style: Style) -> Cell:
    """Return what a table shows of a pair; ``style`` is that of a number."""
    number, cell = case.shown(pair), case.cells.get(pair)
    if cell is None:
        return EMPTY
    if cell.status == "failed":
        return Cell(text="FAILED", style="error")
    return Cell(number, "dim" if number is None else style)


def kind_line(name: str, case: MatrixCase, kind: str, line_rate: str) -> list[str]:
    """Sum up the measured pairs of a kind, if there are any: ``same socket: 12 pairs, median 0.31, 0.30 to 0.35 µs``.

    Args:
        name: what the line is about.
        case: the matrix.
        kind: of the pairs.
        line_rate: how to call the line rate of these pairs; the share is left out if no line rate is known.
    """
    pairs = [pair for pair in case.times if case.kinds[pair] == kind]
    if not pairs:
        return []
    numbers = [number for pair in pairs if (number := case.shown(pair)) is not None]
    middle = f"median {format_sig(median(numbers), 3)}, " if len(numbers) > 2 else ""
    shares = [100 * share for pair in pairs if (share := case.of_line_rate(pair)) is not None]
    of = f", {_spread(shares, 2)} % of {line_rate}" if shares and case.shows_rate else ""
    return [f"{name}: {count(len(numbers), 'pair')}, {middle}{_spread(numbers, 3)} {case.unit}{of}"]


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


def notes_of(
    series: Series,
    cases: Sequence[CaseT],
    names: Naming,
    missing: Iterable[Note],
    findings: Callable[[CaseT], Iterable[str]],
) -> list[Note]:
    """Return the notes of a report.

    Args:
        series: the launches.
        cases: their matrices.
        names: names pairs in a sentence.
        missing: what no matrix can hold.
        findings: says which pairs of a matrix are slow.
    """
    return [
        *notes.incomplete(series),
        *(note for case in cases for note in _failed(case, names)),
        *missing,
        *(note for case in cases for note in _skipped(case, names)),
        *(Note("finding", f"{case.name}: {text}") for case in cases for text in findings(case)),
        *notes.slowed(series),
        *(notes.unverified(series) if cases else ()),
    ]


def _failed(case: MatrixCase, names: Naming) -> Iterator[Note]:
    """Name the cells whose data was wrong, or that hung."""
    wrong = [(pair, cell) for pair, cell in case.cells.items() if cell.status == "failed"]
    for pair, cell in wrong[:MOST_NAMED]:
        yield Note("error", f"FAILED: {case.name}, {names([pair])}: {cell.reason or 'no reason is recorded'}")
    if len(wrong) > MOST_NAMED:
        more = count(len(wrong) - MOST_NAMED, "pair")
        yield Note("error", f"FAILED: {case.name}: {more} more (--format csv names them)")


def _skipped(case: MatrixCase, names: Naming) -> Iterator[Note]:
    """Say which cells were not measured, and why."""
    reasons: dict[str, list[Pair]] = {}
    for pair, cell in case.cells.items():
        if cell.status == "skipped":
            reasons.setdefault(cell.reason or "no reason is recorded", []).append(pair)
    for reason, pairs in reasons.items():
        yield Note("missing", f"{case.name} skipped {few_or_count(pairs, names)}: {reason}")


def uneven_kinds(case: MatrixCase, consequence: str = "") -> Iterator[str]:
    """Name the kinds of which too many pairs look slow."""
    for kind, pairs in uneven(case.ratios).items():
        slow = f"{count(pairs, 'pair')} of the kind {kind} took over {percent(SUSPECT_FROM - 1)} longer"
        yield f"{slow} than comparable pairs: this kind is uneven{consequence}"


def slower(case: MatrixCase, ratio: float, others: str, *, past: bool = False) -> str:
    """``reaches 61 % of what its 10 comparable pairs reach``; of times ``takes 1.64 times as long as its …``."""
    if case.shows_rate:
        reaches, reach = ("reached", "reached") if past else ("reaches", "reach")
        return f"{reaches} {percent(1 / ratio)} of what its {others} {reach}"
    return f"{'took' if past else 'takes'} {format_sig(ratio, 3)} times as long as its {others}"


def few_or_count(pairs: Sequence[Pair], names: Naming) -> str:
    """Name a few pairs, or count many."""
    return names(pairs) if len(pairs) <= MOST_NAMED else count(len(pairs), "pair")


def percent(fraction: float) -> str:
    """Return a fraction with two digits: ``61 %``."""
    return f"{format_sig(100 * fraction, 2)} %"


# -------------------------------------------------------------------------------------------------------- data

_LEFT_OUT = ("median_s", "low_s", "high_s", "samples_s", "visits", "gpu", "rank")
"""What a row for programs has in columns of its own, or leaves out of the cell: its samples."""


def data_of(case: MatrixCase, pair: Pair) -> dict[str, Any]:
    """Return the part of a row for programs that all matrices have.

    ``ratio`` is the time over the median of comparable pairs, ``of_line_rate`` the bandwidth over the line rate.
    """
    cell, compared = case.cells[pair], case.ratios.get(pair)
    return {
        **{name: value for name, value in asdict(cell).items() if name not in _LEFT_OUT},
        "kind": case.kinds[pair],
        "time_us": scaled(cell.median_s, 1e6),
        "time_low_us": scaled(cell.low_s, 1e6),
        "time_high_us": scaled(cell.high_s, 1e6),
        "bandwidth_GBps": scaled(case.rate_Bps(pair), 1e-9),
        "of_line_rate": case.of_line_rate(pair),
        "ratio": compared and compared.ratio,
        "comparable_pairs": compared and compared.comparable,
    }
