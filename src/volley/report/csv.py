"""Comma-separated values: one row per result, with the columns of its benchmark."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, TextIO

from volley.errors import UserError
from volley.report.model import Report
from volley.text import escape_controls


def render(reports: Sequence[Report], out: TextIO) -> None:
    """Write the results of all reports under one header.

    Raises:
        UserError: if the reports have different columns.
    """
    columns = list(dict.fromkeys(tuple(report.data.columns) for report in reports))
    if len(columns) > 1:
        raise UserError("these runs have different CSV columns: show each benchmark separately, or use json")
    writer = csv.writer(out, lineterminator="\n")
    for header in columns:
        writer.writerow(header)
        for row in (row for report in reports for row in report.data.rows):
            writer.writerow([text_of(row[name]) for name in header])


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
