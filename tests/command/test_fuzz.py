"""Mutated records, facts and command lines with a fixed seed, and a few killings: the short form of ``make fuzz``."""

from pathlib import Path

import pytest

import fuzz
import killings

SEED = 20261122
FEW = {"records": 350, "facts": 150, "command": 250}


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", FEW)
def test_whatever_comes_in_the_answer_is_in_order(kind: str, times: int) -> None:
    assert fuzz.run(kind, times * FEW[kind], SEED) == []


@pytest.fixture
def chosen(volley_command: Path, engine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command, with the engine under test."""
    monkeypatch.setenv("VOLLEY_ENGINE", str(engine))
    return volley_command


@pytest.mark.slow
def test_nothing_is_left_behind_and_all_is_shown(chosen: Path) -> None:
    assert not killings.run(chosen, 8, 7, at_once=2)


@pytest.mark.long
@pytest.mark.alone  # a job that waits for a core has more time
def test_a_run_ends_in_time_whose_rank_is_stopped(chosen: Path) -> None:
    assert not killings.run(chosen, 3, 7, "stop")


@pytest.mark.slow
def test_one_interrupt_at_any_moment_is_enough(chosen: Path) -> None:
    assert not killings.run(chosen, 6, 7, "interrupt", at_once=3)
    assert not killings.interrupts(100, 7)
