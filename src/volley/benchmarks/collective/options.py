"""The options of ``volley collective``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from volley.benchmarks.shared.points.options import PointOptions
from volley.errors import UserError
from volley.run import option_values
from volley.run.commandline import Options, group, option
from volley.run.options import WHAT, JobOptions, OutputOptions, SamplingOptions, output_group
from volley.text import did_you_mean, join_words
from volley.units import parse_sizes

Operation = Literal["barrier", "broadcast", "allreduce", "reduce-scatter", "allgather", "all-to-all"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

SIZES = "8:16Mi:x8"
"""Six operations at all sizes of a ping-pong would take minutes."""


def _operations(option_name: str, words: Sequence[str]) -> tuple[Operation, ...]:
    """Read a list of operations; each is measured once, in the order of ``OPERATIONS``.

    Raises:
        UserError: if a name is unknown; the message suggests the closest name and lists all.
    """
    names = option_values.names(option_name, words)
    for name in names:
        if name not in OPERATIONS:
            guess = " ".join(filter(None, (did_you_mean(name.lower(), OPERATIONS), "choose")))
            raise UserError(f"{option_name}: there is no operation {name!r}; {guess} {join_words(OPERATIONS)}")
    return tuple(each for each in OPERATIONS if each in names)


@dataclass(frozen=True, kw_only=True)
class CollectiveOptions(Options):
    """The options of ``volley collective``."""

    operation: tuple[Operation, ...] = option(
        "--operation",
        read=_operations,
        values=OPERATIONS,
        repeat=True,
        default=OPERATIONS,
        shown="all",
        metavar="NAME,…",
        panel=WHAT,
        help=f"Operations to measure, separated by commas: {join_words(OPERATIONS)}.",
    )
    points: PointOptions = group(
        PointOptions,
        without=("fresh_buffers",),
        transport={"shown": "all that carry collectives"},
        sizes={
            "default": parse_sizes(SIZES),
            "shown": SIZES,
            "help": "Bytes of the larger of the two buffers of a rank, as nccl-tests counts them: sizes and ranges, "
            "as for pingpong.",
        },
    )
    element: Literal["float", "int"] = option(
        read=option_values.choice("float", "int"),
        default="float",
        metavar="float|int",
        panel=WHAT,
        help="What is summed: single precision, or integers of 4 bytes.",
    )
    sampling: SamplingOptions = group(SamplingOptions)
    job: JobOptions = group(JobOptions, ranks={"shown": "the allocation's, or 2"})
    output: OutputOptions = output_group()
