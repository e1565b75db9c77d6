"""The ping-pong: round trips of a message between two ranks."""

from __future__ import annotations

from volley.benchmarks.pingpong.options import FORMATS, PingPongOptions
from volley.benchmarks.shared.points import MODULES
from volley.run.benchmark import Benchmark

BENCHMARK = Benchmark(
    name="pingpong",
    help="Measure round trips between two ranks: latency, and bandwidth of one message at a time.",
    options=PingPongOptions,
    examples=(
        "volley pingpong",
        "volley pingpong --transport host --sizes 8:1Mi:x4 --ci 0.5%",
        "volley pingpong --warmup 5 --iterations 50 --format olcf",
        "volley pingpong --hosts node1,node2 --launches 6 -o link.jsonl",
    ),
    formats=FORMATS,
    modules=MODULES,
)
