"""Overlap: what communication costs a computation, and the computation the communication."""

from __future__ import annotations

from volley.benchmarks.overlap.options import OverlapOptions
from volley.run.benchmark import Benchmark

BENCHMARK = Benchmark(
    name="overlap",
    help="Measure how much of an exchange is hidden behind a computation, and how much each slows the other down.",
    options=OverlapOptions,
    examples=(
        "volley overlap",
        "volley overlap --transport aware,peer,nccl --computation memory --sizes 1M,64M",
        "volley overlap --transport host --progress-calls 8",
    ),
)
