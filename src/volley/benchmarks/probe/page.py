"""The report of ``volley transports``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from volley.report.model import Cell, Column, Data, Report, Table
from volley.run import notes
from volley.run.series import Series
from volley.text import join_words

COLUMNS = ("transport", "available", "mpi", "memory", "summary", "reason")


def reports(results: Sequence[Series]) -> list[Report]:
    return [_report(series) for series in results]


def _report(series: Series) -> Report:
    transports = list(series.transports.values())
    usable = join_words(each.transport for each in transports if each.available) or "none"
    table = Table(
        columns=[
            Column("transport", align="left"),
            Column("available", align="left"),
            Column("what moves the bytes", align="left"),
        ],
        rows=[
            [
                each.transport,
                Cell(each.available, "" if each.available else "warning"),
                each.summary + ("" if each.memory == "none" else notes.not_mpi(each)),
            ]
            for each in transports
        ],
        legend=[f"available: {usable}"],
    )
    return Report(
        heading=notes.heading(series, "transports"),
        tables=[table],
        notes=[*notes.incomplete(series), *notes.unavailable(series), *notes.weakly_tested(series, set())],
        data=Data(COLUMNS, [{name: getattr(each, name) for name in COLUMNS} for each in transports]),
        runs=series.describe_runs(),
    )


FORMATS: dict[str, Callable[[Sequence[Series], TextIO], list[str]]] = {}
