"""The stream: many messages in flight between two ranks."""

from __future__ import annotations

from volley.benchmarks.shared.points import MODULES
from volley.benchmarks.stream.options import StreamOptions
from volley.run.benchmark import Benchmark

BENCHMARK = Benchmark(
    name="stream",
    help="Measure bandwidth with many messages in flight between two ranks, in one direction or in both.",
    options=StreamOptions,
    examples=(
        "volley stream",
        "volley stream --direction bi --sizes 1M,64M",
        "volley stream --window 1 --sizes 8:1Gi:x4 --format json",
    ),
    aliases=("bandwidth",),
    modules=MODULES,
)
