"""What a report is made of: tables, notes and data of one series of runs, whatever was measured.

The page of a benchmark (``volley.benchmarks.<name>.page``) turns its results into a :class:`Report`; the renderers
(``report.terminal``, ``report.csv``, ``report.json``) show any report.  Pages hand on text as it came: the renderers
replace what a terminal would obey, so that no page has to remember it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Align = Literal["left", "right"]
Style = Literal["", "good", "warning", "bad", "error", "dim"]
"""What a colour says of a cell; the words beside it say the same.  ``bad`` is a poor number, ``error`` no number."""

Level = Literal["error", "missing", "finding", "warning"]
Value = float | int | bool | str | None


@dataclass(frozen=True)
class Column:
    """A column of a table for people."""

    title: str = ""
    """The header; each line of it is a line of the header."""
    unit: str = ""
    """The last line of the header."""
    digits: int = 4
    """Significant digits of floating-point numbers; whole numbers are shown as they are."""
    align: Align = "right"
    group: str = ""
    """A header that this column shares with its neighbours.  Columns of one group are never torn apart; where a table
    is wider than the screen, other columns may continue below."""


@dataclass(frozen=True)
class Cell:
    """A value with what must be said of it besides."""

    value: Value = None
    """In the unit of its column.  ``None`` is shown as a dash, a truth value as a tick or ``no``."""
    style: Style = ""
    text: str | None = None
    """What is shown instead of the value."""


EMPTY = Cell(text="")
"""A place where nothing was asked for."""

Row = Sequence[Cell | Value]


@dataclass(frozen=True)
class Table:
    """A table for people.  Its first column names the rows and is repeated where the table continues below."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    """Each has a cell for each column."""
    title: str = ""
    legend: Sequence[str] = ()
    """Lines below the table."""
    colors: str = ""
    """What the colours of the cells mean: one more line of the legend, shown where there are colours."""


@dataclass(frozen=True)
class Note:
    """One sentence for people; ``level`` decides its colour, and the words say the same without it.

    ``error``: data was wrong or a run broke off; ``missing``: something was not measured; ``finding``: what the numbers
    show; ``warning``: why a number is worth less than it seems.  All but findings are shown with every format.
    """

    level: Level
    text: str


@dataclass(frozen=True)
class Data:
    """The results for programs: one row a result, keys with their units, e.g. ``latency_us``."""

    columns: Sequence[str] = ()
    """What CSV shows of each row, in this order: a promise to scripts."""
    rows: Sequence[Mapping[str, Any]] = ()
    """JSON shows them whole.  Values that are no :data:`Value` (lists, dictionaries, structs) are for JSON alone, but
    for lists of numbers, which CSV joins with dashes (``ranks``: ``0-1``)."""


@dataclass(frozen=True)
class Report:
    """What one series of runs has shown: launches of the same request."""

    heading: Sequence[str]
    """What was measured, then where."""
    tables: Sequence[Table] = ()
    notes: Sequence[Note] = ()
    """The most important ones first."""
    data: Data = field(default_factory=Data)
    runs: Sequence[Any] = ()
    """What the records say of each launch, its samples left out; JSON only."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More for programs, by name; JSON only."""
