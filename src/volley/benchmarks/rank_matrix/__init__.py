"""The matrix between ranks: every pair of ranks, and which pairs are slow."""

from __future__ import annotations

from volley.benchmarks.rank_matrix.options import RankMatrixOptions
from volley.run.benchmark import Benchmark

BENCHMARK = Benchmark(
    name="rank_matrix",
    command="matrix",
    help="""Measure every pair of ranks, and name the pairs that are slower than comparable pairs.

    Pairs of ranks are comparable if they are on one socket, on one node, or on two nodes. A pair that is slower is
    measured again beside comparable pairs before it is flagged.""",
    options=RankMatrixOptions,
    examples=(
        "volley matrix --ranks 8",
        "volley matrix --hosts node1,node2,node3 --transport host --mode loaded",
        "srun -n 16 volley matrix --bandwidth 1M,64M --latency none --format csv",
    ),
)
