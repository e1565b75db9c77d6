"""The plan of a probe, its launch, and the report of ``volley transports``, from the common ``transport`` records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from volley.benchmarks.probe import ProbeOptions
from volley.document import Frozen
from volley.launch.launchers import PAIR
from volley.records.launch_series import LaunchSeries
from volley.records.run_log import RunLog
from volley.report.cells import PLUS_MINUS, Quantity, as_they_are, data_of, with_bounds
from volley.report.model import Column, Report, Row, Table
from volley.run import report_parts
from volley.run.jobs import Job, JobContext, count_ranks, make_plan
from volley.run.launches import Jobs
from volley.run.progress import STARTUP, steps_of
from volley.statistics.estimates import Estimate
from volley.statistics.launches import of_numbers
from volley.text import grouped


class ProbePlan(Frozen, frozen=True, kw_only=True):
    """A probe has no options."""


def jobs(options: ProbeOptions, context: JobContext) -> Jobs:
    ranks = count_ranks(options.job, context, usual=max(context.ranks_given or PAIR, PAIR))
    every = [each.name for each in context.about.transports]
    plan = make_plan("probe", ProbePlan(), options, ranks=ranks, transports=every)
    return Jobs((Job(plan),), times=options.job.launches or 1)


@dataclass(frozen=True)
class StartStep:
    """A step of the start of a launch, such as MPI_Init of the first rank."""

    name: str
    time: Estimate


STEP_TIME = Quantity("time", "s", lambda step: step.time, digits=3)


def _start(logs: Sequence[RunLog]) -> list[StartStep]:
    """Return the steps of the start of several launches, in the order of time; nothing of a single one."""
    found = grouped((step for log in logs for step in steps_of(log)), itemgetter(0))
    each = {
        name: [step_s for _, step_s in steps]
        for name, steps in found.items()
        if name in ("launcher", *STARTUP.values())
    }
    return [StartStep(name, of_numbers(times_s)) for name, times_s in each.items() if len(times_s) > 1]


COLUMNS = ("transport", "available", "mpi", "memory", "summary", "reason")


def report(series: LaunchSeries) -> Report:
    transports = list(series.transports.values())
    rows: list[Row] = [
        [each.transport, f"{each.summary}{'' if each.memory == 'none' else report_parts.not_mpi(each)}"]
        for each in transports
        if each.available
    ]
    table = Table(columns=[Column("available", align="left"), Column("what moves the bytes", align="left")], rows=rows)
    steps = _start(series.logs)
    columns = with_bounds((STEP_TIME.suited(steps), PLUS_MINUS), steps)
    start = Table(
        [Column("until the plan is read", align="left"), *(each.column() for each in columns)],
        [[step.name, *(each.cell(step) for each in columns)] for step in steps],
    )
    stack = series.launch.get("stack", {})
    here = [f"MPI library {stack['mpi_library']}, launcher {stack['mpiexec']}"] if stack.get("mpi_library") else []
    return Report(
        heading=[*report_parts.heading(series, "transports"), *here],
        tables=[each for each in (table, start) if each.rows],
        notes=list(report_parts.notes_of(series, ())),
        results=lambda: data_of(as_they_are(*COLUMNS), ("transport",), transports),
        runs=series.logs,
        extra={"start": [{"step": each.name, "time_s": each.time.median} for each in steps]} if steps else {},
    )
