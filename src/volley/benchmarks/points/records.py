"""The common fields of all records of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from volley.benchmarks.points import Direction
from volley.document import RECORD_VERSION, Frozen, NonNegative, Positive, Seconds, Version, doc
from volley.records.plan import Plan
from volley.records.record_types import EndedBy, Mismatch, Status, Work
from volley.units import format_size

SizesFrom0 = Annotated[list[NonNegative], doc("message sizes, in this order; 0: empty.", min_length=1)]
Sizes = Annotated[list[Positive], doc("message sizes, in this order.", min_length=1)]

EntrySkew = Annotated[
    list[Seconds],
    doc(
        "one entry per sample: from the first rank's entry into the batch to the last rank's; of message "
        "rates the senders' entries; none where time stamps time single operations."
    ),
]
ColdCache = Annotated[bool, doc("each message of a batch has another place, in buffers of twice the largest cache.")]
ClockError = Annotated[Seconds, doc("how far the clocks of two nodes may be apart at most; 0 on one node.")]


class PointRecord(Frozen, frozen=True, kw_only=True):
    """A message size on one transport between two ranks, or among all ranks of a collective."""

    version: Version = RECORD_VERSION
    transport: str
    ranks: Annotated[list[NonNegative], doc("world ranks that take part; of a pair first and second.", min_length=2)]
    size_bytes: NonNegative
    status: Annotated[Status, doc("`failed`: a checked message was wrong; `skipped`: not measured; see `reason`.")]
    reason: Annotated[str | None, doc("why it failed or was skipped.")] = None
    visits: Annotated[list[Positive], doc("samples of each visit, in order; their sum is the number of samples.")] = []
    work_s: Work = []
    empty_sample_s: Annotated[
        Seconds | None, doc("time of a batch besides its k counts: clock, call, what is done once a batch.")
    ] = None
    ended_by: Annotated[
        EndedBy | None,
        doc(
            "`ci`: CI reached; `time`: time limit; `few`: the fewest samples, of an exchange over 50 ms; "
            "`fixed`: fixed sampling; `failure`: wrong data."
        ),
    ] = None
    messages_timed: Annotated[NonNegative, doc("messages inside timed batches, both directions.")] = 0
    messages_verified: Annotated[
        NonNegative,
        doc("messages compared byte for byte: the last of every sample, and all of the pass after the samples."),
    ] = 0
    compared_counts: Annotated[
        NonNegative | None,
        doc(
            "round trips, windows or operations of the pass, a call of the timed function in which every "
            "message has a place of its own; 0: there was none; null: recorded before 0.3."
        ),
    ] = None
    compared_in_flight: Annotated[
        NonNegative | None,
        doc("messages of each of them in one direction; fewer than the window where there is no room."),
    ] = None
    mismatch: Mismatch | None = None
    elapsed_s: Annotated[Seconds, doc("wall time of the whole point, untimed parts included.")] = 0.0

    # What follows is ``None`` or nothing unless the record of a benchmark has a field of this name: mypy does not know
    # that a field hides the value of a class.

    @property
    def times_s(self) -> Sequence[float]:
        """The times of the point in seconds, one per sample."""
        return ()

    @property
    def cold_s(self) -> float | None:
        return None

    @property
    def each_way_s(self) -> tuple[Sequence[float], Sequence[float]] | None:
        """If both ranks send at once, the times of each direction in seconds."""
        return None

    direction: ClassVar[Direction | None] = None
    """Of a benchmark with windows between two ranks."""
    window: ClassVar[int | None] = None
    """Messages in flight before one acknowledgement."""
    operation: ClassVar[str | None] = None
    """The collective operation; ``None``: messages between two ranks."""

    @property
    def name(self) -> str:
        """What was measured: ``host``, or ``allreduce host``."""
        return " ".join(filter(None, (self.operation, self.transport)))

    @property
    def sized(self) -> bool:
        """Whether its messages have a size, perhaps 0 B; those of a barrier have none."""
        return self.operation != "barrier"

    @property
    def label(self) -> str:
        """Its name while it is measured: ``allreduce host 64 KiB``."""
        return f"{self.name} {format_size(self.size_bytes)}" if self.sized else self.name

    def moved_bytes(self, _plan: Plan | None) -> float:
        """Return the bytes that the bandwidth counts in each of ``times_s``; ``_plan`` is that of the run."""
        return self.size_bytes * (self.window or 1) * (1 if self.each_way_s is None else 2)
