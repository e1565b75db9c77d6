"""Collectives: operations among all ranks of a job."""

from __future__ import annotations

from volley.benchmarks.collective.options import CollectiveOptions
from volley.benchmarks.shared.points import MODULES
from volley.run.benchmark import Benchmark

BENCHMARK = Benchmark(
    name="collective",
    help="Measure collectives among all ranks: barrier, broadcast, allreduce, reduce-scatter, allgather, all-to-all.",
    options=CollectiveOptions,
    examples=(
        "volley collective --ranks 4",
        "volley collective --ranks 4 --operation allreduce,all-to-all --sizes 8:1Gi:x4",
        "srun -n 64 volley collective --operation barrier",
    ),
    modules=MODULES,
)
