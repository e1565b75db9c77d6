"""The signals that end processes: their names, their handlers, and a guard that sends one to a child."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from types import FrameType
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


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Handle signals that ask this process to end only when the context ends.

    A handler may raise an exception at any moment; within the start of a child, that would leave a child of which
    nobody knows.  Signals are not blocked, because the child would inherit that.
    """
    arrived: list[int] = []
    before: dict[signal.Signals, Any] = {}

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, note)
    try:
        yield
    finally:
        restore_handlers(before)
        if arrived:
            signal.raise_signal(arrived[0])


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


_WHEN_INPUT_ENDS = """
read -r child
read -r _
[ -z "$child" ] || kill -TERM "$child"
[ -n "$1" ] || exit
until [ $((tenths += 1)) -gt 100 ] || ! kill -0 "$child"; do sleep 0.1; done
rm -rf "$1"
"""


class ChildGuard:
    """A small shell that sends SIGTERM to a child, once, when this process ends in any way.

    Launchers end their ranks on SIGTERM, on all nodes, and remove their temporary files; a second SIGTERM makes mpirun
    leave these files.  ``PR_SET_PDEATHSIG`` is no alternative: Linux sends that signal when a thread of the parent
    ends, and again when the next one ends.

    The shell waits for the end of a pipe that only this process can write to.  Close it once the child has ended.
    The child itself tells its number: this process may end at any moment after it has started the child.
    """

    def __init__(self, scratch: str = "") -> None:
        """Start the shell, before the child.  Without a further process, the child is not guarded.

        ``scratch`` is a folder for the child's temporary files.  It is removed once the child has ended, or ten seconds
        after SIGTERM.
        """
        self._shell: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WHEN_INPUT_ENDS, "sh", scratch],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal does not reach it
            )

    def register(self) -> None:
        """Watch over the process that calls this: the child, between fork and exec (``preexec_fn`` of a ``Popen``)."""
        if self._shell and self._shell.stdin:
            with contextlib.suppress(OSError):  # somebody has ended the shell
                os.write(self._shell.stdin.fileno(), b"%d\n" % os.getpid())
            self._shell.stdin.close()  # else the pipe would not end with the parent

    def close(self) -> None:
        """Watch no longer."""
        if self._shell:
            self._shell.kill()
            self._shell.communicate()
