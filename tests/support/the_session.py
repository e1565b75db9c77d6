"""Commands that measure, with the stand-in of the fixture ``bin_folder`` for the engine."""

from pathlib import Path

import pytest

from fake_engine import ABOUT
from volley.benchmarks import BENCHMARKS
from volley.benchmarks import read as read_command
from volley.launch.engine import About, FaultAbout, TransportAbout
from volley.records import records_file
from volley.records.run_log import RunLog
from volley.run import session

SIZES = (8, 64)
ABOUT_FAKE = About(
    version="0.1.0",
    transports=tuple(TransportAbout(**each) for each in ABOUT["transports"]),  # type: ignore[attr-defined]
    faults=tuple(FaultAbout(**each) for each in ABOUT["faults"]),  # type: ignore[attr-defined]
)


def measure(*words: str, command: str = "pingpong") -> int:
    """Measure what a command line asks for, in one launch if it does not say otherwise; its report is CSV."""
    if command == "pingpong" and "--launches" not in words:
        words = ("--launches", "1", *words)
    sizes = ("--sizes", ",".join(map(str, SIZES))) if command == "pingpong" and "--sizes" not in words else ()
    return session.measure(read_command([command, "--format", "csv", *sizes, *words]))


def fake(monkeypatch: pytest.MonkeyPatch, behaviour: str, *words: str) -> int:
    monkeypatch.setenv("VOLLEY_FAKE", behaviour)
    return measure(*words)


def read_runs(path: Path) -> list[RunLog]:
    return records_file.read_runs(path, BENCHMARKS)
