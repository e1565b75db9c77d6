"""One HTML page that needs no network: notes, charts, tables that sort, environment, and the records to download.

Vega-Lite draws the charts in the browser; its JavaScript is part of the page.  Text of a report is data: Jinja2 escapes
it, and control characters are escaped before.
"""

from __future__ import annotations

import base64
import functools
import gzip
import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

import jinja2
import msgspec
import vl_convert
from markupsafe import Markup

from volley.report.cells import cells_of, written
from volley.report.csv import text_of
from volley.report.json import described
from volley.report.model import Cell, Chart, Column, Data, Report, Row, Table
from volley.report.svg import with_dark_scheme
from volley.report.vega_lite import MAX_SHOWN, specification
from volley.text import count, escape_controls

MAX_CELLS = 20_000
"""Larger tables would make the page slow; CSV has them."""

_MAX_WIDE = 4
"""More charts than these are narrow."""

_LEVELS = {"error": "Error", "missing": "Not measured", "finding": "Conclusion", "warning": "Warning"}


Pictures = Sequence[tuple[str, str]]
"""Titles and drawings (:mod:`volley.report.svg`)."""


def render(
    title: str,
    reports: Sequence[Report],
    pictures: Sequence[Pictures],
    files: Sequence[tuple[str, bytes]],
    out: TextIO,
) -> None:
    """Write the page; where it has one report, the title says what the first part of its heading would say again."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sections = [_section(report, reports, drawn) for report, drawn in zip(reports, pictures, strict=True)]
    out.write(
        environment.get_template("page.html.jinja").render(
            title=title,
            sections=sections,
            # With compresslevel=6 it takes four times as long for 6 % less.
            files=[(name, _link("application/gzip", gzip.compress(data, 3, mtime=0))) for name, data in files],
            vega=_vega(),
        )
        + "\n"
    )


@functools.cache
def _vega() -> Markup:
    """Return Vega, Vega-Lite and Vega-Embed, which take 1.5 s."""
    vega = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return Markup(vega.replace("</script", "<\\/script"))  # noqa: S704  no user's text


def _link(kind: str, data: bytes) -> Markup:
    return Markup(f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}")  # noqa: S704  letters and digits


def _clean(value: Any) -> Any:
    return escape_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _section(report: Report, reports: Sequence[Report], pictures: Pictures) -> dict[str, Any]:
    told = report.first_sentences if report.overview else []
    notes = [(note.level, _LEVELS[note.level], note.whole) for note in report.sentences if note not in told]
    narrow = len(report.charts) > _MAX_WIDE
    overview = report.overview and {
        "line": report.overview.line,
        "conclusions": [(each.verdict, each.text, each.command) for each in told],
        "table": _table(report.overview.table),
    }
    return {
        "heading": report.heading,
        "overview": overview,
        "notes": [note for note in notes if note[0] != "warning"],
        "warnings": [note for note in notes if note[0] == "warning"],
        "charts": [_chart(chart, reports, narrow=narrow) for chart in report.charts],
        "narrow": narrow,
        "pictures": [(name, _link("image/svg+xml", with_dark_scheme(svg).encode())) for name, svg in pictures],
        "tables": [_table(each) for each in report.tables if not report.overview or each is not report.overview.table],
        "results": _table(_results(report.data)),
        "environment": _table(_environment(report)) if report.runs else None,
    }


def _chart(chart: Chart, reports: Sequence[Report], *, narrow: bool) -> dict[str, Any]:
    """Return a chart; the charts of one quantity share scale and colours, so that they can be compared."""
    alike = [each for report in reports for each in report.charts if (each.title, each.y) == (chart.title, chart.y)]
    spec = specification(chart, "currentColor", "container", alike, narrow=narrow)
    curves = len({mark.series for mark in chart.marks}) if chart.kind == "curves" else 0
    more = f"; {MAX_SHOWN} of {curves} curves are shown: click a name to show or hide its curve"
    return {"title": chart.title, "caption": chart.caption + more * (curves > MAX_SHOWN), "spec": spec}


# ------------------------------------------------------------------------------------------------------ tables


def _table(table: Table) -> dict[str, Any]:
    groups = [(name, len(list(columns))) for name, columns in groupby(table.columns, key=lambda column: column.group)]
    rows, legend = list(table.rows), table.lines()
    if len(rows) * len(table.columns) > MAX_CELLS:
        rows, legend = [], [*legend, _too_many(len(rows))]
    starts = sorted({0, *table.sections})
    cells = [list(_cells(row, table.columns)) for row in rows]
    return {
        "title": table.title,
        "groups": groups if any(name for name, _ in groups) else [],
        "columns": [(column.flat_title, column.unit, column.align) for column in table.columns],
        "sections": [
            (table.sections.get(start, ""), cells[start:end])
            for start, end in zip(starts, [*starts[1:], len(cells)], strict=True)
        ],
        "legend": legend,
    }


def _too_many(rows: int) -> str:
    return f"{count(rows, 'row')} are too many for this page: volley show --format csv has them"


def _cells(row: Row, columns: Sequence[Column]) -> Iterator[dict[str, str]]:
    for cell, column in zip(cells_of(row), columns, strict=True):
        number = cell.value
        key = repr(number) if isinstance(number, float | int) and math.isfinite(number) else ""
        yield {"text": written(cell, column), "key": key, "style": cell.style, "align": column.align}


def _results(data: Data) -> Table:
    if len(data.rows) * len(data.columns) > MAX_CELLS:
        return Table([Column(name) for name in data.columns], (), legend=[_too_many(len(data.rows))])
    texts = {name for row in data.rows for name in data.columns if isinstance(row[name], str)}
    columns = [Column(name, digits=6, align="left" if name in texts else "right") for name in data.columns]
    rows = ([(row[name], text_of(row[name])) for name in data.columns] for row in data.rows)
    cells = [
        [Cell(value if isinstance(value, float | int) else None, text=text) for value, text in row] for row in rows
    ]
    return Table(columns, cells)


def _environment(report: Report) -> Table:
    first = msgspec.to_builtins(described(report.runs[0]))
    keys = [Column("key", align="left"), Column("value", align="left")]
    return Table(keys, [[key, Cell(text=text)] for key, text in _flat("", first)])


def _flat(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _flat(f"{key}.{name}" if key else str(name), each)
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, each in enumerate(value):
            yield from _flat(f"{key}[{number}]", each)
    elif value is not None:
        yield key, ", ".join(map(str, value)) if isinstance(value, list) else text_of(value)
