"""The lines of records files, and reading them: one JSON object per line, one or more runs per file.

A run begins with its ``run`` record and ends with its ``end`` record.  If a crash or a full disk truncated a file, its
complete lines can still be read; the truncated run is marked incomplete.
"""

from __future__ import annotations

import codecs
import contextlib
import re
import sys
from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Union

import msgspec

from volley.command.commandline import load
from volley.document import PLAN_VERSION, RECORD_VERSION, UNREADABLE, other_version, why_unreadable
from volley.errors import UserError
from volley.files import mistaken, read_bounded
from volley.records.command_again import options_of
from volley.records.launch_series import count_missing
from volley.records.record_types import COMMON, End, Run
from volley.records.run_log import RecordedBenchmark, RecordError, RunLog
from volley.records.saved_runs import find_file, is_being_written
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
