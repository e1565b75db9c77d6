"""Quantities of results, declared once, from which columns and marks follow, and the cells of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from volley.report.model import EMPTY, Cell, Column, Data, Later, Mark, Row
from volley.statistics.estimates import Estimate, Kind
from volley.statistics.launches import has_interval
from volley.text import escape_controls
from volley.units import format_sig

UNITS = {
    "": ("", 1.0),
    "µs": ("_s", 1e6),
    "GB/s": ("_Bps", 1e-9),
    "M/s": ("_per_s", 1e-6),
    "GLU/s": ("_per_s", 1e-9),
    "ms": ("_s", 1e3),
    "s": ("_s", 1.0),
    "%": ("", 100.0),
    "×": ("", 1.0),
}
"""How the name of a quantity with this unit in tables and charts ends in CSV and JSON, which are in SI units, and the
factor from SI units to it."""

BOUNDED = ("range", "within", "ci")
"""One observation has no bounds."""
ALL = ("single", *BOUNDED)


@dataclass(frozen=True)
class Quantity:
    """What a result has, and how it is shown."""

    name: str
    """In CSV and JSON, without the unit."""
    unit: str
    of: Callable[[Any], Any]
    """Returns it in SI units from a result: a number, an estimate, any other value or, for tables only, a cell."""
    title: str | None = None
    """The header of its column; ``None``: its name."""
    bounds: Collection[str] = ()
    """The kinds of estimates whose bounds are in CSV and JSON too; empty: there are no columns for bounds."""
    digits: int = 4
    csv: bool = True
    """Whether CSV has it; JSON has everything."""

    def column(self, **changes: Any) -> Column:
        return Column(self.name if self.title is None else self.title, self.unit, self.digits, **changes)

    def cell(self, result: Any) -> Cell:
        value = self.of(result)
        if isinstance(value, Cell):
            return value
        value = value.median if isinstance(value, Estimate) else value
        return Cell(value * UNITS[self.unit][1] if isinstance(value, float) else value)

    def mark(self, x: float, series: str, result: Any) -> Mark:
        """Return its mark in a chart, with its interval if it has more than one observation."""
        value: Estimate = self.of(result).shown
        factor = UNITS[self.unit][1]
        bounds = (None, None) if value.kind == "single" else (value.low * factor, value.high * factor)
        return Mark(x, value.median * factor, series, *bounds)

    @property
    def names(self) -> list[str]:
        ends = ("", "_low", "_high") if self.bounds else ("",)
        return [f"{self.name}{end}{UNITS[self.unit][0]}" for end in ends]

    def values(self, result: Any) -> list[Any]:
        value = self.of(result)
        if not isinstance(value, Estimate):
            return [value, None, None] if self.bounds else [value]
        value = value.shown
        bounds = [value.low, value.high] if value.kind in self.bounds else [None, None]
        return [value.median, *(bounds if self.bounds else [])]


def as_they_are(*names: str) -> list[Quantity]:
    """Return quantities that results have as fields of these names."""
    return [Quantity(name, "", attrgetter(name)) for name in names]


def data_of(quantities: Sequence[Quantity], keys: Sequence[str], results: Iterable[Any]) -> Data:
    """Return results for programs; ``keys`` as in :class:`Data`."""

    names = [name for each in quantities for name in each.names]

    def row(result: Any) -> dict[str, Any]:
        return dict(zip(names, (value for each in quantities for value in each.values(result)), strict=True))

    columns = [name for each in quantities if each.csv for name in each.names]
    return Data(columns, keys, Later(lambda: map(row, results)))


# ------------------------------------------------------------------------------------------------------- cells


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


def known_digits(half_width: float) -> int:
    """Return how many digits of a number are known: two of ±10 %, three of ±1 %, four of ±0.1 % and less."""
    return max(2, min(4, 1 - math.floor(math.log10(2 * half_width)))) if half_width > 0 else 3


def ratio_cell(ratio: Estimate | None, factor: float = 1.0) -> Cell:
    """Return a ratio, multiplied by a factor, marked where it may be 1."""
    return EMPTY if ratio is None else marked_cell(ratio, 1, factor)


def marked_cell(found: Estimate, same: float, factor: float) -> Cell:
    """Return a number, multiplied by a factor; dim, with a tilde, if its interval includes ``same``, and in parentheses
    if it has none."""
    number = found.median * factor
    shown = format_sig(number, 3)
    if not has_interval(found):
        return Cell(number, "dim", f"({shown})")
    return Cell(number, "dim", f"~{shown}") if found.low <= same <= found.high else Cell(number, text=shown)


_MARKS = {"~": "~: the difference is not significant", "(": "(…): too few launches or samples for an interval"}


def unclear(rows: Iterable[Row]) -> list[str]:
    """Return the lines of the legend on the marks of ``marked_cell`` that cells of these rows have."""
    marks = {(cell.text or "")[:1] for row in rows for cell in cells_of(row)}
    return [text for mark, text in _MARKS.items() if mark in marks]


def bounds_of(found: Estimate, factor: float = 1.0, unit: str = "") -> str:
    """Return what the bounds are, and where: ``95 % CI 53.1 to 61.4 %``, or ``range 109 to 643 µs`` of few launches."""
    found = found.shown
    if found.kind == "single":
        return "no CI"
    low, high = (format_sig(bound * factor, 3) for bound in (found.low, found.high))
    return f"{BOUNDS[found.kind]} {low} to {high} {unit}".rstrip()


def range_text(found: Estimate, factor: float) -> str:
    """Return the smallest and the largest of few launches: ``109–643``, or one number if they do not differ."""
    return "–".join(dict.fromkeys(format_sig(bound * factor, 3) for bound in (found.shown.low, found.shown.high)))


BOUNDS = {"ci": "95 % CI", "within": "spread", "range": "range"}
"""What bounds are called in a sentence."""
_BOUNDS = {
    "ci": "95 % confidence interval over launches",
    "within": "spread (95 % confidence interval within one launch)",
    "range": "range (too few launches or samples for an interval)",
}


def bounds_meaning(kinds: Collection[str], what: str = "bars and bands") -> str:
    """Say what bounds of these kinds are; nothing without any."""
    words = [text for kind, text in _BOUNDS.items() if kind in kinds]
    return f"{what}: {', or '.join(words)}" if words else ""


def kinds_of(results: Iterable[Any]) -> set[str]:
    """Return what the bounds of ``time`` are that people see of these results."""
    return {result.time.shown.kind for result in results if result.time}


def launches_of(results: Iterable[Any]) -> int:
    """Return the most launches that measured one of the results."""
    return max((result.launches for result in results), default=0)


def with_bounds(columns: Sequence[Quantity], results: Sequence[Any]) -> list[Quantity]:
    """Return columns with what stands in the place of ±: the spread within one launch, the range of few launches."""
    if PLUS_MINUS not in columns:
        return list(columns)
    at, few = columns.index(PLUS_MINUS), "ci" not in kinds_of(results)
    bounds = SPREAD if launches_of(results) <= 1 else _range_of(columns[at - 1]) if few else PLUS_MINUS
    return [*columns[:at], bounds, *columns[at + 1 :]]


def _range_of(quantity: Quantity) -> Quantity:
    """Return the column with the smallest and the largest of few launches, in the unit of the quantity.

    Those of the samples of one launch are in parentheses.
    """

    def cell(result: Any) -> Cell:
        value, factor = quantity.of(result), UNITS[quantity.unit][1]
        text = range_text(value, factor) if isinstance(value, Estimate) and value.kind != "single" else ""
        return Cell(text=f"({text})" if text and result.launches == 1 else text)

    return Quantity("range", quantity.unit, cell)


def _half_width(time: Estimate | None, plain: Kind) -> Cell:
    """Return a half width in per cent with one decimal, in parentheses if the bounds are not of the plain kind."""
    if time is None or time.kind == "single":
        return Cell()
    time = time.shown
    shown = percent(time.half_width, 1).removesuffix(" %")
    return Cell(time.half_width * 100, text=shown if time.kind == plain else f"({shown})")


PLUS_MINUS = Quantity("", "± %", lambda result: _half_width(result.time, "ci"))
"""Of the ``time`` of a result over launches."""
SPREAD = Quantity("spread", "%", lambda result: _half_width(result.time, "within"))
"""Takes the place of ± where there is one launch: what another launch would find is not known."""
