"""The options of ``volley stream``."""

from __future__ import annotations

from dataclasses import dataclass

from volley.benchmarks.points.options import PointOptions
from volley.run import readers
from volley.run.commandline import Options, group, option
from volley.run.options import WHAT, JobOptions, OutputOptions, SamplingOptions, output_group
from volley.units import parse_sizes

SIZES = "8:64Mi"
"""64 in flight make 4 GiB a window: larger messages take long and show no more."""

MOST_IN_FLIGHT = 1 << 16
"""MPI keeps a request for each message of a window, and a billion of them need more memory than a node has."""


@dataclass(frozen=True, kw_only=True)
class StreamOptions(Options):
    """What ``volley stream`` takes."""

    points: PointOptions = group(PointOptions, sizes={"default": parse_sizes(SIZES), "shown": SIZES})
    direction: str = option(
        read=readers.choice("uni", "bi"),
        default="uni",
        metavar="uni|bi",
        panel=WHAT,
        help="uni: the first rank sends; bi: both send at once, and each direction and the total are shown.",
    )
    window: int = option(
        read=readers.number(most=MOST_IN_FLIGHT),
        default=64,
        metavar="N",
        panel=WHAT,
        help="Messages in flight before one acknowledgement.",
    )
    sampling: SamplingOptions = group(SamplingOptions, without=("tail",))
    job: JobOptions = group(JobOptions)
    output: OutputOptions = output_group()
