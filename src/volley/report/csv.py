"""Comma-separated values: one row per result, with the columns of its benchmark and where the result comes from."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, TextIO

from volley.report.model import USUAL, ColumnRows, Details, Report
from volley.text import escape_controls

ROWS_AT_ONCE = 10_000


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
        if isinstance(report.data.rows, ColumnRows):
            for columns in report.data.rows.parts():
                _write_columns(columns, header, report.origin, out)
            continue
        for row in report.data.rows:
            values = {**report.origin, **row}
            writer.writerow([text_of(values[name]) if name in own else "" for name in header])


def _write_columns(
    columns: Mapping[str, Sequence[Any]], header: Sequence[str], origin: Mapping[str, Any], out: TextIO
) -> None:
    """Write rows of columns, many at a time; each value is formatted once, because a million rows have few values."""
    rows = max(map(len, columns.values()), default=0)
    if not rows:
        return
    texts: list[Iterable[str]] = []
    same: list[str] = []  # neighbours that are the same in all rows are one text
    for name in header:
        values, known = columns.get(name, [origin.get(name)]), _Texts()
        if values.count(values[0]) == len(values):
            same.append(known[values[0]])
            continue
        texts += [repeat(",".join(same), rows)] if same else []
        same = []
        texts.append(map(known.__getitem__, values))
    texts += [repeat(",".join(same), rows)] if same else []
    lines = map(",".join, zip(*texts, strict=True))
    while piece := list(islice(lines, ROWS_AT_ONCE)):
        out.write("\n".join([*piece, ""]))


class _Texts(dict[Any, str]):
    """The texts of values."""

    def __missing__(self, value: Any) -> str:
        self[value] = text = _quoted(text_of(value))
        return text


def _quoted(text: str) -> str:
    """Quote a text as ``csv.writer`` does."""
    return '"{}"'.format(text.replace('"', '""')) if any(special in text for special in ',"\r\n') else text


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
