"""The options of ``volley pingpong``."""

from __future__ import annotations

from dataclasses import dataclass

from volley.benchmarks.shared.points.options import PointOptions
from volley.run.commandline import Options, group
from volley.run.options import JobOptions, OutputOptions, SamplingOptions, output_group

FORMATS = {"olcf": "the output line of the OLCF ping-pong tutorial, with a GB of 2^30 bytes"}


@dataclass(frozen=True, kw_only=True)
class PingPongOptions(Options):
    """The options of ``volley pingpong``."""

    points: PointOptions = group(PointOptions)
    sampling: SamplingOptions = group(SamplingOptions)
    job: JobOptions = group(JobOptions)
    output: OutputOptions = output_group(FORMATS)
