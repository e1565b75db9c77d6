"""A quantity of a result, declared once: the column of a table, those of CSV and JSON, and marks in charts follow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from volley.report.model import Cell, Column, Data, Later, Mark
from volley.statistics.estimates import Estimate

UNITS = {
    "": ("", 1.0, 1.0),
    "µs": ("_us", 1e6, 1e6),
    "GB/s": ("_GBps", 1e-9, 1e-9),
    "M/s": ("_per_s", 1e-6, 1.0),
    "%": ("", 100.0, 1.0),
    "×": ("", 1.0, 1.0),
}
"""How the name of a quantity with this unit ends in CSV and JSON, and the factors from SI units to the unit of tables
and charts, and to that of CSV and JSON."""

ALL = ("single", "range", "within", "ci")


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
        """Return its column of a table."""
        return Column(self.name if self.title is None else self.title, self.unit, self.digits, **changes)

    def cell(self, result: Any) -> Cell:
        """Return its cell of a table."""
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
        """The names of its columns of CSV."""
        ends = ("", "_low", "_high") if self.bounds else ("",)
        return [f"{self.name}{end}{UNITS[self.unit][0]}" for end in ends]

    def values(self, result: Any) -> list[Any]:
        """Return the values of these columns."""
        value, factor = self.of(result), UNITS[self.unit][2]
        if not isinstance(value, Estimate):
            return [value * factor if isinstance(value, float) else value, *[None] * (len(self.names) - 1)]
        known = value.kind in self.bounds
        bounds = [value.low * factor if known else None, value.high * factor if known else None]
        return [value.median * factor, *(bounds if self.bounds else [])]


def as_they_are(*names: str) -> list[Quantity]:
    """Return quantities that results have as fields of these names."""
    return [Quantity(name, "", attrgetter(name)) for name in names]


def data_of(quantities: Sequence[Quantity], keys: Sequence[str], results: Iterable[Any]) -> Data:
    """Return results for programs; ``keys`` as in :class:`Data`."""

    def row(result: Any) -> dict[str, Any]:
        return {name: value for each in quantities for name, value in zip(each.names, each.values(result), strict=True)}

    columns = [name for each in quantities if each.csv for name in each.names]
    return Data(columns, keys, Later(lambda: map(row, results)))
