"""The calls of a trace with their requests, sources and communicators resolved, and each send with its receive.

A receive from any source has the source that MPI said when it was completed.  Messages between two ranks of one
communicator with one tag arrive in the order in which they were sent (MPI 4.1, section 3.5), so the n-th send belongs
to the n-th receive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from volley.records.trace_file import ANY, FAILED, MATCHED, NOBODY, Event, RankTrace, Trace, plain_name

ROOTED = ("Bcast", "Reduce", "Gather", "Gatherv", "Scatter", "Scatterv")
COLLECTIVES = (
    *ROOTED,
    *("Barrier", "Allreduce", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter"),
    *("Reduce_scatter_block", "Scan", "Exscan"),
)
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
    """One entry for each event; the end of a call that did not return is that of the trace."""
    comms: dict[int, int]
    """The common number of each communicator of this rank."""
    operations: list[Operation] = field(default_factory=list)
    completes: dict[int, list[Operation]] = field(default_factory=dict)
    """What each event completed."""


@dataclass
class Calls:
    ranks: dict[int, RankCalls]
    members: list[tuple[int, ...]]
    """Of each communicator, as ranks in MPI_COMM_WORLD."""
    collectives: list[dict[int, Operation]] = field(default_factory=list)
    """Each collective: its operation on each rank."""


def resolve(trace: Trace) -> Calls:
    numbers: dict[tuple[tuple[int, ...], int], int] = {}
    ranks = {rank.rank: _resolve_rank(trace, rank, numbers) for rank in trace.ranks if rank.rank >= 0}
    calls = Calls(ranks, [members for members, _ in numbers])
    _match_messages(calls)
    _match_collectives(calls)
    return calls


def _resolve_rank(trace: Trace, rank: RankTrace, numbers: dict[tuple[tuple[int, ...], int], int]) -> RankCalls:
    comms: dict[int, int] = {}
    seen: dict[tuple[int, ...], int] = {}
    for comm, members in sorted(rank.members.items()):
        # Communicators of the same ranks are made in the same order on all of them: making one is collective.
        key = tuple(members.tolist())
        seen[key] = seen.get(key, -1) + 1
        comms[comm] = numbers.setdefault((key, seen[key]), len(numbers))
    names = [plain_name(rank.names[call]) for call in rank.events["call"].tolist()]
    begin_s, end_s = trace.seconds(rank, rank.events["begin"]), trace.seconds(rank, rank.events["end"])
    if len(end_s):
        unfinished = rank.events["end"] == 0
        end_s[unfinished] = max(begin_s.max(), end_s.max())
    found = RankCalls(rank, names, begin_s, end_s, comms)
    reader = _Reader(found)
    for number, event in enumerate(rank.rows):
        if not event.flags & FAILED:
            reader.read(number, event)
    return found


class _Reader:
    """Follows the requests of one rank through its events."""

    def __init__(self, calls: RankCalls) -> None:
        self._calls = calls
        self._rank = calls.trace
        self._active: dict[int, list[Operation]] = {}
        """By request; MPIs give all messages that are buffered at once the same one."""
        self._persistent: dict[int, tuple[str, Event]] = {}
        self._probed: list[tuple[int, Event]] = []
        """Messages that MPI_Mprobe found: their handles and events."""

    def read(self, number: int, event: Event) -> None:
        name = self._calls.names[number]
        if name in _COMPLETING:
            self._complete(number, event)
        elif name.endswith("_init"):
            self._persistent[event.buffer2] = (kind_of_message(name), event)
        elif name in ("Start", "Startall", "Cancel"):
            self._start(number, event, name)
        elif name in ("Mprobe", "Improbe"):
            self._probed.append((event.buffer2, event))
        elif name in ("Sendrecv", "Sendrecv_replace"):
            self._exchange(number, event)
        elif kind := kind_of_message(name) or collective_of(name):
            operation = self._begin(number, event, kind)
            if name.startswith("I"):
                self._active.setdefault(event.buffer2, []).append(operation)
            else:
                self._done(number, operation)

    def _begin(self, number: int, event: Event, kind: str) -> Operation:
        about = event
        if self._calls.names[number] in ("Mrecv", "Imrecv"):
            about = self._found(event)
        peer = NOBODY if about.peer == NOBODY else self._rank.world_peer(about.comm, about.peer)
        comm = self._calls.comms.get(about.comm, -1)
        made = Operation(self._rank.rank, number, kind, peer, about.tag, comm, event.bytes, source=event)
        self._calls.operations.append(made)
        return made

    def _found(self, event: Event) -> Event:
        """Return the event of the probe that found a message; the last one if MPI_Imrecv has replaced the handle."""
        handles = [handle for handle, _ in self._probed]
        handle = event.buffer2
        place = handles.index(handle) if handle in handles else -1
        return self._probed.pop(place)[1] if self._probed else event

    def _done(self, number: int, operation: Operation) -> None:
        operation.done = number
        self._calls.completes.setdefault(number, []).append(operation)

    def _start(self, number: int, event: Event, name: str) -> None:
        for handle in self._rank.list_of(event):
            if name == "Cancel":
                for each in self._active.get(handle, ()):
                    each.cancelled = True
            elif handle in self._persistent:
                kind, about = self._persistent[handle]
                self._active.setdefault(handle, []).append(self._begin(number, about, kind))

    def _exchange(self, number: int, event: Event) -> None:
        self._done(number, self._begin(number, event, "send"))
        words = self._rank.list_of(event)
        if len(words) == 3:
            peer, tag, size = map(signed, words)
            about = event._replace(peer=peer, tag=tag, bytes=size, buffer=event.buffer2 or event.buffer)
            self._done(number, self._begin(number, about, "receive"))

    def _complete(self, number: int, event: Event) -> None:
        words = self._rank.list_of(event)
        handles, sources = words, [0] * len(words)
        if event.flags & MATCHED:
            handles, sources = words[: len(words) // 2], words[len(words) // 2 :]
        if not words and event.buffer2:
            handles, sources = [event.buffer2], [0]
        for handle, word in zip(handles, sources, strict=True):
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
    sent: dict[tuple[int, int, int, int], list[Operation]] = {}
    received: dict[tuple[int, int, int, int], list[Operation]] = {}
    for each in chain.from_iterable(rank.operations for rank in calls.ranks.values()):
        if each.peer < 0 or each.cancelled or each.kind not in ("send", "receive"):
            continue
        pair = (each.rank, each.peer) if each.kind == "send" else (each.peer, each.rank)
        (sent if each.kind == "send" else received).setdefault((*pair, each.comm, each.tag), []).append(each)
    for key in sent.keys() & received.keys():
        for one, other in zip(sent[key], received[key], strict=False):
            one.match, other.match = other, one


def _match_collectives(calls: Calls) -> None:
    found: dict[tuple[int, int], dict[int, Operation]] = {}
    for rank, its in calls.ranks.items():
        numbers: dict[int, int] = {}
        for each in (each for each in its.operations if each.kind not in ("send", "receive")):
            numbers[each.comm] = numbers.get(each.comm, -1) + 1
            found.setdefault((each.comm, numbers[each.comm]), {})[rank] = each
    calls.collectives = [group for (comm, _), group in found.items() if comm >= 0]
