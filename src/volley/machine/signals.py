"""The signals that end processes: their names, their handlers, and a guard that sends one to a child."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

FATAL = ("SIGSEGV", "SIGBUS", "SIGABRT")
"""Signals that end ranks whose MPI is not CUDA-aware when they send device memory."""


def restore_handlers(before: Mapping[signal.Signals, Any]) -> None:
    """Give each signal the handler that ``signal.signal`` returned when it was replaced.

    ``None`` is a handler that a C library installed before Python started: Python cannot give it back, so the signal
    has its default action.
    """
    for number, handler in before.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def signal_name(number: int) -> str | None:
    """Return the name of a signal; ``None`` for any other number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def fatal_signal(text: str) -> str | None:
    """Return the signal that ended a rank, as its launcher reports it; ``None`` if the text names none.

    The exit status of a launcher is not that of the rank, so only the text says it.

    >>> fatal_signal("prterun noticed that process rank 0 exited on signal 11 (Segmentation fault).")
    'SIGSEGV'
    """
    for name in FATAL:
        if name in text or f"signal {int(signal.Signals[name])}" in text:
            return name
    return "SIGSEGV" if "Segmentation fault" in text else None


_WHEN_INPUT_ENDS = 'read -r _; kill -TERM "$1"'


class ChildGuard:
    """A small shell that sends SIGTERM to a child, once, when this process ends in any way.

    Launchers end their ranks on SIGTERM, on all nodes, and remove their temporary files; a second SIGTERM makes mpirun
    leave these files.  ``PR_SET_PDEATHSIG`` is no alternative: Linux sends that signal when a thread of the parent
    ends, and again when the next one ends.

    The shell waits for the end of a pipe that only this process can write to.  Close it once the child has ended.
    """

    def __init__(self, child: int) -> None:
        """Watch over the process with this number.  Without a further process, the child is not guarded."""
        self._shell: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WHEN_INPUT_ENDS, "sh", str(child)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal does not reach it
            )

    def close(self) -> None:
        """Watch no longer."""
        if self._shell:
            self._shell.kill()
            self._shell.communicate()
