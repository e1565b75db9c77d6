"""Between two ranks: the ping-pong, round trips of a message, and the stream, many messages in flight."""

from __future__ import annotations

from dataclasses import dataclass

from volley.benchmarks.points import PointOptions, SweepBenchmark, SweepOptions, WindowOptions
from volley.command import option_values
from volley.command.commandline import Lazy, group
from volley.command.options import UNLISTED, JobOptions, OutputOptions, SamplingOptions, output_group
from volley.units import VALID_FORMS, parse_sizes

FORMATS = {"olcf": "the output line of the OLCF ping-pong tutorial, with a GB of 2^30 bytes"}


@dataclass(frozen=True, kw_only=True)
class PingPongOptions(SweepOptions):
    points: PointOptions = group(
        PointOptions,
        sizes={
            "read": option_values.sizes_from_0,
            "help": f"Message sizes in bytes: {VALID_FORMS}. 0: a message without data, of host and aware. k, M, G are "
            "the same as Ki, Mi, Gi: powers of 1024.",
        },
    )
    sampling: SamplingOptions = group(SamplingOptions)
    job: JobOptions = group(JobOptions, ranks=UNLISTED)
    output: OutputOptions = output_group(FORMATS)


PINGPONG = SweepBenchmark(
    name="pingpong",
    help="Measure round trips between two ranks: latency, and bandwidth of one message at a time.",
    options=PingPongOptions,
    plan=f"{__name__}.results.PingPongPlan",
    records=(f"{__name__}.results.PingPong",),
    jobs=Lazy(f"{__name__}.jobs.pingpong_jobs"),
    report=Lazy(f"{__name__}.results.pingpong_report"),
    examples=(
        "volley pingpong",
        "volley pingpong --transport host --sizes 8:1Mi:x4 --ci 0.5%",
        "volley pingpong --warmup 5 --iterations 50 --format olcf",
        "volley pingpong --hosts node1,node2 --launches 6 -o link.jsonl",
    ),
    formats=FORMATS,
    renderers={"olcf": Lazy(f"{__name__}.results.render_olcf")},
)


STREAM_SIZES = "8:64Mi"
"""A window of 64 messages of 64 MiB is 4 GiB: larger messages take long and add no information."""


@dataclass(frozen=True, kw_only=True)
class StreamOptions(SweepOptions):
    points: PointOptions = group(PointOptions, sizes={"default": parse_sizes(STREAM_SIZES), "shown": STREAM_SIZES})
    windows: WindowOptions = group(WindowOptions)
    sampling: SamplingOptions = group(SamplingOptions, without=("tail",))
    job: JobOptions = group(JobOptions, ranks=UNLISTED)
    output: OutputOptions = output_group()


STREAM = SweepBenchmark(
    name="stream",
    help="Measure bandwidth with many messages in flight between two ranks, in one direction or in both.",
    options=StreamOptions,
    plan=f"{__name__}.results.StreamPlan",
    records=(f"{__name__}.results.StreamPoint",),
    jobs=Lazy(f"{__name__}.jobs.stream_jobs"),
    report=Lazy(f"{__name__}.results.stream_report"),
    examples=(
        "volley stream",
        "volley stream --direction bi --sizes 1M,64M",
        "volley stream --window 1 --sizes 8:1Gi:x4 --format json",
    ),
    aliases=("bandwidth",),
)
