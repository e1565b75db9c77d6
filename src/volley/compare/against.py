"""A run beside a reference: one number each, and the list of references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from volley.compare.runs import Side
from volley.errors import UserError
from volley.grouping import grouped
from volley.references import Figures, Reference
from volley.report.model import Cell, Column, Data, Note, Report, Row, Table
from volley.statistics.estimates import median
from volley.statistics.launches import MIN_LAUNCHES, of_observations
from volley.text import count, join_few
from volley.units import format_sig

COLUMNS = ("reference", "benchmark", "series", "at", "title", "unit", "published", "ours", "speed", "launches")
"""The columns of CSV.  ``speed`` is how many times as fast as the reference: above 1 is better."""

_MAX_NAMED = 4
"""Series in the sentence of the finding; of more, only the median over all points."""

LIST_COLUMNS = ("reference", "benchmark", "series", "at", "title", "unit", "published")


@dataclass(frozen=True)
class Beside:
    """One figure of a reference and what was measured."""

    table: Figures
    at: str
    published: float
    ours: float
    """In the unit of the table; the median over launches."""
    launches: int
    fastest: float
    """The upper bound of ``speed``: of its 95 % interval over launches, or the highest of too few of them."""

    @property
    def speed(self) -> float:
        """How many times as fast as the reference."""
        return self.table.speed(self.ours, self.published)


def beside(side: Side, reference: Reference, name: str) -> list[Beside]:
    """Put every figure that was also measured beside the measurement.

    Raises:
        UserError: if nothing of the reference was measured.
    """
    found, observed = [], side.observed
    for table in reference.tables:
        rows = observed.rows.get((table.benchmark, table.series), {})
        for at, published in table.figures.items():
            if (row := rows.get(at)) is None:
                continue
            times, work = observed.seconds(row), observed.work[row]
            ours = [value for each in times if (value := table.of(each, work)) is not None]
            if ours:
                fastest = of_observations([table.speed(each, published) for each in ours]).high
                found.append(Beside(table, at, published, median(ours), len(ours), fastest))
    if not found:
        names = list(dict.fromkeys(f"{table.benchmark}: {table.series}" for table in reference.tables))
        places = list(dict.fromkeys(at for table in reference.tables for at in table.figures))
        raise UserError(
            f"{side.name} measures nothing that {name} has: it has {join_few(names)} at {places[0]} to "
            f"{places[-1]}; see volley references {name}"
        )
    return found


def slower(found: Sequence[Beside], tolerance: float | None) -> list[Beside]:
    """Return the points that take longer than expected by more than this fraction for certain, the slowest first."""
    slow = [] if tolerance is None else [each for each in found if 1 / each.fastest - 1 > tolerance]
    return sorted(slow, key=lambda each: each.speed)


def report(
    side: Side, reference: Reference, name: str, found: Sequence[Beside], slow: Sequence[Beside], *, full: bool
) -> Report:
    """Return the report of a run beside a reference.

    Args:
        side: the run.
        reference: the reference.
        name: of the reference.
        found: every figure that was also measured.
        slow: those of them that are slower than expected.
        full: show every figure.
    """
    return Report(
        heading=[
            _finding(found, name),
            f"ours: {side.name} · {count(side.launches, 'launch')}",
            f"{name}: {reference.machine} · {reference.date or 'date unknown'} · {reference.source}",
        ],
        tables=[_figures(found, name) if full else _series(found)],
        notes=[
            *_slower_notes(slow),
            Note("warning", "the reference has no repeats: ratios only, no verdicts"),
            *(Note("finding", f"{name}: {line}") for line in reference.method),
            *([] if full else [Note("finding", "--full shows every figure")]),
        ],
        data=Data(COLUMNS, LIST_COLUMNS[:-1], [_row(each, name) for each in found]),
        extra={"reference": reference, "side": side.name},
    )


def _slower_notes(slow: Sequence[Beside]) -> Iterator[Note]:
    if slow:
        named = join_few(map(_how_slow, slow))
        yield Note("error", f"SLOWER than expected: {count(len(slow), 'point')}: {named}")


def _how_slow(each: Beside) -> str:
    """``host at 8 B (12 %, 95 % CI from 9 %)``; without an interval its place says so."""
    least = f"95 % CI from {100 / each.fastest - 100:.0f} %" if each.launches >= MIN_LAUNCHES else "no CI"
    return f"{each.table.series} at {each.at} ({100 / each.speed - 100:.0f} %, {least})"


def _finding(found: Sequence[Beside], name: str) -> str:
    """``speed relative to summit: host 82 %, staged/pageable 80 % and aware 2.48 × (medians of 12 points)``."""
    series = _by_series(found)
    if len(series) > _MAX_NAMED:
        speeds = [each.speed for each in found]
        middle, low, high = (_per_cent(value) for value in (median(speeds), min(speeds), max(speeds)))
        return f"{middle} of the speed of {name} (median of {count(len(found), 'point')}, {low} to {high})"
    labels = [label for label, _ in series]
    parts = [
        f"{label}{f' ({title})' if labels.count(label) > 1 else ''} {_per_cent(median([each.speed for each in those]))}"
        for (label, title), those in series.items()
    ]
    return f"speed relative to {name}: {join_few(parts)} (medians of {count(len(found), 'point')})"


def _by_series(found: Sequence[Beside]) -> dict[tuple[str, str], list[Beside]]:
    """Group by series and by the title of the table."""
    return grouped(found, lambda each: (each.table.series, each.table.title or ""))


def _series(found: Sequence[Beside]) -> Table:
    """One row a series: the speeds at all of its points."""
    columns = [
        Column(align="left"),
        Column("of", align="left"),
        Column("points"),
        Column("median", group="speed, ours / theirs"),
        Column("lowest", group="speed, ours / theirs"),
        Column("at", align="left", group="speed, ours / theirs"),
        Column("highest", group="speed, ours / theirs"),
        Column("at", align="left", group="speed, ours / theirs"),
    ]
    rows: list[Row] = []
    for (name, title), those in _by_series(found).items():
        slowest, fastest = min(those, key=lambda each: each.speed), max(those, key=lambda each: each.speed)
        middle = median([each.speed for each in those])
        cells = [Cell(value, text=_per_cent(value)) for value in (middle, slowest.speed, fastest.speed)]
        rows.append([name, title, len(those), cells[0], cells[1], slowest.at, cells[2], fastest.at])
    return Table(columns, rows)


def _figures(found: Sequence[Beside], name: str) -> Table:
    columns = [
        Column(align="left"),
        Column("at", align="left"),
        Column("of", align="left"),
        Column(name),
        Column("ours"),
        Column("unit", align="left"),
        Column("speed", "ours / theirs"),
    ]
    rows: list[Row] = [
        [
            each.table.series,
            each.at,
            each.table.title or "",
            Cell(each.published, text=f"{each.published:.6g}"),
            Cell(each.ours, text=f"{each.ours:.6g}"),
            each.table.unit,
            Cell(each.speed, text=_per_cent(each.speed)),
        ]
        for each in found
    ]
    return Table(columns, rows)


def _per_cent(value: float) -> str:
    return f"{format_sig(value, 3)} ×" if value >= 2 else f"{format_sig(value * 100, 3)} %"


def _row(each: Beside, name: str) -> dict[str, object]:
    return {
        **_published(name, each.table, each.at, each.published),
        "ours": each.ours,
        "speed": each.speed,
        "launches": each.launches,
    }


def _published(name: str, table: Figures, at: str, figure: float) -> dict[str, object]:
    return {
        "reference": name,
        "benchmark": table.benchmark,
        "series": table.series,
        "at": at,
        "title": table.title,
        "unit": table.unit,
        "published": figure,
    }


# ---------------------------------------------------------------------------------------------------------- lists


def list_report(references: Mapping[str, Reference], own: Mapping[str, Path]) -> Report:
    """Return the list of all references."""
    columns = [Column("name", align="left"), Column("figures"), Column("machine", align="left")]
    rows: list[list[str | int]] = [
        [name, sum(len(table.figures) for table in each.tables), each.machine] for name, each in references.items()
    ]
    return Report(
        heading=["Published results of other machines: volley compare RECORDS --with NAME"],
        tables=[Table(columns, [*rows, *([name, "", f"yours: {path}"] for name, path in own.items())])],
        notes=[Note("finding", f"{name}: {each.source}") for name, each in references.items()],
        data=Data(
            LIST_COLUMNS, LIST_COLUMNS[:-1], [row for name, each in references.items() for row in _rows(name, each)]
        ),
        extra={"references": references, "own": own},
    )


def _rows(name: str, reference: Reference) -> list[dict[str, object]]:
    return [_published(name, table, at, figure) for table in reference.tables for at, figure in table.figures.items()]


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
        data=Data(LIST_COLUMNS, LIST_COLUMNS[:-1], _rows(name, reference)),
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
