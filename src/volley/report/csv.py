"""Comma-separated values: one row a result, in the columns that its benchmark promises."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, TextIO

from volley.errors import UserError
from volley.report.model import Report
from volley.text import escape_controls


def render(reports: Sequence[Report], out: TextIO) -> None:
    """Write the results of all reports below one header.

    Raises:
        UserError: if they do not have the same columns.
    """
    columns = list(dict.fromkeys(tuple(report.data.columns) for report in reports))
    if len(columns) > 1:
        raise UserError("these runs have different CSV columns: show each benchmark by itself, or choose json")
    writer = csv.writer(out, lineterminator="\n")
    for header in columns:
        writer.writerow(header)
        for row in (row for report in reports for row in report.data.rows):
            writer.writerow([_text(row[name]) for name in header])


def _text(value: Any) -> str:
    """Nine significant digits: a clock has fewer.  Nothing where there is no value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, (list, tuple)):
        return "-".join(map(str, value))
    return escape_controls(str(value))
