"""From a trace to the program of a replay, which ``engine/src/benchmark/replay.cpp`` reads.

A message is replayed if both of its sides were recorded, a collective if all of its ranks recorded it.  What a call
waits for in the replay, it waited for in the application: so a replay ends wherever the trace was cut.  Receives from
any source name the source that they had, successful tests are waits, persistent requests are made anew each time, data
of derived types is sent as bytes, and a buffered send is a nonblocking one that is completed at the end.  Buffers keep
their places, but where messages in flight would overlap: an application that sends from the buffer into which it has
received has another speed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np

from volley.errors import UserError
from volley.records.trace_calls import Calls, Operation, RankCalls, collective_of
from volley.records.trace_copies import copies_of
from volley.records.trace_file import DEVICE, DEVICE2, LIST_LOST, NOBODY, Trace
from volley.text import join_few

_LARGEST = 2**31 - 1
LEAST_SHOWN = 0.001
"""A smaller share of the time in MPI is not told."""
_LINE = 64
_APART = 1 << 64
"""Added to the address of a message as often as its bytes would overlap another one's that is in flight."""
_MOST_APART = 256
"""Messages that overlap so many others share a place, and are not checked."""
_MESSAGES = ("send", "recv", "isend", "irecv", "wait", "sendrecv")
OPERATION_OF_CALL = {
    **{name: name.lower() for name in ("Barrier", "Reduce", "Allreduce", "Allgather", "Gather", "Scatter")},
    **{name: name.lower() for name in ("Allgatherv", "Gatherv", "Scatterv", "Scan")},
    "Bcast": "broadcast",
    "Alltoall": "all-to-all",
    "Alltoallv": "all-to-allv",
    "Alltoallw": "all-to-allv",
    "Reduce_scatter": "reduce-scatter",
    "Reduce_scatter_block": "reduce-scatter",
}
"""volley's name of each collective that is replayed."""
_OF_RANKS = ("Allgatherv", "Alltoallv", "Alltoallw", "Reduce_scatter", "Gatherv", "Scatterv")
"""Each rank has a size of its own."""
SUMS = "Reduce", "Allreduce", "Scan", "Reduce_scatter", "Reduce_scatter_block"
"""Applications keep them in host memory: few MPIs sum up in GPU memory."""
_CODES = {name: code for code, name in enumerate((*_MESSAGES, *dict.fromkeys(OPERATION_OF_CALL.values())))}
_OF_MESSAGES = {_CODES[name] for name in _MESSAGES if name != "wait"}
_LOCAL = ("Init", "Finalize", "Type_free", "Comm_", "Cart_", "Start", "Request_free", "Cancel")
"""How calls begin that move no data of the application."""
Where = Literal["recorded", "aware", "host", "device"]


class _InFlight:
    """The messages of a rank that have begun and not ended.  Their places do not overlap."""

    def __init__(self) -> None:
        self._places: list[tuple[int, int, int]] = []
        """Their begins and ends, and of sends what their contents are made of; sorted."""
        self._ends: list[tuple[float, tuple[int, int, int]]] = []
        """The calls that complete them; the earliest is first."""

    def add(self, message: Operation, done: float) -> tuple[int, int]:
        """Return how often a message is moved until it overlaps none, at most ``_MOST_APART`` times, and its contents.

        Sends of the same bytes share a place and contents.
        """
        while self._ends and self._ends[0][0] < message.post:
            del self._places[bisect_left(self._places, heappop(self._ends)[1])]
        for apart in range(_MOST_APART):
            low = message.source.buffer + apart * _APART
            high = low + message.nbytes
            before = bisect_left(self._places, (high,))
            begin, end, contents = self._places[before - 1] if before else (0, 0, 0)
            same = message.kind == "send" and contents != 0 and (begin, end) == (low, high)
            if same or end <= low:
                contents = contents if same else id(message)
                taken = low, high, contents if message.kind == "send" else 0
                insort(self._places, taken)
                heappush(self._ends, (done, taken))
                return apart, contents
        return _MOST_APART, id(message)


@dataclass
class ReplayProgram:
    words: list[int]
    """What the engine reads."""
    names: list[str]
    """The calls that are replayed."""
    recorded: dict[str, tuple[int, float]]
    """How often the application made each of them, and its median time, in s."""
    left_out: dict[str, float]
    """What is not replayed, as a share of the time in MPI."""
    span_s: float
    """From the first call that is replayed to the end of the last one, on the rank where that took longest."""
    on_gpus: bool
    """Some buffer is in GPU memory."""
    copied: int
    """Messages that the application copies from or to GPU memory, where this was asked for."""
    unchecked: dict[str, int]
    """Of which messages and results of collectives the data is not checked, and how many those are."""


class _Side(NamedTuple):
    """What a rank sends or receives in a step, in the order in which the engine reads it."""

    peer: int = -1
    """Or the root."""
    tag: int = 0
    nbytes: int = 0
    address: int = 0
    seed: int = 0
    sent: int = 0
    """The bytes that are sent."""
    on_device: int = 0
    """1 in GPU memory."""


@dataclass(slots=True)
class _Step:
    """A call of a rank, in the order in which the engine reads it."""

    code: int
    name: int
    comm: int
    gap_ns: int
    element: int
    slot: int
    """Of the request; -1: there is none."""
    sides: Sequence[_Side]
    numbers: Sequence[int]

    @property
    def buffers(self) -> Sequence[_Side]:
        """The sides whose address is of the application: those of messages."""
        return self.sides if self.code in _OF_MESSAGES else ()

    def words(self, places: Sequence[_Places]) -> list[int]:
        """Return what the engine reads, with addresses replaced by places."""
        sides = self.sides
        if self.buffers:
            sides = [each._replace(address=places[each.on_device].of(each.address)) for each in sides]
        head = [self.code, self.name, self.comm, self.gap_ns, self.element, self.slot]
        return [*head, *chain.from_iterable(sides), len(self.numbers), *self.numbers]


@dataclass
class _Rank:
    calls: RankCalls
    steps: list[_Step] = field(default_factory=list)
    slots: dict[int, int] = field(default_factory=dict)
    """The slot of the request of each active operation, by its identity."""
    free: list[int] = field(default_factory=list)
    """Slots that were used: as in most applications, few requests are used again and again."""
    most_slots: int = 0
    scratch_bytes: list[int] = field(default_factory=lambda: [0, 0])
    emitted: list[int] = field(default_factory=list)
    """The number of the event of each step."""


def build(trace: Trace, calls: Calls, memory: Where = "recorded") -> ReplayProgram:
    """Return the program of a trace, with all buffers in one ``memory``, or each where it was recorded; ``aware``: in
    GPU memory also what the application copied from there to send it, or there when it had received it, but sums.

    Raises:
        UserError: if it cannot be replayed.
    """
    if why := why_not(trace, calls):
        raise UserError(f"{trace.name} cannot be replayed: {why}")
    return _Builder(trace, calls, memory).build()


def why_not(trace: Trace, calls: Calls) -> str:
    """Return why a trace cannot be replayed; an empty text if it can."""
    if trace.missing:
        return f"it lacks ranks {trace.missing}"
    if any(len(rank.trace.threads) > 1 for rank in calls.ranks.values()):
        return "several threads of a rank call MPI"
    operations = chain.from_iterable(rank.operations for rank in calls.ranks.values())
    messages = (each for each in operations if each.kind in ("send", "receive"))
    if any(map(_is_replayed, messages)) or any(_is_whole(calls, group) for group in calls.collectives):
        return ""
    seconds = _counted_s(trace)
    all_s = sum(seconds.values())
    shares = {name: each / all_s for name, each in seconds.items() if each and _communicates(name)}
    most = sorted(((share, name) for name, share in shares.items() if share >= LEAST_SHOWN), reverse=True)
    named = join_few(f"MPI_{name} {100 * share:.0f} %" for share, name in most)
    return "it has no call that a replay repeats" + (f" ({named} of the time in MPI)" if named else "")


def _counted_s(trace: Trace) -> dict[str, float]:
    """Return the time of all calls of each name in s, kept or only counted."""
    return {name: each.seconds for name, each in trace.totals.items() if name != "Finalize"}


def _is_whole(calls: Calls, group: dict[int, Operation]) -> bool:
    """Whether all ranks made the same call, of sizes that fit together."""
    first = next(iter(group.values()))
    members = calls.members[first.comm]
    names = {calls.ranks[rank].names[each.post] for rank, each in group.items()}
    if len(group) != len(members) or len(names) != 1 or first.kind not in OPERATION_OF_CALL:
        return False
    if max(each.nbytes for each in group.values()) * len(members) > _LARGEST:
        return False
    if first.kind not in _OF_RANKS:
        return len({each.nbytes for each in group.values()}) == 1
    rooted = first.kind in ("Gatherv", "Scatterv")
    known = (each.source for each in group.values() if not rooted or each.rank == each.peer)
    return all(each.length >= len(members) and not each.flags & LIST_LOST for each in known)


class _Builder:
    def __init__(self, trace: Trace, calls: Calls, memory: Where) -> None:
        self._trace, self._calls, self._memory = trace, calls, memory
        copies = copies_of(trace, calls) if memory == "aware" else []
        self._copied = {id(each) for those in copies for each in those.operations if each.kind not in SUMS}
        self._names: dict[str, int] = {}
        self._comms: dict[int, int] = {}
        """The communicators that are used: their number in the replay, by that in the trace."""
        self._tags: dict[int, int] = {}
        """Those of messages, in the same way: the largest tag of one MPI is too large for another."""
        whole = (group for group in calls.collectives if _is_whole(calls, group))
        self._whole = {id(each): group for group in whole for each in group.values()}
        """The operations of all ranks that belong to one, by its identity."""
        self._unchecked: dict[int, str] = {}
        """Why the data of an operation is not checked, by its identity."""
        self._counts: dict[str, int] = {}
        self._apart: dict[int, int] = {}
        """What is added to the address of a message."""
        self._contents: dict[int, int] = {}
        """The identity of the send whose contents a send has."""
        self._seeds: dict[int, int] = {}
        self._on_gpus = memory == "device"

    def build(self) -> ReplayProgram:
        for each in self._calls.ranks.values():
            self._find_places(each)
        ranks: list[_Rank] = []
        durations: dict[str, list[Any]] = {}
        left_out: dict[str, float] = {}
        for _, calls in sorted(self._calls.ranks.items()):
            rank = _Rank(calls)
            self._emit_rank(rank)
            ranks.append(rank)
            took_s = calls.end_s - calls.begin_s
            for name, numbers in calls.returned.items():
                kept = np.isin(numbers, rank.emitted)
                durations.setdefault(name, []).append(took_s[numbers[kept]])
                if _communicates(name) and not kept.all():
                    before_s = left_out.get(f"MPI_{name}", 0.0)
                    left_out[f"MPI_{name}"] = before_s + float(took_s[numbers[~kept]].sum())
        recorded_s = {name: np.concatenate(durations.get(name, [np.zeros(1)])) for name in self._names}
        counted_s = _counted_s(self._trace)
        if any(rank.header["dropped"] for rank in self._trace.ranks):
            known_s = sum(float(each.sum()) for each in recorded_s.values()) + sum(left_out.values())
            all_s = sum(seconds for name, seconds in counted_s.items() if _communicates(name))
            left_out["calls that were only counted"] = max(all_s - known_s, 0.0)
        words = [self._written(rank) for rank in ranks]
        replayed = ((each.calls, each.emitted) for each in ranks if each.emitted)
        return ReplayProgram(
            [*map(len, words), *chain.from_iterable(words)],
            list(self._names),
            {name: (len(those), float(np.median(those))) for name, those in recorded_s.items()},
            {name: seconds / sum(counted_s.values()) for name, seconds in left_out.items() if seconds},
            max(float(calls.end_s[numbers[-1]] - calls.begin_s[numbers[0]]) for calls, numbers in replayed),
            self._on_gpus,
            len(self._copied),
            self._counts,
        )

    # ---------------------------------------------------------------------------------------------- verification

    def _find_places(self, rank: RankCalls) -> None:
        """Give a message another place where it would overlap one in flight: data of derived types is sent without its
        gaps, which the other one may be in.  Sends of the same bytes share a place and contents.  Note what is not
        checked."""
        in_flight = _InFlight()
        collective: tuple[float, int] = (-1, 0)
        """Of those in flight the one that ends last."""
        for mine in rank.operations:
            done = mine.done if mine.done >= 0 else inf
            if id(mine) in self._whole and mine.kind != "Barrier":
                if collective[0] >= mine.post:
                    self._do_not_check("collectives in flight together", collective[1], id(mine))
                collective = max(collective, (done, id(mine)))
            if mine.kind not in ("send", "receive") or mine.peer == NOBODY or not mine.nbytes or not _is_replayed(mine):
                continue
            if _is_buffered(rank, mine):
                self._do_not_check("buffered sends", id(mine))
                continue
            apart, self._contents[id(mine)] = in_flight.add(mine, done)
            self._apart[id(mine)] = apart * _APART
            if apart == _MOST_APART:
                self._do_not_check(f"messages that overlap {_MOST_APART} others in flight", id(mine))

    def _do_not_check(self, why: str, *those: int) -> None:
        self._unchecked |= dict.fromkeys(those, why)

    def _seed(self, those: Iterable[Operation], *, arrives: bool) -> int:
        """Return the seed of the contents of these operations, which belong together; 0: they are not checked."""
        known = [id(each) for each in those]
        for why in filter(None, map(self._unchecked.get, known)):
            self._counts[why] = self._counts.get(why, 0) + arrives
            return 0
        return self._seeds.setdefault(self._contents.get(known[0], known[0]), len(self._seeds) + 1)

    # ----------------------------------------------------------------------------------------------------- steps

    def _emit_rank(self, rank: _Rank) -> None:
        posted: dict[int, list[Operation]] = {}
        for each in rank.calls.operations:
            posted.setdefault(each.post, []).append(each)
        last_end: float | None = None
        for number, name in enumerate(rank.calls.names):
            before = len(rank.steps)
            gap_s = float(rank.calls.begin_s[number]) - last_end if last_end is not None else 0.0
            gap_ns = max(int(gap_s * 1e9), 0)
            if number in posted:
                self._post(rank, number, name, posted[number], gap_ns)
            elif number in rank.calls.completes:
                known = [each for each in rank.calls.completes[number] if id(each) in rank.slots]
                done = [rank.slots.pop(id(each)) for each in known if not _is_buffered(rank.calls, each)]
                rank.free += done
                if done:
                    self._step(rank, number, "wait", gap_ns, numbers=done)
            if len(rank.steps) > before:
                last_end = float(rank.calls.end_s[number])
        if rank.slots:  # requests that were freed, or not completed when the trace ended
            self._step(rank, rank.emitted[-1], "wait", 0, numbers=rank.slots.values())

    def _post(self, rank: _Rank, number: int, name: str, those: list[Operation], gap_ns: int) -> None:
        if collective_of(name):
            if id(those[0]) in self._whole:
                self._collective(rank, number, those[0], gap_ns)
            return
        known = [each for each in those if _is_replayed(each)]
        if name.startswith("Sendrecv"):
            sides = [self._side(each) if each in known else _Side() for each in those]
            if known:
                self._step(rank, number, "sendrecv", gap_ns, [*sides, _Side()][:2], comm=those[0].comm)
            return
        for each in known:
            code = "send" if each.kind == "send" else "recv"
            blocking = each.done == number and not _is_buffered(rank.calls, each)
            code = code if blocking else f"i{code}"
            self._step(rank, number, code, gap_ns, [self._side(each)], comm=each.comm)
            if not blocking:
                self._slot(rank, each)
            gap_ns = 0

    def _collective(self, rank: _Rank, number: int, mine: Operation, gap_ns: int) -> None:
        members = self._calls.members[mine.comm]
        lists, nbytes = rank.calls.trace.list_of(mine.source), mine.nbytes
        if mine.kind in ("Allgatherv", "Gatherv", "Scatterv") and lists:
            nbytes = lists[members.index(mine.rank)]
        elif mine.kind == "Reduce_scatter":
            nbytes, lists = sum(lists) // len(members), []
        elif mine.kind.startswith("Alltoall") and lists:
            lists = lists if len(lists) == 2 * len(members) else [*lists, *lists]
        place, room = self._on_device(mine), rank.scratch_bytes
        room[place] = max(room[place], (nbytes + 8) * len(members), sum(lists), 1)
        seed = 0 if mine.kind == "Barrier" else self._seed(self._whole[id(mine)].values(), arrives=True)
        root = members.index(mine.peer) if mine.peer in members else -1
        side = _Side(root, nbytes=nbytes, seed=seed, on_device=place)
        code, element = OPERATION_OF_CALL[mine.kind], mine.source.element
        self._step(rank, number, code, gap_ns, [side], numbers=lists, comm=mine.comm, element=element)
        if mine.done != number:
            self._slot(rank, mine)

    @staticmethod
    def _slot(rank: _Rank, mine: Operation) -> None:
        """Give the request of the latest step a slot."""
        if not rank.free:
            rank.free.append(rank.most_slots)
            rank.most_slots += 1
        rank.steps[-1].slot = rank.slots[id(mine)] = rank.free.pop()

    def _step(
        self,
        rank: _Rank,
        number: int,
        code: str,
        gap_ns: int,
        sides: Sequence[_Side] = (_Side(),),
        *,
        numbers: Collection[int] = (),
        comm: int | None = None,
        element: int = 0,
    ) -> None:
        name = self._names.setdefault(rank.calls.names[number], len(self._names))
        used = 0 if comm is None else self._comms.setdefault(comm, len(self._comms))
        rank.steps.append(_Step(_CODES[code], name, used, gap_ns, element, -1, sides, tuple(numbers)))
        rank.emitted.append(number)

    def _side(self, mine: Operation) -> _Side:
        sent = mine.nbytes if mine.kind == "send" or mine.match is None else mine.match.nbytes
        peer = -1 if mine.peer == NOBODY else self._calls.members[mine.comm].index(mine.peer)
        seed, arrives = 0, mine.kind == "receive"
        if mine.match:
            seed = self._seed((mine.match, mine) if arrives else (mine, mine.match), arrives=arrives)
        address = mine.source.buffer + self._apart.get(id(mine), 0)
        tag = self._tags.setdefault(mine.tag, len(self._tags))
        return _Side(peer, tag, mine.nbytes, address, seed, sent, self._on_device(mine))

    def _on_device(self, mine: Operation) -> int:
        """Return 1 if the buffer is in GPU memory, else 0."""
        if self._memory in ("host", "device"):
            return int(self._memory == "device")
        second = mine.kind == "receive" and mine.source.length == 3 and mine.source.buffer2  # of MPI_Sendrecv
        flags = DEVICE2 if second else DEVICE if mine.kind in ("send", "receive") else DEVICE | DEVICE2
        on_gpu = mine.source.flags & flags != 0 or id(mine) in self._copied
        self._on_gpus |= on_gpu
        return int(on_gpu)

    def _written(self, rank: _Rank) -> list[int]:
        """Return the words of a rank, with addresses replaced by places in its arena."""
        members = (self._calls.members[comm] for comm in self._comms)
        own = [those if rank.calls.trace.rank in those else () for those in members]
        buffers = [side for step in rank.steps for side in step.buffers]
        places = [
            _Places((each.address, max(each.nbytes, each.sent)) for each in buffers if each.on_device == place)
            for place in (0, 1)
        ]
        body = [len(own), *(word for those in own for word in (len(those), *those))]
        body += [*(each.bytes for each in places), *rank.scratch_bytes, max(rank.most_slots, 1), len(rank.steps)]
        for step in rank.steps:
            body += step.words(places)
        return body


def _communicates(name: str) -> bool:
    return not name.startswith(_LOCAL) and "_init" not in name


def _is_replayed(mine: Operation) -> bool:
    if mine.nbytes > _LARGEST or mine.comm < 0:
        return False
    if mine.peer == NOBODY:
        return True
    if mine.match is None or mine.match.nbytes > _LARGEST:
        return False
    sent, received = (mine, mine.match) if mine.kind == "send" else (mine.match, mine)
    return sent.nbytes <= received.nbytes


def _is_buffered(rank: RankCalls, mine: Operation) -> bool:
    """Whether MPI copies the message and the sender need not wait for a receive, however long the message is."""
    return rank.trace.names[mine.source.call].startswith(("Bsend", "Ibsend"))


class _Places:
    """Maps the buffers of an application into one block: buffers that overlap still do."""

    def __init__(self, buffers: Iterable[tuple[int, int]]) -> None:
        self._begins: list[int] = []
        self._at: list[int] = []
        self.bytes, end = 0, -1
        for begin, size in sorted(set(buffers)):
            if begin > end:
                self._begins.append(begin)
                self._at.append(-(-self.bytes // _LINE) * _LINE + begin % _LINE)
                self.bytes, end = self._at[-1], begin
            if begin + size > end:
                self.bytes += begin + size - end
                end = begin + size
        self.bytes = max(self.bytes, len(self._begins) and 1)

    def of(self, address: int) -> int:
        place = bisect_right(self._begins, address) - 1
        return self._at[place] + address - self._begins[place]
