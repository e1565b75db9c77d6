"""The stream: many messages in flight between two ranks."""

from __future__ import annotations

from dataclasses import dataclass

from volley.benchmarks.points import RESULTS, PointOptions, TransportOptions, WindowOptions
from volley.command.commandline import Lazy, group
from volley.command.options import JobOptions, OutputOptions, SampledOptions, SamplingOptions, output_group
from volley.run.benchmark import Benchmark
from volley.units import parse_sizes

SIZES = "8:64Mi"
"""A window of 64 messages of 64 MiB is 4 GiB: larger messages take long and add no information."""


@dataclass(frozen=True, kw_only=True)
class StreamOptions(TransportOptions, SampledOptions):
    """The options of ``volley stream``."""

    points: PointOptions = group(PointOptions, sizes={"default": parse_sizes(SIZES), "shown": SIZES})
    windows: WindowOptions = group(WindowOptions)
    sampling: SamplingOptions = group(SamplingOptions, without=("tail",))
    job: JobOptions = group(JobOptions)
    output: OutputOptions = output_group()


BENCHMARK = Benchmark(
    name="stream",
    help="Measure bandwidth with many messages in flight between two ranks, in one direction or in both.",
    options=StreamOptions,
    plan=Lazy(f"{__name__}.records.StreamPlan"),
    records=(Lazy(f"{__name__}.records.StreamPoint"),),
    jobs=Lazy(f"{__name__}.records.jobs"),
    forecast=Lazy("volley.benchmarks.points.results.PointForecast"),
    results=Lazy(f"{RESULTS}.results"),
    observables=Lazy(f"{RESULTS}.observables"),
    report=Lazy(f"{__name__}.page.report"),
    examples=(
        "volley stream",
        "volley stream --direction bi --sizes 1M,64M",
        "volley stream --window 1 --sizes 8:1Gi:x4 --format json",
    ),
    aliases=("bandwidth",),
)
