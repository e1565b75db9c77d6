"""Cells: how their values are written, and those that the reports of several benchmarks share."""

from __future__ import annotations

from collections.abc import Iterable

from volley.report.model import EMPTY, Cell, Column, Row
from volley.statistics.estimates import Estimate, Kind
from volley.statistics.launches import shows_change
from volley.text import escape_controls
from volley.units import format_sig


def written(cell: Cell, column: Column) -> str:
    """Return the text of a cell; control characters are escaped."""
    value = cell.value
    if cell.text is not None:
        return escape_controls(cell.text)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "✓" if value else "no"
    if isinstance(value, float):
        return format_sig(value, column.digits)
    return escape_controls(str(value))


def cells_of(row: Row) -> list[Cell]:
    """Return the cells of a row, in which a cell without a style may be its bare value."""
    return [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]


def scaled(value: float | None, factor: float) -> float | None:
    """Multiply a number by a factor, e.g. to convert its unit; ``None`` stays ``None``."""
    return None if value is None else value * factor


LARGEST_PERCENT = 1000
"""A larger half width is not known to a digit: it is of launches that have nothing in common."""


def percent(fraction: float, decimals: int, sign: str = "") -> str:
    """Return a half width: ``2.5 %``; ``<0.1 %`` and ``>1000 %`` where it is less and more than that.

    A sign ``±`` stands before the number: ``>±1000 %``.
    """
    per_cent = fraction * 100
    if per_cent > LARGEST_PERCENT:
        return f">{sign}{LARGEST_PERCENT} %"
    least = 10.0**-decimals
    return f"{sign}{per_cent:.{decimals}f} %" if per_cent >= least / 2 else f"<{sign}{least:g} %"


def ratio_cell(ratio: Estimate | None, factor: float = 1.0) -> Cell:
    """Return a ratio, multiplied by a factor; dim, with a tilde, if it does not differ significantly from 1."""
    if ratio is None:
        return EMPTY
    number = ratio.median * factor
    shown = format_sig(number, 3)
    return Cell(number, text=shown) if shows_change(ratio) else Cell(number, "dim", f"~{shown}")


def unclear(rows: Iterable[Row]) -> list[str]:
    """Return the line of the legend on ``~`` if a cell of these rows has one."""
    marked = any((cell.text or "").startswith("~") for row in rows for cell in cells_of(row))
    return ["~: the difference is not significant"] if marked else []


def plus_minus(time: Estimate | None) -> Cell:
    """Return the half width of a CI over launches in per cent with one decimal; other bounds are in parentheses."""
    return _half_width(time, "ci")


def spread(time: Estimate | None) -> Cell:
    """Return the half width of the CI within one launch, in the same way."""
    return _half_width(time, "within")


def _half_width(time: Estimate | None, plain: Kind) -> Cell:
    if time is None or time.kind == "single":
        return Cell()
    shown = percent(time.half_width, 1).removesuffix(" %")
    return Cell(time.half_width * 100, text=shown if time.kind == plain else f"({shown})")
