"""The signals that end processes, by name: from an exit status, and in the text of a launcher."""

from __future__ import annotations

import signal

FATAL = ("SIGSEGV", "SIGBUS", "SIGABRT")
"""What an MPI that is not CUDA-aware ends with when it is given device memory."""


def signal_name(number: int) -> str | None:
    """Return the name of a signal; ``None`` for any other number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def fatal_signal(text: str) -> str | None:
    """Return the signal that ended a rank, as its launcher reports it; ``None`` where the text names none.

    The exit status of a launcher is not that of the rank, so only the text says it.

    >>> fatal_signal("prterun noticed that process rank 0 exited on signal 11 (Segmentation fault).")
    'SIGSEGV'
    """
    for name in FATAL:
        if name in text or f"signal {int(signal.Signals[name])}" in text:
            return name
    return "SIGSEGV" if "Segmentation fault" in text else None
