"""The model of a report: tables, notes and data of one series of runs, for any benchmark.

The module ``volley.benchmarks.<name>.page`` turns the results of a benchmark into a :class:`Report`; the renderers
(``report.terminal``, ``report.csv``, ``report.json``) show any report.  A report contains text unchanged; the renderers
escape control characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Align = Literal["left", "right"]
Style = Literal["", "good", "warning", "bad", "error", "dim"]
"""The meaning of a cell's colour; the text always expresses it too.  ``bad``: a poor number; ``error``: no number."""

Level = Literal["error", "missing", "finding", "warning"]
Value = float | int | bool | str | None


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str = ""
    """The header, of one or more lines."""
    unit: str = ""
    """The last line of the header."""
    digits: int = 4
    """Significant digits of floating-point numbers; integers are shown in full."""
    align: Align = "right"
    group: str = ""
    """A header that this column shares with its neighbours.  If a table is wider than the screen, columns continue
    below; the columns of one group stay together."""


@dataclass(frozen=True)
class Cell:
    """A value with its style and an optional text."""

    value: Value = None
    """In the unit of its column.  ``None`` is shown as a dash, a truth value as a tick or ``no``."""
    style: Style = ""
    text: str | None = None
    """Shown instead of the value, unless ``None``."""


EMPTY = Cell(text="")
"""A cell for a measurement that was not requested."""

Row = Sequence[Cell | Value]


@dataclass(frozen=True)
class Table:
    """A table.  Its first column names the rows and is repeated if columns continue below."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    """Each row has one cell for each column."""
    title: str = ""
    legend: Sequence[str] = ()
    """Lines below the table."""
    colors: str = ""
    """The meaning of the cells' colours: an additional line of the legend, shown only with colours."""


@dataclass(frozen=True)
class Note:
    """A message below the tables; ``level`` determines its colour.

    ``error``: data was wrong or a run was aborted; ``missing``: something was not measured; ``finding``: a conclusion
    from the numbers; ``warning``: a reason to doubt a number.  All but findings are shown with every format.
    """

    level: Level
    text: str


@dataclass(frozen=True)
class Data:
    """The results for programs: one row per result; keys contain the unit, e.g. ``latency_us``."""

    columns: Sequence[str] = ()
    """The columns of CSV, in this order: a stable interface for scripts."""
    rows: Sequence[Mapping[str, Any]] = ()
    """JSON contains the complete rows.  Values other than :data:`Value` (dictionaries, structs) are for JSON only; CSV
    joins lists of numbers with dashes (``ranks``: ``0-1``)."""


@dataclass(frozen=True)
class Report:
    """The results of one series: launches of the same request."""

    heading: Sequence[str]
    """First what was measured, then where."""
    tables: Sequence[Table] = ()
    notes: Sequence[Note] = ()
    """In order of importance."""
    data: Data = field(default_factory=Data)
    runs: Sequence[Any] = ()
    """The common records of each launch, without samples; JSON only."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Additional data by name; JSON only."""
