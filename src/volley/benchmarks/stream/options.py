"""The options of ``volley stream``."""

from __future__ import annotations

from dataclasses import dataclass

from volley.benchmarks.points.options import PointOptions, WindowOptions
from volley.run.commandline import Options, group
from volley.run.options import JobOptions, OutputOptions, SamplingOptions, output_group
from volley.units import parse_sizes

SIZES = "8:64Mi"
"""64 in flight make 4 GiB a window: larger messages take long and show no more."""


@dataclass(frozen=True, kw_only=True)
class StreamOptions(Options):
    """What ``volley stream`` takes."""

    points: PointOptions = group(PointOptions, sizes={"default": parse_sizes(SIZES), "shown": SIZES})
    flood: WindowOptions = group(WindowOptions)
    sampling: SamplingOptions = group(SamplingOptions, without=("tail",))
    job: JobOptions = group(JobOptions)
    output: OutputOptions = output_group()
