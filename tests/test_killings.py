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
