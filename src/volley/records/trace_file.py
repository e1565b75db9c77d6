"""The trace of an application's MPI calls: what ``volley record`` writes and ``explain`` and ``replay`` read.

While the application runs, each rank has a file in a folder (``engine/trace/recorder.c`` has the same structures).
Afterwards they become one file, an ``.npz`` archive, which keeps only what was used.  docs/trace.md has the schema.
"""

from __future__ import annotations

import io
import os
import shlex
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from volley.document import Frozen
from volley.errors import UserError
from volley.files import mistaken, read_bounded, write_file
from volley.text import count, escape_controls, join_words

VERSION = 1
MAX_BYTES = 4 << 30
_MAGIC = b"VOLLEYTR"


class Event(NamedTuple):
    """A call."""

    begin: int
    end: int
    buffer: int
    buffer2: int
    bytes: int
    list: int
    length: int
    peer: int
    tag: int
    comm: int
    call: int
    thread: int
    flags: int
    element: int
    spare: int


_TYPES = ["<u8", "<u8", "<u8", "<u8", "<u8", "<u4", "<u4", "<i4", "<i4", "<u2", "<u2", "u1", "u1", "u1", "u1"]
EVENT = np.dtype([*zip(Event._fields, _TYPES, strict=True)])
THREAD = np.dtype(
    [
        *((name, "<u8") for name in ("current", "since", "polls", "polls_since")),
        *((name, "<u4") for name in ("last", "id")),
        ("spare", "<u8", 3),
        ("event", EVENT),
    ]
)
COUNT = np.dtype(
    [*((name, "<u8") for name in ("calls", "ticks", "spare", "bytes", "on_device", "polls")), ("sizes", "<u8", 48)]
)
PARTNER = np.dtype([(name, "<u8") for name in ("sent", "sent_bytes", "spare", "spare2")])
SAMPLE = np.dtype([*((name, "<u8") for name in ("at", "spare", "delay_ns")), ("thread", "<u4"), ("spare2", "<u4")])
COPY = np.dtype(
    [
        *((name, "<u8") for name in ("begin", "end", "to", "from", "bytes")),
        ("correlation", "<u4"),
        *((name, "u1") for name in ("work", "flags")),
        ("spare", "u1", 2),
    ]
)
COMM = np.dtype([(name, "<u4") for name in ("id", "size", "list", "flags")])
HEADER = np.dtype(
    [
        ("magic", "S8"),
        *((name, "<u4") for name in ("version", "state")),
        *((name, "<i4") for name in ("rank", "size", "pid")),
        ("ticks_are_ns", "<u4"),
        *((name, "<u8") for name in ("tick0", "ns0", "tick1", "ns1")),
        *((name, "<u8") for name in ("n_events", "dropped", "n_words", "n_samples", "n_comms", "n_partners")),
        *((name, "<u8") for name in ("n_threads", "most_events", "most_words", "most_samples")),
        *((f"at_{name}", "<u8") for name in ("names", "counts", "threads", "comms", "samples", "words", "events")),
        ("at_partners", "<u8"),
        *((name, f"S{size}") for name, size in (("host", 64), ("boot", 40), ("library", 256), ("mpi", 128))),
        ("gpu", "u1", 16),
    ]
)
_SECTIONS = {
    "events": EVENT,
    "words": np.dtype("<u8"),
    "samples": SAMPLE,
    "comms": COMM,
    "threads": THREAD,
    "partners": PARTNER,
    "counts": COUNT,
}
"""What the file of a rank has."""
_ARRAYS = {**_SECTIONS, "copies": COPY}
"""What a trace has of a rank: its copies, if there are any, come from a file of their own."""

DEVICE, DEVICE2, IN_PLACE, MATCHED, FAILED, LIST_LOST = (1 << bit for bit in (0, 1, 2, 4, 5, 6))
"""The flags of an event."""
ASYNCHRONOUS, IN_MPI, TO_HOST, TO_GPU = (1 << bit for bit in range(4))
"""The flags of a copy."""
ANY, NOBODY = -1, -2
"""Of peers and tags: any source or tag; ``MPI_PROC_NULL``."""
STATES = ("in MPI_Init", "running", "finalized")


def plain_name(name: str) -> str:
    """Return the name of a call without the mark of its variant for large counts."""
    return name.removesuffix("_c")


class TraceInfo(Frozen, frozen=True, kw_only=True):
    """What ``volley record`` knows of the run."""

    version: int = VERSION
    command: list[str] = []
    started_at: str = ""
    wall_s: float = 0.0
    status: int | None = None
    """The exit status of the command; ``None``: it was stopped."""
    stopped: bool = False
    environment: dict[str, str] = {}
    """Variables of MPI, UCX and CUDA that were set."""
    roll_call: list[str] = []
    """Where the ranks were when the application was stopped or had ended without MPI_Finalize."""
    ended_s: float | None = None
    """When this was, in s since MPI_Init of the first rank; ``None``: unknown."""

    @property
    def application(self) -> str:
        """What was recorded, and when; empty if the recording was cut off."""
        return f"{self.started_at} {' '.join(self.command)}" if self.started_at else ""


@dataclass
class RankTrace:
    """One process that called MPI_Init."""

    header: Any
    names: list[str]
    """The names of the calls, without ``MPI_``, by their numbers."""
    events: Any
    words: Any
    samples: Any
    comms: Any
    threads: Any
    partners: Any
    counts: Any
    copies: Any = field(default_factory=lambda: np.zeros(0, COPY))
    """Calls that copy between host and GPU memory, and what GPUs did for them."""

    @property
    def rank(self) -> int:
        """Its rank in MPI_COMM_WORLD; -1 before MPI_Init has ended."""
        return int(self.header["rank"])

    @property
    def size(self) -> int:
        return int(self.header["size"])

    @property
    def host(self) -> str:
        return bytes(self.header["host"]).decode(errors="replace")

    @cached_property
    def clock(self) -> bytes:
        """What all ranks have in common whose ticks are of one clock."""
        return bytes(self.header["boot"]) + bytes(self.header["host"])

    @property
    def library(self) -> str:
        return bytes(self.header["library"]).decode(errors="replace")

    @property
    def mpi(self) -> str:
        """The first line of MPI_Get_library_version; empty: unknown."""
        return bytes(self.header["mpi"]).decode(errors="replace")

    @property
    def gpu(self) -> str:
        """The UUID of its GPU, in hexadecimal digits; empty: it used none, or it is unknown."""
        return bytes(self.header["gpu"]).hex() if self.header["gpu"].any() else ""

    @property
    def place(self) -> str:
        return f"rank {self.rank}" if self.rank >= 0 else f"process {int(self.header['pid'])} on {self.host}"

    @property
    def finalized(self) -> bool:
        return int(self.header["state"]) == STATES.index("finalized")

    @cached_property
    def members(self) -> dict[int, Any]:
        """The members of each communicator as ranks in MPI_COMM_WORLD, by the number of the communicator; nothing of
        one with two groups."""
        found = {}
        for comm in self.comms:
            begin, size = int(comm["list"]), int(comm["size"])
            if comm["flags"] & 1:
                found[int(comm["id"])] = np.arange(size)
            elif not comm["flags"] & 2 and begin + size <= len(self.words):
                found[int(comm["id"])] = self.words[begin : begin + size].astype(np.int64)
        return found

    def world_peer(self, comm: int, peer: int) -> int:
        """Return a peer of a communicator as rank in MPI_COMM_WORLD; -1 if it is none, or unknown."""
        members = self.members.get(comm)
        return int(members[peer]) if members is not None and 0 <= peer < len(members) else -1

    @cached_property
    def rows(self) -> list[Event]:
        """The events, as Python reads them fast."""
        return [Event(*row) for row in self.events.tolist()]

    def current(self, thread: Any) -> Event | None:
        """Return the event in which a thread is, or was when it ended; ``None`` outside MPI."""
        number = int(thread["current"])
        if number == 1:
            return Event(*thread["event"].tolist())
        return self.rows[number - 2] if 2 <= number < 2 + len(self.rows) else None

    def list_of(self, event: Event) -> list[int]:
        """Return the words of an event: handles of requests, or bytes to each rank."""
        found: list[int] = self.words[event.list : event.list + event.length].tolist()
        return found

    def counted(self) -> dict[str, Any]:
        """Return the counters of the calls that were made, by name."""
        return {name: count for name, count in zip(self.names, self.counts, strict=True) if count["calls"]}


@dataclass
class CallTotal:
    calls: int = 0
    seconds: float = 0.0
    bytes: int = 0
    on_device: int = 0
    """Calls with a buffer in GPU memory."""
    polls: int = 0
    """Calls that found nothing."""
    sizes: Any = field(default_factory=lambda: np.zeros(COUNT["sizes"].shape, np.uint64))
    """Calls with less than 2^n bytes, and not less than 2^(n-1)."""

    @property
    def mean_bytes(self) -> float:
        return self.bytes / self.calls


@dataclass
class Trace:
    info: TraceInfo
    ranks: list[RankTrace]
    name: str = ""
    lost: list[str] = field(default_factory=list)
    """Why ranks could not write a trace, of each of them."""
    shift_s: dict[bytes, float] = field(default_factory=dict)
    """What is added to the times of each clock, where those of several hosts do not agree."""
    _clocks: dict[bytes, tuple[int, int, float]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The ranks of the job, also those without a trace."""
        return max((rank.size for rank in self.ranks), default=0)

    @property
    def why_lost(self) -> str:
        """``2 ranks could not write a file in app.trace.ranks: No space left on device``; else empty."""
        if not self.lost:
            return ""
        whose, reasons = count(len(self.lost), "rank"), join_words(dict.fromkeys(self.lost))
        return f"{whose} could not write a file in {escape_controls(self.name)}: {reasons}"

    @property
    def missing(self) -> list[int]:
        return sorted({*range(self.size)} - {rank.rank for rank in self.ranks})

    @property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(rank.host for rank in self.ranks))

    def _clock(self, rank: RankTrace) -> tuple[int, int, float]:
        """Return a tick, its time in ns and the ns of a tick: one line for all ranks of a host, that of the longest."""
        boot = rank.clock
        if boot not in self._clocks:
            alike = [one.header for one in self.ranks if one.clock == boot]
            longest = max(alike, key=lambda h: int(h["tick1"]) - int(h["tick0"]))
            span = int(longest["tick1"]) - int(longest["tick0"])
            ratio = (int(longest["ns1"]) - int(longest["ns0"])) / span if span > 0 else 1.0
            self._clocks[boot] = int(longest["tick0"]), int(longest["ns0"]), ratio
        return self._clocks[boot]

    @cached_property
    def origin_ns(self) -> int:
        return min((int(rank.header["ns0"]) for rank in self.ranks), default=0)

    def seconds(self, rank: RankTrace, ticks: Any) -> Any:
        """Return ticks of a rank as seconds since MPI_Init of the first rank began."""
        tick0, ns0, ratio = self._clock(rank)
        since = np.asarray(ticks).astype(np.int64) - tick0
        return (since * ratio + (ns0 - self.origin_ns)) * 1e-9 + self.shift_s.get(rank.clock, 0.0)

    def duration(self, rank: RankTrace, ticks: Any) -> float:
        """Return a number of ticks in s."""
        return float(ticks) * self._clock(rank)[2] * 1e-9

    @cached_property
    def ended_s(self) -> float:
        """When the application ended, in s since MPI_Init of the first rank; the last stamp, if this is unknown."""
        if self.info.ended_s is not None:
            return self.info.ended_s
        stamps = ((each, (each.threads["since"], each.events["begin"], each.events["end"])) for each in self.ranks)
        last = ((rank, np.concatenate([*columns, [rank.header["tick1"]]]).max()) for rank, columns in stamps)
        return max((float(self.seconds(*each)) for each in last), default=0.0)

    @cached_property
    def totals(self) -> dict[str, CallTotal]:
        """What all ranks counted, by the names of the calls; the variant for large counts counts as the usual call."""
        found: dict[str, CallTotal] = {}
        for rank in self.ranks:
            for name, each in rank.counted().items():
                into = found.setdefault(plain_name(name), CallTotal())
                into.calls += int(each["calls"])
                into.seconds += self.duration(rank, each["ticks"])
                into.bytes += int(each["bytes"])
                into.on_device += int(each["on_device"])
                into.polls += int(each["polls"])
                into.sizes += each["sizes"]
        return found


# ------------------------------------------------------------------------------------------------- files of ranks


def _read_rank(path: Path) -> RankTrace | None:
    """Read the file of one rank, which may still be written, or end anywhere; nothing if it is none."""
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size >= HEADER.itemsize else np.zeros(0, np.uint8)
    if len(data) < HEADER.itemsize or bytes(data[:8]) != _MAGIC:
        return None
    header = np.array(data[: HEADER.itemsize]).view(HEADER)[0]
    if header["version"] != VERSION:
        raise UserError(f"{escape_controls(str(path))} is a trace of another version of volley")
    names = bytes(data[int(header["at_names"]) : int(header["at_counts"])]).split(b"\0\0")[0].decode().split("\0")
    found = {}
    for name, kind in _SECTIONS.items():
        number = len(names) if name == "counts" else int(header[f"n_{name}"])
        begin = int(header[f"at_{name}"])
        number = min(number, max(len(data) - begin, 0) // kind.itemsize)
        found[name] = np.array(data[begin : begin + number * kind.itemsize]).view(kind)
    begun = np.flatnonzero(found["events"]["begin"])  # the last one may be half written
    found["events"] = found["events"][: begun[-1] + 1 if len(begun) else 0]
    beside = path.with_suffix(".copies")
    if beside.is_file():
        copies = np.fromfile(beside, COPY, count=beside.stat().st_size // COPY.itemsize)
        found["copies"] = copies[copies["end"] > 0]
    return RankTrace(header, names, **found)


def read_folder(folder: Path, info: TraceInfo) -> Trace:
    """Read what the ranks have written so far."""
    files = sorted(folder.glob("*.rank"))
    ranks = [rank for rank in map(_read_rank, files) if rank is not None]
    lost = [os.strerror(int(path.suffixes[-2][1:])) for path in folder.glob("*.[0-9]*.lost")]
    return Trace(info, sorted(ranks, key=lambda rank: (rank.rank, int(rank.header["pid"]))), str(folder), lost)


# --------------------------------------------------------------------------------------------------- the one file


def write_trace(path: Path, trace: Trace) -> None:
    arrays: dict[str, Any] = {"info": np.frombuffer(msgspec.json.encode(trace.info), np.uint8)}
    for number, rank in enumerate(trace.ranks):
        arrays[f"{number}.header"] = np.array([rank.header])
        arrays[f"{number}.names"] = np.frombuffer("\0".join(rank.names).encode(), np.uint8)
        arrays |= {f"{number}.{name}": getattr(rank, name) for name in _ARRAYS}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_file(path, content.getvalue(), "the trace")


def read_trace(name: str) -> Trace:
    """Read a trace: its file, or the folder of a recording that was cut off.

    Raises:
        UserError: if it is no trace.
    """
    shown = escape_controls(name)
    if Path(name).is_dir():
        trace = read_folder(Path(name), TraceInfo())
        if not trace.ranks:
            raise UserError(f"{shown} has no file of a rank: it is no folder of volley record")
        return trace
    if (cut_off := Path(f"{name}.ranks")).is_dir() and not Path(name).exists():
        where = escape_controls(shlex.quote(str(cut_off)))
        raise UserError(f"{shown} was not written, its recording was cut off: name {where}, what its ranks wrote")
    content = read_bounded(name, MAX_BYTES)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        info = msgspec.json.decode(arrays["info"].tobytes(), type=TraceInfo)
        ranks = [_rank_of(arrays, number) for number in range(sum(key.endswith(".header") for key in arrays))]
    except Exception:  # of zip, zlib, NumPy and others: it depends on the damaged byte
        other, what = mistaken(content, shown, "trace"), "no trace of volley record, or it is damaged"
        raise UserError(
            other or f"{shown} is {what if content else 'empty: volley record wrote nothing to it'}"
        ) from None
    return Trace(info, ranks, name)


def _rank_of(arrays: dict[str, Any], number: int) -> RankTrace:
    arrays.setdefault(f"{number}.copies", np.zeros(0, COPY))
    sections = {name: _as(kind, arrays[f"{number}.{name}"]) for name, kind in _ARRAYS.items()}
    given, header = arrays[f"{number}.header"], np.zeros(1, HEADER)
    known = given.dtype.names or ()
    if given.dtype.descr != HEADER.descr[: len(known)]:
        raise ValueError("other structures")
    for name in known:  # a trace of an older volley lacks the last fields
        header[name] = given[name]
    return RankTrace(header[0], arrays[f"{number}.names"].tobytes().decode().split("\0"), **sections)


def _as(kind: Any, given: Any) -> Any:
    """Return an array with the present names of its fields: in a trace of an older volley what is spare has others."""
    if [form for _, *form in given.dtype.descr] != [form for _, *form in kind.descr]:
        raise ValueError("other structures")
    return given.view(kind)
