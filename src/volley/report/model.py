"""The model of a report: tables, charts, notes and data of one series of runs, for any benchmark.

A function that the ``Benchmark`` names turns its results into a :class:`Report`; the renderers
(``report.terminal``, ``report.markdown``, ``report.csv``, ``report.json``, ``report.prometheus``, ``report.html``) show
any report.  A report contains text unchanged; the renderers escape control characters.
"""

from __future__ import annotations

from collections import UserList
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

Align = Literal["left", "right"]
Style = Literal["", "good", "warning", "bad", "error", "dim"]
"""The meaning of a cell's colour; the text always expresses it too.  ``bad``: a poor number; ``error``: no number."""

Level = Literal["error", "missing", "finding", "warning"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""In order of importance."""
Value = float | int | bool | str | None


@dataclass(frozen=True, eq=False)  # two columns without a title are two
class Column:
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
    spare: int = 0
    """Columns above 0 are left out of a table that is wider than the screen, the highest first."""
    all_true: str = ""
    """If the column holds ticks or nothing, a table that is wider than the screen has this text below instead."""
    meaning: str = ""
    """A part of the legend, where the column is shown."""

    @property
    def flat_title(self) -> str:
        """The header in one line; a line that ends with a slash is a part of a name."""
        return self.title.replace("/\n", "/").replace("\n", " ")


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
    sections: Mapping[int, str] = field(default_factory=dict)
    """Lines between the rows: the number of the row below, and the text."""
    model: bool = False
    """A table of fitted curves or of paths, not of measurements: the terminal shows it only on request."""

    @classmethod
    def of(cls, columns: Mapping[Column, Callable[[Any], Cell | Value]], items: Iterable[Any], **about: Any) -> Table:
        """Return a table with a row for each item; ``columns`` say how each of its cells is made of the item."""
        return cls([*columns], [[cell(item) for cell in columns.values()] for item in items], **about)

    def lines(self, *, colored: bool = False) -> list[str]:
        """Return the legend with the meanings of the columns that are shown and, if there are any, of the colours."""
        meanings = "; ".join(dict.fromkeys(column.meaning for column in self.columns if column.meaning))
        return [*self.legend, *filter(None, (meanings, self.colors if colored else ""))]


Verdict = Literal["", "OK", "SLOW", "SLOW?", "NOISY", "BROKEN"]
"""``SLOW?``: not confirmed by a further measurement; empty: there is nothing to compare with."""


@dataclass(frozen=True)
class Note:
    """A sentence or two about the results; ``level`` determines its colour.

    ``error``: data was wrong or a run was aborted; ``missing``: something was not measured; ``finding``: a conclusion
    from the numbers; ``warning``: a reason to doubt a number.  All but findings are shown with every format.
    """

    level: Level
    text: str
    verdict: Verdict = ""
    command: str = ""
    """A command line that acts on it, or shows more."""
    first: bool = False
    """The summary shows it: a few notes, the most important ones first."""

    @property
    def whole(self) -> str:
        return ": ".join(filter(None, (self.text, self.command)))


def finding(verdict: Verdict, text: str, command: str = "", level: Level = "finding") -> Note:
    """Return a note that the summary shows."""
    return Note(level, text, verdict, command, first=True)


@dataclass(frozen=True)
class Overview:
    """The summary of a report that is too long for a screen."""

    line: str
    """How much was measured, and how certain it is."""
    table: Table


@dataclass(frozen=True)
class Axis:
    """An axis of a chart, or its scale of colours."""

    title: str
    unit: str = ""
    """``B``: message sizes, labelled as ``64 KiB``."""
    log: bool = False


@dataclass(frozen=True)
class Mark:
    """A number in a chart: a point of a curve, a part of a bar, or a cell of a heat map."""

    x: float | str
    """A text is a category."""
    y: float | str
    series: str = ""
    """The curve, or the part of the bar; each has a colour and a line of the legend."""
    low: float | None = None
    """The interval of ``y``; ``None``: there is none."""
    high: float | None = None
    value: float | None = None
    """Of a cell of a heat map; ``x`` and ``y`` are its column and its row."""


@dataclass(frozen=True)
class ReferenceLine:
    """A line across a chart: a level of ``y``, such as a line rate, or a place on ``x``, such as a threshold."""

    axis: Literal["x", "y"]
    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A picture of numbers that the tables contain, too."""

    kind: Literal["curves", "bars", "heat map"]
    """``bars``: the series of one ``x`` are stacked unless they ``overlap``.  ``heat map``: ``x`` and ``y`` are
    categories."""
    title: str
    x: Axis
    y: Axis
    marks: Sequence[Mark]
    value: Axis | None = None
    """The scale of colours of a heat map."""
    lines: Sequence[ReferenceLine] = ()
    caption: str = ""
    """A sentence below, e.g. the meaning of the intervals."""
    overlap: bool = False
    """The bars of one ``x`` stand side by side: their sum means nothing."""


class Later(UserList[Any]):
    """A part of a report that is made when it is first asked for: the summary does without most of them."""

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        self._make = make

    @cached_property
    def data(self) -> list[Any]:  # type: ignore[override]
        return list(self._make())


MAX_FINDINGS = 12
"""Of a summary; ``--full`` shows all."""

Part = Mapping[str, Sequence[Any]]
"""Some rows, by column."""


class ColumnRows(Sequence[Mapping[str, Any]]):
    """Rows that are made from columns when they are asked for: most reports of a million results do without."""

    def __init__(self, number: int, parts: Callable[[], Iterable[Part]]) -> None:
        self._number = number
        self.parts = parts

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for columns in self.parts():
            yield from (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]


@dataclass(frozen=True)
class Data:
    """The results for programs: one row per result; in SI units, e.g. ``latency_s``: docs/data.md."""

    columns: Sequence[str] = ()
    """The columns of CSV, in this order: a stable interface for scripts."""
    keys: Sequence[str] = ()
    """The columns that together tell each row from the others: the labels of Prometheus' samples."""
    rows: Sequence[Mapping[str, Any]] = ()
    """JSON contains the complete rows.  Values other than :data:`Value` (dictionaries, structs) are for JSON only; CSV
    joins lists of numbers with dashes (``ranks``: ``0-1``)."""

    def parts(self) -> Iterable[Part]:
        """Return the columns of CSV, in one or more parts; a list of numbers is a tuple, which can be looked up."""
        if isinstance(self.rows, ColumnRows):
            return self.rows.parts()
        rows = list(self.rows)
        values = {name: [row[name] for row in rows] for name in self.columns}
        return [{name: [tuple(v) if isinstance(v, list) else v for v in those] for name, those in values.items()}]


@dataclass(frozen=True)
class Report:
    """The results of one series: launches of the same request."""

    heading: Sequence[str]
    """First what was measured, then where."""
    tables: Sequence[Table] = ()
    notes: Sequence[Note] = ()
    """What is wrong, what is missing, and reasons to doubt: every format shows these."""
    doubts: Sequence[Note] = ()
    """Further reasons, which the summary does without."""
    findings: Sequence[Note] = ()
    """Conclusions from the numbers for the summary; formats for programs do without."""
    details: Sequence[Note] = ()
    """Further conclusions, which the summary does without too."""
    summary: Callable[[], Overview | None] = lambda: None
    """Makes what people see first, instead of tables and notes; ``None`` if these fit a screen."""
    charts: Sequence[Chart] = ()
    results: Callable[[], Data] = Data
    """Makes what formats for programs have."""
    origin: Callable[[], Mapping[str, str]] = dict
    """Says where ``data`` comes from (benchmark, run, host, date, launch): further columns of CSV."""
    conditions: Callable[[], Mapping[str, Any]] = dict
    """Says what else may tell its results from those of another report (cold_cache, element): columns of CSV, too."""
    runs: Sequence[Any] = ()
    """The launches: JSON and pages have their common records, without samples."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Additional data by name; JSON only."""

    @cached_property
    def data(self) -> Data:
        return self.results()

    @cached_property
    def overview(self) -> Overview | None:
        return self.summary()

    @cached_property
    def sentences(self) -> list[Note]:
        """All notes, in order of importance."""
        found = (*self.notes, *self.doubts, *self.findings, *self.details)
        return sorted(found, key=lambda note: LEVELS.index(note.level))

    def at(self, level: Level) -> list[Note]:
        return [note for note in self.notes if note.level == level]

    @property
    def first_sentences(self) -> list[Note]:
        """Those of the summary."""
        found = sorted((*self.notes, *self.findings), key=lambda note: LEVELS.index(note.level))
        return [note for note in found if note.first][:MAX_FINDINGS]

    @property
    def last_sentences(self) -> list[Note]:
        """What the summary says below its table: what was not measured, unless it said so above."""
        return [note for note in self.at("missing") if note not in self.first_sentences]


@dataclass(frozen=True)
class Details:
    """What people see of a report, and how.  Formats for programs show everything."""

    full: bool = False
    """Every table and every note, and the fitted curves; else the overview, or tables and notes if there is none."""
    command: str = "volley show"
    """The command line that shows these reports again, for the advice below an overview."""
    color: bool | None = None
    """``None``: in colour if the output is a terminal and NO_COLOR is not set."""

    def tables_of(self, report: Report) -> list[Table]:
        return [table for table in report.tables if table.rows and (self.full or not table.model)]


USUAL = Details()
"""Nothing else was asked for."""

FURTHER = "all tables and notes"
"""What ``--full`` adds to a summary."""
