"""Laplace's equation on a grid of processes: what the transport of halos means for an application."""

from __future__ import annotations

from volley.benchmarks.jacobi.options import FORMATS, JacobiOptions
from volley.run.benchmark import Benchmark

BENCHMARK = Benchmark(
    name="jacobi",
    help="""Solve Laplace's equation on a grid of processes: what the halos' transport means for an application.

    Each process has its own domain and exchanges halos with up to four neighbours; the new value of a point is the mean
    of its neighbours' values (Jacobi). With host all cores of a rank compute; with every other transport its GPU does,
    and the halos go from GPU to GPU. Several transports take turns, so that a disturbance meets all alike.""",
    options=JacobiOptions,
    examples=(
        "volley jacobi --grid 2 2 --domain 4096 4096",
        "volley jacobi --transport staged,aware --domain 20480 20480 --precision float --check-every 100 --launches 6",
        "volley jacobi --transport aware --grid 4 1 --domain 5120 20480 --scaling strong",
        "volley jacobi --grid 2 1 --format nvidia-jacobi",
    ),
    formats=FORMATS,
    computes=True,
)
