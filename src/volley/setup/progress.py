"""Progress of a set-up: a line that moves on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from volley.text import escape_controls
from volley.units import format_duration

if TYPE_CHECKING:
    from rich.status import Status


def say(out: TextIO, line: str) -> None:
    """Write one line that stays."""
    out.write(f"{line}\n")
    out.flush()


@contextmanager
def step(out: TextIO, title: str) -> Iterator[Callable[[str], None]]:
    """Say that a step begins and how it ended; yield the function that shows the last line of the step's log."""
    begun, ended = time.monotonic(), "FAILED after"
    status: Status | None = None
    if out.isatty():
        from rich.console import Console  # noqa: PLC0415  start-up: only on a terminal
        from rich.text import Text  # noqa: PLC0415

        status = Console(file=out, highlight=False, markup=False, emoji=False).status(Text(title))  # a str is markup
        status.start()
    else:
        say(out, f"{title} …")

    def tick(line: str) -> None:
        if status is None:
            return
        elapsed = format_duration(time.monotonic() - begun)
        said = Text(f"{title} · {elapsed} · {escape_controls(line).strip()}", no_wrap=True, overflow="ellipsis")
        said.truncate(max(20, status.console.width - 4))
        status.update(said)

    try:
        yield tick
        ended = "done in"
    finally:
        if status is not None:
            status.stop()
        say(out, f"{title}: {ended} {format_duration(time.monotonic() - begun)}")
