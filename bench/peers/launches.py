"""The records of this benchmark: what the machine is, and what each launch came to.  JSON Lines, one record a line."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec


class Machine(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="machine"):
    """Where and how the launches that follow were made; the first line of a session."""

    measured_at: str
    volley: str
    """Its version."""
    cpu: str
    cores: list[list[int]]
    """Of each rank, of volley's and of the other programs' alike."""
    gpus: list[str]
    """Names, rank by rank; empty where the ranks have none."""
    driver: str | None
    """NVIDIA's, where NVML told."""
    mpi: str
    stack: str
    """The software that volley put together for its ranks; other programs with ranks get the same."""
    load: float
    """Load average over a minute at the start."""


class Launch(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="launch"):
    """One launch of one program."""

    comparison: str
    round: int
    """Launches of the same comparison and round stand beside each other."""
    command: str
    """Its name in the table."""
    program: str
    version: str | None = None
    """As the program says it; ``None`` where it does not."""
    words: list[str]
    """The tokens behind the program."""
    environment: dict[str, str] = {}
    """Variables added for it."""
    wall_s: float = 0.0
    """From starting it, launcher included, to its end."""
    status: Literal["ok", "failed"]
    reason: str | None = None
    figures: dict[str, float] = {}
    """Seconds and bytes per second."""


Line = Machine | Launch
_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class Session(msgspec.Struct):
    """The launches of one run of the benchmark."""

    machine: Machine
    launches: list[Launch]


def encode(line: Line) -> bytes:
    """Return the record as a line."""
    return msgspec.json.encode(line) + b"\n"


def sessions(lines: Iterable[bytes]) -> list[Session]:
    """Sort records by session.

    Raises:
        ValueError: if a line is no record, or a launch stands before the first machine.
    """
    found: list[Session] = []
    for line in lines:
        record = _DECODER.decode(line)
        if isinstance(record, Machine):
            found.append(Session(record, []))
        elif found:
            found[-1].launches.append(record)
        else:
            raise ValueError("the records begin with a launch: the machine's line is missing")
    return found


def read(path: Path) -> list[Session]:
    """Read a file of records; the errors are those of ``sessions``."""
    return sessions(path.read_bytes().splitlines())
