"""Screens that tests compare as a whole with a kept text that a person has read."""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from volley.benchmarks import BENCHMARKS
from volley.records.run_log import RunLog
from volley.run.render import render

SCREENS = Path(__file__).parents[1] / "screens"


def shown(logs: Sequence[RunLog], format_name: str = "table", **how: Any) -> tuple[str, str]:
    """What standard output and standard error show of runs."""
    out, err = io.StringIO(), io.StringIO()
    render(list(logs), BENCHMARKS, format_name, out, err=err, **how)
    return out.getvalue(), err.getvalue()


def check_screen(path: Path, text: str) -> None:
    """Compare a screen with the kept one; with ``VOLLEY_WRITE_SCREENS=1`` it is written, to be looked at."""
    if os.environ.get("VOLLEY_WRITE_SCREENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text, "look at it; VOLLEY_WRITE_SCREENS=1 writes it"


def check_formats(name: str, logs: Sequence[RunLog], *format_names: str, **how: Any) -> None:
    """Compare what formats show of runs with ``tests/screens/NAME.txt``."""
    parts = [f"$ volley show -f {each}\n{''.join(shown(logs, each, **how))}" for each in format_names]
    check_screen(SCREENS / f"{name}.txt", "\n".join(parts))
