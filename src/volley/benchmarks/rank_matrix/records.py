"""The plan and the records of a matrix between ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta

from volley.benchmarks.rank_matrix.options import RankMatrixOptions
from volley.benchmarks.shared.matrix.records import MatrixCell
from volley.benchmarks.shared.points.options import WindowOptions
from volley.document import Count
from volley.run.records import RECORD_VERSION, Frozen, Mismatch, NonNegative, Positive, Status, Version

RankPair = Annotated[list[NonNegative], Meta(min_length=2, max_length=2)]


class RankMatrixPlan(Frozen, frozen=True, kw_only=True):
    """The pairs and sizes to measure, and whether other pairs are busy at the same time."""

    mode: Annotated[
        Literal["isolated", "loaded"],
        Meta(
            description="`isolated`: one pair at a time, all others wait; `loaded`: the rounds of a round robin, all "
            "ranks are busy until the round ends."
        ),
    ] = RankMatrixOptions.mode
    latency_sizes_bytes: Annotated[list[Positive], Meta(description="message sizes of ping-pongs.")] = []
    bandwidth_sizes_bytes: Annotated[list[Positive], Meta(description="message sizes of streams.")] = []
    window: Annotated[Count, Meta(description="of a stream: messages in flight before one acknowledgement.")] = (
        WindowOptions.window
    )
    direction: Annotated[
        Literal["uni", "bi"], Meta(description="of a stream: `uni`: the first rank sends; `bi`: both send at once.")
    ] = WindowOptions.direction
    pairs: Annotated[
        list[RankPair],
        Meta(
            description="first and second rank; empty: every ordered pair. `loaded`: the rounds that hold one of these."
        ),
    ] = []
    repeats: Annotated[
        Count, Meta(description="visits of every pair; `isolated`: each repetition starts at another pair.")
    ] = 1
    samples: Annotated[bool, Meta(description="cells keep every sample.")] = False


class RankMatrixCell(MatrixCell, frozen=True, kw_only=True):
    """One pair of a matrix: the row's rank is the first, this one the second."""

    rank: Annotated[NonNegative, Meta(description="the second rank.")]
    mismatch: Mismatch | None = None


class RankMatrixRow(Frozen, frozen=True, kw_only=True, tag_field="record", tag="rank_matrix"):
    """One row of a matrix between ranks: one rank, as the first of the pair, with each other one.

    The seconds of a cell are half a round trip of a ping-pong, or one window of a stream; if both ranks send, each
    sample is that of the slower direction.
    """

    version: Version = RECORD_VERSION
    transport: str
    mode: Literal["isolated", "loaded"]
    pattern: Literal["pingpong", "stream"]
    direction: Annotated[Literal["uni", "bi"] | None, Meta(description="of a stream.")] = None
    window: Annotated[Positive | None, Meta(description="of a stream.")] = None
    size_bytes: Positive
    rank: Annotated[NonNegative, Meta(description="the first rank of every pair of this row.")]
    repeat: Annotated[NonNegative, Meta(description="which of the plan's repetitions, from 0.")] = 0
    cells: list[RankMatrixCell]

    @property
    def statuses(self) -> Iterator[Status]:
        return (cell.status for cell in self.cells)

    @property
    def moved_bytes(self) -> int:
        """Bytes that cross the link in the time of a cell."""
        return self.size_bytes * (self.window or 1) * (2 if self.direction == "bi" else 1)


PLAN = RankMatrixPlan
RECORDS = (RankMatrixRow,)
