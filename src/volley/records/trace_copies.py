"""Copies between host and GPU memory, and the MPI calls for whose messages they were made.

CUPTI tells of a copy twice, with one number: of the call, and of what the GPU did for it.  A call also waits for work
that is ahead of it on the GPU, which is no part of the copy: what passes before the GPU begins counts only as far as in
the quickest call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from volley.records.trace_calls import Calls, Operation, RankCalls
from volley.records.trace_file import ASYNCHRONOUS, IN_MPI, TO_GPU, TO_HOST, Trace

_TO_GPU, _TO_HOST = 1, 2
"""The work of a copy (CUpti_ActivityMemcpyKind)."""


@dataclass
class Copies:
    """The copies of one rank in one direction for one MPI call."""

    rank: int
    to_host: bool
    in_mpi: bool
    """MPI itself made them."""
    call: str
    """The call that sent or received what was copied, without ``MPI_``; empty: none."""
    number: int
    seconds: float
    bytes: int
    operations: list[Operation] = field(repr=False)
    """The sides of messages, or parts of collectives, that sent or received what was copied."""

    @property
    def mean_bytes(self) -> float:
        return self.bytes / self.number


def copies_of(trace: Trace, calls: Calls) -> list[Copies]:
    found = [each for rank in calls.ranks.values() for each in _of_rank(trace, rank)]
    return sorted(found, key=lambda each: -each.seconds)


def _of_rank(trace: Trace, calls: RankCalls) -> Iterator[Copies]:
    made, work, gpu_begin_s, gpu_s = _joined(trace, calls)
    begin_s, end_s = (trace.seconds(calls.trace, made[name]) for name in ("begin", "end"))
    seconds = _seconds(made, work, begin_s, end_s, gpu_begin_s=gpu_begin_s, gpu_s=gpu_s)
    in_mpi = made["flags"] & IN_MPI != 0
    around = np.searchsorted(calls.begin_s, begin_s, "right") - 1
    for to_host in (True, False):
        groups: dict[tuple[bool, str], Copies] = {}
        those = np.flatnonzero(work == (_TO_HOST if to_host else _TO_GPU))
        operations = _operations(calls, made[those], begin_s[those], end_s[those], to_host=to_host)
        for copy, operation in zip(those.tolist(), operations, strict=True):
            by_mpi = bool(in_mpi[copy])
            name = calls.names[around[copy]] if by_mpi and around[copy] >= 0 else ""
            if operation and not by_mpi:
                name = calls.names[operation.post]
            group = groups.setdefault((by_mpi, name), Copies(calls.trace.rank, to_host, by_mpi, name, 0, 0.0, 0, []))
            group.number += 1
            group.seconds += float(seconds[copy])
            group.bytes += int(made["bytes"][copy])
            group.operations += [operation] if operation and not by_mpi else []
        yield from groups.values()


def _joined(trace: Trace, calls: RankCalls) -> tuple[Any, Any, Any, Any]:
    """Return the calls, which work each is, when the GPU began it (s), and its time in s; NaN where it is unknown."""
    rows = calls.trace.copies
    made, work = rows[rows["work"] == 0], np.sort(rows[rows["work"] > 0], order=["correlation", "begin"])
    first, last = (np.searchsorted(work["correlation"], made["correlation"], side) for side in ("left", "right"))
    known = last > first
    spent_ns = np.concatenate([[0], np.cumsum(work["end"] - work["begin"], dtype=np.int64)])
    to_host, to_gpu = (made["flags"] & flag != 0 for flag in (TO_HOST, TO_GPU))
    which = np.where(to_host, _TO_HOST, np.where(to_gpu, _TO_GPU, 0))
    begin_s, work_s = np.full(len(made), np.nan), np.full(len(made), np.nan)
    which[known] = work["work"][first[known]]
    begun_ns = work["begin"][first[known]].astype(np.int64) - trace.origin_ns
    begin_s[known] = begun_ns * 1e-9 + trace.shift_s.get(calls.trace.clock, 0.0)
    work_s[known] = (spent_ns[last] - spent_ns[first])[known] * 1e-9
    return made, which, begin_s, work_s


def _seconds(made: Any, work: Any, begin_s: Any, end_s: Any, *, gpu_begin_s: Any, gpu_s: Any) -> Any:
    """Return what each copy takes, in s: of an asynchronous one the work alone, and of one whose work is unknown as
    long as the quickest call of its direction and size."""
    waits, took_s = made["flags"] & ASYNCHRONOUS == 0, end_s - begin_s
    ahead_s = np.maximum(gpu_begin_s - begin_s, 0.0)
    least_s = np.nanmin(ahead_s[waits], initial=np.inf)
    # A call may end before the GPU begins: the driver has taken the data.
    alone_s = np.where(gpu_begin_s < end_s, took_s - ahead_s + least_s, took_s)
    seconds = np.where(waits, np.minimum(alone_s, took_s), gpu_s)
    unknown = np.isnan(gpu_begin_s)
    for which, nbytes in sorted(set(zip(work[unknown].tolist(), made["bytes"][unknown].tolist(), strict=True))):
        alike = unknown & (work == which) & (made["bytes"] == nbytes)
        seconds[alike] = took_s[alike].min()
    return seconds


def _operations(calls: RankCalls, made: Any, begin_s: Any, end_s: Any, *, to_host: bool) -> list[Operation | None]:
    """Return what sent each piece that a copy brought to the host, or received what it took from there."""
    buffers = sorted(
        filter(None, (_buffer(calls, each, sends=to_host) for each in calls.operations)), key=attrgetter("address")
    )
    starts = np.array([buffer.address for buffer in buffers], np.uint64)
    longest = max((buffer.nbytes for buffer in buffers), default=0)
    host = made["to" if to_host else "from"]
    found: list[Operation | None] = [None] * len(made)
    for address, size in sorted(set(zip(host.tolist(), made["bytes"].tolist(), strict=True))):
        near = slice(*np.searchsorted(starts, np.array([max(address - longest, 0), address + size], np.uint64)))
        those = sorted((buffer for buffer in buffers[near] if address < buffer.end), key=attrgetter("time_s"))
        copies = np.flatnonzero((host == address) & (made["bytes"] == size))
        times = np.array([buffer.time_s for buffer in those])
        at = np.searchsorted(times, end_s[copies]) if to_host else np.searchsorted(times, begin_s[copies], "right") - 1
        # Of several copies of one message it is the last one before it was sent, the first one after it was received.
        seen: dict[int, int] = {}
        for copy, place in zip(copies.tolist(), at.tolist(), strict=True):
            if 0 <= place < len(those) and (to_host or place not in seen):
                seen[place] = copy
        for place, copy in seen.items():
            found[copy] = those[place].operation
    return found


class _Buffer(NamedTuple):
    """What an operation sends or receives."""

    address: int
    nbytes: int
    time_s: float
    """From when on, or until when, MPI has it."""
    operation: Operation

    @property
    def end(self) -> int:
        return self.address + self.nbytes


def _buffer(calls: RankCalls, operation: Operation, *, sends: bool) -> _Buffer | None:
    """Return what an operation sends, or what it receives; nothing if it does not."""
    event, message = operation.source, operation.kind in ("send", "receive")
    number = operation.post if sends else operation.done
    if number < 0 or operation.nbytes == 0 or (message and (operation.kind == "send") is not sends):
        return None
    address = event.buffer if message or sends else event.buffer2 or event.buffer
    time_s = (calls.begin_s if sends else calls.end_s)[number]
    return _Buffer(address, operation.nbytes, float(time_s), operation)
