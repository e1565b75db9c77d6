"""Replay: the MPI calls of a recorded application as a benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from volley.command import option_values
from volley.command.commandline import Lazy, argument, flag, group, option
from volley.command.options import HOW, WHAT, BenchmarkOptions, JobOptions, OutputOptions, output_group
from volley.run.benchmark import Benchmark


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(BenchmarkOptions):
    PANEL = WHAT

    trace: tuple[str, ...] = argument("[TRACE]", positional="*", help="A trace of volley record.")
    gaps: bool = flag(help="Wait between the calls as long as the application computed; else the calls follow at once.")
    memory: Literal["recorded", "aware", "host", "device"] = option(
        read=option_values.choice("recorded", "aware", "host", "device"),
        default="recorded",
        help="Where the buffers are: as recorded; what the application copies to send it, or has received, in GPU "
        "memory, as for a CUDA-aware MPI (aware); all in host or device memory.",
    )
    time: float = option(
        read=option_values.seconds,
        default=1.0,
        panel=HOW,
        help="Repeat the calls for this time in a launch; up to three times, they may take ten times as long.",
    )
    verify: bool = flag(default=True, panel=HOW, help="Check every message once, in a pass that is not timed.")
    job: JobOptions = group(JobOptions, without=("ranks",), launches={"shown": "6; 3 with --gaps"})
    output: OutputOptions = output_group()


BENCHMARK = Benchmark(
    name="replay",
    help="""Repeat the MPI calls of a recorded application: the same sizes, partners, order, buffers, communicators.

    What cannot be repeated is said with its share of the time. With volley compare --live it shows what another MPI,
    another setting or GPU memory does to this application.""",
    options=ReplayOptions,
    plan=f"{__name__}.results.ReplayPlan",
    records=(f"{__name__}.results.ReplayPoint",),
    jobs=Lazy(f"{__name__}.results.jobs"),
    forecast=lambda _: Lazy(f"{__name__}.results.ReplayForecast")(),
    results=Lazy(f"{__name__}.results.results"),
    observables=Lazy(f"{__name__}.results.observables"),
    report=Lazy(f"{__name__}.results.report"),
    examples=(
        "volley replay mpi.trace",
        "volley replay mpi.trace --gaps",
        "volley compare --live 'volley replay mpi.trace --mpi openmpi' 'volley replay mpi.trace --mpi mpich'",
    ),
)
