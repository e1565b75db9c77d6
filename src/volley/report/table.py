"""Tables for people: one row a size, numbers aligned, units in the header, sentences below.

Columns are data (``Column`` lists).  One transport gets all of them; several transports stand side by side with a few
each, in blocks that fit the width.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import IO, TextIO, cast

from rich.console import Console
from rich.text import Text

from volley.records import Plan, Transport
from volley.report import jacobi, layout, scaling
from volley.report.compared import print_lines, print_speedups
from volley.report.encodable import Encodable
from volley.report.heading import heading
from volley.report.layout import print_groups
from volley.report.matrix import print_matrix
from volley.report.node import print_node
from volley.report.remarks import Level, sentences
from volley.sizes import format_size
from volley.solution import Solution, solutions
from volley.stats import FEWEST, Estimate, Kind
from volley.summary import PointSummary, Rate, Series, tables
from volley.text import digits, harmless, several

WIDTH_WITHOUT_TERMINAL = 120
"""Blocks of several transports are at most this wide in a file or a pipe, unless COLUMNS says otherwise."""

_LEVEL_STYLES: dict[Level, str] = {"error": "bold red", "missing": "dim", "finding": "", "warning": "yellow"}


@dataclass(frozen=True)
class Column:
    """One column: its two lines of header and what stands in its cells where a point has numbers."""

    title: str
    unit: str
    cell: Callable[[PointSummary], str]


def _microseconds(value: float | None) -> str:
    return "–" if value is None else digits(value * 1e6)


def _gigabytes(rate: Rate | None) -> str:
    return "–" if rate is None else digits(rate.median_Bps / 1e9)


def _plus_minus(time: Estimate | None) -> str:
    """Half width in per cent, to a tenth; in parentheses where it is only the range of too few observations."""
    if time is None or time.kind == "single":
        return "–"
    per_cent = time.half_width * 100
    shown = f"{per_cent:.1f}" if per_cent >= 0.05 else "<0.1"
    return shown if time.kind == "interval" else f"({shown})"


def _verified(point: PointSummary) -> str:
    """A tick for checked data; a dash where nothing is sent."""
    if point.rate is None:
        return "–"
    return "✓" if point.verified else "no"


def _tail(name: str) -> Column:
    return Column(name, "µs", lambda point: _microseconds(point.tail_s.get(name)))


LATENCY = Column("latency", "µs", lambda point: _microseconds(point.latency_s))
PLUS_MINUS = Column("", "± %", lambda point: _plus_minus(point.time))
BANDWIDTH = Column("bandwidth", "GB/s", lambda point: _gigabytes(point.rate))
TOTAL = Column("total", "GB/s", lambda point: _gigabytes(point.rate))
FORWARD = Column("forward", "GB/s", lambda point: _gigabytes(point.forward))
BACKWARD = Column("backward", "GB/s", lambda point: _gigabytes(point.backward))
SAMPLES = Column("samples", "", lambda point: str(point.samples))
VERIFIED = Column("verified", "", _verified)

ALONE = {
    "pingpong": [LATENCY, PLUS_MINUS, BANDWIDTH, SAMPLES, VERIFIED],
    "tail": [LATENCY, PLUS_MINUS, _tail("p90"), _tail("p99"), _tail("p99.9"), _tail("max"), SAMPLES, VERIFIED],
    "uni": [BANDWIDTH, PLUS_MINUS, SAMPLES, VERIFIED],
    "bi": [TOTAL, PLUS_MINUS, FORWARD, BACKWARD, SAMPLES, VERIFIED],
}
SIDE_BY_SIDE = {
    "pingpong": [replace(LATENCY, title=""), PLUS_MINUS, replace(BANDWIDTH, title="")],
    "tail": [replace(LATENCY, title="median"), _tail("p99"), _tail("max")],
    "uni": [replace(BANDWIDTH, title=""), PLUS_MINUS],
    "bi": [TOTAL, PLUS_MINUS],
}


def render_table(series: list[Series], out: TextIO, *, color: bool | None = None) -> None:
    """Write every series as heading, table and sentences."""
    console = _console(out, color)
    for number, one in enumerate(series):
        if number:
            console.print()
        for line in heading(one):
            _print(console, line, "bold" if line.startswith("volley ") else "dim")
        if one.plan is not None and one.plan.benchmark == "probe":
            _print_transports(console, one)
        _print_solutions(console, solutions(one.logs))
        for points in tables(one.points):
            _print_points(console, points, one)
            for print_more in (print_speedups, print_lines):
                for line in print_more(console, points, one):
                    _print(console, line, "dim")
        for sheet in one.matrices:
            print_matrix(console, sheet)
        print_node(console, one.nodes)
        _print_sentences(console, one)
    for chain in scaling.steps(solution for one in series for solution in solutions(one.logs)):
        console.print()
        for number, line in enumerate(scaling.lines(chain)):
            _print(console, line, "" if number else "bold")


def _print_solutions(console: Console, found: list[Solution]) -> None:
    """One row a solution of ``volley jacobi``."""
    if not found:
        return
    _print(console, jacobi.dimensions(found[0]), "dim")
    rows = list(jacobi.table_lines(found))
    columns = [
        layout.Column([part for part in (title, unit) if part], cells, [""] * len(cells))
        for (title, unit, _), *cells in zip(jacobi.COLUMNS, *(cells for _, cells in rows), strict=True)
    ]
    if rows:
        print_groups(console, "exchange", [name for name, _ in rows], [layout.Group(columns)], "left")
    for line in jacobi.legend(found):
        _print(console, line, "dim")
    for line in jacobi.remarks(found):
        _print(console, line, "bold red" if line.startswith("FAILED") else "dim")


def _console(out: TextIO, color: bool | None) -> Console:
    """A console that neither marks up nor highlights what it is given, as wide as there is room."""
    console = Console(
        file=cast(IO[str], Encodable(out)),
        force_terminal=color,
        color_system=None if color is False else "auto",
        markup=False,
        highlight=False,
        emoji=False,
    )
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = WIDTH_WITHOUT_TERMINAL
    return console


def _print(console: Console, text: str, style: str) -> None:
    """Print a sentence: wrapped on a terminal, in one line elsewhere so that it can be searched for."""
    console.print(Text(text, style=style), soft_wrap=not console.is_terminal)


def _print_sentences(console: Console, series: Series) -> None:
    found = sentences(series)
    if found:
        console.print()
    for sentence in found:
        _print(console, sentence.text, _LEVEL_STYLES[sentence.level])


# ------------------------------------------------------------------------------------------------- tables


def _print_points(console: Console, points: list[PointSummary], series: Series) -> None:
    first = points[0]
    shape = first.direction or ("tail" if series.plan and series.plan.sampling.tail else "pingpong")
    names = list(dict.fromkeys(point.transport for point in points))
    alone = len(names) == 1
    columns = (ALONE if alone else SIDE_BY_SIDE)[shape]
    sizes = sorted({point.size_bytes for point in points})
    groups = [
        _group([here.get(size) for size in sizes], columns, "" if alone else _title(name, series.transports.get(name)))
        for name, here in ((name, _at_sizes(points, name)) for name in names)
    ]
    print_groups(console, "size", [format_size(size) for size in sizes], groups)
    for line in _legend(points, series.plan, columns, alone=alone):
        _print(console, line, "dim")


def _at_sizes(points: Sequence[PointSummary], name: str) -> dict[int, PointSummary]:
    return {point.size_bytes: point for point in points if point.transport == name}


def _group(rows: Sequence[PointSummary | None], columns: Sequence[Column], title: str) -> layout.Group:
    """The columns of one transport."""
    shown = []
    for column in columns:
        cells = [_cell(point, column, columns) for point in rows]
        styles = [_style(cell, point) for cell, point in zip(cells, rows, strict=True)]
        shown.append(layout.Column([part for part in (column.title, column.unit) if part], cells, styles))
    return layout.Group(shown, title)


def _cell(point: PointSummary | None, column: Column, columns: Sequence[Column]) -> str:
    """The text of a cell.  One without numbers says so in its first column and in ``verified``."""
    if point is None:
        return ""
    if point.time is not None:
        return column.cell(point)
    if column is columns[0]:
        return "FAILED" if point.status == "failed" else "skipped"
    return "FAILED" if column is VERIFIED and point.status == "failed" else ""


def _title(name: str, transport: Transport | None) -> str:
    """A transport's name, with what must be said of it where it stands beside MPI."""
    return harmless(name) + _nature(transport)


def _nature(transport: Transport | None) -> str:
    if transport is None or transport.mpi:
        return ""
    return " (sends nothing)" if transport.memory == "none" else " (not MPI)"


def _style(cell: str, point: PointSummary | None) -> str:
    """Colour repeats what the words say: red for wrong data, yellow for an interval that was not reached."""
    if cell.strip() == "FAILED":
        return "bold red"
    if cell.strip() == "✓":
        return "green"
    if point is None or point.time is None:
        return "dim"
    return "yellow" if point.missed else ""


def _legend(points: Sequence[PointSummary], plan: Plan | None, columns: Sequence[Column], *, alone: bool) -> list[str]:
    """Say what the columns mean, as far as they are there."""
    kinds = {point.time.kind for point in points if point.time}
    if not kinds:
        return []
    bounded = PLUS_MINUS in columns
    first = points[0]
    parts = []
    if first.benchmark == "pingpong":
        parts.append(f"latency: half round trip, {_average(plan, kinds)}")
    else:
        flow = "both ranks send at once" if first.direction == "bi" else f"rank {first.ranks[0]} sends"
        parts.append(f"{flow}, {first.window} messages in flight")
    launches = max(point.launches for point in points)
    if bounded and "interval" in kinds:
        parts.append(f"±: 95 % interval of the median{f' over {launches} launches' if launches > 1 else ''}")
    if bounded and "range" in kinds:
        of = "launches" if launches > 1 else "samples"
        parts.append(f"(±): range of fewer than {FEWEST} {of}, which have no 95 % interval")
    if any(column.unit == "GB/s" for column in columns):
        parts.append("GB/s: 10^9 B/s")
    checked = {point.verified for point in points if point.time and point.rate}
    if not alone and checked == {True}:
        parts.append("all verified")
    return ["; ".join(parts)]


def _average(plan: Plan | None, kinds: set[Kind]) -> str:
    """What a latency is the average of: each sample is the mean of a batch of exchanges, except under --tail."""
    if plan and plan.sampling.mode == "fixed" and kinds == {"single"}:
        return f"mean of one batch of {plan.sampling.iterations}"
    return "median of single exchanges" if plan and plan.sampling.tail else "median of batch means"


def _print_transports(console: Console, series: Series) -> None:
    """Show what the machine can use; the reasons for what it cannot follow as sentences."""
    table = layout.bare_table(console)
    for title in ("transport", "available", "what moves the bytes"):
        table.add_column(title, no_wrap=title != "what moves the bytes")
    for transport in series.transports.values():
        available = Text("✓", style="green") if transport.available else Text("no", style="yellow")
        what = harmless(transport.summary) + (_nature(transport) if transport.memory != "none" else "")
        table.add_row(harmless(transport.transport), available, what)
    console.print()
    console.print(table)
    usable = [harmless(name) for name, transport in series.transports.items() if transport.available]
    _print(console, f"usable here: {several(usable) or 'none'}", "dim")
