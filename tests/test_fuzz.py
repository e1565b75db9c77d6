"""Mutated records, facts and command lines with a fixed seed: the short form of ``make fuzz``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = {"records": 6000, "facts": 1500, "command": 4000}
"""Together with the plans of engine/tests/host_plan_fuzz.cpp more than 20,000; half a minute of one core."""
SEED = 20261122


@pytest.mark.parametrize("kind", CASES)
def test_whatever_comes_in_the_answer_is_in_order(kind: str) -> None:
    half = CASES[kind] // 2
    program = [sys.executable, str(Path(__file__).with_name("fuzz.py")), "--kind", kind, "--seed", str(SEED)]
    halves = [
        subprocess.Popen(
            [*program, "--cases", str(half), "--first", str(first)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for first in (0, half)
    ]
    said = [each.communicate()[0] for each in halves]
    assert [each.returncode for each in halves] == [0, 0], "\n".join(said)
