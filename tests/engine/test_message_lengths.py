"""The largest and the smallest message: one that an int cannot count, and one without data."""

import re
from pathlib import Path

import pytest

from the_command import BEYOND_AN_INT, Command
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.pair.results import PingPong, StreamPoint
from volley.records.records_file import read_runs


@pytest.mark.alone
@pytest.mark.slow
def test_a_message_of_2_gib_and_8_b_arrives_whole(volley_command: Path, engine: Path, tmp_path: Path) -> None:
    volley, records = Command(volley_command, engine, tmp_path), tmp_path / "large.jsonl"
    words = ("--sizes", str(BEYOND_AN_INT), "--window", "1", "--warmup", "0", "--iterations", "1", "-o", str(records))
    done = volley("stream", "--transport", "host", *words)  # a ping-pong sends as much four times
    (log,) = read_runs(records, BENCHMARKS)
    (point,) = log.of(StreamPoint)
    if point.status == "skipped":
        pytest.skip(point.reason or "")  # this machine's memory is too small
    assert done.code == 0, done.err
    assert (point.size_bytes, point.status, point.messages_verified) == (BEYOND_AN_INT, "ok", 1)


@pytest.mark.slow
def test_a_message_of_0_b_is_timed_and_has_nothing_to_compare(volley: Command) -> None:
    words = ("--sizes", "0,8,0:4", "--launches", "1", "--iterations", "5")
    done = volley("pingpong", "--transport", "host,null,host/put", *words, "--full")
    (log,) = done.records
    points = {(each.transport, each.size_bytes): each for each in log.of(PingPong)}
    assert points["host/put", 0].reason == "a message of 0 B is measured with host, aware and their requests only"
    for name in ("host", "null"):
        assert points[name, 0].status == "ok"
        assert points[name, 0].times_s
    assert {size for _, size in points} == {0, 1, 2, 4, 8}
    assert "0 B: nothing to compare" in done.out


def test_messages_of_0_b_that_are_not_made_are_found(volley: Command) -> None:
    names = [f"host+{fault}" for fault in ("early", "late", "lose")]
    words = ("--sizes", "0", "--launches", "1", "--iterations", "5")
    (log,) = volley("pingpong", "--transport", ",".join(["host/persistent", *names]), *words).records
    points = {each.transport: each for each in log.of(PingPong)}
    assert points.pop("host/persistent").status == "ok"
    assert {name: each.status for name, each in points.items()} == dict.fromkeys(names, "failed")
    assert all(re.fullmatch("rank [01] did not wait for rank [01]", each.reason or "") for each in points.values())
