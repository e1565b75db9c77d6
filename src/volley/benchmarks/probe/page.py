"""The report of ``volley transports``."""

from __future__ import annotations

from collections.abc import Iterable

from volley.report.model import Cell, Column, Data, Report, Row, Table
from volley.run import report_parts
from volley.run.benchmark import Observable
from volley.run.launch_series import LaunchSeries, series_of
from volley.run.run_log import RunLog
from volley.text import join_words


def results(logs: Iterable[RunLog]) -> list[LaunchSeries]:
    return series_of(logs)


def observables(log: RunLog) -> Iterable[Observable]:  # noqa: ARG001  every benchmark has this function
    """Return nothing: a probe measures nothing."""
    return ()


COLUMNS = ("transport", "available", "mpi", "memory", "summary", "reason")


def report(series: LaunchSeries) -> Report:
    transports = list(series.transports.values())
    usable = join_words(each.transport for each in transports if each.available) or "none"
    rows: list[Row] = []
    for each in transports:
        # What moves the bytes or, in the same place, why it is unavailable.
        how = Cell(text=f"✓  {each.summary}{'' if each.memory == 'none' else report_parts.not_mpi(each)}")
        if not each.available:
            how = Cell(text=f"no: {each.reason or 'no reason is recorded'}", style="warning")
        rows.append([each.transport, how])
    table = Table(
        columns=[Column("transport", align="left"), Column("what moves the bytes, or why not", align="left")],
        rows=rows,
        legend=[f"available: {usable}"],
    )
    return Report(
        heading=report_parts.heading(series, "transports"),
        tables=[table],
        notes=[
            *report_parts.incomplete(series),
            *report_parts.weakly_tested(series, set()),
        ],
        data=Data(COLUMNS, ("transport",), [{name: getattr(each, name) for name in COLUMNS} for each in transports]),
        runs=series.describe_runs(),
    )
