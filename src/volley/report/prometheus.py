"""Prometheus' text format, version 0.0.4, e.g. for the textfile collector of the node exporter.

Each column of CSV becomes one metric in SI units: ``latency_us`` becomes ``volley_latency_seconds``.  The columns that
tell rows apart, the benchmark and the host are labels.  Samples have no timestamp, because that collector refuses them;
``volley_start_time_seconds`` says when the run began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TextIO

from volley.report.csv import text_of
from volley.report.model import USUAL, Details, Report
from volley.text import escape_controls

_UNITS = {
    "_us": ("_seconds", 1e-6),
    "_s": ("_seconds", 1.0),
    "GBps": ("bytes_per_second", 1e9),
    "GLUps": ("updates_per_second", 1e9),
    "_percent": ("_ratio", 0.01),
}
"""The last part of a column's name, that of its metric, and the factor to the metric's unit."""

_PLACE = ("benchmark", "host")
_RUN = ("run", "launch")
"""Further labels if without them two samples would have the same labels."""

Labels = tuple[tuple[str, str], ...]


def render(reports: Sequence[Report], out: TextIO, _details: Details = USUAL) -> None:
    """Write the results of all reports, the samples of each metric together."""
    short = [_labels(report, row, _PLACE) for report in reports for row in report.data.rows]
    place = _PLACE if len(set(short)) == len(short) else _PLACE + _RUN
    metrics: dict[tuple[str, str], dict[Labels, str]] = {}
    for report in reports:
        for name, about, labels, value in (*_about_run(report, place), *_results(report, place)):
            metrics.setdefault((name, about), {})[labels] = value
    for (name, about), samples in metrics.items():
        out.write(f"# HELP {name} {about}\n# TYPE {name} gauge\n")
        for labels, value in samples.items():
            shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
            out.write(f"{name}{{{shown}}} {value}\n")


def _labels(report: Report, row: Mapping[str, Any], place: Sequence[str]) -> Labels:
    values = {name: report.origin[name] for name in place if name in report.origin}
    values |= {name: text_of(row[name]) for name in report.data.keys if row[name] is not None}
    return tuple(values.items())


def _about_run(report: Report, place: Sequence[str]) -> Iterator[tuple[str, str, Labels, str]]:
    labels = tuple((name, report.origin[name]) for name in place if name in report.origin)
    try:
        began = datetime.fromisoformat(report.origin.get("date", "").replace("Z", "+00:00"))
    except ValueError:  # there is no run, or its date comes from a file that somebody wrote
        pass
    else:
        yield "volley_start_time_seconds", "Start of the run since the epoch.", labels, repr(began.timestamp())
    errors = sum(note.level == "error" for note in report.notes)
    yield "volley_errors", "Failed points and incomplete launches.", labels, str(errors)


def _results(report: Report, place: Sequence[str]) -> Iterator[tuple[str, str, Labels, str]]:
    """Yield name, description, labels and value of each number; a text becomes a label of a sample of 1."""
    for row in report.data.rows:
        labels = _labels(report, row, place)
        for column in report.data.columns:
            value = row[column]
            if column in report.data.keys or value is None:
                continue
            if isinstance(value, float | int):
                suffix = next((each for each in _UNITS if column.endswith(each)), "")
                ending, factor = _UNITS.get(suffix, ("", 1))
                name = column.removesuffix(suffix) + ending
                yield f"volley_{_word(name)}", f"Column {column} of CSV.", labels, _number(value * factor)
            else:
                own = (*labels, (_word(column), text_of(value)))
                yield f"volley_{_word(column)}", f"Column {column} of CSV, as a label.", own, "1"


def _word(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _number(value: float) -> str:
    """Format a number as Go reads it, with the digits of CSV."""
    return f"{value:.9g}".replace("inf", "Inf").replace("nan", "NaN")


def _escaped(text: str) -> str:
    """Return a text on one line, as the value of a label: host names and file names come from machines."""
    return escape_controls(text).replace("\\", "\\\\").replace('"', '\\"')
