"""Columns of aligned cells, in groups that stand side by side as far as the width allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import Box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from volley.text import aligned

GAP = 2
"""Characters between columns: one of padding and the box's divider, a blank too."""

_RULE = "    \n    \n ── \n    \n    \n    \n    \n    \n"
"""A box (rich.box) of nothing but the line under the header."""


@dataclass(frozen=True)
class Column:
    """The lines of a header, and the cells below it with their styles (Rich's)."""

    header: Sequence[str]
    cells: Sequence[str]
    styles: Sequence[str]


class Group:
    """Columns under a title; without one they stand under nothing but their headers."""

    def __init__(self, columns: Sequence[Column], title: str = "") -> None:
        self.title = title
        cells = [aligned(column.cells) for column in columns]
        self.widths = [
            max(map(len, (*column.header, *rows)), default=0) for column, rows in zip(columns, cells, strict=True)
        ]
        if title:  # a blank more between groups, and room for the title
            self.widths[0] += max(GAP, len(title) - self.width + GAP)
        # Set flush right here: Rich would strip the blanks that keep decimal points in line.
        self.columns = [
            [Text(cell.rjust(width), style=style) for cell, style in zip(rows, column.styles, strict=True)]
            for column, rows, width in zip(columns, cells, self.widths, strict=True)
        ]
        self.headers = [
            "\n".join(line.rjust(width) for line in column.header)
            for column, width in zip(columns, self.widths, strict=True)
        ]

    @property
    def width(self) -> int:
        """Characters that the group takes, with the gap before each of its columns."""
        return sum(width + GAP for width in self.widths)


def print_groups(
    console: Console, name: str, rows: Sequence[str], groups: Sequence[Group], justify: JustifyMethod = "right"
) -> None:
    """Print as many groups side by side as fit, and the rest below, each block with the names of the rows.

    Args:
        console: where to.
        name: what the rows are, e.g. ``size``.
        rows: one name a row.
        groups: one at least.
        justify: ``left`` sets the names of the rows flush left.
    """
    first = max(map(len, (*rows, name)))
    for block in _blocks(groups, console.width - first):
        console.print()
        if any(group.title for group in block):
            titles = "".join(group.title.center(group.width) for group in block)
            console.print(Text(" " * first + titles.rstrip(), style="bold"), soft_wrap=True)
        table = bare_table(console)
        table.add_column(name, justify=justify, no_wrap=True, vertical="bottom")
        for group in block:
            for header, width in zip(group.headers, group.widths, strict=True):
                table.add_column(header, no_wrap=True, min_width=width, vertical="bottom")
        for number, row in enumerate(rows):
            table.add_row(row, *(cells[number] for group in block for cells in group.columns))
        _print_whole(console, table, first + sum(group.width for group in block))


def _blocks(groups: Sequence[Group], room: int) -> list[list[Group]]:
    """Each block has one group at least."""
    blocks: list[list[Group]] = []
    for group in groups:
        if blocks and sum(other.width for other in blocks[-1]) + group.width <= room:
            blocks[-1].append(group)
        else:
            blocks.append([group])
    return blocks


def _print_whole(console: Console, table: Table, width: int) -> None:
    """Print a table that must not be squeezed: a terminal that is too narrow breaks its lines and loses no number."""
    room = console.width
    console.width = max(room, width)
    console.print(table, soft_wrap=True)
    console.width = room


def bare_table(console: Console) -> Table:
    """A table with a line under its header and ``GAP`` blanks between columns."""
    encodable = console.encoding.startswith("utf")
    rule = Box(_RULE if encodable else _RULE.replace("─", "-"), ascii=not encodable)
    return Table(box=rule, pad_edge=False, padding=(0, GAP - 1, 0, 0), show_edge=False, header_style="bold")
