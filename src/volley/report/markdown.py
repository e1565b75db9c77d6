"""GitHub's Markdown: what the terminal shows, to paste into an issue, a wiki or the summary of a CI job.

Text of a report is data: characters that mean something in Markdown or HTML are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from volley.report.cells import cells_of, written
from volley.report.model import FURTHER, USUAL, Details, Note, Overview, Report, Table
from volley.text import escape_controls

_SPECIAL = re.compile(r"([\\`*_\[\]<>|&~$])")
_BLOCK = re.compile(r"^([-+#=]|\d+[.)])")
"""What would begin a list, a heading or a rule at the start of a line."""


def render(reports: Sequence[Report], out: TextIO, details: Details = USUAL) -> None:
    for number, report in enumerate(reports):
        first, *others = report.heading or [""]
        blocks = [f"## {_text(first)}"]
        if report.overview and not details.full:
            blocks += _overview(report.overview, report, details.command)
        else:
            blocks += map(_text, (*others, *([report.overview.line] if report.overview else [])))
            blocks += [block for table in details.tables_of(report) for block in _table(table)]
            blocks += _notes(report.sentences)
        out.write("\n" * bool(number) + "\n\n".join(filter(None, blocks)) + "\n")


def _overview(overview: Overview, report: Report, command: str) -> Iterator[str]:
    yield from _notes(report.at("error"))
    yield "\n".join(
        f"- **{each.verdict or 'note'}** {_text(each.text)}" + (f": {_code(each.command)}" if each.command else "")
        for each in report.first_sentences
    )
    yield from map(_text, (overview.line, *report.heading[1:]))
    yield from _table(overview.table)
    yield from _notes(report.last_sentences)
    yield f"{_code(f'{command} --full')}: {FURTHER}"


def _notes(notes: Sequence[Note]) -> Iterator[str]:
    yield "\n".join(f"- **{note.verdict or note.level}** {_text(note.whole)}" for note in notes)


def _table(table: Table) -> Iterator[str]:
    """Yield the title, the table and its legend; a line between rows becomes a row with one cell."""
    yield f"**{_text(table.title)}**" if table.title else ""
    headers = ((column.group, column.flat_title, column.unit) for column in table.columns)
    lines = [_row("<br>".join(_inline(line) for line in header if line) for header in headers)]
    lines.append(_row("---" if column.align == "left" else "--:" for column in table.columns))
    for number, row in enumerate(table.rows):
        if number in table.sections:
            lines.append(_row([f"*{_text(table.sections[number])}*", *[""] * (len(table.columns) - 1)]))
        cells = zip(cells_of(row), table.columns, strict=True)
        lines.append(_row(_inline(written(cell, column)) for cell, column in cells))
    yield "\n".join(lines)
    yield from map(_text, table.lines())


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    return _BLOCK.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", _inline(text))


def _inline(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", escape_controls(text)).strip()


def _code(text: str) -> str:
    """Return a code span; its fence is longer than any in the text."""
    shown = escape_controls(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence} {shown} {fence}" if "`" in shown else f"{fence}{shown}{fence}"
