"""The calls of a trace with their requests, sources and communicators resolved, and each send with its receive.

A receive from any source has the source that MPI said when it was completed.  Messages between two ranks of one
communicator with one tag arrive in the order in which they were sent (MPI 4.1, section 3.5), so the n-th send belongs
to the n-th receive.  Where their numbers differ at the end, or a message is longer than its receive, the trace lacks
calls, and none of those messages is matched.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from volley.errors import UserError
from volley.records.trace_clocks import shifts
from volley.records.trace_file import ANY, FAILED, MATCHED, NOBODY, Event, RankTrace, Trace, plain_name
from volley.text import count, escape_controls

ROOTED = ("Bcast", "Reduce", "Gather", "Gatherv", "Scatter", "Scatterv")
COLLECTIVES = (
    *ROOTED,
    *("Barrier", "Allreduce", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter"),
    *("Reduce_scatter_block", "Scan", "Exscan"),
)
_ALL_MEET = ("Allreduce", "Allgather", "Alltoall", "Reduce_scatter_block")
"""Each rank needs the data of every other one, if there is any."""
_SENDS = ("Send", "Bsend", "Ssend", "Rsend")
_COMPLETING = ("Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome")


def collective_of(name: str) -> str:
    """Return the collective that a call begins: ``Bcast`` of ``Bcast`` and ``Ibcast``; empty if it is none."""
    if name in COLLECTIVES:
        return name
    return name[1:].capitalize() if name[:1] == "I" and name[1:].capitalize() in COLLECTIVES else ""


def kind_of_message(name: str) -> str:
    """Return ``send`` or ``receive`` for a call that begins one side of a message, of any mode; else nothing."""
    base = name.removesuffix("_init")
    if base in _SENDS or (base[:1] == "I" and base[1:].capitalize() in _SENDS):
        return "send"
    return "receive" if base in ("Recv", "Irecv", "Mrecv", "Imrecv") else ""


@dataclass(eq=False)
class Operation:
    """One side of a message, or one rank's part of a collective."""

    rank: int
    """In MPI_COMM_WORLD."""
    post: int
    """The number of the event that began it."""
    kind: str
    """``send``, ``receive``, or the name of a collective."""
    peer: int
    """In MPI_COMM_WORLD; of a collective the root, -1: none."""
    tag: int
    comm: int
    """The number of the communicator, the same for all ranks; -1: unknown."""
    nbytes: int
    done: int = -1
    """The number of the event that completed it; -1: none did."""
    source: Event = field(kw_only=True, repr=False)
    """The event with the arguments: that of MPI_Send_init for a persistent request."""
    cancelled: bool = False
    match: Operation | None = field(default=None, repr=False)


@dataclass
class RankCalls:
    trace: RankTrace
    names: list[str]
    """The name of each event's call."""
    begin_s: Any
    end_s: Any
    """One entry for each event; the end of a call that did not return is that of the application."""
    operations: list[Operation] = field(default_factory=list)
    completes: defaultdict[int, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    """What each event completed."""

    @cached_property
    def returned(self) -> dict[str, Any]:
        """The numbers of the events of calls that returned, by name."""
        found: dict[str, list[int]] = {}
        for number in np.flatnonzero(self.trace.events["end"]).tolist():
            found.setdefault(self.names[number], []).append(number)
        return {name: np.array(those) for name, those in found.items()}


@dataclass
class Calls:
    ranks: dict[int, RankCalls]
    members: list[tuple[int, ...]]
    """Of each communicator, as ranks in MPI_COMM_WORLD."""
    collectives: list[dict[int, Operation]] = field(default_factory=list)
    """Each collective: its operation on each rank."""


def resolve(trace: Trace) -> Calls:
    """Resolve the calls of the one MPI job of a trace.

    Raises:
        UserError: if the trace has processes of several jobs.
    """
    known = [rank for rank in trace.ranks if rank.rank >= 0]
    if len({rank.rank for rank in known}) < len(known) or len({rank.size for rank in known}) > 1:
        raise UserError(
            f"{escape_controls(trace.name)} has {count(len(known), 'process')} of several MPI jobs, and nothing tells "
            "which belong together: record one job, e.g. volley record -- mpirun -n 2 ./app"
        )
    trace.shift_s = {}  # the trace may have been resolved before
    numbers: dict[tuple[tuple[int, ...], int], int] = {}
    ranks = {rank.rank: _resolve_rank(trace, rank, numbers) for rank in known}
    calls = Calls(ranks, [members for members, _ in numbers])
    _match_messages(calls)
    _match_collectives(calls)
    clocks = dict.fromkeys(its.trace.clock for _, its in sorted(ranks.items()))
    trace.shift_s = shifts([*clocks], _gaps(calls)) if len(clocks) > 1 else {}
    if trace.shift_s:
        for its in ranks.values():
            its.begin_s, its.end_s = _times(trace, its.trace)
    return calls


def _times(trace: Trace, rank: RankTrace) -> tuple[Any, Any]:
    """Return when the events of a rank began and ended, in s."""
    begin_s, end_s = trace.seconds(rank, rank.events["begin"]), trace.seconds(rank, rank.events["end"])
    if len(end_s):
        unfinished = rank.events["end"] == 0
        end_s[unfinished] = max(begin_s.max(), trace.ended_s)
    return begin_s, end_s


def _resolve_rank(trace: Trace, rank: RankTrace, numbers: dict[tuple[tuple[int, ...], int], int]) -> RankCalls:
    comms: dict[int, int] = {}
    seen: dict[tuple[int, ...], int] = {}
    for comm, members in sorted(rank.members.items()):
        # Communicators of the same ranks are made in the same order on all of them: making one is collective.
        key = tuple(members.tolist())
        seen[key] = seen.get(key, -1) + 1
        comms[comm] = numbers.setdefault((key, seen[key]), len(numbers))
    names = [plain_name(rank.names[call]) for call in rank.events["call"].tolist()]
    found = RankCalls(rank, names, *_times(trace, rank))
    reader = _Reader(found, comms)
    for number, (event, name) in enumerate(zip(rank.rows, names, strict=True)):
        if not event.flags & FAILED:
            reader.read(number, event, name)
    return found


class _Reader:
    """Follows the requests of one rank through its events."""

    def __init__(self, calls: RankCalls, comms: Mapping[int, int]) -> None:
        """Read into ``calls``; ``comms`` has the common number of each communicator of this rank."""
        self._calls, self._rank, self._comms = calls, calls.trace, comms
        self._active: defaultdict[int, list[Operation]] = defaultdict(list)
        """By request; MPIs give all messages that are buffered at once the same one."""
        self._persistent: dict[int, tuple[str, Event]] = {}
        self._probed: dict[int, Event] = {}
        """The events of MPI_Mprobe, by the handles of the messages that it found."""

    def read(self, number: int, event: Event, name: str) -> None:
        if name in _COMPLETING:
            self._complete(number, event)
        elif name.endswith("_init"):
            self._persistent[event.buffer2] = (kind_of_message(name), event)
        elif name in ("Cancel", "Request_free"):
            self._give_up(event, name)
        elif name in ("Start", "Startall"):
            for handle in filter(self._persistent.__contains__, self._rank.list_of(event)):
                kind, about = self._persistent[handle]
                self._active[handle].append(self._begin(number, about, about, kind))
        elif name in ("Mprobe", "Improbe"):
            self._probed[event.buffer2] = event
        elif name in ("Sendrecv", "Sendrecv_replace"):
            self._exchange(number, event)
        elif kind := kind_of_message(name) or collective_of(name):
            about = event
            if name in ("Mrecv", "Imrecv") and self._probed:
                handle = next(iter(self._rank.list_of(event)), event.buffer2)
                if handle not in self._probed:  # MPI_Imrecv in a trace of an older volley
                    handle = next(reversed(self._probed))
                about = self._probed.pop(handle)
            operation = self._begin(number, event, about, kind)
            if name.startswith("I"):
                self._active[event.buffer2].append(operation)
            else:
                self._done(number, operation)

    def _give_up(self, event: Event, name: str) -> None:
        for handle in self._rank.list_of(event):
            its = self._active.get(handle, [])
            if name == "Request_free":  # it ends at a time that nobody asks for, and the handle may come again
                self._persistent.pop(handle, None)
                del its[:1]
                continue
            for each in its:
                each.cancelled = True

    def _begin(self, number: int, event: Event, about: Event, kind: str) -> Operation:
        """Add an operation; ``about`` says with whom."""
        peer = NOBODY if about.peer == NOBODY else self._rank.world_peer(about.comm, about.peer)
        comm = self._comms.get(about.comm, -1)
        made = Operation(self._rank.rank, number, kind, peer, about.tag, comm, event.bytes, source=event)
        self._calls.operations.append(made)
        return made

    def _done(self, number: int, operation: Operation) -> None:
        operation.done = number
        self._calls.completes[number].append(operation)

    def _exchange(self, number: int, event: Event) -> None:
        self._done(number, self._begin(number, event, event, "send"))
        words = self._rank.list_of(event)
        if len(words) == 3:
            peer, tag, size = map(signed, words)
            about = event._replace(peer=peer, tag=tag, bytes=size, buffer=event.buffer2 or event.buffer)
            self._done(number, self._begin(number, about, about, "receive"))

    def _complete(self, number: int, event: Event) -> None:
        words = self._rank.list_of(event)
        half = len(words) // 2 if event.flags & MATCHED else len(words)
        handles, sources = words[:half], words[half:]
        if not words and event.buffer2:
            handles = [event.buffer2]
        for handle, word in zip_longest(handles, sources, fillvalue=0):
            if not self._active.get(handle):
                continue
            operation = self._active[handle].pop(0)
            if operation.kind == "receive" and event.flags & MATCHED:
                self._learn(operation, word)
            self._done(number, operation)

    def _learn(self, operation: Operation, word: int) -> None:
        """Take over source and tag of a receive from any source."""
        if operation.peer == ANY:
            operation.peer = self._rank.world_peer(operation.source.comm, signed(word >> 32, 32))
        if operation.tag == ANY:
            operation.tag = signed(word & 0xFFFFFFFF, 32)


def signed(word: int, bits: int = 64) -> int:
    """Return the number of which a word holds the two's complement."""
    return word - (1 << bits) if word >> (bits - 1) & 1 else word


def _match_messages(calls: Calls) -> None:
    sides: dict[str, defaultdict[tuple[int, int, int, int], list[Operation]]]
    sides = {"send": defaultdict(list), "receive": defaultdict(list)}
    for each in chain.from_iterable(rank.operations for rank in calls.ranks.values()):
        if each.peer >= 0 and not each.cancelled and each.kind in sides:
            first, second = (each.rank, each.peer) if each.kind == "send" else (each.peer, each.rank)
            sides[each.kind][first, second, each.comm, each.tag].append(each)
    whole = all(its.trace.finalized and not its.trace.header["dropped"] for its in calls.ranks.values())
    for key, sent in sides["send"].items():
        received = sides["receive"][key]
        pairs = list(zip(sent, received, strict=False))
        # Calls that the trace does not know, or a cancelled receive that had its message, may be in between.
        if (whole and len(sent) != len(received)) or any(0 < other.nbytes < one.nbytes for one, other in pairs):
            continue
        for one, other in pairs:
            one.match, other.match = other, one


def _match_collectives(calls: Calls) -> None:
    found: dict[tuple[int, int], dict[int, Operation]] = {}
    for rank, its in calls.ranks.items():
        numbers: dict[int, int] = {}
        for each in (each for each in its.operations if each.kind not in ("send", "receive")):
            numbers[each.comm] = numbers.get(each.comm, -1) + 1
            found.setdefault((each.comm, numbers[each.comm]), {})[rank] = each
    calls.collectives = [group for (comm, _), group in found.items() if comm >= 0]


def _gaps(calls: Calls) -> Iterator[tuple[bytes, bytes, float]]:
    """Yield two clocks, and the time from what a rank of the first began to what a rank of the second ended later."""
    for its in calls.ranks.values():
        for each in its.operations:
            if each.kind == "receive" and each.match and each.done >= 0:
                theirs = calls.ranks[each.match.rank]
                if len(its.trace.threads) > 1 or len(theirs.trace.threads) > 1:
                    continue  # their order may be another one than that in which MPI took them
                if theirs.trace.clock != its.trace.clock:
                    gap_s = float(its.end_s[each.done] - theirs.begin_s[each.match.post])
                    yield theirs.trace.clock, its.trace.clock, gap_s
    for group in calls.collectives:
        if not all(each.kind == "Barrier" or (each.kind in _ALL_MEET and each.nbytes) for each in group.values()):
            continue
        begun_s: dict[bytes, float] = {}
        ended_s: dict[bytes, float] = {}
        for rank, each in group.items():
            its, clock = calls.ranks[rank], calls.ranks[rank].trace.clock
            begun_s[clock] = max(begun_s.get(clock, -math.inf), float(its.begin_s[each.post]))
            if each.done >= 0:
                ended_s[clock] = min(ended_s.get(clock, math.inf), float(its.end_s[each.done]))
        for first, begin_s in begun_s.items():
            yield from ((first, second, end_s - begin_s) for second, end_s in ended_s.items() if second != first)
