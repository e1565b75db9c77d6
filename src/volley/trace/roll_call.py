"""The roll call: where each rank of an application was, in which call, with whom, and since when."""

from __future__ import annotations

from collections.abc import Iterator

from volley.records.trace_calls import ROOTED, collective_of, signed
from volley.records.trace_file import ANY, DEVICE, NOBODY, Event, RankTrace, Trace, plain_name
from volley.text import count, grouped, join_few
from volley.units import approximate_size, format_duration, numbered

_LISTED = 4
"""Requests of one call, and processes without a number, that are named."""


def roll_call(trace: Trace, at_s: float | None = None) -> list[str]:
    """Return a line for each place at which ranks were; nothing if all ranks had called MPI_Finalize.

    ``at_s`` is the time, in s since MPI_Init of the first rank; ``None``: that at which the application ended, if it is
    known.
    """
    if all(rank.finalized for rank in trace.ranks) and not trace.missing:
        return []
    now_s = trace.info.ended_s if at_s is None else at_s
    found = [(rank, *place) for rank in trace.ranks for place in _places(trace, rank)]
    lines = []
    for (where, after), those in grouped(found, lambda each: each[1:3]).items():
        ranks = [rank.rank for rank, *_ in those if rank.rank >= 0]
        unnumbered = [rank.place for rank, *_ in those if rank.rank < 0]  # these had not left MPI_Init
        who = join_few([*([numbered("rank", ranks)] if ranks else []), *unnumbered], _LISTED)
        since = sorted(max(now_s - since_s, 0.0) for *_, since_s in those if since_s is not None and now_s is not None)
        ends = since[:1] + since[-1:]
        spans = list(dict.fromkeys(format_duration(s) if s >= 0.5 else "less than 1 s" for s in ends))
        did = f"were{where.removeprefix('was')}" if len(those) > 1 and where.startswith("was ") else where
        lines.append(f"{who} {did}{' for ' + ' to '.join(spans) if spans else ''}{after}")
    if trace.missing:
        kept_out = "static or setuid programs, and those to which LD_PRELOAD is not passed on, are not recorded"
        lines.append(f"{numbered('rank', trace.missing)} without a trace: {trace.why_lost or kept_out}")
    return lines


def _places(trace: Trace, rank: RankTrace) -> Iterator[tuple[str, str, float | None]]:
    """Yield where the threads of a rank were, after what, and since when: all that were in MPI, else its first one."""
    if rank.finalized:
        yield "had called MPI_Finalize", "", None
        return
    if rank.header["state"] == 0:
        yield "was in MPI_Init", "", float(trace.seconds(rank, rank.header["tick0"]))
        return
    inside = [(thread, event) for thread in rank.threads if (event := rank.current(thread)) is not None]
    for thread, event in inside:
        polls = int(thread["polls"])
        begin = thread["polls_since"] if polls else event.begin
        yield _call(rank, event, polls), "", float(trace.seconds(rank, begin))
    if not inside and len(rank.threads):
        thread = rank.threads[0]
        if thread["polls"]:
            yield f"polled MPI_{rank.names[thread['last']]}", "", float(trace.seconds(rank, thread["polls_since"]))
            return
        last = rank.names[thread["last"]] if rank.counts["calls"].any() else "Init"
        yield "was outside MPI", f", after MPI_{last}", float(trace.seconds(rank, thread["since"]))


def _call(rank: RankTrace, event: Event, polls: int) -> str:
    name = plain_name(rank.names[event.call])
    if polls:
        return f"polled MPI_{name}"
    text = f"was in MPI_{name}"
    if name.startswith(("Wait", "Start")):
        return text + _requests(rank, event)
    return text + _with_whom(rank, event, name)


def _with_whom(rank: RankTrace, event: Event, name: str) -> str:
    peer, tag, comm = event.peer, event.tag, event.comm
    receives = name.startswith(("Recv", "Irecv", "Probe", "Mprobe"))
    parts = []
    if peer >= 0:
        world = rank.world_peer(comm, peer)
        who = f"rank {world}" if world >= 0 else f"rank {peer} of communicator {comm}"
        rooted = collective_of(name) in ROOTED
        parts.append(f" with root {who}" if rooted else f" {'from' if receives else 'to'} {who}")
        if name.startswith("Sendrecv") and event.length == 3:
            source = rank.world_peer(comm, signed(rank.list_of(event)[0]))
            parts.append(f" and from {f'rank {source}' if source >= 0 else 'any rank'}")
    elif peer in (ANY, NOBODY):
        parts.append(" from any rank" if peer == ANY else " with MPI_PROC_NULL")
    if tag >= 0:
        parts.append(f", tag {tag}")
    if event.bytes:
        size = approximate_size(event.bytes).replace(".00 ", " ")
        parts.append(f", {size}{' on the GPU' if event.flags & DEVICE else ''}")
    if comm and comm in rank.members:
        parts.append(f", communicator {comm} of {count(len(rank.members[comm]), 'rank')}")
    return "".join(parts)


def _requests(rank: RankTrace, event: Event) -> str:
    """Return what the requests of a Wait are: the last call that made each of these handles."""
    handles = rank.list_of(event)
    shown = []
    for handle in handles[:_LISTED]:
        for each in reversed(rank.rows):
            name = plain_name(rank.names[each.call])
            if each.buffer2 == handle and (name.startswith("I") or "_init" in name):
                shown.append(f"MPI_{name}{_with_whom(rank, each, name)}")
                break
    more = f"; and {len(handles) - _LISTED} more" if len(handles) > _LISTED else ""
    return f" of {'; '.join(shown)}{more}" if shown else ""
