"""Collectives: operations among all ranks of a job."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal, get_args

from volley.benchmarks.points import OPERATIONS, REDUCING, Operation, PointOptions, SweepBenchmark, SweepOptions
from volley.command import option_values
from volley.command.commandline import Lazy, flag, group, option
from volley.command.options import HOW, WHAT, JobOptions, OutputOptions, SamplingOptions, output_group
from volley.errors import UserError
from volley.text import join_words
from volley.units import parse_sizes

USUAL = OPERATIONS[:7]
"""What a run without ``--operation`` measures."""

UNEVEN = tuple(each for each in OPERATIONS if each.endswith(("v", "w")))
"""The operations whose blocks may differ in length."""

ROOTED = ("broadcast", "reduce", "gather", "scatter", "gatherv", "scatterv")
"""The operations with a root."""

IN_PLACE = ("reduce", "allreduce", "allgather", "all-to-all", "gather", "scan", "allgatherv", "gatherv")
"""The operations in which what a rank contributes has a place in what is received."""

Element = Literal["float", "int", "half", "bfloat16", "fp8e4m3"]
"""What can be reduced, as nccl-tests calls it."""
ELEMENTS: tuple[Element, ...] = get_args(Element)
Reduction = Literal["sum", "max"]
"""How it is reduced."""
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)
USUALLY = (ELEMENTS[0], REDUCTIONS[0])

SIZES = "8:16Mi:x8"
"""Seven operations at all sizes of a ping-pong would take minutes."""


@dataclass(frozen=True, kw_only=True)
class CollectiveOptions(SweepOptions):
    PANEL = WHAT

    operation: tuple[Operation, ...] = option(
        read=option_values.several("operation", OPERATIONS),
        repeat=True,
        default=USUAL,
        shown=f"{USUAL[0]} to {USUAL[-1]}",
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
    element: Element = option(
        read=option_values.choice(*ELEMENTS),
        default="float",
        help="What is reduced: single precision, integers of 4 bytes, or short types, which NCCL has and MPI lacks.",
    )
    reduction: Reduction = option(
        read=option_values.choice(*REDUCTIONS), default="sum", help="How reduce, allreduce and the like combine it."
    )
    root: int = option(
        read=option_values.number(0), default=0, help="The rank that has the whole, or gets it, where one does."
    )
    imbalance: tuple[int, int] = option(
        read=option_values.two_numbers,
        default=(1, 1),
        shown="1,1",
        help="Ratio of the lengths of the blocks of even and odd ranks, in operations that end in v or w.",
    )
    in_place: bool = flag(
        panel=HOW, help="Contribute what is in the receive buffer (MPI_IN_PLACE). A sample is one operation."
    )
    sampling: SamplingOptions = group(SamplingOptions)
    job: JobOptions = group(JobOptions, ranks={"shown": "the allocation's, or 2"})
    output: OutputOptions = output_group()

    @property
    def named_operations(self) -> Sequence[Set[str]]:
        """Those of ``--operation``; with another element or reduction one that reduces."""
        named = [{each} for each in self.operation] if self.names_operations else []
        return [*named, *([{*self.operation} & {*REDUCING}] if (self.element, self.reduction) != USUALLY else [])]

    @property
    def names_operations(self) -> bool:
        """Whether somebody typed ``--operation``."""
        return any(words[0] == "--operation" for words in self.typed)

    def __post_init__(self) -> None:
        if (self.element, self.reduction) != USUALLY and not set(self.operation) & set(REDUCING):
            raise UserError(
                f"--element and --reduction change only {join_words(REDUCING)}: add --operation {REDUCING[1]}, "
                "or leave them out"
            )
        for option_name, given, changes in (
            ("--imbalance", self.imbalance != (1, 1), UNEVEN),
            ("--root", self.root > 0, ROOTED),
            ("--in-place", self.in_place, IN_PLACE),
        ):
            if given and not set(self.operation) & set(changes):
                raise UserError(
                    f"{option_name} changes only {join_words(changes)}: add --operation {changes[0]}, or leave it out"
                )
        if self.in_place and self.points.cold_cache:
            raise UserError("--cold-cache and --in-place: what an operation takes there was written just before")


BENCHMARK = SweepBenchmark(
    name="collective",
    help=f"Measure collectives among all ranks: {', '.join(USUAL)}, and others on request.",
    options=CollectiveOptions,
    plan=f"{__name__}.results.CollectivePlan",
    records=(f"{__name__}.results.CollectivePoint",),
    jobs=Lazy(f"{__name__}.jobs.jobs"),
    report=Lazy(f"{__name__}.results.report"),
    examples=(
        "volley collective --ranks 4",
        "volley collective --ranks 4 --operation allreduce,all-to-all --sizes 8:1Gi:x4",
        "srun -n 64 volley collective --operation barrier",
    ),
)
