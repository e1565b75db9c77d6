"""The plan and the records of collectives, and their reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from msgspec import field

from volley.benchmarks.collective import USUALLY, Element, Reduction
from volley.benchmarks.points import REDUCING, Operation
from volley.benchmarks.points.page import (
    BANDWIDTH,
    CHECKED,
    KEYS,
    LATENCY,
    QUANTITIES,
    RANK_MEAN,
    SAMPLES,
    TAIL,
    report_of,
)
from volley.benchmarks.points.records import ClockError, ColdCache, EntrySkew, PointRecord
from volley.benchmarks.points.results import PointResult, PointSeries
from volley.document import Frozen, NonNegative, Positive, PositiveSeconds, Seconds, doc
from volley.records.plan import Plan
from volley.report.cells import PLUS_MINUS, Quantity, as_they_are
from volley.units import format_size


class CollectivePlan(Frozen, frozen=True, kw_only=True):
    """The operations of a run."""

    operations: Annotated[list[Operation], doc("operations, in this order.", min_length=1)]
    sizes_bytes: Annotated[list[Positive], doc("bytes of the larger of a rank's two buffers; a barrier has none.")] = []
    element: Annotated[Element, doc("what is reduced.")] = "float"
    reduction: Annotated[Reduction, doc("how it is reduced.")] = "sum"
    root: Annotated[NonNegative, doc("the rank that has the whole, or gets it, in operations with a root.")] = 0
    imbalance: Annotated[
        list[Positive],
        doc(
            "lengths of the blocks of even and of odd ranks beside each other, in operations with counts.",
            min_length=2,
            max_length=2,
        ),
    ] = field(default_factory=lambda: [1, 1])
    in_place: Annotated[
        bool, doc("whether ranks contribute what is in their receive buffers, in samples of one operation.")
    ] = False
    cold_cache: ColdCache = False

    @property
    def unusual(self) -> str:
        """What is not usual of reductions, the root and the buffers: ``max of int, root 2, in place``."""
        reduces = (self.element, self.reduction) != USUALLY and set(self.operations) & set(REDUCING)
        parts = [f"{self.reduction} of {self.element}" * bool(reduces), f"root {self.root}" * bool(self.root)]
        return ", ".join(filter(None, [*parts, "in place" * self.in_place]))

    @property
    def point_sizes(self) -> list[int]:
        operations = [operation for operation in self.operations if operation != "barrier"]
        return [0] * ("barrier" in self.operations) + [size for size in self.sizes_bytes for _ in operations]


class CollectivePoint(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="collective"):
    """One operation of one size on one transport, among all ranks."""

    operation: Operation  # type: ignore[misc]
    element: Element
    reduction: Reduction = "sum"
    data_bytes: Annotated[
        NonNegative, doc("`size_bytes` rounded down to whole elements, the same number for each rank; 0: a barrier.")
    ]
    times_s: Annotated[
        list[PositiveSeconds],
        doc("one entry per sample: from the last rank's entry to the last rank's exit, / operations_per_sample."),
    ] = field(name="operation_s", default_factory=list)
    rank_operation_s: Annotated[
        list[PositiveSeconds],
        doc(
            "one entry per sample: the mean of the ranks' own times, each from its entry to its exit, / "
            "operations_per_sample: what nccl-tests and OSU's collectives print."
        ),
    ] = []
    operations_per_sample: Annotated[NonNegative, doc("k: operations in one timed batch.")] = 0
    cold_s: Annotated[
        Seconds | None,
        doc("the first operation of its kind, in which ranks may connect; null at all sizes but the first."),
    ] = field(name="cold_operation_s", default=None)
    entry_skew_s: EntrySkew = []
    clock_error_s: ClockError = 0.0

    def moved_bytes(self, plan: Plan | None) -> float:
        return self.data_bytes * bus_factor(self.operation, len(self.ranks), plan)


def bus_factor(operation: str, ranks: int, plan: Plan | None = None) -> float:
    """Return the bus bandwidth of an operation divided by its algorithm bandwidth, which is size / time.

    The factors are those of nccl-tests (https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth"):
    with them the result can be compared with the bandwidth of one link, whatever the number of ranks.  nccl-tests has
    no scan and no neighborhoods; each of their ranks receives the whole data once.

    Nor has it blocks of two lengths.  With these too the factor is the part of the data that crosses the busiest link:
    all but the root's own block, and of an allgatherv all but the smallest block.  Of an all-to-all the busiest rank
    sends or receives n - 1 of n long blocks, and among neighbors two long blocks, which are the data.
    """
    if operation == "allreduce":
        return 2 * (ranks - 1) / ranks
    if operation in ("broadcast", "reduce", "scan") or operation.startswith("neighbor-"):
        return 1.0
    if plan and operation in ("allgatherv", "gatherv", "scatterv"):
        imbalance: list[int] = plan.options.imbalance
        lengths = [imbalance[rank % 2] for rank in range(ranks)]
        own = min(lengths) if operation == "allgatherv" else imbalance[plan.options.root % 2]
        return (sum(lengths) - own) / sum(lengths)
    return (ranks - 1) / ranks


# ----------------------------------------------------------------------------------------------------- reports

TIME = replace(LATENCY, title="time")
BUS = replace(BANDWIDTH, title="bus")
"""In CSV it is the bandwidth of all points."""
ALGORITHM = Quantity(
    "algorithm_bandwidth",
    "GB/s",
    lambda each: each.rate and each.rate.median * (1 / bus_factor(each.operation, len(each.ranks), each.series.plan)),
    "algorithm",
)
COLLECTIVE = (
    *QUANTITIES,
    *as_they_are("operation"),
    ALGORITHM,
    Quantity("entry_skew", "µs", lambda point: point.entry_skew_s),
    Quantity("clock_error", "µs", lambda point: point.clock_error_s),
    RANK_MEAN,
)


def _columns(point: PointResult, plan: Plan | None, alone: bool) -> Sequence[Quantity]:
    rates = [] if point.operation == "barrier" else [BUS, ALGORITHM]
    with_tail = plan is not None and plan.sampling.tail
    if alone:
        tails = [TAIL[name] for name in ("p90", "p99", "max")] if with_tail else []
        return [TIME, PLUS_MINUS, *tails, *rates, SAMPLES, CHECKED]
    if with_tail:
        return [replace(TIME, title="median"), TAIL["p99"], TAIL["max"]]
    return [replace(TIME, title=""), PLUS_MINUS, *rates[:1]]


_NEAR = 0.01
"""By less than this part a size that is rounded down is not said to be."""


def _about(point: PointResult, result: PointSeries, _kinds: set[str]) -> str:
    plan = result.series.plan
    single = plan is not None and (plan.sampling.tail or plan.options.in_place)
    average = "median of single operations" if single else "median of batch means"
    text = f"time: from the last rank's entry to the last rank's exit, {average}, {len(point.ranks)} ranks"
    if point.operation.endswith(("v", "w")) and plan and plan.options.imbalance != [1, 1]:
        even, odd = plan.options.imbalance
        text += f"; the lengths of the blocks of even and odd ranks are in the ratio {even}:{odd}"
    if point.operation == "barrier":
        return text
    sized = [each.record for each in result.points if each.time and each.sized]
    timed = [record for record in sized if isinstance(record, CollectivePoint)]
    most = min(timed, key=lambda record: record.data_bytes / record.size_bytes)
    if most.data_bytes < (1 - _NEAR) * most.size_bytes:
        text += "; a size is rounded down to whole elements of each rank"
        text += f", {format_size(most.size_bytes)} of {most.operation} to {format_size(most.data_bytes)}"
    operations = {point.operation, *(plan.options.operations if plan else ())}
    more = any(each.startswith(("scan", "neighbor-")) for each in operations) or (
        plan and plan.options.imbalance != [1, 1]
    )
    return f"{text}; bus: bus bandwidth, as nccl-tests defines it{' where it has the operation' if more else ''}"


report = partial(report_of, columns_of=_columns, about=_about, quantities=COLLECTIVE, keys=("operation", *KEYS))
