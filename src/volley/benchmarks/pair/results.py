"""Between two ranks: the plans and the records, and their reports.

``--format olcf`` is the exact output line of the OLCF tutorial, to compare with its results.  The tutorial's GB is 2^30
bytes (everywhere else in volley GB/s means 10^9 B/s), and its time is the half round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, TextIO

from msgspec import field

from volley.benchmarks.points import Direction
from volley.benchmarks.points.page import BACKWARD, BANDWIDTH, CHECKED, FORWARD, LATENCY, SAMPLES, TAIL, report_of
from volley.benchmarks.points.records import ColdCache, PointRecord, Sizes, SizesFrom0
from volley.benchmarks.points.results import PointResult, PointSeries, by_transport
from volley.document import Frozen, NonNegative, Positive, PositiveSeconds, Seconds, Window, doc
from volley.records.plan import Plan
from volley.report.cells import PLUS_MINUS, Quantity
from volley.text import count, escape_controls, join_words


class PingPongPlan(Frozen, frozen=True, kw_only=True):
    """The messages of a ping-pong."""

    sizes_bytes: SizesFrom0
    fresh_buffers: Annotated[bool, doc("allocate new buffers for every size, as the tutorial does.")] = False
    cold_cache: ColdCache = False


class PingPong(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="pingpong"):
    """One point of a ping-pong: a message size on one transport between two ranks."""

    times_s: Annotated[list[PositiveSeconds], doc("one entry per sample: elapsed / (2 · exchanges_per_sample).")] = (
        field(name="half_round_trip_s", default_factory=list)
    )
    exchanges_per_sample: Annotated[NonNegative, doc("k: round trips in one timed batch.")] = 0
    cold_s: Annotated[
        Seconds | None, doc("half of the first round trip on these buffers; null if it is not the first.")
    ] = field(name="cold_half_round_trip_s", default=None)


class StreamPlan(Frozen, frozen=True, kw_only=True):
    """The messages of a windowed stream."""

    sizes_bytes: Sizes
    fresh_buffers: Annotated[bool, doc("allocate new buffers for every size.")] = False
    cold_cache: ColdCache = False
    window: Annotated[Window, doc("messages in flight before one acknowledgement.")] = 64
    direction: Annotated[Direction, doc("`uni`: the first rank sends; `bi`: both send at once.")] = "uni"


class StreamPoint(PointRecord, frozen=True, kw_only=True, tag_field="record", tag="stream"):
    """One point of a windowed stream: a message size on one transport between two ranks."""

    direction: Direction  # type: ignore[misc]
    window: Positive  # type: ignore[misc]
    forward_s: Annotated[
        list[PositiveSeconds],
        doc(
            "one entry per sample: time of one window from the first to the second rank; `uni` is timed by the "
            "sender, acknowledgement included, `bi` by the receiver."
        ),
    ] = []
    backward_s: Annotated[list[PositiveSeconds], doc("`bi` only: the same from the second to the first rank.")] = []
    windows_per_sample: Annotated[NonNegative, doc("k: windows in one timed batch.")] = 0
    cold_s: Annotated[Seconds | None, doc("the first window on these buffers; null if it is not the first.")] = field(
        name="cold_window_s", default=None
    )

    @property
    def times_s(self) -> Sequence[float]:
        if self.direction == "bi":
            return [max(pair) for pair in zip(self.forward_s, self.backward_s, strict=False)]
        return self.forward_s

    @property
    def each_way_s(self) -> tuple[Sequence[float], Sequence[float]] | None:
        return (self.forward_s, self.backward_s) if self.direction == "bi" else None


# ----------------------------------------------------------------------------------------------------- reports

BYTES_IN_GB = 1 << 30
"""The tutorial's ``long int B_in_GB = 1 << 30``."""


def line(size_bytes: int, half_round_trip_s: float) -> str:
    """Format as the tutorial's printf does:
    ``"Transfer size (B): %10li, Transfer Time (s): %15.9f, Bandwidth (GB/s): %15.9f\\n"``."""
    bandwidth = size_bytes / BYTES_IN_GB / half_round_trip_s
    return (
        f"Transfer size (B): {size_bytes:10d}, Transfer Time (s): {half_round_trip_s:15.9f}, "
        f"Bandwidth (GB/s): {bandwidth:15.9f}\n"
    )


def render_olcf(results: Sequence[PointSeries], out: TextIO) -> list[str]:
    timed = [point for result in results for point in result.points if point.time]
    for point in timed:
        if point.time and point.sends:
            out.write(line(point.size_bytes, point.time.median))
    shown = [escape_controls(name) for name in by_transport(point for point in timed if point.sends)]
    silent = [escape_controls(name) for name in by_transport(point for point in timed if not point.sends)]
    notes = [f"the lines belong to {join_words(shown)}, in this order"] if len(shown) > 1 else []
    if len(results) > 1:
        first = [result.series.logs[0] for result in results]
        runs = "; then of ".join(f"{log.file} from launch {log.number} on" for log in first)
        notes.append(escape_controls(f"the lines are of {runs}"))
    return [*notes, *(f"no lines for {name}: this transport sends nothing" for name in silent)]


def _pingpong_columns(_point: PointResult, plan: Plan | None, alone: bool) -> Sequence[Quantity]:
    with_tail = plan is not None and plan.sampling.tail
    if alone:
        return [LATENCY, PLUS_MINUS, *(TAIL.values() if with_tail else [BANDWIDTH]), SAMPLES, CHECKED]
    if with_tail:
        return [replace(LATENCY, title="median"), TAIL["p99"], TAIL["max"]]
    return [replace(LATENCY, title=""), PLUS_MINUS, replace(BANDWIDTH, title="")]


def _about_pingpong(_point: PointResult, result: PointSeries, kinds: set[str]) -> str:
    """Describe the latency: each sample is the mean of a batch of exchanges, except with --tail."""
    plan = result.series.plan
    if plan and plan.sampling.mode == "fixed" and kinds == {"single"}:
        average = f"mean of one batch of {plan.sampling.iterations}"
    else:
        average = "median of single exchanges" if plan and plan.sampling.tail else "median of batch means"
    return f"latency: half round trip, {average}"


UCX_PINGPONG = "(fast-completion)"
"""``ucp_tag_send_nbx`` for MPI_Send (Open MPI, ompi/mca/pml/ucx/pml_ucx.c)."""


pingpong_report = partial(report_of, columns_of=_pingpong_columns, about=_about_pingpong, ucx_operation=UCX_PINGPONG)


def _stream_columns(point: PointResult, _plan: Plan | None, alone: bool) -> Sequence[Quantity]:
    both_ways = point.direction == "bi"
    total = replace(BANDWIDTH, title="total")
    if not alone:
        return [total if both_ways else replace(BANDWIDTH, title=""), PLUS_MINUS]
    rates = [total, PLUS_MINUS, FORWARD, BACKWARD] if both_ways else [BANDWIDTH, PLUS_MINUS]
    return [*rates, SAMPLES, CHECKED]


def _about_stream(point: PointResult, _result: PointSeries, _kinds: set[str]) -> str:
    flow = f"{count(point.window or 0, 'message')} in flight"
    if point.direction == "bi":
        return f"both ranks send at once, {flow}; total: twice the rate of the slower direction"
    return f"rank {point.ranks[0]} sends, {flow}"


UCX_STREAM = "(multi)"
"""``ucp_tag_send_nbx`` for MPI_Isend (Open MPI, ompi/mca/pml/ucx/pml_ucx.c)."""


stream_report = partial(report_of, columns_of=_stream_columns, about=_about_stream, ucx_operation=UCX_STREAM)
