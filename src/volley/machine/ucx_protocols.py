"""The protocols that UCX chose, read from the tables that it prints.

With ``UCX_PROTO_INFO=y`` UCX (1.15 and later) prints a table for each operation when it first meets it: ranges of
sizes, the protocol of each, and the lanes it takes.  Source: openucx/ucx, src/ucp/proto/proto_debug.c.  Two layouts are
known; a text in another one gives nothing, which is recorded as unknown.  A ``(?)`` before a protocol marks an
estimate: the sender does not know yet what the receiver will do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from volley.units import format_size

VARIABLES = {"UCX_PROTO_INFO": "y"}

_LINE = re.compile(r"^(?P<who>.*?)(?P<row>\|.*\|)\s*$")
_RANGE = re.compile(r"^(\d+)([KMGTPE]?)(?:\.\.(?:(\d+)([KMGTPE]?)|(inf)))?$")
_SEND = re.compile(r"by ucp_tag_send\S* from cuda\b")
_FETCH = re.compile(r"^rendezvous data (fetch|send)\b.*\bcuda\b")
_ESTIMATE = "(?)"
_UNITS = ("", "K", "M", "G", "T", "P", "E")
"""Powers of 1024."""


class SizeRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row: what happens to messages of these sizes."""

    first_bytes: int
    last_bytes: int | None
    """``None``: no limit."""
    protocol: str
    lanes: str
    """The transports and devices it takes, in UCX's words: ``cuda_ipc/cuda``."""
    estimated: bool = False


class ProtocolTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    connection: str
    operation: str
    ranges: list[SizeRange]


class Protocols(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What UCX does with messages in GPU memory; the reason where nothing is known."""

    sends: list[ProtocolTable] = []
    """Tagged sends, one table for each way of calling them."""
    rendezvous: list[ProtocolTable] = []
    """How the data moves after the rendezvous handshake."""
    unknown: str | None = None


def parse(lines: Iterable[str]) -> Protocols:
    """Read the tables about GPU memory out of everything that a job printed."""
    sends: dict[tuple[str, ...], ProtocolTable] = {}
    rendezvous: dict[tuple[str, ...], ProtocolTable] = {}
    for table in _tables(lines):
        if not _whole(table):
            continue
        about = sends if _SEND.search(table.operation) else rendezvous if _FETCH.search(table.operation) else None
        if about is not None:
            operation = re.sub(r"cuda/\S+", "cuda", table.operation)  # both ranks do the same, each with its own GPU
            about.setdefault((_connection_kind(table.connection), operation), table)
    if not sends:
        return Protocols(unknown="UCX printed no table of its sends from GPU memory")
    return Protocols(sends=list(sends.values()), rendezvous=list(rendezvous.values()))


def in_short(lines: Iterable[str]) -> list[str]:
    """Return the ranges of a blocking send to another rank, as ``8247..inf: rendezvous zero-copy, cuda_ipc/cuda``."""
    tables = (table for table in parse(lines).sends if _connection_kind(table.connection) != "self")
    return [
        f"{row.first_bytes}..{'inf' if row.last_bytes is None else row.last_bytes}: {row.protocol}, {row.lanes}"
        for row in next((table.ranges for table in tables), [])
    ]


def sent_by(lines: Iterable[str], memory: str, size_bytes: int, calls: str, *, apart: bool) -> str:
    """Return how a message goes to another rank: ``rendezvous zero-copy read from remote, cma/memory``; empty: unknown.

    Args:
        lines: everything that a job printed.
        memory: ``host`` or ``cuda``.
        size_bytes: of the message.
        calls: how MPI calls UCX for it, ``(fast-completion)``; empty: without a hint.
        apart: the other rank is on another host.
    """
    kind = "inter-node" if apart else "intra-node"
    tables = [
        table
        for table in _tables(lines)
        if _whole(table) and _connection_kind(table.connection) == kind and f" from {memory}" in table.operation
    ]
    sends = [table for table in tables if "by ucp_tag_send" in table.operation]
    sends.sort(key=lambda table: (calls not in table.operation, "(" in table.operation))
    row = _row_of(size_bytes, sends)
    if row is None:
        return ""
    # The side that moves the data reports the lanes of a rendezvous; the sender only estimates them.
    moved = [table for table in tables if table.operation.startswith("rendezvous data")]
    known = _row_of(size_bytes, moved) if row.estimated else None
    return ", ".join(filter(None, (row.protocol, (known or row).lanes)))


def _row_of(size_bytes: int, tables: Sequence[ProtocolTable]) -> SizeRange | None:
    rows = (row for table in tables for row in table.ranges)
    fit = (row for row in rows if row.first_bytes <= size_bytes)
    return next((row for row in fit if row.last_bytes is None or size_bytes <= row.last_bytes), None)


def thresholds(protocols: Protocols) -> dict[str, str]:
    """Return from which size on UCX sends to another rank by which protocol, as ``from 4875 B``.

    The names are ``send (fast-completion) by eager copy-in copy-out``: UCX may decide differently for each way of
    calling it.
    """
    found: dict[str, str] = {}
    for table in protocols.sends:
        if _connection_kind(table.connection) != "self":
            way = re.search(r"\([^()]*\)", table.operation)
            for row in table.ranges:
                name = f"send {way[0]} by {row.protocol}" if way else f"send by {row.protocol}"
                found.setdefault(name, f"from {format_size(row.first_bytes)}")
    return found


def is_line(line: str) -> bool:
    return re.search(r"[|+](?:-+\+|.*\|)\s*$", line) is not None


def unused_variables(lines: Iterable[str]) -> list[str]:
    """Return the variables of which UCX says that nothing used them (``UCX_WARN_UNUSED_ENV_VARS``): they are misspelt,
    or of a transport that is not there."""
    said = (re.sub(r"\(.*?\)", "", line) for line in lines if re.search(r"unused env\w* variables?:", line))
    return sorted({name for line in said for name in re.findall(r"UCX_\w+", line)} - {*VARIABLES})


PLACE = ("stack", "ucx_protocols")
"""Where a plan's ``launch`` has the protocols."""


def _connection_kind(connection: str) -> str:
    """Return ``intra-node`` of ``ucp_context_0 intra-node cfg#1``: each rank numbers its own."""
    return connection.rpartition(" cfg")[0].rpartition(" ")[2]


def _whole(table: ProtocolTable) -> bool:
    """True when the ranges cover every size without a gap: lines may be lost among those of another process."""
    endless = -1
    following = [endless if each.last_bytes is None else each.last_bytes + 1 for each in table.ranges]
    return [0, *following] == [*(each.first_bytes for each in table.ranges), endless]


def _tables(lines: Iterable[str]) -> list[ProtocolTable]:
    """Return the tables: each process prints its own, and their lines may alternate."""
    open_tables: dict[str, tuple[list[str], list[SizeRange]]] = {}
    closed: list[tuple[list[str], list[SizeRange]]] = []
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        # "[1795279265.052477] [host:9015 :0]   | ...": the time differs from line to line
        who = match["who"].strip().partition("] ")[2] or match["who"].strip()
        cells = [cell.strip() for cell in match["row"].strip("|").split("|")]
        titles, ranges = open_tables.setdefault(who, ([], []))
        row = _range(cells)
        if row is not None:
            ranges.append(row)
        elif cells[0] != "Range":
            if ranges:
                closed.append((titles, ranges))
                titles, ranges = open_tables[who] = ([], [])
            titles.extend(cells)
    # A table has two titles, side by side (UCX 1.15) or one below the other (1.20).
    tables = [*closed, *open_tables.values()]
    return [ProtocolTable(titles[-2], titles[-1], ranges) for titles, ranges in tables if len(titles) >= 2 and ranges]


def _range(cells: list[str]) -> SizeRange | None:
    """Read a row of three cells; ``None`` for any other."""
    match = _RANGE.match(cells[0]) if len(cells) == 3 else None
    if match is None:
        return None
    number, unit, last_number, last_unit, endless = match.groups()
    first = int(number) << 10 * _UNITS.index(unit)
    last = None if endless else first if last_number is None else int(last_number) << 10 * _UNITS.index(last_unit)
    estimated = cells[1].startswith(_ESTIMATE)
    return SizeRange(first, last, cells[1].removeprefix(_ESTIMATE).strip(), cells[2], estimated)
