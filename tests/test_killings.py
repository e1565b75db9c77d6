"""A few killings at random moments: the short form of ``make fuzz``."""

from __future__ import annotations

from pathlib import Path

import pytest

import killings


def test_nothing_is_left_behind_and_all_is_shown(
    volley_command: Path, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLLEY_ENGINE", str(engine))
    assert not killings.run(volley_command, 8, 7)


def test_a_run_ends_in_time_whose_rank_is_stopped(
    volley_command: Path, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLLEY_ENGINE", str(engine))
    assert not killings.run(volley_command, 3, 7, "stop")


def test_one_interrupt_at_any_moment_is_enough(volley_command: Path) -> None:
    assert not killings.run(volley_command, 6, 7, "interrupt", at_once=3)
    assert not killings.interrupts(100, 7)
