"""A flood of messages between two ranks, many in flight."""

from __future__ import annotations

from volley.benchmarks.stream.options import StreamOptions
from volley.run.benchmark import Benchmark

BENCHMARK = Benchmark(
    name="stream",
    help="Measure a flood of messages with many in flight: the bandwidth of a link, one way or both.",
    options=StreamOptions,
    examples=(
        "volley stream",
        "volley stream --direction bi --sizes 1M,64M",
        "volley stream --window 1 --sizes 8:1Gi:x4 --format json",
    ),
    aliases=("bandwidth",),
)
