"""Ctrl-C, SIGTERM and SIGHUP in every phase of a real ``volley``, and a later launch that fails.

Between launches and during the preflight: test_session.py and test_preflight.py; with a real engine: test_bad_days.py.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_engine import install
from the_command import LIMIT_S, Command, finish
from volley.benchmarks import BENCHMARKS
from volley.machine.signals import Stop
from volley.records.records_file import read_runs

SIZES = ",".join(map(str, range(1, 601)))
"""Their report does not fit into a pipe, 64 KiB on Linux (pipe(7)); their progress does."""


@pytest.fixture
def volley(volley_command: Path, tmp_path: Path) -> Command:
    """The command with an engine that obeys ``VOLLEY_FAKE``."""
    return Command(volley_command, install(tmp_path / "bin"), tmp_path / "state")


def until(process: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    """Wait for a phase; the test's own time limit ends a wait that has no end."""
    while not reached():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


def test_ctrl_c_while_modules_load_is_a_sentence() -> None:
    program = """
import builtins, os, signal, sys, volley.__main__
load = builtins.__import__

def interrupted(name, *rest):
    if name.startswith("volley.run"):
        os.kill(os.getpid(), signal.SIGINT)
    return load(name, *rest)

builtins.__import__ = interrupted
sys.exit(volley.__main__.main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (130, "volley: stopped\n")


def test_ctrl_c_while_the_engine_is_asked_what_it_can_do(volley: Command) -> None:
    process = volley.start("pingpong", VOLLEY_FAKE="thinks")
    until(process, volley.engine.with_name("asked").exists)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert (done.code, done.out, done.err) == (130, "", "volley: stopped\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_while_the_ranks_start(volley: Command, number: signal.Signals, code: int) -> None:
    process = volley.start("pingpong", "--launches", "3", VOLLEY_FAKE="silent")
    until(process, volley.engine.with_name("joined").exists)
    process.send_signal(number)
    done = finish(process)
    assert done.code == code
    assert "volley: stopped by" in done.err
    assert not list((volley.state / "volley").glob("*.jsonl"))  # nothing was measured


@pytest.mark.parametrize(("number", "code"), [(signal.SIGHUP, 129), (signal.SIGTERM, 143)])
def test_a_stop_while_points_are_measured(volley: Command, number: signal.Signals, code: int) -> None:
    process = volley.start("pingpong", "--sizes", "8,64", "--format", "csv", VOLLEY_FAKE="endless")
    kept = volley.state / "volley"
    until(process, lambda: any(b"half_round_trip_s" in file.read_bytes() for file in kept.glob("*.jsonl")))
    process.send_signal(number)
    done = finish(process)
    assert done.code == code
    assert [line.split(",")[1] for line in done.out.splitlines()[1:]] == ["8"]
    assert done.err.splitlines()[-1].startswith("records: ")


LOST = """
import os, signal, sys, time
from volley import __main__, cli

class Callback:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

def work(place):
    Callback()
    time.sleep(30)
    return 7

cli.main = work
sys.exit(__main__.main())
"""


def test_ctrl_c_in_a_callback_of_python_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "volley: stopped\n")


def test_ctrl_c_while_the_report_is_written(volley: Command) -> None:
    process = volley.start("pingpong", "--sizes", SIZES, "--launches", "1", "--format", "csv")
    first = process.stdout.read(1)  # the report has begun, and nobody reads on
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert first
    assert done.code == 130
    (records,) = (line.removeprefix("records: ") for line in done.err.splitlines() if line.startswith("records: "))
    (log,) = read_runs(records, BENCHMARKS)
    assert log.complete


def test_handlers_that_a_c_library_had_installed_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python returns ``None`` for such a handler, and does not accept it: ``signal handler must be ...``."""
    before = signal.getsignal(signal.SIGINT)
    replace = signal.signal

    def replace_unknown(number: int, handler: Any) -> None:
        replace(number, handler)

    monkeypatch.setattr(signal, "signal", replace_unknown)
    try:
        with Stop():
            pass
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        replace(signal.SIGINT, before)
