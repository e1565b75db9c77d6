"""Split the time of MPI calls: waiting for a rank that came late, for one that makes no progress, and the rest.

A call that completes a receive waits for a late rank until the send has begun; one that completes a send waits until
the receive was posted, if it ended after that; a call of a collective until the ranks have come on whose data it
depends (the "late sender" and "wait at" patterns of Scalasca).  A rank makes no progress while it is outside MPI with
its side of the message unfinished and the call ends only after it has come back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from volley.records.trace_calls import Calls, Operation, RankCalls
from volley.records.trace_file import NOBODY, RankTrace, Trace, plain_name

Key = TypeVar("Key", bound=Hashable)
LOST_CORE = 0.05
"""The share of its time that a rank is ready to run but has no core, from which its waits are not split."""
PARTS, SMALL_PART, TIMES_OTHERS = 8, 0.01, 2.0
"""The parts of the time in which a rank has to come late to be called late, but those with less than this share of all
waits, and how many times as long as the others (docs/trace.md has error rates)."""
ONLY_COUNTED = "calls that were only counted"
_UNTOLD = (
    *("Probe", "Iprobe", "Mprobe", "Improbe", "Win_", "File_", "Comm_", "Cart_", "Graph_", "Dist_graph_", "Intercomm_"),
    *("Neighbor_", "Ineighbor_", "Put", "Get", "Rput", "Rget", "Accumulate", "Raccumulate", "Fetch_and_op"),
    *("Compare_and_swap",),
)
"""How calls begin that wait for ranks, or may, of which the trace does not tell for which."""
_FROM_ROOT = ("Bcast", "Scatter", "Scatterv")
_TO_ROOT = ("Reduce", "Gather", "Gatherv")
_FROM_LOWER = ("Scan", "Exscan")


@dataclass
class Wait:
    """What one call waited for, in s: of several messages and collectives that it completed, the longest wait."""

    rank: int
    name: str
    partner: int
    late_s: float = 0.0
    absent_s: float = 0.0
    """The partner was outside MPI, with its side of the message unfinished."""
    began_s: float = 0.0


@dataclass
class RankTime:
    """The time of one rank, in s."""

    rank: int
    threads: int
    """Those that call MPI."""
    total_s: float
    """Elapsed time."""
    mpi_s: float
    """Of all its threads together."""
    lost_s: float | None
    """Ready to run, but without a core; ``None``: unknown, of a program that was too short for two samples."""
    told: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Of the calls that are split, by name: how many, and their time in s."""
    late_s: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    """By the rank that was waited for."""
    absent_s: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    without_core_s: float = 0.0
    """Waits of and for ranks without a core."""
    untold: dict[str, float] = field(default_factory=dict)
    """By call: time of which the trace does not tell for whom a rank waited."""
    no_return: list[tuple[str, float]] = field(default_factory=list)
    """The calls that did not return, and their time in s."""

    @property
    def threads_s(self) -> float:
        """The time of all threads that call MPI."""
        return self.total_s * self.threads

    @property
    def open_s(self) -> float:
        return sum(seconds for _, seconds in self.no_return)

    @property
    def has_core(self) -> bool:
        """Whether it is known that the rank was let run."""
        return self.total_s <= 0 or (self.lost_s is not None and self.lost_s / self.total_s < LOST_CORE)

    @property
    def unsplit_s(self) -> float:
        return self.without_core_s + sum(self.untold.values())

    @property
    def rest_s(self) -> float:
        waited = sum(self.late_s.values()) + sum(self.absent_s.values())
        return max(self.mpi_s - waited - self.unsplit_s - self.open_s, 0.0)


@dataclass
class Split:
    ranks: list[RankTime]
    waits: list[Wait]
    own_s: dict[str, float]
    """By the name of a call: its median time without what it waited for, on ranks that had their cores."""

    @property
    def mpi_s(self) -> float:
        return sum(each.mpi_s for each in self.ranks)

    @property
    def total_s(self) -> float:
        """The time of all threads that call MPI."""
        return sum(each.threads_s for each in self.ranks)

    @cached_property
    def told(self) -> dict[str, tuple[int, float]]:
        """Of the calls of all ranks that are split, by name: how many, and their time in s."""
        numbers = added({name: number for name, (number, _) in each.told.items()} for each in self.ranks)
        times = added({name: seconds for name, (_, seconds) in each.told.items()} for each in self.ranks)
        return {name: (int(number), times[name]) for name, number in numbers.items()}

    @cached_property
    def waited_s(self) -> defaultdict[str, float]:
        """How long calls waited for partners, by name."""
        return added({wait.name: wait.late_s + wait.absent_s} for wait in self.waits)

    @cached_property
    def always_late(self) -> set[int]:
        """The ranks that come late in each part of the time in which ranks wait for late ones.

        Ranks with equal work come late in turn.  What disturbs one or makes it slow lasts for a while, so calls that
        follow each other are one observation: the time is cut into ``PARTS``, and a rank has to be waited for
        ``TIMES_OTHERS`` times as long as the others in the mean, in each of them; one disturbance may spoil one part.
        """
        late = [wait for wait in self.waits if wait.late_s]
        begin, end = (bound((wait.began_s for wait in late), default=0.0) for bound in (min, max))
        parts: list[defaultdict[int, float]] = [defaultdict(float) for _ in range(PARTS)]
        for wait in late:
            part = int(PARTS * (wait.began_s - begin) / ((end - begin) or 1.0))
            parts[min(part, PARTS - 1)][wait.partner] += wait.late_s
        least_s = SMALL_PART * sum(wait.late_s for wait in late)
        large = [part for part in parts if sum(part.values()) >= least_s]
        others = max(len(self.ranks) - 1, 1)

        def leads(rank: int, part: Mapping[int, float]) -> bool:
            mine = part.get(rank, 0.0)
            return mine >= TIMES_OTHERS * (sum(part.values()) - mine) / others

        needed = len(large) - len(large) // PARTS
        return {rank for rank in {wait.partner for wait in late} if sum(leads(rank, part) for part in large) >= needed}


def added(parts: Iterable[Mapping[Key, float]]) -> defaultdict[Key, float]:
    """Return the sums of what several mappings have of each key."""
    found: defaultdict[Key, float] = defaultdict(float)
    for key, number in chain.from_iterable(each.items() for each in parts):
        found[key] += number
    return found


def split(trace: Trace, calls: Calls) -> Split:
    unknown = _unknown(calls)
    times = {
        rank.rank: _time_of(trace, rank, calls.ranks[rank.rank], unknown[rank.rank])
        for rank in trace.ranks
        if rank.rank in calls.ranks
    }
    longest: dict[tuple[int, int], Wait] = {}
    for call, wait in chain(_message_waits(calls), _collective_waits(calls)):
        if call in unknown[wait.rank]:
            continue
        before = longest.setdefault((wait.rank, call), wait)
        if wait.late_s + wait.absent_s > before.late_s + before.absent_s:
            longest[wait.rank, call] = wait
    waits = list(longest.values())
    for (rank, number), wait in longest.items():
        wait.began_s = float(calls.ranks[rank].begin_s[number])
    for wait in waits:
        mine, theirs = times[wait.rank], times.get(wait.partner)
        if theirs is None:
            continue
        if not (mine.has_core and theirs.has_core):
            mine.without_core_s += wait.late_s + wait.absent_s
            continue
        if wait.late_s:
            mine.late_s[wait.partner] += wait.late_s
        if wait.absent_s:
            mine.absent_s[wait.partner] += wait.absent_s
    return Split(list(times.values()), waits, _own_s(calls, times, longest))


def _own_s(calls: Calls, times: Mapping[int, RankTime], waits: Mapping[tuple[int, int], Wait]) -> dict[str, float]:
    own_s = {rank: its.end_s - its.begin_s for rank, its in calls.ranks.items() if times[rank].has_core}
    for (rank, number), wait in waits.items():
        if rank in own_s:
            own_s[rank][number] -= wait.late_s + wait.absent_s
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for rank, seconds in own_s.items():
        for name in times[rank].told:
            found[name].append(seconds[calls.ranks[rank].returned[name]])
    return {name: float(np.median(np.concatenate(each))) for name, each in found.items()}


def _unknown(calls: Calls) -> dict[int, set[int]]:
    """Return for each rank the numbers of the calls of which the trace does not tell for whom they wait.

    They completed nothing that is known: a message without its other side, a collective without all its ranks, or
    what no call of the trace began.  What MPI_Bsend sends leaves at a time that the trace does not tell.
    """
    members = calls.members
    whole = {each for group in calls.collectives for each in group.values() if len(group) == len(members[each.comm])}

    def told(operation: Operation) -> bool:
        other = operation.match
        if other is None:
            return operation in whole or operation.peer == NOBODY
        return calls.ranks[other.rank].names[other.post] not in ("Bsend", "Ibsend")

    return {
        rank: {
            *(each for each, name in enumerate(its.names) if name.startswith("Wait") and each not in its.completes),
            *(each for each, done in its.completes.items() if not all(map(told, done))),
        }
        for rank, its in calls.ranks.items()
    }


def _time_of(trace: Trace, rank: RankTrace, calls: RankCalls, unknown: Container[int]) -> RankTime:
    begin, end = (float(trace.seconds(rank, rank.header[name])) for name in ("tick0", "tick1"))
    if len(calls.end_s):
        begin, end = float(calls.begin_s[0]), max(end, float(calls.end_s.max()))
    in_finalize = int(rank.counts["ticks"][rank.names.index("Finalize")])
    if "Finalize" in calls.names:
        end = float(calls.begin_s[calls.names.index("Finalize")])
    else:  # it was not kept, only counted
        end -= trace.duration(rank, in_finalize)
    end = end if rank.finalized else max(end, trace.ended_s)
    opened = [] if rank.finalized else [event for thread in rank.threads if (event := rank.current(thread))]
    no_return = [
        (plain_name(rank.names[event.call]), max(end - float(trace.seconds(rank, event.begin)), 0.0))
        for event in opened
    ]
    ticks = int(rank.counts["ticks"].sum()) - in_finalize
    lost_s = _lost_s(rank, rank.samples[trace.seconds(rank, rank.samples["at"]) <= end])
    if lost_s is None:  # of a short program the last sample is of MPI_Finalize, which may lose the core too
        with_finalize_s = _lost_s(rank, rank.samples)
        lost_s = with_finalize_s if (with_finalize_s or 0.0) < LOST_CORE * (end - begin) else None
    took_s = calls.end_s - calls.begin_s
    mpi_s = trace.duration(rank, ticks)
    told, untold = {}, {}
    for name, those in calls.returned.items():
        if name == "Finalize":
            continue
        tells = np.array([not name.startswith(_UNTOLD) and number not in unknown for number in those.tolist()])
        if tells.any():
            told[name] = int(tells.sum()), float(took_s[those[tells]].sum())
        if not tells.all():
            untold[name] = float(took_s[those[~tells]].sum())
    untold[ONLY_COUNTED] = max(mpi_s - sum(seconds for _, seconds in told.values()) - sum(untold.values()), 0.0)
    return RankTime(
        rank.rank,
        threads=max(len(rank.threads), 1),
        total_s=end - begin,
        mpi_s=mpi_s + sum(seconds for _, seconds in no_return),
        told=told,
        untold=untold,
        lost_s=None if lost_s is None else min(lost_s, end - begin),
        no_return=no_return,
    )


def _lost_s(rank: RankTrace, samples: Any) -> float | None:
    """Return how long a thread was ready to run, but without a core, between its first sample and its last one."""
    delays_ns = (samples["delay_ns"][samples["thread"] == thread] for thread in range(len(rank.threads)))
    return max((1e-9 * (int(each[-1]) - int(each[0])) for each in delays_ns if len(each) > 1), default=None)


# ----------------------------------------------------------------------------------------------------- messages


def _message_waits(calls: Calls) -> Iterator[tuple[int, Wait]]:
    """Yield the number of a call of a rank, and what it waited for."""
    for mine in calls.ranks.values():
        for number, done in mine.completes.items():
            begin, end = float(mine.begin_s[number]), float(mine.end_s[number])
            if not mine.trace.events["end"][number]:
                continue  # it did not return
            found = [_message_wait(calls, each, begin, end) for each in done if each.match is not None]
            if found:
                late_s, absent_s, partner = max(found)
                if late_s or absent_s:
                    yield number, Wait(done[0].rank, mine.names[number], partner, late_s, absent_s)


def _message_wait(calls: Calls, mine: Operation, begin: float, end: float) -> tuple[float, float, int]:
    """Return how long a call waited for the other side of a message: late, absent, and for whom."""
    other = mine.match
    assert other is not None
    theirs = calls.ranks[other.rank]
    posted = float(theirs.begin_s[other.post])
    if mine.kind == "send" and posted > end:
        return 0.0, 0.0, other.rank  # the message was buffered
    late_s = min(max(posted - begin, 0.0), end - begin)
    if other.done < 0 or other.rank == mine.rank:
        return late_s, 0.0, other.rank
    return late_s, _absent_s(theirs, other, begin + late_s, end), other.rank


def _absent_s(theirs: RankCalls, other: Operation, begin: float, end: float) -> float:
    """Return how long the partner was outside MPI within a call, between posting and completing its side, if the call
    ended only after it had come back."""
    first, last = np.searchsorted(theirs.begin_s, (begin, end))
    first, last = max(int(first), other.post + 1), min(int(last), other.done + 1)
    if last <= first or len(theirs.trace.threads) > 1:
        return 0.0
    left = np.maximum(theirs.end_s[first - 1 : last - 1], begin)
    return float(np.maximum(theirs.begin_s[first:last] - left, 0.0).sum())


# --------------------------------------------------------------------------------------------------- collectives


def _collective_waits(calls: Calls) -> Iterator[tuple[int, Wait]]:
    """Yield the number of a call of a rank, and what it waited for: for each collective that the call completed."""
    for group in calls.collectives:
        arrived = {rank: float(calls.ranks[rank].begin_s[each.post]) for rank, each in group.items()}
        for rank, mine in group.items():
            number = mine.done
            its = calls.ranks[rank]
            if number < 0 or not its.trace.events["end"][number]:
                continue
            begin, end = float(its.begin_s[number]), float(its.end_s[number])
            needed = _needed(mine, arrived, end)
            if needed and (last := max(needed, key=arrived.__getitem__)) != rank:
                late_s = min(max(arrived[last] - begin, 0.0), end - begin)
                if late_s:
                    yield number, Wait(rank, its.names[number], last, late_s)


def _needed(mine: Operation, arrived: dict[int, float], end: float) -> list[int]:
    """Return the ranks that must have come before this rank's part of a collective can end."""
    sends = mine.kind in (_FROM_ROOT if mine.peer == mine.rank else _TO_ROOT)
    if sends:  # it may pass on what others send, wait until a receiver comes, or leave early
        return [rank for rank in arrived if arrived[rank] <= end]
    if mine.kind in _FROM_ROOT:
        return [mine.peer] if mine.peer in arrived else []
    if mine.kind in _FROM_LOWER:
        return [rank for rank in arrived if rank <= mine.rank]
    return list(arrived)
