"""The registry of benchmarks.  Each is a room beside this file; nothing else in volley lists them."""

from __future__ import annotations

from collections.abc import Sequence

from volley.benchmarks import gpu_matrix, jacobi, pingpong, probe, rank_matrix, stream
from volley.run.benchmark import Benchmark
from volley.run.commandline import Options

BENCHMARKS: tuple[Benchmark, ...] = (
    pingpong.BENCHMARK,
    stream.BENCHMARK,
    gpu_matrix.BENCHMARK,
    rank_matrix.BENCHMARK,
    jacobi.BENCHMARK,
    probe.BENCHMARK,
)
"""In the order of ``volley --help``."""


def named(name: str) -> Benchmark:
    """Return the benchmark of that name.

    Raises:
        KeyError: if there is none.
    """
    return {benchmark.name: benchmark for benchmark in BENCHMARKS}[name]
