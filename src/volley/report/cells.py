"""Quantities of results, declared once, from which columns and marks follow, and the cells of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from operator import attrgetter
from typing import Any

from volley.report.model import EMPTY, Cell, Column, ColumnRows, Data, Mark, Row, Table
from volley.statistics.estimates import Estimate
from volley.text import escape_controls
from volley.units import format_sig, time_unit

UNITS = {
    "": ("", 1.0),
    "ns": ("_s", 1e9),
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

    def suited(self, results: Iterable[Any]) -> Quantity:
        """Return a time in the largest unit in which that of each result is 1 or more."""
        found = (each.median if isinstance(each, Estimate) else each for each in map(self.of, results))
        times_s = [each for each in found if each]
        return replace(self, unit=time_unit(min(times_s))[0]) if times_s else self

    def cell(self, result: Any) -> Cell:
        value = self.of(result)
        if isinstance(value, Cell):
            return value
        value = value.median if isinstance(value, Estimate) else value
        return Cell(value * UNITS[self.unit][1] if isinstance(value, float) else value)

    def mark(self, x: float, series: str, result: Any) -> Mark:
        """Return its mark in a chart, with its interval if it has more than one observation."""
        value: Estimate = self.of(result)
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
        bounds = [value.low, value.high] if value.kind in self.bounds else [None, None]
        return [value.median, *(bounds if self.bounds else [])]


def as_they_are(*names: str) -> list[Quantity]:
    """Return quantities that results have as fields of these names."""
    return [Quantity(name, "", attrgetter(name)) for name in names]


def data_of(quantities: Sequence[Quantity], keys: Sequence[str], results: Sequence[Any]) -> Data:
    """Return results for programs; ``keys`` as in :class:`Data`."""

    def columns() -> Iterator[dict[str, Sequence[Any]]]:
        found: dict[str, Sequence[Any]] = {}
        for each in quantities:
            rows = [each.values(result) for result in results]
            found |= zip(each.names, zip(*rows, strict=True) if rows else repeat(()), strict=False)
        yield found

    names = [name for each in quantities if each.csv for name in each.names]
    return Data(names, keys, ColumnRows(len(results), columns))


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

    In a sentence with a sign: ``more than ±1000 %``.
    """
    per_cent = fraction * 100
    if per_cent > LARGEST_PERCENT:
        return f"{'more than ' if sign else '>'}{sign}{LARGEST_PERCENT} %"
    least = 10.0**-decimals
    less = "less than " if sign else "<"
    return f"{sign}{per_cent:.{decimals}f} %" if per_cent >= least / 2 else f"{less}{sign}{least:g} %"


def percent_above(fraction: float, limit: float) -> str:
    """Return a half width that is above a limit, in a sentence, so that it is seen to be: ``±1.02 %``, not ±1.0 %."""
    decimals = 1 if round(fraction * 100, 1) > limit * 100 else 2
    return percent(fraction if decimals == 1 else max(fraction, limit + 1e-4), decimals, "±")


def known_digits(half_width: float) -> int:
    """Return how many digits of a number are known: two of ±10 %, three of ±1 %, four of ±0.1 % and less."""
    return max(2, min(4, 1 - math.floor(math.log10(2 * half_width)))) if half_width > 0 else 3


def digits_cell(found: Estimate | None, factor: float) -> Cell:
    """Return a number, multiplied by a factor, with the digits that its interval knows."""
    if found is None:
        return EMPTY
    value = found.median * factor
    return Cell(value, text=format_sig(value, known_digits(found.half_width)))


def ratio_cell(found: Estimate | None, factor: float = 1.0, same: float = 1.0) -> Cell:
    """Return a ratio, multiplied by a factor; dim, with a tilde, if nothing shows that it is not ``same``."""
    if found is None:
        return EMPTY
    number, shown = found.median * factor, format_sig(found.median * factor, 3)
    known = found.above(same) or found.below(same)
    return Cell(number, text=shown) if known else Cell(number, "dim", f"~{shown}")


SummaryColumn = tuple[Column, Mapping[str, "Estimate | None"], Callable[["Estimate | None"], Cell]]
"""A column, its number in each row, by the name of the row, and how it is shown."""


def summary_table(names: Iterable[str], columns: Sequence[SummaryColumn], legend: Sequence[str]) -> Table:
    """Return a table with a row for each transport."""
    rows: list[Row] = [[name, *(cell(own.get(name)) for _, own, cell in columns)] for name in names]
    heads = [Column("transport", align="left"), *(column for column, *_ in columns)]
    return Table(heads, rows, legend=[*legend, *unclear(rows)])


def unclear(rows: Iterable[Row]) -> list[str]:
    """Return the line of the legend on the mark of ``ratio_cell``, if a cell of these rows has it."""
    marked = any((cell.text or "").startswith("~") for row in rows for cell in cells_of(row))
    return ["~: uncertain: too few launches, or the interval includes no difference"] * marked


def bounds_of(found: Estimate, factor: float = 1.0, unit: str = "") -> str:
    """Return what the bounds are, and where: ``95 % CI 53.1 to 61.4 %``, or ``range 109 to 643 µs`` of few launches."""
    if found.kind == "single":
        return "no CI"
    low, high = (format_sig(bound * factor, 3) for bound in (found.low, found.high))
    return f"{BOUNDS[found.kind]} {low} to {high} {unit}".rstrip()


def range_text(found: Estimate, factor: float, digits: int = 3) -> str:
    """Return the smallest and the largest of few launches: ``109–643``, or one number if they do not differ."""
    return "–".join(dict.fromkeys(format_sig(bound * factor, digits) for bound in (found.low, found.high)))


BOUNDS = {"ci": "95 % CI", "within": "within one launch", "range": "range"}
"""What bounds are called in a sentence."""
_BOUNDS = {
    "ci": "95 % confidence interval over launches",
    "within": "95 % confidence interval within one launch",
    "range": "range of few launches or samples",
}


def bounds_meaning(kinds: Collection[str], what: str = "bars and bands") -> str:
    """Say what bounds of these kinds are; nothing without any."""
    words = [text for kind, text in _BOUNDS.items() if kind in kinds]
    return f"{what}: {', or '.join(words)}" if words else ""


def kinds_of(results: Iterable[Any]) -> set[str]:
    """Return what the bounds of ``time`` of these results are."""
    return {result.time.kind for result in results if result.time}


def launches_of(results: Iterable[Any]) -> int:
    """Return the most launches that measured one of the results."""
    return max((result.launches for result in results), default=0)


def with_bounds(columns: Sequence[Quantity], results: Sequence[Any]) -> list[Quantity]:
    """Return columns with the bounds of the column on its left in the place of ``PLUS_MINUS``: ± if any result has an
    interval over launches, else the range; nothing if no result has bounds."""
    kinds = kinds_of(results)
    if PLUS_MINUS not in columns or kinds <= {"single"}:
        return [column for column in columns if column != PLUS_MINUS]
    at, several = columns.index(PLUS_MINUS), "ci" in kinds
    of = columns[at - 1]

    def cell(result: Any) -> Cell:
        found: Estimate | None = of.of(result)
        if found is None or (several and found.kind != "ci"):
            return Cell()
        if several:
            return Cell(found.half_width * 100, text=percent(found.half_width, 1).removesuffix(" %"))
        return EMPTY if found.kind == "single" else Cell(text=range_text(found, UNITS[of.unit][1], of.digits))

    bounds = replace(PLUS_MINUS, of=cell) if several else Quantity("range", of.unit, cell)
    return [*columns[:at], bounds, *columns[at + 1 :]]


PLUS_MINUS = Quantity("", "± %", lambda _: EMPTY)
"""Where the bounds of the column on its left stand (``with_bounds``)."""
