"""The ping-pong: round trips of a message between two ranks."""

from __future__ import annotations

from dataclasses import dataclass

from volley.benchmarks.points import RESULTS, PointOptions, TransportOptions
from volley.command.commandline import Lazy, group
from volley.command.options import JobOptions, OutputOptions, SampledOptions, SamplingOptions, output_group
from volley.run.benchmark import Benchmark

FORMATS = {"olcf": "the output line of the OLCF ping-pong tutorial, with a GB of 2^30 bytes"}


@dataclass(frozen=True, kw_only=True)
class PingPongOptions(TransportOptions, SampledOptions):
    """The options of ``volley pingpong``."""

    points: PointOptions = group(PointOptions)
    sampling: SamplingOptions = group(SamplingOptions)
    job: JobOptions = group(JobOptions)
    output: OutputOptions = output_group(FORMATS)


BENCHMARK = Benchmark(
    name="pingpong",
    help="Measure round trips between two ranks: latency, and bandwidth of one message at a time.",
    options=PingPongOptions,
    plan=Lazy(f"{__name__}.records.PingPongPlan"),
    records=(Lazy(f"{__name__}.records.PingPong"),),
    jobs=Lazy(f"{__name__}.records.jobs"),
    forecast=Lazy("volley.benchmarks.points.results.PointForecast"),
    results=Lazy(f"{RESULTS}.results"),
    observables=Lazy(f"{RESULTS}.observables"),
    report=Lazy(f"{__name__}.page.report"),
    examples=(
        "volley pingpong",
        "volley pingpong --transport host --sizes 8:1Mi:x4 --ci 0.5%",
        "volley pingpong --warmup 5 --iterations 50 --format olcf",
        "volley pingpong --hosts node1,node2 --launches 6 -o link.jsonl",
    ),
    formats=FORMATS,
    renderers={"olcf": Lazy(f"{__name__}.page.render_olcf")},
)
