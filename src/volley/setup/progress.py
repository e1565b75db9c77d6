"""Progress of a set-up: a line that moves on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from volley.text import escape_controls
from volley.units import format_duration

if TYPE_CHECKING:
    from rich.status import Status


class StepProgress:
    """Says which step runs, for how long, and what it said last."""

    def __init__(self, out: TextIO) -> None:
        """Write to ``out``."""
        self._out = out
        self._status: Status | None = None
        self._title = ""
        self._begun = 0.0

    def say(self, line: str) -> None:
        """Write one line that stays."""
        self._out.write(f"{line}\n")
        self._out.flush()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Say that a step begins, and how it ended."""
        self._title, self._begun = title, time.monotonic()
        if self._out.isatty():
            from rich.console import Console  # noqa: PLC0415  start-up: only on a terminal

            self._status = Console(file=self._out, highlight=False, markup=False, emoji=False).status(title)
            self._status.start()
        else:
            self.say(f"{title} …")
        ended = "FAILED after"
        try:
            yield
            ended = "done in"
        finally:
            if self._status is not None:
                self._status.stop()
                self._status = None
            self.say(f"{title}: {ended} {format_duration(time.monotonic() - self._begun)}")

    def tick(self, line: str) -> None:
        """Show how long the step has run and what it said last."""
        if self._status is None:
            return
        from rich.text import Text  # noqa: PLC0415  start-up: only on a terminal

        elapsed = format_duration(time.monotonic() - self._begun)
        said = Text(f"{self._title} · {elapsed} · {escape_controls(line).strip()}", no_wrap=True, overflow="ellipsis")
        said.truncate(max(20, self._status.console.width - 4))
        self._status.update(said)
