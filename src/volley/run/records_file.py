"""Reading and writing records: one JSON object a line, one or more runs a file.

A run begins with its ``run`` record and ends with its ``end`` record.  A file that was cut anywhere, by a crash or a
full disk, still gives its whole lines; the run that it was cut in is marked incomplete.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Union

import msgspec

from volley.errors import UserError
from volley.run.benchmark import Benchmark
from volley.run.records import COMMON, PLAN_VERSION, RECORD_VERSION, Run
from volley.run.run_log import RecordError, RunLog
from volley.text import count, escape_controls

_ENCODER = msgspec.json.Encoder()
_MOST_SHOWN = 20


class VersionError(RecordError):
    """A record or plan of a version that this volley does not know."""


# ---------------------------------------------------------------------------------------------------- one line


def encode_line(record: Any) -> bytes:
    """Return the record as one line of JSON with its line feed."""
    return _ENCODER.encode(record) + b"\n"


@cache
def _decoder(types: tuple[Any, ...]) -> msgspec.json.Decoder[Any]:
    """Return what reads a record of these types; to make it takes 10 ms, once."""
    return msgspec.json.Decoder(Union[types])  # noqa: UP007  they are known at run time only


class LineReader:
    """Reads the records of some benchmarks."""

    def __init__(self, benchmarks: Sequence[Benchmark]) -> None:
        """Load the record types of the benchmarks."""
        types = [each for benchmark in benchmarks for each in benchmark.record_types]
        self._decoder = _decoder((*COMMON, *dict.fromkeys(types)))
        self._plan_types = {benchmark.name: benchmark.plan_type for benchmark in benchmarks}

    def __call__(self, line: bytes) -> Any:
        """Read one line.

        Raises:
            VersionError: if a newer (or an unknown) version wrote it.
            RecordError: if it is no record; the message gives the JSON path of what is wrong.
        """
        try:
            record = self._decoder.decode(line)
        except msgspec.MsgspecError as error:
            _refuse_versions(_loosely(line))
            raise RecordError(escape_controls(str(error))) from None
        except UnicodeDecodeError:
            raise RecordError("its text is not UTF-8") from None
        except RecursionError:
            raise RecordError("JSON nested too deeply") from None
        plan = {"plan": record.plan.plan} if isinstance(record, Run) else {}
        _refuse_versions({"version": record.version, "plan": plan})
        return self._with_options(record) if isinstance(record, Run) else record

    def _with_options(self, run: Run) -> Run:
        """Give the plan's options the type of their benchmark."""
        type_ = self._plan_types.get(run.plan.benchmark)
        if type_ is None:
            name = escape_controls(run.plan.benchmark)
            raise RecordError(f"there is no benchmark {name!r} - at `$.plan.benchmark`")
        try:
            options = msgspec.convert(run.plan.options, type_)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `$")
            raise RecordError(escape_controls(f"{what} - at `$.plan.options{where or '`'}")) from None
        return msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, options=options))


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
            age, remedy = ("a newer", "upgrade volley to read it") if version > known else ("an older", "measure again")
            raise VersionError(
                f"this was written by {age} volley ({name} version {version}; this one reads {known}): {remedy}"
            )


# ---------------------------------------------------------------------------------------------------- reading


def parse_runs(data: bytes, benchmarks: Sequence[Benchmark], name: str = "records") -> list[RunLog]:
    """Read the runs that ``data`` holds; ``name`` stands for it in messages.

    Lines that cannot be read are left out and named in the ``problems`` of the run they stand in.  A last line that
    lacks its line feed and cannot be read was cut: that makes the run incomplete and is no problem of its own.

    Raises:
        UserError: if there is no record in it, or if any line is of an unknown version; all such lines are named.
    """
    read = LineReader(benchmarks)
    logs: list[RunLog] = []
    refused: list[str] = []
    records = 0
    lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = read(line)
        except VersionError as error:
            refused.append(f"line {number}: {error}")
            continue
        except RecordError as error:
            if number < len(lines):  # the last one was cut
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
    shown = escape_controls(name)
    if not data.strip():
        return f"{shown} is empty: no records were written to it"
    errors = refused or problems or ["it ends within its first line"]
    first = "\n  ".join(errors[:_MOST_SHOWN])
    more = f"\n  and {count(len(errors) - _MOST_SHOWN, 'line')} more" if len(errors) > _MOST_SHOWN else ""
    what = "holds records that this volley cannot read" if refused else "holds no volley records"
    return f"{shown} {what}:\n  {first}{more}"


def read_runs(path: Path | str, benchmarks: Sequence[Benchmark]) -> list[RunLog]:
    """Read the runs of a file; ``-`` stands for standard input.

    Raises:
        UserError: if the file cannot be opened, holds no records, or was written by another version of volley.
    """
    if str(path) == "-":
        return parse_runs(sys.stdin.buffer.read(), benchmarks, "standard input")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {escape_controls(str(path)) or repr(path)}: {error.strerror}") from None
    return parse_runs(data, benchmarks, str(path))


# ---------------------------------------------------------------------------------------------------- writing


class Writer:
    """A records file, opened before anything is measured and written line by line.

    A write that fails is remembered and ends the writing; the run goes on, because its records are in memory too.
    """

    def __init__(self, path: Path | None, descriptor: int, note: str | None = None) -> None:
        self.path = path
        """Where the records are; ``None`` where no place could be found for them."""
        self.note = note
        """What to say about the place, if it is not the one that was expected."""
        self.trouble: str | None = None if path else note
        """Why records are missing from the file."""
        self._descriptor = descriptor
        self._written = 0

    def write(self, line: bytes) -> None:
        """Append one whole line; an earlier file of that name is emptied by the first."""
        if self.trouble:
            return
        try:
            if not self._written:
                _empty(self._descriptor)
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self._written += len(line)
        except OSError as error:
            taken = f"{escape_controls(str(self.path))} took {self._written} bytes of records and no more"
            self.trouble = f"{taken}: {error.strerror}"
            self._drop_cut_line()

    def _drop_cut_line(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._written)

    def close(self) -> None:
        """Close the file; one that nothing was written to does not stay behind."""
        if self.path is None:
            return
        made_for_nothing = not self._written and os.fstat(self._descriptor).st_size == 0
        os.close(self._descriptor)
        if made_for_nothing and self.path.is_file():
            with contextlib.suppress(OSError):
                self.path.unlink()

    def last_line(self) -> str | None:
        """Say where the records are; ``None`` where there were none to keep."""
        if self._written:
            return f"records: {escape_controls(str(self.path))}"
        return "no records were kept" if self.trouble else None


def _empty(descriptor: int) -> None:
    """Forget what the file held; pipes and devices hold nothing."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)


def open_writer(output: Path | None, benchmark: str) -> Writer:
    """Open the file for a run's records: ``output``, or a new one in the user's state folder.

    Raises:
        UserError: if ``output`` cannot be written.
    """
    if output is not None:
        try:
            return Writer(output, os.open(output, os.O_WRONLY | os.O_CREAT, 0o666))
        except OSError as error:
            raise UserError(
                f"cannot write records to {escape_controls(str(output))}: {error.strerror}; name another file with -o, "
                "or leave -o out to keep them in ~/.local/state/volley"
            ) from None
    refusals = []
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path, descriptor = _new_file(folder, benchmark)
        except OSError as error:
            refusals.append(f"{escape_controls(str(folder))}: {error.strerror}")
            continue
        return Writer(path, descriptor, _moved(refusals))
    return Writer(None, -1, f"no folder takes them ({'; '.join(refusals)}); name a file with -o")


def _moved(refusals: list[str]) -> str | None:
    return f"records are kept elsewhere, because of {'; '.join(refusals)}" if refusals else None


def _folders() -> Iterator[Path]:
    """The folders for records, best first: the state folder of the XDG specification, then a temporary one."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        yield Path(state, "volley")
    with contextlib.suppress(RuntimeError):  # nobody knows where home is
        yield Path.home() / ".local" / "state" / "volley"
    from tempfile import mkdtemp  # noqa: PLC0415  start-up: hardly ever needed

    with contextlib.suppress(OSError):
        # A folder of one's own, as others could prepare a file of a known name in a shared one.
        yield Path(mkdtemp(prefix="volley-"))


def _new_file(folder: Path, benchmark: str) -> tuple[Path, int]:
    """Make a file named by local time and benchmark; a number is added where another run began in the same second."""
    stem = f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{benchmark}"
    for number in range(1, 1000):
        path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        with contextlib.suppress(FileExistsError):
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    raise FileExistsError(17, "a thousand runs began in this second", str(folder))
