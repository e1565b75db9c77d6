"""The plan and the records of a matrix between ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from volley.benchmarks.matrix import MatrixOptions
from volley.benchmarks.shared.points import WindowOptions
from volley.document import (
    RECORD_VERSION,
    Count,
    Frozen,
    NonNegative,
    Positive,
    PositiveSeconds,
    Seconds,
    Version,
    Window,
)
from volley.records.record_types import Mismatch, Status, Work
from volley.units import LONGEST_S

RankPair = Annotated[list[NonNegative], Meta(min_length=2, max_length=2)]


class RankMatrixPlan(Frozen, frozen=True, kw_only=True):
    """The pairs and sizes to measure, and whether other pairs are busy at the same time."""

    mode: Annotated[
        Literal["isolated", "loaded"],
        Meta(
            description="`isolated`: one pair at a time, all others wait; `loaded`: the rounds of a round robin, all "
            "ranks are busy until the round ends."
        ),
    ] = MatrixOptions.mode
    latency_sizes_bytes: Annotated[list[Positive], Meta(description="message sizes of ping-pongs.")] = []
    bandwidth_sizes_bytes: Annotated[list[Positive], Meta(description="message sizes of streams.")] = []
    window: Annotated[Window, Meta(description="of a stream: messages in flight before one acknowledgement.")] = (
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


class FailedPair(Frozen, frozen=True, kw_only=True):
    """A pair whose data was wrong."""

    rank: Annotated[NonNegative, Meta(description="the second rank.")]
    reason: str
    mismatch: Mismatch | None = None


class SkippedPairs(Frozen, frozen=True, kw_only=True):
    """Pairs that were not measured, for one reason."""

    ranks: Annotated[list[NonNegative], Meta(description="the second ranks.")]
    reason: str


Times = list[PositiveSeconds | None]
Units = list[Positive | None]
PerPair = "one number for each pair, in the order of `ranks`"


class RankMatrixRow(Frozen, frozen=True, kw_only=True, tag_field="record", tag="rank_matrix"):
    """One row of a matrix between ranks: one rank, as the first of the pair, with each other one.

    The times of a pair are half a round trip of a ping-pong, or one window of a stream; if both ranks send, each
    sample is that of the slower direction.  A thousand ranks have a million pairs: so the row has a list for each
    quantity, not an object for each pair, and times are whole numbers of a unit that gives the shortest of them four
    digits.
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
    ranks: Annotated[
        list[NonNegative],
        Meta(description="the second rank of each pair, rising; empty: every rank from 0 but the first of the pair."),
    ] = []
    unit_s: Annotated[PositiveSeconds, Meta(description="the unit of `medians`, `lows` and `highs` in seconds.")] = 1.0
    medians: Annotated[
        Units, Meta(description=f"median of the samples: {PerPair}; null where it failed or was skipped.")
    ] = []
    lows: Annotated[
        Units, Meta(description="lower end of the median's 95 % interval; null with fewer than six samples.")
    ] = []
    highs: Annotated[
        Units,
        Meta(description="its upper end; empty where the plan repeats: a pair then has the range of its visits."),
    ] = []
    samples: Annotated[list[NonNegative], Meta(description="how many samples.")]
    elapsed_s: Annotated[
        list[Seconds], Meta(description="how long the visit took; in records of before 2026-11-23.")
    ] = []
    messages_timed: Annotated[NonNegative, Meta(description="of all pairs of the row.")] = 0
    messages_verified: Annotated[NonNegative, Meta(description="of all pairs of the row.")] = 0
    failed: list[FailedPair] = []
    skipped: list[SkippedPairs] = []
    samples_s: Annotated[
        list[list[PositiveSeconds]], Meta(description="all samples of each pair, where the plan asks for them.")
    ] = []
    visits: Annotated[list[list[NonNegative]], Meta(description="samples of each visit, beside `samples_s`.")] = []
    work_s: Annotated[list[Work], Meta(description="of each visit, beside `samples_s`.")] = []

    def __post_init__(self) -> None:
        """Refuse lists that do not fit each other, and pairs that the row does not have."""
        pairs = self.pairs
        for name in ("lows", "samples"):
            if len(getattr(self, name)) != pairs:
                raise ValueError(f"{name} has {len(getattr(self, name))} numbers, there are {pairs} medians")
        for name in ("ranks", "highs", "elapsed_s", "samples_s", "visits", "work_s"):
            if len(getattr(self, name)) not in (0, pairs):
                raise ValueError(f"{name} has {len(getattr(self, name))} items, there are {pairs} medians")
        longest = max(max(filter(None, numbers), default=0) for numbers in (self.medians, self.lows, self.highs))
        if longest * self.unit_s > LONGEST_S:
            raise ValueError(f"a time is longer than {LONGEST_S:g} s")
        if self.ranks and (self.rank in self.ranks or sorted(self.ranks) != self.ranks):
            raise ValueError("ranks are not rising, or the first rank of the pairs is among them")
        if 0 < pairs < self.rank and not self.ranks:
            raise ValueError("a row without ranks has not one pair for every other rank")
        others = {each.rank for each in self.failed} | {rank for each in self.skipped for rank in each.ranks}
        if others and not others <= set(self.seconds):
            raise ValueError("a pair that failed or was skipped is not in the row")

    @property
    def pairs(self) -> int:
        return len(self.medians)

    @property
    def times_s(self) -> Times:
        return self._in_seconds(self.medians)

    @property
    def lows_s(self) -> Times:
        return self._in_seconds(self.lows)

    def _in_seconds(self, numbers: Sequence[float | None]) -> Times:
        return [number and number * self.unit_s for number in numbers]

    @property
    def seconds(self) -> Sequence[int]:
        """The second rank of each pair."""
        if self.ranks or not self.pairs:
            return self.ranks
        return [*range(self.rank), *range(self.rank + 1, self.pairs + 1)]

    @property
    def statuses(self) -> list[Status]:
        skipped = sum(len(each.ranks) for each in self.skipped)
        found: list[Status] = ["ok"] * (self.pairs - len(self.failed) - skipped)
        found += ["failed"] * len(self.failed)
        found += ["skipped"] * skipped
        return found

    @property
    def moved_bytes(self) -> int:
        """Bytes that cross the link in the time of a cell."""
        return self.size_bytes * (self.window or 1) * (2 if self.direction == "bi" else 1)
