"""Progress of a set-up: a line that moves on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

from volley.text import duration, harmless

if TYPE_CHECKING:
    from rich.status import Status

    from volley.setup.recipe import Step


class Progress:
    """Says which step runs, for how long, and what it said last."""

    def __init__(self, out: TextIO | None = None) -> None:
        """Write to ``out``, standard output unless given."""
        self._out = out or sys.stdout
        self._status: Status | None = None
        self._title = ""
        self._begun = 0.0

    def say(self, line: str) -> None:
        """Write one line that stays."""
        self._out.write(f"{line}\n")
        self._out.flush()

    def kept(self, number: int, count: int, step: Step) -> None:
        """A step was done before."""
        self.say(f"[{number}/{count}] {step.title}: done before")

    def begun(self, number: int, count: int, step: Step) -> None:
        """A step begins."""
        self._title, self._begun = f"[{number}/{count}] {step.title}", time.monotonic()
        if not self._out.isatty():
            self.say(f"{self._title} …")
            return
        from rich.console import Console  # noqa: PLC0415  start-up: only on a terminal

        console = Console(file=self._out, highlight=False, markup=False, emoji=False)
        self._status = console.status(self._title)
        self._status.start()

    def tick(self, line: str) -> None:
        """Show how long the step has run and what it said last."""
        if self._status is not None:
            from rich.text import Text  # noqa: PLC0415  start-up: only on a terminal

            width = max(20, self._status.console.width - 4)
            elapsed = duration(time.monotonic() - self._begun)
            said = Text(f"{self._title} · {elapsed} · {harmless(line).strip()}", no_wrap=True, overflow="ellipsis")
            said.truncate(width)
            self._status.update(said)

    def done(self, seconds: float) -> None:
        """The step is finished."""
        self._stop()
        self.say(f"{self._title}: done in {duration(seconds)}")

    def failed(self) -> None:
        """The step broke off; the error is shown by whoever catches it."""
        self._stop()
        self.say(f"{self._title}: FAILED after {duration(time.monotonic() - self._begun)}")

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
