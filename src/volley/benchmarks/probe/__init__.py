"""The probe: which transports work between the ranks of a job.  It measures nothing."""

from __future__ import annotations

from volley.benchmarks.probe.options import ProbeOptions
from volley.run.benchmark import Benchmark

BENCHMARK = Benchmark(
    name="probe",
    command="transports",
    help="List all transports: which ones are available between these ranks, and why the others are not.",
    options=ProbeOptions,
    examples=(
        "volley transports",
        "volley transports --hosts node1,node2 --format json",
    ),
)
