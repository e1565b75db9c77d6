"""The rows of a matrix: every pair of ranks."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from volley.document import RECORD_VERSION, Frozen, NonNegative, Positive, PositiveSeconds, Seconds, Version
from volley.records.points import EndedBy, Mismatch, Status


class Cell(Frozen, frozen=True, kw_only=True):
    """One pair of a matrix: the row's rank is the first, this one the second."""

    rank: Annotated[NonNegative, Meta(description="the second rank.")]
    status: Annotated[
        Status, Meta(description="`failed`: a checked message was wrong; `skipped`: not measured; both say the reason.")
    ]
    reason: str | None = None
    median_s: Annotated[
        PositiveSeconds | None,
        Meta(
            description="ping-pong: half round trip; stream: one window, both ways the slower direction of each "
            "sample. null where the cell failed or was skipped."
        ),
    ] = None
    low_s: Annotated[
        PositiveSeconds | None,
        Meta(description="lower end of the median's 95 % interval; null with fewer than six samples."),
    ] = None
    high_s: PositiveSeconds | None = None
    samples: NonNegative = 0
    samples_s: Annotated[list[PositiveSeconds], Meta(description="all of them, where the plan asks for samples.")] = []
    count_per_sample: Annotated[NonNegative, Meta(description="k: round trips or windows in one timed batch.")] = 0
    ended_by: EndedBy | None = None
    messages_timed: NonNegative = 0
    messages_verified: NonNegative = 0
    mismatch: Mismatch | None = None
    elapsed_s: Seconds = 0.0


class MatrixRow(Frozen, frozen=True, kw_only=True, tag_field="record", tag="matrix"):
    """One row of a matrix: what one rank, as the first of the pair, reaches with each other one."""

    version: Version = RECORD_VERSION
    transport: str
    mode: Literal["isolated", "loaded"]
    exercise: Literal["pingpong", "stream"]
    direction: Annotated[Literal["uni", "bi"] | None, Meta(description="of a stream.")] = None
    window: Annotated[Positive | None, Meta(description="of a stream.")] = None
    size_bytes: Positive
    rank: Annotated[NonNegative, Meta(description="the first rank of every pair of this row.")]
    repeat: Annotated[NonNegative, Meta(description="which repetition of the plan's, from 0.")] = 0
    cells: list[Cell]
