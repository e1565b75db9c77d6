"""Comma-separated values: a row for each result, with the columns of its benchmark, its origin, and the schema."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain, repeat
from typing import Any, TextIO

from volley.report.columns import SCHEMA
from volley.report.model import USUAL, Details, Report
from volley.text import escape_controls

_COLUMNS: tuple[Callable[[Report], Iterable[str]], ...] = (
    lambda report: report.data.columns,
    lambda report: report.conditions(),
    lambda report: report.origin(),
)


def render(reports: Sequence[Report], out: TextIO, _details: Details = USUAL) -> None:
    """Write the results of all reports as one table; a column that a report does not have is empty there."""
    parts = [[each for report in reports for each in of(report)] for of in _COLUMNS]
    header = list(dict.fromkeys([*chain(*parts), "schema"]))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for report in reports:
        known = {**report.conditions(), **report.origin(), "schema": SCHEMA}
        origin = {name: text_of(known.get(name)) for name in header if name not in report.data.columns}
        for part in report.data.parts():
            rows = max(map(len, part.values()), default=0)
            # Each value of a column is formatted once, because a million rows have few values.
            texts = [
                repeat(origin[name], rows) if name in origin else map(cache(text_of), part[name]) for name in header
            ]
            writer.writerows(zip(*texts, strict=True))


def text_of(value: Any) -> str:
    """Format a value; numbers have nine significant digits, more than any clock; no value is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, (list, tuple)):
        return "-".join(map(str, value))
    return escape_controls(str(value))
