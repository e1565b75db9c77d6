"""The plans and the records of matrices: between ranks, and between the GPUs of one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from volley.benchmarks.matrix import WITH_HOST
from volley.benchmarks.points import WindowOptions
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
    doc,
)
from volley.machine.hardware import Device
from volley.machine.transports import without_fault
from volley.records.plan import Plan
from volley.records.record_types import EndedBy, Mismatch, Status, Work
from volley.run.jobs import Forecast
from volley.units import LONGEST_S, format_sig

RankPair = Annotated[list[NonNegative], Meta(min_length=2, max_length=2)]


class RankMatrixPlan(Frozen, frozen=True, kw_only=True):
    """The pairs and sizes to measure, and whether other pairs are busy at the same time."""

    mode: Annotated[
        Literal["isolated", "nodes", "loaded"],
        doc(
            "`isolated`: one pair at a time, all others wait; `nodes`: one pair of each node at a time; "
            "`loaded`: all ranks (of an odd number, all but one) are busy. In the last two, pairs meet in the rounds "
            "of a round robin, and are busy until the round ends."
        ),
    ] = "isolated"
    latency_sizes_bytes: Annotated[list[Positive], doc("message sizes of ping-pongs.")] = []
    bandwidth_sizes_bytes: Annotated[list[Positive], doc("message sizes of streams.")] = []
    window: Annotated[Window, doc("of a stream: messages in flight before one acknowledgement.")] = WindowOptions.window
    direction: Annotated[
        Literal["uni", "bi"], doc("of a stream: `uni`: the first rank sends; `bi`: both send at once.")
    ] = WindowOptions.direction
    pairs: Annotated[
        list[RankPair],
        doc("first and second rank; empty: every ordered pair. In rounds: those that hold one of these."),
    ] = []
    rounds: Annotated[
        list[list[RankPair]],
        doc("`loaded`: pairs that measure at the same time, round by round; empty: a round robin."),
    ] = []
    repeats: Annotated[Count, doc("visits of every pair; `isolated`: each repetition starts at another pair.")] = 1
    samples: Annotated[bool, doc("cells keep every sample.")] = False


class FailedPair(Frozen, frozen=True, kw_only=True):
    """A pair whose data was wrong."""

    rank: Annotated[NonNegative, doc("the second rank.")]
    reason: str
    mismatch: Mismatch | None = None


class SkippedPairs(Frozen, frozen=True, kw_only=True):
    """Pairs that were not measured, for one reason."""

    ranks: Annotated[list[NonNegative], doc("the second ranks.")]
    reason: str


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
    mode: Literal["isolated", "nodes", "loaded"]
    pattern: Literal["pingpong", "stream"]
    direction: Annotated[Literal["uni", "bi"] | None, doc("of a stream.")] = None
    window: Annotated[Positive | None, doc("of a stream.")] = None
    size_bytes: Positive
    rank: Annotated[NonNegative, doc("the first rank of every pair of this row.")]
    repeat: Annotated[NonNegative, doc("which of the plan's repetitions, from 0.")] = 0
    ranks: Annotated[
        list[NonNegative],
        doc("the second rank of each pair, rising; empty: every rank from 0 but the first of the pair."),
    ] = []
    unit_s: Annotated[PositiveSeconds, doc("the unit of `medians`, `lows` and `highs` in seconds.")] = 1.0
    medians: Annotated[Units, doc(f"median of the samples: {PerPair}; null where it failed or was skipped.")] = []
    lows: Annotated[Units, doc("lower end of the median's 95 % interval; null with fewer than six samples.")] = []
    highs: Annotated[
        Units, doc("its upper end; empty where the plan repeats: a pair then has the range of its visits.")
    ] = []
    samples: Annotated[list[NonNegative], doc("how many samples.")]
    elapsed_s: Annotated[list[Seconds], doc("how long the visit took; in records of before 2026-11-23.")] = []
    messages_timed: Annotated[NonNegative, doc("of all pairs of the row.")] = 0
    messages_verified: Annotated[NonNegative, doc("of all pairs of the row.")] = 0
    failed: list[FailedPair] = []
    skipped: list[SkippedPairs] = []
    samples_s: Annotated[
        list[list[PositiveSeconds]], doc("all samples of each pair, where the plan asks for them.")
    ] = []
    visits: Annotated[list[list[NonNegative]], doc("samples of each visit, beside `samples_s`.")] = []
    work_s: Annotated[list[Work], doc("of each visit, beside `samples_s`.")] = []

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
        if others and not others <= set(self.partners):
            raise ValueError("a pair that failed or was skipped is not in the row")

    @property
    def pairs(self) -> int:
        return len(self.medians)

    @property
    def times_s(self) -> Sequence[float | None]:
        return [number and number * self.unit_s for number in self.medians]

    @property
    def lows_s(self) -> Sequence[float | None]:
        return [number and number * self.unit_s for number in self.lows]

    @property
    def partners(self) -> Sequence[int]:
        """The second rank of each pair."""
        if self.ranks or not self.pairs:
            return self.ranks
        return [*range(self.rank), *range(self.rank + 1, self.pairs + 1)]

    @property
    def statuses(self) -> list[Status]:
        skipped = sum(len(each.ranks) for each in self.skipped)
        good = self.pairs - len(self.failed) - skipped
        return [*["ok"] * good, *["failed"] * len(self.failed), *["skipped"] * skipped]  # type: ignore[list-item]

    @property
    def moved_bytes(self) -> int:
        """Bytes that cross the link in the time of a cell."""
        return self.size_bytes * (self.window or 1) * (2 if self.direction == "bi" else 1)


class GpuMatrixPlan(Frozen, frozen=True, kw_only=True):
    """What is measured between the GPUs of this machine (docs/method/gpu-matrix.md)."""

    sections: Annotated[list[str], doc("their names; measured in the engine's order.", min_length=1)]
    gpus: Annotated[list[NonNegative], doc("CUDA's numbers; empty: all that CUDA shows.")] = []
    largest_bytes: Annotated[
        int, doc("no message is larger; if a GPU has no room for four, they are halved.", ge=64 << 10, le=1 << 62)
    ] = 512 << 20
    quick: Annotated[bool, doc("smaller windows and fewer samples: an answer as soon as the CUDA sample has one.")] = (
        False
    )
    samples: Annotated[bool, doc("cells keep every sample.")] = False


class GpuMatrixGpus(Frozen, frozen=True, kw_only=True, tag_field="record", tag="gpu_matrix_gpus"):
    """The GPUs of the matrices, and which of them can access each other's memory."""

    version: Version = RECORD_VERSION
    devices: Annotated[list[Device], doc("in CUDA's order.")]
    can_access: Annotated[
        list[list[bool]], doc("cudaDeviceCanAccessPeer: row of the reading GPU, column of the one read.")
    ] = []
    reason: Annotated[str | None, doc("why there is none.")] = None

    def __post_init__(self) -> None:
        """Refuse a table that is not one of these devices."""
        sizes = {len(self.can_access), *map(len, self.can_access)}
        if self.can_access and sizes != {len(self.devices)}:
            raise ValueError("`can_access` has not one row and one column for each of `devices`")

    def can(self, first: int, second: int) -> bool | None:
        """Return whether a GPU can access the memory of another one; ``None`` if the record does not say."""
        row = self.can_access[first] if first < len(self.can_access) else []
        return row[second] if second < len(row) else None


class GpuMatrixCell(Frozen, frozen=True, kw_only=True):
    """One pair of GPUs, or one GPU and the host."""

    status: Annotated[
        Status, doc("`failed`: a checked message was wrong, or nothing moved any more; `skipped`: not measured.")
    ]
    reason: Annotated[str | None, doc("why it failed or was skipped.")] = None
    median_s: Annotated[
        PositiveSeconds | None, doc("seconds of what the row measures; null where the cell failed or was skipped.")
    ] = None
    low_s: Annotated[
        PositiveSeconds | None, doc("lower end of the median's 95 % interval; null with fewer than six samples.")
    ] = None
    high_s: PositiveSeconds | None = None
    samples: NonNegative = 0
    samples_s: Annotated[list[PositiveSeconds], doc("all samples, where the plan asks for them.")] = []
    visits: Annotated[list[NonNegative], doc("samples of each visit, in order, where `samples_s` holds them.")] = []
    work_s: Work = []
    count_per_sample: Annotated[NonNegative, doc("k: round trips, windows, copies or passes in one timed batch.")] = 0
    elapsed_s: Seconds = 0.0
    ended_by: EndedBy | None = None
    messages_timed: NonNegative = 0
    messages_verified: NonNegative = 0
    compared_counts: Annotated[
        NonNegative | None,
        doc(
            "copies or windows of the pass after the samples, in which every message has a place of its "
            "own; 0: there was none; null: recorded before 0.3."
        ),
    ] = None
    compared_in_flight: Annotated[NonNegative | None, doc("messages of each of them.")] = None
    gpu: Annotated[str, doc("UUID of the second.")]
    peer_access: Annotated[
        bool | None,
        doc(
            "was on between the two; without it, CUDA copies through the host. null: one end is the host, "
            "or nothing was tried."
        ),
    ] = None


class GpuMatrixRow(Frozen, frozen=True, kw_only=True, tag_field="record", tag="gpu_matrix"):
    """One row of a matrix between GPUs: one GPU with each other one and within its own memory."""

    version: Version = RECORD_VERSION
    section: Annotated[str, doc("which matrix.")]
    metric: Annotated[
        Literal["bandwidth", "completion", "issue", "enqueue", "store", "load"],
        doc(
            "what the seconds are of. `bandwidth`: a window of messages until all are complete; "
            "`completion`: a small copy until the host sees its end; `issue`: from one to the next of many that are "
            "enqueued; `enqueue`: the host's call; `store`: half a round trip of stores; `load`: one load that waits "
            "for the last."
        ),
    ]
    engine: Annotated[Literal["copy engine", "SM"], doc("what moves the bytes; `SM`: a kernel's loads and stores.")]
    operation: Annotated[Literal["write", "read"], doc("what the row's GPU does; it drives.")]
    direction: Annotated[Literal["uni", "bi"], doc("`bi`: both ways at once, a window each.")]
    ends: Annotated[
        Literal["gpus", "host to gpu", "gpu to host", "host to all gpus", "all gpus to host"],
        doc(
            "with the host there is one row; its memory is pinned, and near the GPU. `all`: the other GPUs copy at "
            "the same time, twice as much."
        ),
    ]
    peer_access: Annotated[bool, doc("was switched on for all pairs that can.")]
    size_bytes: Positive
    window: Annotated[Positive, doc("messages in flight before completion is awaited.")]
    gpu: Annotated[str | None, doc("UUID of the first; null: the host.")]
    cells: list[GpuMatrixCell]

    @property
    def statuses(self) -> Iterator[Status]:
        return (cell.status for cell in self.cells)

    @property
    def moved_bytes(self) -> int | None:
        """Bytes that move in the time of a cell, each counted once; ``None``: it is the time of something else."""
        return (
            self.size_bytes * self.window * (2 if self.direction == "bi" else 1) if self.metric == "bandwidth" else None
        )

    @property
    def title(self) -> str:
        """The section in a few words: ``CE write both ways, peer access off``, ``SM load``."""
        both = " both ways" if self.direction == "bi" else ""
        what = self.operation if self.metric == "bandwidth" else self.metric
        if self.ends != "gpus":
            by = "" if self.engine == "copy engine" else "SM " if self.metric == "bandwidth" else f"SM {what}, "
            return by + self.ends.replace("gpu", "GPU") + both
        if self.engine == "SM":
            return f"SM {what}{both}"
        return f"CE {what}{both}, peer access {'on' if self.peer_access else 'off'}"


def count_with_host(sections: Sequence[str]) -> int:
    return sum(without_fault(name) in WITH_HOST for name in sections)


class GpuMatrixForecast(Forecast):
    """Counts rows: one for each GPU, but one alone in sections with the host."""

    def __init__(self, plan: Plan) -> None:
        self._sections: list[str] = plan.options.sections
        super().__init__(len(self._sections), plan.budget_s)

    def add(self, record: Any) -> str | None:
        """Learn the number of GPUs, or count a row and say: ``CE write, peer access on: 392 to 394 GB/s``."""
        if isinstance(record, GpuMatrixGpus):
            with_host = count_with_host(self._sections)
            self.total = (len(self._sections) - with_host) * len(record.devices) + with_host
        if not isinstance(record, GpuMatrixRow):
            return None
        self.done += 1
        times_s = [cell.median_s for cell in record.cells]
        return row_in_short(record.title, times_s, list(record.statuses).count("failed"), record.moved_bytes)


def row_in_short(name: str, medians_s: Sequence[float | None], failed: int, moved_bytes: int | None) -> str:
    """Return the range of a row: ``host 8 B, pairs from rank 3: 0.31 to 0.35 µs``."""
    times = [time_s for time_s in medians_s if time_s is not None]
    if not times:
        return f"{name}: {'FAILED' if failed else 'skipped'}"
    numbers = [time_s * 1e6 if moved_bytes is None else moved_bytes / time_s / 1e9 for time_s in times]
    lost = f", {failed} FAILED" if failed else ""
    low, high = format_sig(min(numbers), 3), format_sig(max(numbers), 3)
    return f"{name}: {low if low == high else f'{low} to {high}'} {'µs' if moved_bytes is None else 'GB/s'}{lost}"
