"""The plan of a probe, its launch, and the report of ``volley transports``, from the common ``transport`` records."""

from __future__ import annotations

from volley.benchmarks.probe import ProbeOptions
from volley.document import Frozen
from volley.launch.launchers import PAIR
from volley.records.launch_series import LaunchSeries
from volley.report.cells import as_they_are, data_of
from volley.report.model import Column, Report, Row, Table
from volley.run import report_parts
from volley.run.jobs import Job, JobContext, Jobs, choose_transports, count_ranks, make_plan


class ProbePlan(Frozen, frozen=True, kw_only=True):
    """A probe has no options."""


def jobs(options: ProbeOptions, context: JobContext) -> Jobs:
    ranks = count_ranks(options.job, context, usual=max(context.ranks_given or PAIR, PAIR))
    plan = make_plan("probe", ProbePlan(), options, ranks=ranks, transports=choose_transports(("all",), context))
    return Jobs((Job(plan),))


COLUMNS = ("transport", "available", "mpi", "memory", "summary", "reason")


def report(series: LaunchSeries) -> Report:
    transports = list(series.transports.values())
    rows: list[Row] = [
        [each.transport, f"{each.summary}{'' if each.memory == 'none' else report_parts.not_mpi(each)}"]
        for each in transports
        if each.available
    ]
    table = Table(columns=[Column("available", align="left"), Column("what moves the bytes", align="left")], rows=rows)
    stack = series.run.plan.launch.get("stack", {}) if series.run else {}
    here = [f"MPI library {stack['mpi_library']}, launcher {stack['mpiexec']}"] if stack.get("mpi_library") else []
    return Report(
        heading=[*report_parts.heading(series, "transports"), *here],
        tables=[table] if rows else [],
        notes=list(report_parts.notes_of(series, ())),
        data=data_of(as_they_are(*COLUMNS), ("transport",), transports),
        runs=series.describe_runs(),
    )
