"""The report of ``volley transports``."""

from __future__ import annotations

from collections.abc import Iterable

from volley.report.model import Column, Data, Report, Row, Table
from volley.run import report_parts
from volley.run.launch_series import LaunchSeries, series_of
from volley.run.run_log import RunLog


def results(logs: Iterable[RunLog]) -> list[LaunchSeries]:
    return series_of(logs)


COLUMNS = ("transport", "available", "mpi", "memory", "summary", "reason")


def report(series: LaunchSeries) -> Report:
    transports = list(series.transports.values())
    rows: list[Row] = [
        [each.transport, f"{each.summary}{'' if each.memory == 'none' else report_parts.not_mpi(each)}"]
        for each in transports
        if each.available
    ]
    table = Table(columns=[Column("available", align="left"), Column("what moves the bytes", align="left")], rows=rows)
    return Report(
        heading=report_parts.heading(series, "transports"),
        tables=[table] if rows else [],
        notes=report_parts.notes_of(series, ()),
        data=Data(COLUMNS, ("transport",), [{name: getattr(each, name) for name in COLUMNS} for each in transports]),
        runs=series.describe_runs(),
    )
