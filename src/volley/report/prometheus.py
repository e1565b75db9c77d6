"""Prometheus' text format, version 0.0.4, e.g. for the textfile collector of the node exporter.

Each column of CSV becomes one metric with its unit in full: ``latency_s`` becomes ``volley_latency_seconds``.  The
columns that tell rows apart, the conditions of a report, the benchmark and the host are labels; a sentence is none,
because its series would end when the sentence changes.  Samples have no timestamp, because that collector refuses
them; ``volley_start_time_seconds`` says when the run began.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any, TextIO

from volley.report.columns import SENTENCES, meaning
from volley.report.csv import text_of
from volley.report.model import USUAL, Details, Report
from volley.text import escape_controls, grouped

_UNITS = {"_per_s": "_per_second", "_s": "_seconds", "_Bps": "_bytes_per_second"}
"""The last part of a column's name, and that of its metric."""

_PLACE = ("benchmark", "host")
_RUN = ("run", "launch")
"""Further labels if without them two samples would have the same labels."""


def render(reports: Sequence[Report], out: TextIO, _details: Details = USUAL) -> None:
    """Write the results of all reports, the samples of each metric together."""
    tables = [(report, columns) for report in reports for columns in report.data.parts()]
    labels = [_labels(report, columns, _PLACE) for report, columns in tables]
    place: Sequence[str] = _PLACE
    if len({text for own in labels for text in own}) < sum(map(len, labels)):
        place = _PLACE + _RUN
        labels = [_labels(report, columns, place) for report, columns in tables]
    series = grouped(reports, lambda report: _origin(report, place))
    began, errors = {}, {}
    for origin, those in series.items():
        starts = []
        for report in those:
            with suppress(ValueError):  # a date comes from a file that somebody wrote
                begun = datetime.fromisoformat(report.origin().get("date", "").replace("Z", "+00:00"))
                starts.append(begun.timestamp())
        if starts:
            began[origin] = repr(min(starts))
        errors[origin] = str(sum(len(report.at("error")) for report in those))
    _write("volley_start_time_seconds", "Start of the run since the epoch.", began, out)
    _write("volley_errors", "Failed points and incomplete launches.", errors, out)
    for column in dict.fromkeys(column for report in reports for column in report.data.columns):
        numbers: dict[str, str] = {}
        texts: dict[str, str] = {}
        suffix = next((each for each in _UNITS if column.endswith(each)), "")
        for own, (report, columns) in zip(labels, tables, strict=True):
            if column in report.data.columns and column not in report.data.keys:
                label_of = _label(column)
                for label, value in zip(own, columns[column], strict=True):
                    if isinstance(value, float | int):
                        numbers[label] = _number(value)
                    elif value is not None and column not in SENTENCES:
                        texts[f"{label}{label_of(value)}".removeprefix(",")] = "1"
        name = column.removesuffix(suffix) + _UNITS.get(suffix, "")
        _write(f"volley_{_word(name)}", f"Column {column}: {meaning(column)}.", numbers, out)
        _write(f"volley_{_word(column)}", f"Column {column}, as a label: {meaning(column)}.", texts, out)


def _write(name: str, about: str, samples: Mapping[str, str], out: TextIO) -> None:
    if samples:
        out.write(f"# HELP {name} {about}\n# TYPE {name} gauge\n")
        out.writelines(f"{name}{{{labels}}} {value}\n" for labels, value in samples.items())


def _label(name: str) -> Callable[[Any], str]:
    """Return what makes a label of its value: ``,kind="same node"``, or nothing; many rows have few values."""
    start = f",{_word(name)}="
    return cache(lambda value: "" if value is None else f'{start}"{escaped(text_of(value))}"')


def _origin(report: Report, place: Sequence[str]) -> str:
    origin = report.origin()
    known = {**{name: origin[name] for name in place if name in origin}, **report.conditions()}
    return "".join(_label(name)(text_of(value)) for name, value in known.items()).removeprefix(",")


def _labels(report: Report, columns: Mapping[str, Sequence[Any]], place: Sequence[str]) -> list[str]:
    origin, known = _origin(report, place), report.origin().keys() & place
    keys = [name for name in report.data.keys if name not in known]
    if not keys:
        return [origin] * max(map(len, columns.values()), default=0)
    texts = [map(_label(name), columns[name]) for name in keys]
    return [(origin + "".join(row)).removeprefix(",") for row in zip(*texts, strict=True)]


def _word(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _number(value: float) -> str:
    """Format a number as Go reads it, with the digits of CSV."""
    return f"{value:.9g}".replace("inf", "Inf").replace("nan", "NaN")


def escaped(text: str) -> str:
    """Return a text on one line, as the value of a label: host names and file names come from machines."""
    return escape_controls(text).replace("\\", "\\\\").replace('"', '\\"')
