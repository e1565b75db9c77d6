"""The engine that is started before the command line is read: taken when it is the right one, ended otherwise."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from volley.launch import headstart

SLEEPER = "#!/bin/sh\nexec cat\n"


@pytest.fixture
def sleeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An engine that waits for its plan."""
    for name in ("volley-engine", "volley-engine-node"):
        (tmp_path / name).write_text(SLEEPER, encoding="ascii")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("VOLLEY_ENGINE", str(tmp_path / "volley-engine"))
    yield
    headstart._end()


def begun() -> subprocess.Popen[bytes]:
    """The engine that has a head start."""
    headstart.begin(["matrix", "--format", "cuda-samples"])
    assert headstart._begun is not None
    return headstart._begun[2]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("matrix --format cuda-samples", True),
        ("matrix --format=cuda-samples -o here.jsonl", True),
        ("matrix", False),
        ("matrix --format csv", False),
        ("matrix --format cuda-samples --gpus 0,1", False),
        ("matrix --format cuda-samples --dry-run", False),
        ("matrix --format cuda-samples --help", False),
        ("show --format cuda-samples x.jsonl", False),
        ("", False),
    ],
)
def test_only_what_cannot_end_otherwise_gets_a_head_start(line: str, expected: bool) -> None:
    assert headstart.likely(line.split()) is expected


def test_who_needs_that_engine_takes_it(sleeper: Path) -> None:
    ahead = begun()
    command = headstart.alone(all_gpus=True)
    taken = headstart.start(command, dict(os.environ), own_session=True)
    assert taken is ahead
    assert taken.communicate(b"plan")[0] == b"plan"
    other = headstart.start(command, dict(os.environ), own_session=True)
    assert other is not ahead
    other.communicate(b"")


@pytest.mark.parametrize("all_gpus", [True, False])
def test_who_needs_another_one_ends_it(sleeper: Path, all_gpus: bool) -> None:
    ahead = begun()
    environment = {**os.environ, "OTHER": "1"} if all_gpus else dict(os.environ)
    other = headstart.start(headstart.alone(all_gpus=all_gpus), environment, own_session=True)
    assert other is not ahead
    assert ahead.poll() is not None
    other.communicate(b"")


def test_an_engine_that_is_not_there_is_nobodys_matter_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLLEY_ENGINE", "/nowhere")
    headstart.begin(["matrix", "--format", "cuda-samples"])
    assert headstart._begun is None


def test_the_engine_without_a_gpu_wakes_nothing(engine: Path) -> None:
    done = subprocess.run(
        [engine.with_name("volley-engine-node"), "--wake", "--plan", os.devnull],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "volley-engine: " in done.stderr
