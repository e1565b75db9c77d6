"""On a machine with GPUs (`make test-gpu`): what can be used there delivers, and a flipped bit is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from the_command import BEYOND_AN_INT, Command
from volley.records_io import RunLog, read_runs
from volley.stack import has_driver

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_driver(), reason="there is no NVIDIA driver here")]

ODD_SIZES = "1,3,100,4k,65537,1000003,16M"


@pytest.fixture
def volley(volley_command: Path, engine: Path, tmp_path: Path) -> Command:
    return Command(volley_command, engine, tmp_path)


def measured(volley: Command, *words: str) -> RunLog:
    output = volley.state / "records.jsonl"
    volley(*words, "-o", str(output))
    (log,) = read_runs(output)
    return log


@pytest.mark.parametrize(
    "words", [("pingpong",), ("stream",), ("stream", "--direction", "bi"), ("pingpong", "--iterations", "3")]
)
def test_whatever_can_be_used_delivers(volley: Command, words: tuple[str, ...]) -> None:
    log = measured(volley, *words, "--transport", "all", "--sizes", ODD_SIZES)
    assert log.complete
    assert any(info.available and info.memory == "device" for info in log.transports)
    assert [(point.transport, point.reason) for point in log.points if point.status != "ok"] == []


@pytest.mark.parametrize("words", [("pingpong",), ("stream", "--window", "2")])
def test_messages_that_an_int_cannot_count_arrive_whole(volley: Command, words: tuple[str, ...]) -> None:
    log = measured(
        volley, *words, "--transport", "all", "--sizes", str(BEYOND_AN_INT), "--warmup", "0", "--iterations", "1"
    )
    assert log.complete
    assert any(point.status == "ok" for point in log.points)
    assert [(point.transport, point.reason) for point in log.points if point.status == "failed"] == []


def test_a_flipped_bit_is_found(volley: Command) -> None:
    log = measured(volley, "pingpong", "--transport", "corrupt-device", "--sizes", ODD_SIZES)
    assert {point.status for point in log.points} == {"failed"}
