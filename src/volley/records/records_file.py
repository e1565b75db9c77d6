"""Read and write records files: one JSON object per line, one or more runs per file.

A run begins with its ``run`` record and ends with its ``end`` record.  If a crash or a full disk truncated a file, its
complete lines can still be read; the truncated run is marked incomplete.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import os
import re
import shlex
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Union

import msgspec

from volley.command.commandline import load
from volley.document import PLAN_VERSION, RECORD_VERSION, UNREADABLE, other_version, why_unreadable
from volley.errors import UserError
from volley.files import cannot_write, mistaken, read_bounded, refuse_existing
from volley.records.command_again import options_of
from volley.records.launch_series import count_missing
from volley.records.record_types import COMMON, End, Run
from volley.records.run_log import RecordedBenchmark, RecordError, RunLog
from volley.records.saved_runs import find_file, folders_to_write, is_being_written, keep_name, saved_runs
from volley.text import count, escape_controls, grouped

_ENCODER = msgspec.json.Encoder()
_MAX_SHOWN = 5
MAX_BYTES = 1 << 30


class VersionError(RecordError):
    """A record or plan of another format version."""


# ---------------------------------------------------------------------------------------------------- one line


def encode_line(record: Any) -> bytes:
    return _ENCODER.encode(record) + b"\n"


@cache
def _decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Return a decoder of the common record types and of these; cached, because its construction takes 10 ms."""
    types = (*COMMON, *map(load, names))
    return msgspec.json.Decoder(Union[types])  # noqa: UP007  the types are known only at run time


class LineReader:
    """Reads lines; the record types of several benchmarks are loaded where a run of one or an unknown record is met."""

    def __init__(self, benchmarks: Sequence[RecordedBenchmark]) -> None:
        self._benchmarks = {each.name: each for each in benchmarks}
        self._decoder = _decoder(benchmarks[0].records if len(benchmarks) == 1 else ())

    def _decoded(self, line: bytes) -> Any:
        try:
            return self._decoder.decode(line)
        except msgspec.ValidationError as error:
            if not str(error).endswith("at `$.record`"):
                raise
        self._decoder = _decoder(tuple(name for each in self._benchmarks.values() for name in each.records))
        return self._decoder.decode(line)

    def __call__(self, line: bytes) -> Any:
        try:
            record = self._decoded(line)
        except UNREADABLE as error:
            with contextlib.suppress(*UNREADABLE):
                _refuse_versions(msgspec.json.decode(line))
            text = why_unreadable(error)
            if str(error).endswith("at `$.record`"):
                kind = text.partition("'")[2].partition("'")[0]
                text = f"volley has no record {kind!r}; its files are lines that begin each launch with a record 'run'"
            raise RecordError(text) from None
        return self._with_options(record) if isinstance(record, Run) else record

    def _with_options(self, run: Run) -> Run:
        benchmark = self._benchmarks.get(run.plan.benchmark)
        if benchmark is None:
            name = escape_controls(run.plan.benchmark)
            raise RecordError(f"plan.benchmark: there is no benchmark {name!r}")
        self._decoder = _decoder(benchmark.records)
        try:
            plan = msgspec.structs.replace(run.plan, options=msgspec.convert(run.plan.options, load(benchmark.plan)))
        except msgspec.ValidationError as error:
            raise RecordError(why_unreadable(error, within="plan.options")) from None
        return msgspec.structs.replace(run, plan=plan)


def _refuse_versions(document: Any) -> None:
    if not isinstance(document, dict):
        return
    plan = document.get("plan")
    for name, version, known in (
        ("records", document.get("version"), RECORD_VERSION),
        ("plan", plan.get("plan") if isinstance(plan, dict) else None, PLAN_VERSION),
    ):
        if other := other_version(name, version, known, "measure again"):
            raise VersionError(other)


# ---------------------------------------------------------------------------------------------------- reading


def parse_runs(data: bytes, benchmarks: Sequence[RecordedBenchmark], name: str = "records") -> list[RunLog]:
    """Read the runs in ``data``; messages call it ``name``.

    Invalid lines are left out and listed in the ``problems`` of their run.  An invalid last line without a line feed
    was truncated: it makes the run incomplete and is not listed.  After the end of a launch, another one had begun.
    """
    read = LineReader(benchmarks)
    logs: list[RunLog] = []
    refused: list[str] = []
    records, cut = 0, False
    lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        record, problem = None, ""
        try:
            record = read(line)
        except VersionError as error:
            refused.append(f"line {number}: {error}")
            continue
        except RecordError as error:
            if cut := number == len(lines):  # the last line is truncated
                continue
            problem = f"line {number}: {error}"
        if isinstance(record, Run) or not logs:
            logs.append(RunLog(file=name, number=len(logs) + 1))
        if record is None:
            logs[-1].problems.append(problem)
            continue
        records += 1
        if isinstance(record, Run) and "asked" not in record.plan.launch:  # another program, or an earlier volley
            options = next(each.options for each in benchmarks if each.name == record.plan.benchmark)
            record.plan.launch["asked"] = options_of(record.plan, options)
        logs[-1].add(record, f"line {number}: ")
    shown = escape_controls(name)
    if not data.strip():
        raise UserError(f"{shown} is empty: no records were written to it")
    if refused:
        more = f"\n  and {count(len(refused) - _MAX_SHOWN, 'line')} more" if len(refused) > _MAX_SHOWN else ""
        first = "\n  ".join(refused[:_MAX_SHOWN])
        raise UserError(f"{shown} contains records that this volley cannot read:\n  {first}{more}")
    if not records:
        raise UserError(_no_records(data, shown, [problem for log in logs for problem in log.problems]))
    count_missing(logs)
    if cut and logs[-1].end:
        logs[-1].missing_launches = max(1, logs[-1].missing_launches)
    return logs


def _no_records(data: bytes, shown: str, problems: Sequence[str]) -> str:
    """Say what a file is, if that is known, and what to do instead."""
    if other := mistaken(data, shown, "records"):
        return other
    for words, (program, command) in _OF_OTHERS.items():
        if re.search(words, data[:_LOOK_BYTES]):
            return f"{shown} is {program}, which volley does not read: {command} measures the same"
    why = next(iter(problems), "the file ends within its first line")
    return f"{shown} contains no volley records ({why}): name a file that volley wrote, see volley list"


_LOOK_BYTES = 4096
_OF_OTHERS: dict[bytes, tuple[str, str]] = {
    rb"# OSU .*[Ll]atency": ("the output of OSU's micro-benchmarks", "volley pingpong"),
    rb"# OSU .*(Bandwidth|Bibw)": ("the output of OSU's micro-benchmarks", "volley stream"),
    rb"# OSU ": ("the output of OSU's micro-benchmarks", "volley collective"),
    rb"# nThread \d+ nGpus|#\s+nccl-tests": ("the output of nccl-tests", "volley collective -t nccl"),
    rb"Intel\(R\) MPI Benchmarks|# Benchmarking (PingPong|PingPing)": (
        "the output of Intel's MPI benchmarks",
        "volley pingpong",
    ),
    rb"# Benchmarking \w+": ("the output of Intel's MPI benchmarks", "volley collective"),
    rb'"session_info"': ("a report of ReFrame", "volley pingpong --format json, which ReFrame can run,"),
    rb"^[^{}\n]*\w,[^{}\n]*\w\n[^{}\n]+,[^{}\n]+": ("a table (CSV)", "volley pingpong (its records are the saved run)"),
}
"""How the outputs of other programs begin, what they are, and the command for it."""


def read_runs(path: Path | str, benchmarks: Sequence[RecordedBenchmark]) -> list[RunLog]:
    """Read the runs of a file: a path, ``-`` for standard input, or the id or name of a saved run."""
    data, name = read_file(path)
    logs = parse_runs(data, benchmarks, name)
    logs[-1].running = is_being_written(name)
    return logs


def read_all(words: Sequence[str], benchmarks: Sequence[RecordedBenchmark]) -> tuple[list[RunLog], int]:
    """Read the runs of several files; return them, and how many files hold no records, of which standard error tells.

    Raises:
        UserError: a file cannot be read, or none holds records.
    """
    logs: list[RunLog] = []
    refused: list[UserError] = []
    for word in words:
        find_file(word)
        try:
            logs += read_runs(word, benchmarks)
        except UserError as error:
            refused.append(error)
    if not logs and refused:
        raise refused[0]
    for each in refused:
        print(f"volley: {each}", file=sys.stderr)
    return logs, len(refused)


def without_repeats(logs: Sequence[RunLog], *, quiet: bool = False) -> list[RunLog]:
    """Return each launch once, a complete copy where there is one; standard error says how many are repeated."""
    copies = grouped(logs, lambda log: msgspec.json.encode(log.run) if log.run else id(log))
    repeats = len(logs) - len(copies)
    if repeats and not quiet:
        print(f"volley: the records repeat {count(repeats, 'launch')}, which volley counts once", file=sys.stderr)
    return [max(those, key=attrgetter("complete")) for those in copies.values()]


def read_file(path: Path | str) -> tuple[bytes, str]:
    """Return what is in such a file, and what messages call it."""
    found = find_file(str(path))
    return read_bounded(found, MAX_BYTES), "standard input" if found == "-" else found


class _Kind(msgspec.Struct):
    """The parts of a record that tell its type and whether it is a good point; the rest is skipped."""

    record: str = ""
    status: str = ""


def first_and_last(data: bytes) -> tuple[list[Run], list[End], int, int]:
    """Return the first and the last records of the runs in ``data``, how many of them the front end ended
    (``Writer.hold``), and how many good points follow the last of all; unreadable lines are left out.
    """
    runs: list[Run] = []
    ends: list[End] = []
    points = ended = 0
    kind = msgspec.json.Decoder(_Kind)
    for line in data.splitlines():
        with contextlib.suppress(*UNREADABLE):
            record = kind.decode(line)
            points += record.status == "ok"
            ended += record.record == "launch_times"
            if record.record == "run":
                runs.append(msgspec.json.decode(line, type=Run))
            elif record.record == "end":
                ends.append(msgspec.json.decode(line, type=End))
                points = 0
    return runs, ends, ended, points


class Writer:
    """A records file, opened before the first launch and written line by line.

    After a failed write nothing more is written.  The run continues, because its records are also in memory.
    """

    def __init__(self, path: Path | None, descriptor: int, note: str | None = None, *, created: bool = False) -> None:
        self.path = path
        """The path of the file; ``None`` if no file could be opened."""
        self.note = note
        """A message about the path, if it is not the default."""
        self.trouble: str | None = None if path else note
        """Why records are missing from the file; ``None`` if all are written."""
        self.launches = 0
        self.descriptor = descriptor
        self.held = b""
        """Lost if the run is stopped before the launch that should follow."""
        self._created = created
        self._written = 0

    def hold(self, line: bytes) -> None:
        """Append the last line of a launch before the next line, or at the end: in the file of a run that was killed
        between two launches it is missing."""
        self.held = line

    def write(self, line: bytes) -> None:
        """Append one complete line; the first call truncates an existing file of that name."""
        line, self.held = self.held + line, b""
        if self.trouble:
            return
        try:
            if not self._written:
                _cut(self.descriptor, 0)
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
            self._written += len(line)
        except OSError as error:
            part = f"cannot write more than {self._written} bytes of records to {escape_controls(str(self.path))}"
            self.trouble = f"{part}: {error.strerror}"
            _cut(self.descriptor, self._written)  # drop the last line, which may be a part

    def close(self) -> None:
        """Close the file; delete it if this process created it and wrote nothing."""
        if self.path is None:
            return
        if self.held:
            self.write(b"")
        try:
            os.close(self.descriptor)
        except OSError as error:  # NFS says only now that the disk or the quota is full (close(2))
            reason = f"cannot write all records to {escape_controls(str(self.path))}: {error.strerror}"
            self.trouble = self.trouble or reason
        if self._created and not self._written:
            with contextlib.suppress(OSError):
                self.path.unlink()
                if self.note:  # in a folder made for it
                    self.path.parent.rmdir()

    def command(self) -> str:
        """Return the command line that shows these records again; the short one for the last saved run."""
        if self.path is None:
            return "volley show FILE"
        shown = () if [run.path for run in saved_runs()[:1]] == [self.path] else (str(self.path),)
        return shlex.join(("volley", "show", *shown))

    def lost(self) -> str | None:
        """Return a sentence about what is not in the file; ``None`` if nothing is missing."""
        results = "later results" if self._written else "the results above"
        return f"{self.trouble}; {results} are not saved" if self.trouble else None

    def last_line(self) -> str | None:
        """Return the line that names the records file; ``None`` if there were no records."""
        if self._written:
            return f"records: {escape_controls(str(self.path))}"
        return "no records were saved" if self.trouble else None


def _cut(descriptor: int, length: int) -> None:
    """Truncate the file; pipes and devices cannot be truncated."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, length)


def open_writer(output: Path | None, benchmark: str, *, force: bool = False, name: str = "") -> Writer:
    """Open the file for a run's records: ``output``, or a new one in the user's state folder.

    Only with ``force`` the file may have content.  ``name`` is what the user calls the run; another run of this name is
    an error, and so is a folder that cannot keep the name, or a disk without room for records.
    """
    writer = _open_named(output, force=force) if output else _open_new(benchmark)
    if name and writer.path and writer.path.is_file():
        with _closed_after_error(writer):
            try:
                keep_name(name, writer.path)
            except OSError as error:
                where = f"--name {name} cannot be kept in {escape_controls(str(error.filename))}: {error.strerror}"
                raise UserError(f"{where}; leave --name out, or set XDG_STATE_HOME to another folder") from None
    return writer


def _open_named(output: Path, *, force: bool) -> Writer:
    try:
        created = not os.path.lexists(output)
        writer = Writer(output, os.open(output, os.O_WRONLY | os.O_CREAT, 0o666), created=created)
        with _closed_after_error(writer):
            is_file = stat.S_ISREG(os.fstat(writer.descriptor).st_mode)
            if is_file:
                _lock(writer.descriptor, output)
            refuse_existing(output, force=force)
            if is_file:
                _find_room(writer.descriptor)
    except OSError as error:
        raise cannot_write(output, "records", error) from None
    return writer


def _open_new(benchmark: str) -> Writer:
    refusals: list[str] = []
    for folder in folders_to_write():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path, descriptor = _new_file(folder, benchmark)
            moved = f"records go to another folder: cannot write to {'; '.join(refusals)}" if refusals else None
            writer = Writer(path, descriptor, moved, created=True)
            with contextlib.suppress(OSError):  # a file system without locks; who lists the runs has one for a moment
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            with _closed_after_error(writer):
                _find_room(descriptor)
        except OSError as error:
            refusals.append(f"{escape_controls(str(folder))}: {error.strerror}")
            continue
        return writer
    return Writer(None, -1, f"no folder for records is writable ({'; '.join(refusals)}); name a file with -o")


@contextlib.contextmanager
def _closed_after_error(writer: Writer) -> Iterator[None]:
    try:
        yield
    except (OSError, UserError):
        writer.close()
        raise


_ROOM_BYTES = 1 << 18
"""Of a short run."""


def _find_room(descriptor: int) -> None:
    """Raise OSError where there is no room for records: told now, not after all launches."""
    size = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, size, _ROOM_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # others: a file system that cannot tell
            raise
    finally:
        _cut(descriptor, size)


def _lock(descriptor: int, output: Path) -> None:
    """Keep other runs out of the file until it is closed, also by the end of this process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"another volley is writing its records to {escape_controls(str(output))}: wait for it, or name another "
            "file with -o"
        ) from None
    except OSError:  # a file system without locks
        pass


def _new_file(folder: Path, benchmark: str) -> tuple[Path, int]:
    """Create a file named by local time and benchmark, with a number if another run began in the same second."""
    stem = f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{benchmark}"
    for number in range(1, 1000):
        path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        with contextlib.suppress(FileExistsError):
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    raise FileExistsError(17, "a thousand runs began in this second", str(folder))
