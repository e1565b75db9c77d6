"""The fields of a cell of any matrix, between ranks or between GPUs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from volley.document import Frozen, NonNegative, PositiveSeconds, Seconds
from volley.run.records import Status, Work


class MatrixCell(Frozen, frozen=True, kw_only=True):
    """The measurement of one pair."""

    status: Annotated[
        Status,
        Meta(description="`failed`: a checked message was wrong, or nothing moved any more; `skipped`: not measured."),
    ]
    reason: Annotated[str | None, Meta(description="why it failed or was skipped.")] = None
    median_s: Annotated[
        PositiveSeconds | None,
        Meta(description="seconds of what the row measures; null where the cell failed or was skipped."),
    ] = None
    low_s: Annotated[
        PositiveSeconds | None,
        Meta(description="lower end of the median's 95 % interval; null with fewer than six samples."),
    ] = None
    high_s: PositiveSeconds | None = None
    samples: NonNegative = 0
    samples_s: Annotated[list[PositiveSeconds], Meta(description="all samples, where the plan asks for them.")] = []
    visits: Annotated[
        list[NonNegative], Meta(description="samples of each visit, in order, where `samples_s` holds them.")
    ] = []
    work_s: Work = []
    count_per_sample: Annotated[
        NonNegative, Meta(description="k: round trips, windows, copies or passes in one timed batch.")
    ] = 0
    elapsed_s: Seconds = 0.0
