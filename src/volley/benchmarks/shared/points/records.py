"""The common fields of all records of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from volley.benchmarks.shared.points.options import Direction
from volley.document import RECORD_VERSION, Frozen, NonNegative, Positive, Seconds, Version
from volley.run.records import EndedBy, Mismatch, Status, Work


class PointRecord(Frozen, frozen=True, kw_only=True):
    """A message size on one transport between two ranks, or among all ranks of a collective."""

    version: Version = RECORD_VERSION
    transport: str
    ranks: Annotated[
        list[NonNegative], Meta(min_length=2, description="world ranks that take part; of a pair first and second.")
    ]
    size_bytes: NonNegative
    status: Annotated[
        Status, Meta(description="`failed`: a checked message was wrong; `skipped`: not measured; see `reason`.")
    ]
    reason: Annotated[str | None, Meta(description="why it failed or was skipped.")] = None
    visits: Annotated[
        list[Positive], Meta(description="samples of each visit, in order; their sum is the number of samples.")
    ] = []
    work_s: Work = []
    empty_sample_s: Annotated[
        Seconds | None, Meta(description="median time of a sample with k = 0: clock and call overhead.")
    ] = None
    ended_by: Annotated[
        EndedBy | None,
        Meta(
            description="`ci`: CI reached; `time`: time limit; `few`: six samples of an exchange over 50 ms; "
            "`fixed`: fixed sampling; `failure`: wrong data."
        ),
    ] = None
    messages_timed: Annotated[NonNegative, Meta(description="messages inside timed batches, both directions.")] = 0
    messages_verified: Annotated[
        NonNegative,
        Meta(description="messages compared byte for byte: the last of every sample, and all of a batch at the end."),
    ] = 0
    mismatch: Mismatch | None = None
    elapsed_s: Annotated[Seconds, Meta(description="wall time of the whole point, untimed parts included.")] = 0.0

    @property
    def statuses(self) -> tuple[Status, ...]:
        """The status of each measurement in this record."""
        return (self.status,)

    @property
    def times_s(self) -> Sequence[float]:
        """The times of the point in seconds, one per sample."""
        raise NotImplementedError

    @property
    def each_way_s(self) -> tuple[Sequence[float], Sequence[float]] | None:
        """If both ranks send at once, the times of each direction in seconds; else ``None``."""
        return None

    @property
    def cold_s(self) -> float | None:
        """The time of the first exchange on fresh buffers in seconds, defined as in ``times_s``."""
        raise NotImplementedError

    @property
    def flow(self) -> tuple[Direction | None, int | None]:
        """The direction and the window; ``None`` if the benchmark has none."""
        return None, None

    @property
    def operation(self) -> str | None:
        """The collective operation; ``None``: messages between two ranks."""
        return None

    @property
    def moved_bytes(self) -> float:
        """The bytes that the bandwidth counts in each of ``times_s``."""
        _, window = self.flow
        return self.size_bytes * (window or 1) * (1 if self.each_way_s is None else 2)
