import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from example_records import EXAMPLES, PLAN_FILES, RECORD_FILES, golden, log, pingpong, run, transport
from the_session import read_runs
from volley.benchmarks import BENCHMARKS, named
from volley.benchmarks.pair.results import PingPong
from volley.command.commandline import load
from volley.errors import UserError
from volley.records import records_file
from volley.records.plan import Plan
from volley.records.record_types import End, Run, Transport
from volley.records.records_file import LineReader, VersionError, encode_line, without_repeats
from volley.records.run_log import RecordError, RunLog

SCHEMA = EXAMPLES.parent
names = pytest.mark.parametrize("path", RECORD_FILES, ids=lambda path: path.stem)
decode_line = LineReader(BENCHMARKS)


def parse_runs(data: bytes, name: str = "records") -> list[RunLog]:
    return records_file.parse_runs(data, BENCHMARKS, name)


# ------------------------------------------------------------------------------------------ golden examples


@names
def test_golden_records_follow_the_schema(path: Path) -> None:
    validator = Draft202012Validator(json.loads((SCHEMA / "record.schema.json").read_text()))
    for line in path.read_bytes().splitlines():
        validator.validate(json.loads(line))


@pytest.mark.parametrize("path", PLAN_FILES, ids=lambda path: path.stem)
def test_golden_plans_follow_the_schema_and_are_plans(path: Path) -> None:
    Draft202012Validator(json.loads((SCHEMA / "plan.schema.json").read_text())).validate(json.loads(path.read_bytes()))
    plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    msgspec.convert(plan.options, load(named(plan.benchmark).plan))


@names
def test_golden_lines_are_what_is_written_for_the_records_in_them(path: Path) -> None:
    """The engine and the front end write some numbers differently: 9.5e-8 and 9.5e-08.  What only newer or
    only older records have is null or an empty list."""
    for line in path.read_bytes().splitlines():
        assert said(json.loads(encode_line(decode_line(line)))) == said(json.loads(line))


def said(value: Any) -> Any:
    """Return a document without its nulls and empty lists."""
    if isinstance(value, list):
        return [said(each) for each in value]
    if isinstance(value, dict):
        return {name: said(each) for name, each in value.items() if each not in ([], None)}
    return value


# ------------------------------------------------------------------------------------------ cut anywhere


def _shape(logs: list[RunLog]) -> list[tuple[bool, int, int, bool]]:
    return [(one.run is not None, len(one.transports), len(one.records), one.end is not None) for one in logs]


def _shortened(data: bytes) -> bytes:
    """Two runs at most, with two records of a kind in each, and two cells in a row."""
    lines: list[bytes] = []
    kinds: Counter[str] = Counter()
    for line in data.splitlines():
        record = json.loads(line)
        kind = record["record"]
        if kind == "run":
            kinds = Counter({"run": kinds["run"]})
        kinds[kind] += 1
        if kinds["run"] > 2 or (kind != "run" and kinds[kind] > 2):
            continue
        if "cells" in record:
            record["cells"] = record["cells"][:2]
        lines.append(msgspec.json.encode(record) + b"\n")
    return b"".join(lines)


@names
def test_a_file_cut_anywhere_gives_its_whole_lines(path: Path) -> None:
    data = _shortened(path.read_bytes())
    assert not any(one.problems for one in parse_runs(data))
    ends = [0, *(place + 1 for place, byte in enumerate(data) if byte == ord("\n"))]
    near_ends = {end + off for end in ends for off in (-2, -1, 0, 1)}
    cuts = sorted(near_ends.union(range(1, len(data), max(1, len(data) // 60))) & set(range(1, len(data))))
    for cut in cuts:
        part = data[:cut]
        # A line that lacks nothing but its line feed is whole.
        whole = max(end for end in ends if end <= cut + 1)
        if whole == 0:
            with pytest.raises(UserError, match="ends within its first line"):
                parse_runs(part)
            continue
        logs = parse_runs(part)
        assert _shape(logs) == _shape(parse_runs(data[:whole]))
        assert not any(one.problems for one in logs)
        if cut < len(data) - 1:
            assert not all(one.complete for one in logs) or _ends_a_run(data[:whole])


def _ends_a_run(data: bytes) -> bool:
    return b'"record":"end"' in data.rstrip(b"\n").rpartition(b"\n")[2]


# ---------------------------------------------------------------------------------- what can be in a file


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_a_sentence(data: bytes) -> None:
    try:
        assert parse_runs(data)
    except UserError as refusal:
        sentence = str(refusal)
    else:
        return
    assert sentence.startswith("records ")


def test_a_byte_order_mark_costs_nothing() -> None:
    data = (EXAMPLES / "pingpong-host.jsonl").read_bytes()
    assert parse_runs(b"\xef\xbb\xbf" + data) == parse_runs(data)


@given(st.lists(st.one_of(st.just(b"x"), st.binary(max_size=9)), max_size=3), st.integers(0, 3))
def test_rubbish_between_lines_costs_nothing_but_itself(rubbish: list[bytes], place: int) -> None:
    lines = (EXAMPLES / "pingpong-host.jsonl").read_bytes().splitlines()
    broken = [line.replace(b"\n", b"") for line in rubbish]
    logs = parse_runs(b"\n".join([*lines[: place + 1], *broken, *lines[place + 1 :]]) + b"\n")
    assert _shape(logs) == _shape(golden("pingpong-host"))
    assert len(logs[0].problems) == sum(bool(line.strip()) for line in broken)
    assert logs[0].complete == (not logs[0].problems)


def test_all_errors_of_a_file_are_named_with_their_lines() -> None:
    lines = (EXAMPLES / "pingpong-host.jsonl").read_bytes().splitlines()
    lines[2] = b'{"record":"transport","transport":1}'
    lines[4] = b"{"
    lines[5] = b'{"record":"pingpong","nonsense":true}'
    (one,) = parse_runs(b"\n".join(lines) + b"\n")
    assert [problem.partition(":")[0] for problem in one.problems] == ["line 3", "line 5", "line 6"]
    assert "transport must be text, and is a whole number" in one.problems[0]


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"", r"^a\.txt is empty"),
        (b" \n\n", r"^a\.txt is empty"),
        (b"Dear all,\n\nthere\n", r"^a\.txt contains no volley records \(line 1: no JSON: .*see volley list$"),
        (b'{"version": 1}\n' * 100, "and 95 lines more"),
        (b'{"record":"transport","facts":{"x":' + b"[" * 100_000 + b"\n", "nested too deeply"),
        (b'{"record":"\\u001b[31mred"}\n', r"\\x1b\[31mred"),
    ],
)
def test_what_holds_no_records_is_refused_in_a_sentence(data: bytes, refusal: str) -> None:
    with pytest.raises(UserError, match=refusal):
        parse_runs(data, "a.txt")


# ------------------------------------------------------------------------------------------------- versions


@pytest.mark.parametrize(
    ("record", "now", "then", "refusal"),
    [
        (pingpong([1.0]), b'"version":2', b'"version":3,"news":[1]', r"newer .*records version 3, .* 2\): upgrade"),
        (pingpong([1.0]), b'"version":2', b'"version":3', "a newer volley"),  # even where it could be read
        (pingpong([1.0]), b'"version":2', b'"version":1', "an older volley"),
        (run(), b'"plan":{"plan":2', b'"plan":{"plan":7', "plan version 7"),
    ],
)
def test_another_version_is_refused_with_a_remedy(record: Any, now: bytes, then: bytes, refusal: str) -> None:
    with pytest.raises(VersionError, match=refusal):
        decode_line(encode_line(record).replace(now, then))


def test_a_file_with_newer_lines_is_refused_whole_with_all_of_them() -> None:
    data = (EXAMPLES / "launches.jsonl").read_bytes()
    lines = data.splitlines(keepends=True)
    lines[1], lines[3] = (line.replace(b'"version":2', b'"version":3') for line in (lines[1], lines[3]))
    with pytest.raises(UserError, match="cannot read") as error:
        parse_runs(b"".join(lines))
    assert "line 2:" in str(error.value)
    assert "line 4:" in str(error.value)
    assert error.value.exit_code == 2


# ------------------------------------------------------------------------------------------------- run logs


def test_records_out_of_place_are_told_and_kept() -> None:
    one = RunLog()
    one.add(pingpong([1.0]), "line 1: ")
    assert one.problems == ["line 1: a record before any record 'run', with which each launch begins"]
    assert len(one.records) == 1
    done = log(pingpong([1.0]))
    done.add(pingpong([1.0], size=16))
    assert done.problems == ["a record 'pingpong' after the end of its run"]
    assert len(done.records) == 2
    for record in (run(), End(status="failed", elapsed_s=2.0)):
        done.add(record)
    assert done.problems[1:] == ["a second run record in one run", "a second end record in one run"]
    assert done.end.status == "complete"


RECORDS = st.one_of(
    st.builds(
        pingpong,
        st.lists(st.floats(1e-12, 1e6), max_size=5),
        st.integers(1, 2**62),
        st.text(max_size=9),
        reason=st.none() | st.text(max_size=9),
    ),
    st.builds(
        transport, st.text(max_size=9), facts=st.dictionaries(st.text(max_size=4), st.integers(-9, 9), max_size=2)
    ),
    st.builds(End, status=st.sampled_from(["complete", "failed", "stopped"]), elapsed_s=st.floats(0, 1e9)),
    st.builds(run, started_at=st.text(max_size=9)),
)


@given(RECORDS)
def test_a_record_comes_back_from_its_line(record: Run | Transport | PingPong | End) -> None:
    line = encode_line(record)
    assert line.count(b"\n") == 1
    assert decode_line(line) == record


# ------------------------------------------------------------------------------------------------ read_runs


def test_a_launch_that_is_read_twice_counts_once(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = log(pingpong([1e-6])), log(pingpong([1e-6]))
    second.run = run(started_at="2026-01-02T04:00:00Z")
    truncated = RunLog(run=first.run)
    assert without_repeats([truncated, second, first, second]) == [first, second]
    assert capsys.readouterr().err == "volley: the records repeat 2 launches, which volley counts once\n"
    assert without_repeats([RunLog(), RunLog()], quiet=True) == [RunLog(), RunLog()]
    assert capsys.readouterr().err == ""


def test_a_packed_file_is_unpacked_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, plain = tmp_path / "a.jsonl.gz", (EXAMPLES / "launches.jsonl").read_bytes()
    path.write_bytes(gzip.compress(plain))
    assert records_file.read_file(path)[0] == plain
    path.write_bytes(gzip.compress(plain)[:-20])
    with pytest.raises(UserError, match=r"a\.jsonl\.gz: its gzip data is truncated or damaged"):
        read_runs(path)
    monkeypatch.setattr(records_file, "MAX_BYTES", 1 << 20)
    path.write_bytes(gzip.compress(bytes((1 << 20) + 1)))
    with pytest.raises(UserError, match="it holds more than 1 MiB"):
        read_runs(path)


def test_a_run_of_an_unknown_benchmark_and_one_with_unknown_options_are_refused_with_the_place() -> None:
    line = encode_line(run())
    with pytest.raises(RecordError, match=r"plan\.benchmark: there is no benchmark 'tennis'"):
        decode_line(line.replace(b'"benchmark":"pingpong"', b'"benchmark":"tennis"'))
    with pytest.raises(RecordError, match=r"unknown field 'speed' in plan\.options"):
        decode_line(line.replace(b'"options":{', b'"options":{"speed":1,'))
    with pytest.raises(RecordError, match=r"plan\.options\.sizes_bytes\[0\] is not a whole number >= 0"):
        decode_line(line.replace(b'"sizes_bytes":[8', b'"sizes_bytes":[-8'))
