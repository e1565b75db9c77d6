"""The report of ``volley transports``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from volley.report.model import Cell, Column, Data, Report, Table
from volley.run import report_parts
from volley.run.launch_series import LaunchSeries
from volley.text import join_words

COLUMNS = ("transport", "available", "mpi", "memory", "summary", "reason")


def reports(results: Sequence[LaunchSeries]) -> list[Report]:
    return [_report(series) for series in results]


def _report(series: LaunchSeries) -> Report:
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
                each.summary + ("" if each.memory == "none" else report_parts.not_mpi(each)),
            ]
            for each in transports
        ],
        legend=[f"available: {usable}"],
    )
    return Report(
        heading=report_parts.heading(series, "transports"),
        tables=[table],
        notes=[
            *report_parts.incomplete(series),
            *report_parts.unavailable(series),
            *report_parts.weakly_tested(series, set()),
        ],
        data=Data(COLUMNS, ("transport",), [{name: getattr(each, name) for name in COLUMNS} for each in transports]),
        runs=series.describe_runs(),
    )


FORMATS: dict[str, Callable[[Sequence[LaunchSeries], TextIO], list[str]]] = {}
