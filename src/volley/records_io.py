"""Reading and writing records: one JSON object a line, one or more runs a file.

A run begins with its ``run`` record and ends with its ``end`` record.  A file that was cut anywhere, by a crash or a
full disk, still gives its whole lines; the run that it was cut in is marked incomplete.
"""

from __future__ import annotations

import codecs
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from volley.errors import UserError
from volley.records import (
    PLAN_VERSION,
    RECORD_VERSION,
    End,
    Hardware,
    JacobiPoint,
    JacobiProgress,
    MatrixRow,
    NodeGpus,
    NodeRow,
    PingPong,
    Record,
    Run,
    Status,
    StreamPoint,
    Transport,
)
from volley.text import count, harmless

_ENCODER = msgspec.json.Encoder()
_MOST_SHOWN = 20


class RecordError(UserError):
    """A line that is no record of this version; the message says what is wrong with it."""


class VersionError(RecordError):
    """A record or plan of a version that this volley does not know."""


@dataclass
class RunLog:
    """All records of one run, in the order in which they were written."""

    run: Run | None = None
    transports: list[Transport] = field(default_factory=list)
    points: list[PingPong | StreamPoint] = field(default_factory=list)
    rows: list[MatrixRow] = field(default_factory=list)
    """Of matrices."""
    node: NodeGpus | None = None
    """The GPUs of a node's matrices."""
    node_rows: list[NodeRow] = field(default_factory=list)
    jacobi: list[JacobiPoint] = field(default_factory=list)
    end: End | None = None
    hardware: list[Hardware] = field(default_factory=list)
    """What the front read of the GPUs, before and after; empty where it read nothing."""
    problems: list[str] = field(default_factory=list)
    """Sentences about lines that could not be read, with their line numbers where they come from a file."""

    @property
    def complete(self) -> bool:
        """True when the run has its first and its last record and every line between could be read."""
        return self.run is not None and self.end is not None and not self.problems

    @property
    def statuses(self) -> list[Status]:
        """How each measurement ended, whatever its kind: points, cells of a matrix, solutions."""
        cells = [cell.status for row in self.rows for cell in row.cells]
        cells += [cell.status for row in self.node_rows for cell in row.cells]
        return [*(point.status for point in (*self.points, *self.jacobi)), *cells]

    def add(self, record: Record) -> None:
        """Append a record of this run.

        Raises:
            RecordError: if the record does not belong where it comes; it is kept all the same, unless it would take
                the place of an earlier one.
        """
        kind = record.__struct_config__.tag
        late = self.end is not None
        if isinstance(record, Run):
            if self.run is not None:
                raise RecordError("a second run record within one run")
            self.run = record
        elif isinstance(record, Transport):
            self.transports.append(record)
        elif isinstance(record, End):
            if late:
                raise RecordError("a second end record within one run")
            self.end = record
        elif isinstance(record, Hardware):
            self.hardware.append(record)
        elif isinstance(record, NodeGpus):
            self.node = record
        elif isinstance(record, JacobiProgress):
            pass  # for those who waited
        else:
            self._add_result(record)
        if late:
            raise RecordError(f"a {kind} record after the end of its run")
        if self.run is None:
            raise RecordError(f"a {kind} record before any run record")

    def _add_result(self, record: PingPong | StreamPoint | MatrixRow | NodeRow | JacobiPoint) -> None:
        """Append what was measured."""
        if isinstance(record, MatrixRow):
            self.rows.append(record)
        elif isinstance(record, NodeRow):
            self.node_rows.append(record)
        elif isinstance(record, JacobiPoint):
            self.jacobi.append(record)
        else:
            self.points.append(record)

    def take(self, record: Record) -> None:
        """Append a record as :meth:`add` does; one that does not belong where it comes is a problem of the run."""
        try:
            self.add(record)
        except RecordError as error:
            self.problems.append(str(error))


@cache
def decoder() -> msgspec.json.Decoder[Record]:
    """Return what reads a record; to make it takes 10 ms, once."""
    return msgspec.json.Decoder(Record)


def encode_line(record: Record) -> bytes:
    """Return the record as one line of JSON with its line feed."""
    return _ENCODER.encode(record) + b"\n"


def decode_line(line: bytes) -> Record:
    """Read one line.

    Raises:
        VersionError: if a newer (or an unknown) version wrote it.
        RecordError: if it is no record; the message gives the JSON path of what is wrong.
    """
    try:
        record = decoder().decode(line)
    except msgspec.MsgspecError as error:
        _refuse_versions(_loosely(line))
        raise RecordError(harmless(str(error))) from None
    except UnicodeDecodeError:
        raise RecordError("its text is not UTF-8") from None
    except RecursionError:
        raise RecordError("JSON nested too deeply") from None
    _refuse_versions({"version": record.version, "plan": {"plan": record.plan.plan} if isinstance(record, Run) else {}})
    return record


def _loosely(line: bytes) -> Any:
    """Return whatever JSON the line holds, to look for its version; ``None`` where it holds none."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _refuse_versions(document: Any) -> None:
    """Raise a VersionError if the document says that it is of a version other than this volley's."""
    if not isinstance(document, dict):
        return
    plan = document.get("plan")
    for name, version, known in (
        ("records", document.get("version"), RECORD_VERSION),
        ("plan", plan.get("plan") if isinstance(plan, dict) else None, PLAN_VERSION),
    ):
        if isinstance(version, int) and version != known:
            age, remedy = ("a newer", "upgrade volley to read it") if version > known else ("no known", "write it anew")
            raise VersionError(
                f"this was written by {age} volley ({name} version {version}; this one reads {known}): {remedy}"
            )


def parse_runs(data: bytes, name: str = "records") -> list[RunLog]:
    """Read the runs that ``data`` holds; ``name`` stands for it in messages.

    Lines that cannot be read are left out and named in the ``problems`` of the run they stand in.  A last line that
    lacks its line feed and cannot be read was cut: that makes the run incomplete and is no problem of its own.

    Raises:
        UserError: if there is no record in it, or if any line is of an unknown version; all such lines are named.
    """
    logs: list[RunLog] = []
    refused: list[str] = []
    records = 0
    lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cut = number == len(lines)
        try:
            record = decode_line(line)
        except VersionError as error:
            refused.append(f"line {number}: {error}")
            continue
        except RecordError as error:
            if not cut:
                _current(logs).problems.append(f"line {number}: {error}")
            continue
        records += 1
        if isinstance(record, Run):
            logs.append(RunLog())
        try:
            _current(logs).add(record)
        except RecordError as error:
            _current(logs).problems.append(f"line {number}: {error}")
    if refused or not records:
        raise UserError(_refusal(name, refused, [problem for log in logs for problem in log.problems], data))
    return logs


def _current(logs: list[RunLog]) -> RunLog:
    """Return the run that is being read; one without a ``run`` record where none has begun."""
    if not logs:
        logs.append(RunLog())
    return logs[-1]


def _refusal(name: str, refused: list[str], problems: list[str], data: bytes) -> str:
    """Say why nothing of a file can be shown, with all its errors."""
    shown = harmless(name)
    if not data.strip():
        return f"{shown} is empty: no records were written to it"
    errors = refused or problems or ["it ends within its first line"]
    first = "\n  ".join(errors[:_MOST_SHOWN])
    more = f"\n  and {count(len(errors) - _MOST_SHOWN, 'line')} more" if len(errors) > _MOST_SHOWN else ""
    what = "holds records that this volley cannot read" if refused else "holds no volley records"
    return f"{shown} {what}:\n  {first}{more}"


def read_runs(path: Path | str) -> list[RunLog]:
    """Read the runs of a file; ``-`` stands for standard input.

    Raises:
        UserError: if the file cannot be opened, holds no records, or was written by a newer volley.
    """
    if str(path) == "-":
        return parse_runs(sys.stdin.buffer.read(), "standard input")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {harmless(str(path)) or repr(path)}: {error.strerror}") from None
    return parse_runs(data, str(path))
