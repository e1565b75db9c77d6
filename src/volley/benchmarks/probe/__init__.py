"""The probe: which transports work between the ranks of a job.  It measures nothing."""

from __future__ import annotations

from dataclasses import dataclass

from volley.command.commandline import Lazy, group
from volley.command.options import BenchmarkOptions, JobOptions, OutputOptions, output_group
from volley.run.benchmark import Benchmark


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(BenchmarkOptions):
    job: JobOptions = group(
        JobOptions,
        launches={
            "shown": "1",
            "help": "Number of launches; of several --format table, markdown and json show how long they start.",
        },
    )
    output: OutputOptions = output_group(without=("full", "notes", "fit"))


BENCHMARK = Benchmark(
    name="probe",
    command="transports",
    help="""List all transports: which ones are available between these ranks, and why the others are not.

    With several launches, also how long MPI_Init and the other steps of a start take.""",
    options=ProbeOptions,
    plan=f"{__name__}.page.ProbePlan",
    records=(),
    jobs=Lazy(f"{__name__}.page.jobs"),
    results=Lazy("volley.records.launch_series.series_of"),
    report=Lazy(f"{__name__}.page.report"),
    times_start=lambda options: (options.job.launches or 1) > 1,
    examples=(
        "volley transports",
        "volley transports --hosts node1,node2 --format json",
        "volley transports --ranks 8 --launches 8",
    ),
)
