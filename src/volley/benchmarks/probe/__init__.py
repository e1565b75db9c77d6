"""Which transports work between the ranks of a job: nothing is measured."""

from __future__ import annotations

from volley.benchmarks.probe.options import ProbeOptions
from volley.run.benchmark import Benchmark

BENCHMARK = Benchmark(
    name="probe",
    command="transports",
    help="List every transport, whether it works between these ranks, and why not.",
    options=ProbeOptions,
    examples=(
        "volley transports",
        "volley transports --hosts node1,node2 --format json",
    ),
)
