"""Laplace's equation on a grid of processes: what the transport of halos means for an application."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from volley.benchmarks.points import PointOptions, TransportOptions
from volley.command import option_values
from volley.command.commandline import Lazy, flag, group, option
from volley.command.options import HOW, WHAT, JobOptions, OutputOptions, output_group
from volley.errors import UserError
from volley.run.benchmark import Benchmark
from volley.units import LARGEST_COUNT

FORMATS = {"nvidia-jacobi": "the lines of NVIDIA's Jacobi example"}

MAX_THREADS = 1 << 16
MIN_POINTS = 3
"""Along x or y of a domain: a point and its two neighbours."""


def _grid(option_name: str, words: Sequence[str]) -> tuple[int, int]:
    across, along = option_values.pair(option_name, words)
    if math.prod((across, along)) > LARGEST_COUNT:
        raise UserError(f"{option_name} {across} {along}: a job has at most {LARGEST_COUNT} processes")
    return across, along


def _domain(option_name: str, words: Sequence[str]) -> tuple[int, int]:
    return option_values.pair(option_name, words, MIN_POINTS)


@dataclass(frozen=True, kw_only=True)
class JacobiOptions(TransportOptions):
    PANEL = WHAT

    grid: tuple[int, int] | None = option(
        read=_grid,
        words=2,
        shown="as square as the ranks allow",
        metavar="TX TY",
        help="Processes along x and along y.",
    )
    domain: tuple[int, int] = option(
        read=_domain, words=2, default=(4096, 4096), metavar="DX DY", help="Points of each process along x and along y."
    )
    points: PointOptions = group(
        PointOptions,
        only=("transport",),
        transport={
            "shown": "all that can carry halos, without one-sided MPI",
            "help": "Transports of the halos, separated by commas, one solution each. host: the CPU solves, too.",
        },
    )
    precision: Literal["double", "float"] = option(
        read=option_values.choice("double", "float"), default="double", help="8 or 4 bytes per point."
    )
    iterations: int = option(read=option_values.number(), default=1000, help="Maximum iterations.")
    tolerance: float = option(
        read=option_values.positive, default=1e-5, help="End when no point changes by more than this."
    )
    check_every: int = option(read=option_values.number(), default=1, help="Iterations from one residual to the next.")
    scaling: str | None = option(
        read=option_values.choice("strong", "weak"),
        shown="that grid alone",
        help="Solve on 1 process, then on grids up to --grid: strong: constant points in total; weak: constant points "
        "per process.",
    )
    overlap: bool = flag(
        default=True, panel=HOW, help="Compute the points that need no halo while the halos are in transit."
    )
    threads: int | None = option(
        read=option_values.number(maximum=MAX_THREADS),
        shown="its share of the cores",
        panel=HOW,
        help="Threads of each rank.",
    )
    verify: bool = flag(
        default=True,
        panel=HOW,
        help="Compare the last halos of every batch of iterations with what was sent, byte for byte, untimed.",
    )
    job: JobOptions = group(
        JobOptions, ranks={"shown": "those of --grid, the allocation's, or 2"}, launches={"shown": "1"}
    )
    output: OutputOptions = output_group(FORMATS)


BENCHMARK = Benchmark(
    name="jacobi",
    help="""Solve Laplace's equation on a grid of processes, and measure how the transport of halos affects the time.

    Each process has its own domain and exchanges halos with up to four neighbours; the new value of a point is the mean
    of its neighbours' values (Jacobi). With host and host/vector all cores of a rank compute; with every other
    transport its GPU computes, and the halos go from GPU to GPU. Several transports take turns, so that a disturbance
    affects all.""",
    options=JacobiOptions,
    plan=f"{__name__}.records.JacobiPlan",
    records=(f"{__name__}.records.JacobiPoint", f"{__name__}.records.JacobiProgress"),
    jobs=Lazy(f"{__name__}.records.jobs"),
    forecast=lambda _: Lazy(f"{__name__}.records.JacobiForecast")(),
    results=Lazy(f"{__name__}.results.results"),
    observables=Lazy(f"{__name__}.results.observables"),
    report=Lazy(f"{__name__}.page.report"),
    examples=(
        "volley jacobi --grid 2 2 --domain 4096 4096",
        "volley jacobi --transport staged,aware --domain 20480 20480 --precision float --check-every 100 --launches 6",
        "volley jacobi --transport aware --grid 4 1 --domain 5120 20480 --scaling strong",
        "volley jacobi --grid 2 1 --format nvidia-jacobi",
    ),
    formats=FORMATS,
    renderers={"nvidia-jacobi": Lazy(f"{__name__}.page.as_the_example")},
    computes=True,
)
