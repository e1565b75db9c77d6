"""Comma-separated values: one row per result, with the columns of its benchmark and where the result comes from."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, TextIO

from volley.report.model import USUAL, Details, Report
from volley.text import escape_controls


def render(reports: Sequence[Report], out: TextIO, _details: Details = USUAL) -> None:
    """Write the results of all reports as one table; a column that a report does not have is empty there."""
    header = list(
        dict.fromkeys(
            [name for report in reports for name in report.data.columns]
            + [name for report in reports for name in report.origin]
        )
    )
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for report in reports:
        own = {*report.data.columns, *report.origin}
        for row in report.data.rows:
            values = {**report.origin, **row}
            writer.writerow([text_of(values[name]) if name in own else "" for name in header])


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
