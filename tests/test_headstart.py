"""The engine that is started before the command line is read: taken when it is the right one, ended otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import example_records
from fake_engine import install
from volley import engine
from volley.launch import headstart
from volley.records import End, Run

SLEEPER = "#!/bin/sh\nexec cat\n"
OURS = Path("/proc/self/fd")


@pytest.fixture
def sleeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An engine that waits for its plan."""
    for name in ("volley-engine", "volley-engine-node"):
        (tmp_path / name).write_text(SLEEPER, encoding="ascii")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("VOLLEY_ENGINE", str(tmp_path / "volley-engine"))
    yield
    headstart._end()


def begun() -> headstart.Ahead:
    """The engine that has a head start."""
    headstart.begin(["matrix", "--format", "cuda-samples"])
    assert headstart._begun is not None
    return headstart._begun[2]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("matrix --format cuda-samples", True),
        ("matrix --format=cuda-samples -o here.jsonl", True),
        ("matrix -f cuda-samples", True),
        ("matrix -o cuda-samples", False),
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


def test_who_needs_that_engine_takes_it(sleeper: None) -> None:
    ahead = begun()
    command = headstart.alone(all_gpus=True, hurried=True)
    taken = headstart.start(command, dict(os.environ), own_session=True)
    assert taken is ahead
    with ahead.stdin, ahead.stdout, ahead.stderr:
        ahead.stdin.write(b"plan")
        ahead.stdin.close()
        assert ahead.stdout.read() == b"plan"
        assert ahead.wait() == ahead.returncode == 0
    other = headstart.start(command, dict(os.environ), own_session=True)
    assert isinstance(other, subprocess.Popen)
    other.communicate(b"")


@pytest.mark.parametrize("all_gpus", [True, False])
def test_who_needs_another_one_ends_it(sleeper: None, all_gpus: bool) -> None:
    ahead = begun()
    environment = {**os.environ, "OTHER": "1"} if all_gpus else dict(os.environ)
    other = headstart.start(headstart.alone(all_gpus=all_gpus, hurried=True), environment, own_session=True)
    assert isinstance(other, subprocess.Popen)
    assert ahead.poll() == -signal.SIGKILL
    other.communicate(b"")


@pytest.mark.parametrize("old", [False, True])
def test_a_process_started_ahead_is_one_of_its_own(
    sleeper: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bool
) -> None:
    """As subprocess starts one: away from our terminal's signals, with the usual ones, and nothing of ours open."""
    if old:
        monkeypatch.setattr(os, "posix_spawn", without_sessions)
    kept = tmp_path / "kept"
    with kept.open("w", encoding="ascii") as file:
        os.set_inheritable(file.fileno(), True)
        ahead = begun()
        ahead.stdin.write(b"!")
        ahead.stdin.flush()
        assert ahead.stdout.read(1) == b"!"  # what it opened to start is closed again
        files = {each.readlink() for each in Path(f"/proc/{ahead.pid}/fd").iterdir()}
    assert os.getpgid(ahead.pid) == ahead.pid
    assert old or os.getsid(ahead.pid) == ahead.pid
    fields = dict(line.split(":\t") for line in Path(f"/proc/{ahead.pid}/status").read_text("ascii").splitlines())
    assert not int(fields["SigIgn"], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
    assert files
    assert kept not in files
    assert ahead.poll() is None
    ahead.terminate()
    assert ahead.wait() == -signal.SIGTERM
    ahead.kill()  # it has ended: nobody else is meant
    assert ahead.poll() == -signal.SIGTERM


posix_spawn = os.posix_spawn


def without_sessions(*arguments: Any, **options: Any) -> int:
    """What a Python that was built beside an old C library does."""
    if options.get("setsid"):
        raise NotImplementedError("posix_spawn: setsid unavailable on this platform")
    return posix_spawn(*arguments, **options)


@pytest.mark.parametrize("ignored", [False, True])
def test_a_job_that_was_started_ahead_is_heard_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignored: bool
) -> None:
    """Also where whoever started volley ignores SIGCHLD, so that nobody hears how it ended."""
    monkeypatch.setenv("VOLLEY_ENGINE", str(install(tmp_path)))
    monkeypatch.setenv("VOLLEY_FAKE", "good")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        ahead = begun()
        command = headstart.alone(all_gpus=True, hurried=True)
        with engine.Running(command, dict(os.environ)) as running:
            records = [record for _, record in running.records(example_records.plan())]
        assert running._process is ahead
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert isinstance(records[0], Run)
    assert isinstance(records[-1], End)
    assert running.ending.status == 0
    assert all(stream.closed for stream in (ahead.stdin, ahead.stdout, ahead.stderr))


def test_several_threads_may_wait_for_it(sleeper: None) -> None:
    ahead = begun()
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(ahead.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()
    ahead.kill()
    for thread in threads:
        thread.join(timeout=30)
    assert found == [-signal.SIGKILL] * 4


def test_a_program_that_does_not_start_leaves_nothing_open(tmp_path: Path) -> None:
    before = set(OURS.iterdir())
    with pytest.raises(FileNotFoundError):
        headstart.Ahead((str(tmp_path / "nothing"),), os.environ)
    assert set(OURS.iterdir()) == before


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
