"""Render reports as text for a terminal: headings, tables that fit the width, and notes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import TextIO

from rich.console import Console
from rich.text import Text

from volley.report.cells import cells_of, written
from volley.report.model import (
    FURTHER,
    USUAL,
    Cell,
    Column,
    Details,
    Level,
    Note,
    Overview,
    Report,
    Style,
    Table,
    Verdict,
)
from volley.text import COMMAND, align_decimals, escape_controls, grouped, join_words, wrapped
from volley.units import parse_whole

WIDTH_WITHOUT_TERMINAL = 120
"""Tables are at most this wide in a file or a pipe, unless COLUMNS says otherwise."""

NARROWEST = 40
"""Narrower text cannot be read; with COLUMNS=0 there would be none."""

GAP = 2
"""Blanks between columns."""

_STYLES: dict[Style, str] = {
    "": "",
    "good": "green",
    "warning": "yellow",
    "bad": "red",
    "error": "bold red",
    "dim": "dim",
}
_LEVELS: dict[Level, str] = {"error": "bold red", "missing": "dim", "finding": "", "warning": "yellow"}


def render(reports: Sequence[Report], out: TextIO, details: Details = USUAL) -> None:
    console = console_on(out, details.color)
    for number, report in enumerate(reports):
        if number:
            console.print()
        for line in report.heading[:1]:
            print_line(console, line, "bold")
        if report.overview and not details.full:
            _print_overview(console, report.overview, report, details.command)
            continue
        for line in report.heading[1:]:
            print_line(console, line, "dim")
        if report.overview:
            print_line(console, report.overview.line, "")
        tables = details.tables_of(report)
        for table, following in zip_longest(tables, tables[1:]):
            _print_table(console, table, following)
        if report.sentences:
            console.print()
        _print_notes(console, report.sentences)


_VERDICTS: dict[Verdict, str] = {
    "": "",
    "OK": "green",
    "SLOW": "yellow",
    "SLOW?": "yellow",
    "NOISY": "yellow",
    "BROKEN": "bold red",
}
_INDENT = 2 + max(map(len, _VERDICTS)) + 2


def _print_overview(console: Console, overview: Overview, report: Report, command: str) -> None:
    _print_notes(console, report.at("error"))
    for each in report.first_sentences:
        verdict = Text(f"  {each.verdict}".ljust(_INDENT), style=_VERDICTS[each.verdict])
        print_line(console, each.text, first=verdict)
        if each.command:
            print_line(console, each.command, first=Text(" " * _INDENT))
    print_line(console, overview.line, "")
    for line in report.heading[1:]:
        print_line(console, line, "dim")
    _print_table(console, overview.table)
    _print_notes(console, report.last_sentences)
    print_line(console, f"{command} --full: {FURTHER}", "dim")


def _wrapped(console: Console, text: Text, width: int) -> Iterable[Text]:
    """Wrap a text, but no command in it; one with commands has one style."""
    if text.spans and not COMMAND.search(text.plain):
        return text.wrap(console, width)
    return [Text(line, text.style) for line in wrapped(text.plain, width)]


def _print_notes(console: Console, notes: Sequence[Note]) -> None:
    for note in notes:
        judged = f"{note.verdict}: " if note.verdict and note.level != "error" else ""
        print_line(console, judged + note.whole, _LEVELS[note.level])


def console_on(out: TextIO, color: bool | None = None) -> Console:
    console = Console(
        file=out,
        force_terminal=color,
        force_jupyter=False,  # else rich shows each line by itself in a notebook, instead of writing it to the file
        color_system=None if color is False else "auto",
        markup=False,
        highlight=False,
        emoji=False,
    )
    if not console.is_terminal and parse_whole(os.environ.get("COLUMNS")) is None:
        console.width = WIDTH_WITHOUT_TERMINAL
    console.width = max(console.width, NARROWEST)
    return console


def print_line(
    console: Console, text: str | Text, style: str = "", *, first: Text | None = None, wrap: bool = False
) -> None:
    """Print a line of text, after a first one: wrapped below itself on a terminal, or if ``wrap``; elsewhere unwrapped,
    to be searched for."""
    line = text if isinstance(text, Text) else Text(escape_controls(text), style=style)
    indent = len(first) if first else 0
    width = max(console.width - indent, NARROWEST)
    for number, part in enumerate(_wrapped(console, line, width) if wrap or console.is_terminal else [line]):
        part.rstrip()
        before = Text(" " * indent) if number else first
        console.print(before + part if before else part, soft_wrap=True)


# ------------------------------------------------------------------------------------------------- tables


class _Strip:
    """Neighbouring columns with one title, in texts of equal width."""

    def __init__(self, columns: Sequence[Column], cells: Sequence[Sequence[Cell]]) -> None:
        self.title = escape_controls(columns[0].group)
        self.columns = columns
        self.headers = [
            [escape_controls(line) for line in (*column.title.split("\n"), column.unit) if line] for column in columns
        ]
        texts = [
            align_decimals([written(cell, column) for cell in rows])
            for column, rows in zip(columns, cells, strict=True)
        ]
        self.widths = [
            max(map(len, (*header, *rows)), default=0) for header, rows in zip(self.headers, texts, strict=True)
        ]
        self.width = sum(width + GAP for width in self.widths)
        if self.title:  # one more blank between groups, and room for the title
            more = max(GAP, len(self.title) - self.width + GAP)
            self.widths[0] += more
            self.width += more
        # Pad here: Rich would strip the blanks that align the decimal points.
        self.cells = [
            [
                Text(_pad(text, column, width), style=_STYLES[cell.style or ("good" if cell.value is True else "")])
                for text, cell in zip(these_texts, these_cells, strict=True)
            ]
            for these_texts, these_cells, column, width in zip(texts, cells, columns, self.widths, strict=True)
        ]


def _print_table(console: Console, table: Table, following: Table | None = None) -> None:
    """Print as many columns as fit side by side and the others below; each block repeats the names of the rows."""
    table = _narrowed(table, console.width)
    names, *strips = _strips(table)
    console.print()
    if table.title:
        print_line(console, table.title, "bold")
    blocks: list[list[_Strip]] = [[]]
    for strip in strips:
        if blocks[-1] and sum(each.width for each in (names, *blocks[-1], strip)) - GAP > console.width:
            blocks.append([])
        blocks[-1].append(strip)
    for number, block in enumerate(blocks):
        if number:
            console.print()
        if any(strip.title for strip in block):
            titles = "".join(strip.title.center(strip.width) for strip in block)
            console.print(Text(" " * names.widths[0] + titles.rstrip(), style="bold"), soft_wrap=True)
        _print_block(console, [names, *block], table)
    colored = console.color_system is not None
    below = _narrowed(following, console.width).lines(colored=colored) if following else []
    for line in table.lines(colored=colored):
        if line not in below:
            print_line(console, line, "dim")


def _narrowed(table: Table, width: int) -> Table:
    """Leave out columns of nothing but ticks, then spare columns, until the others fit side by side; name the spare
    ones below."""
    left_out: list[Column] = []
    while sum(strip.width for strip in _strips(table)) - GAP > width:
        cells = list(zip(*map(cells_of, table.rows), strict=True)) or [() for _ in table.columns]
        ticks = [
            place
            for place, column in enumerate(table.columns)
            if column.all_true
            if all(cell.value is True or (cell.value is None and not cell.text) for cell in cells[place])
        ]
        spare = max(column.spare for column in table.columns)
        if ticks:
            told = [table.columns[ticks[0]].all_true] if any(cell.value for cell in cells[ticks[0]]) else []
            table = replace(_without(table, {ticks[0]}), legend=[*table.legend, *told])
        elif spare:
            left_out += [column for column in table.columns if column.spare == spare]
            table = _without(table, {place for place, column in enumerate(table.columns) if column.spare == spare})
        else:
            break
    if not left_out:
        return table
    names = [
        " ".join(filter(None, (group, join_words(column.flat_title for column in alike))))
        for group, alike in grouped(left_out, attrgetter("group")).items()
    ]
    line = f"left out on {width} columns: {'; '.join(names)} (a wider terminal or --format csv shows them)"
    return replace(table, legend=[*table.legend, line])


def _without(table: Table, places: Set[int]) -> Table:
    kept = [place for place in range(len(table.columns)) if place not in places]
    rows = [[row[place] for place in kept] for row in map(cells_of, table.rows)]
    return replace(table, columns=[table.columns[place] for place in kept], rows=rows)


def _strips(table: Table) -> list[_Strip]:
    """Return the column with the names of the rows by itself, then those of each group together."""
    cells = list(zip(*map(cells_of, table.rows), strict=True)) or [() for _ in table.columns]
    places = range(len(table.columns))
    together = groupby(places, key=lambda place: place and (table.columns[place].group or place))
    return [
        _Strip([table.columns[place] for place in those], [cells[place] for place in those])
        for those in [list(places) for _, places in together]
    ]


def _print_block(console: Console, strips: Sequence[_Strip], table: Table) -> None:
    """Print columns without shrinking them: a terminal that is too narrow wraps the last text, but shows all."""
    gap = Text(" " * GAP)
    columns = [column for strip in strips for column in strip.columns]
    headers = [header for strip in strips for header in strip.headers]
    widths = [width for strip in strips for width in strip.widths]
    height = max(map(len, headers))
    for lines in zip(*([""] * (height - len(header)) + header for header in headers), strict=True):
        texts = [_pad(*each) for each in zip(lines, columns, widths, strict=True)]
        console.print((" " * GAP).join(texts).rstrip(), style="bold", soft_wrap=True)
    rule = "─" if console.encoding.startswith("utf") else "-"
    whole = sum(widths) + GAP * (len(widths) - 1)
    hanging = len(widths) > 1 and columns[-1].align == "left" and whole > console.width
    console.print(rule * (min(whole, console.width) if hanging and console.is_terminal else whole), soft_wrap=True)
    for number in range(len(table.rows)):
        if number in table.sections:
            print_line(console, table.sections[number], "dim")
        *cells, last = (cells[number] for strip in strips for cells in strip.cells)
        last.rstrip()
        if hanging:
            print_line(console, last, first=Text("").join(part for cell in cells for part in (cell, gap)))
            continue
        line = gap.join([*cells, last])
        line.rstrip()
        console.print(line, soft_wrap=True)


def _pad(text: str, column: Column, width: int) -> str:
    return text.ljust(width) if column.align == "left" else text.rjust(width)
