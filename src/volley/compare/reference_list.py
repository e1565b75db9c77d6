"""The list of references, and the figures of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from volley.grouping import grouped
from volley.references import Figures, Reference
from volley.report.model import Cell, Column, Data, Note, Report, Row, Table

COLUMNS = ("reference", "benchmark", "series", "at", "title", "unit", "published")


def list_report(references: Mapping[str, Reference], own: Mapping[str, Path]) -> Report:
    """Return the list of all references."""
    columns = [Column("name", align="left"), Column("figures"), Column("machine", align="left")]
    rows: list[list[str | int]] = [
        [name, sum(len(table.figures) for table in each.tables), each.machine] for name, each in references.items()
    ]
    return Report(
        heading=["Published results of other machines: volley compare NAME RECORDS"],
        tables=[Table(columns, [*rows, *([name, "", f"yours: {path}"] for name, path in own.items())])],
        notes=[Note("finding", f"{name}: {each.source}") for name, each in references.items()],
        data=Data(COLUMNS, COLUMNS[:-1], [row for name, each in references.items() for row in _rows(name, each)]),
        extra={"references": references, "own": own},
    )


def _rows(name: str, reference: Reference) -> list[dict[str, object]]:
    return [
        {
            "reference": name,
            "benchmark": table.benchmark,
            "series": table.series,
            "at": at,
            "title": table.title,
            "unit": table.unit,
            "published": figure,
        }
        for table in reference.tables
        for at, figure in table.figures.items()
    ]


def one_report(name: str, reference: Reference) -> Report:
    """Return one reference with all its figures, each table as its source has it."""
    single = [table for table in reference.tables if len(table.figures) == 1]
    found = [_single(single)] if single else []
    for table in reference.tables:
        if table in single:
            continue
        columns = [Column("at", align="left"), Column("", _unit(table)[0])]
        rows: list[Row] = [[at, _shown(table, figure)] for at, figure in table.figures.items()]
        found.append(Table(columns, rows, title=_title(table)))
    return Report(
        heading=[f"{name}: {reference.machine}", f"{reference.date or 'date unknown'} · {reference.source}"],
        tables=found,
        notes=[Note("finding", line) for line in reference.method],
        data=Data(COLUMNS, COLUMNS[:-1], _rows(name, reference)),
        extra={"reference": reference},
    )


def _single(tables: Sequence[Figures]) -> Table:
    """Return the tables of one figure each as the rows of one, in sections of a series."""
    sections: dict[int, str] = {}
    rows: list[Row] = []
    for title, those in grouped(tables, _title).items():
        sections[len(rows)] = title
        for each in those:
            rows += [[at, f"{_shown(each, figure).text} {_unit(each)[0]}"] for at, figure in each.figures.items()]
    return Table([Column("at", align="left"), Column(align="left")], rows, sections=sections)


def _title(table: Figures) -> str:
    return f"{table.series} ({table.benchmark})" + (f": {table.title}" if table.title else "")


def _unit(table: Figures) -> tuple[str, float]:
    """Return the unit that is shown, and its factor."""
    return ("µs", 1e6) if table.unit == "s" else (table.unit, 1.0)


def _shown(table: Figures, figure: float) -> Cell:
    return Cell(figure, text=f"{figure * _unit(table)[1]:.9g}")
