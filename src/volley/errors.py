"""Errors that end volley with one sentence on stderr, and the exit codes."""

from __future__ import annotations

EXIT_GOOD = 0
EXIT_FAILED = 1
"""A check or verification failed, or the run was aborted."""
EXIT_USAGE = 2
EXIT_MACHINE = 3
EXIT_UNDECIDED = 4
"""The measurements decide neither that something is bad nor that it is good."""
EXIT_INTERRUPTED = 130
"""Ctrl-C: 128 + SIGINT, as shells report it."""


class UserError(Exception):
    """A usage error: the message is one sentence that names the nearest valid form."""

    exit_code: int = EXIT_USAGE

    def __init__(self, reason: str, remedy: str = "") -> None:
        """``remedy``: what ends the problem, where doctor shows it apart from the reason; else the reason has it."""
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason, self.remedy = reason, remedy


class MachineError(UserError):
    """A valid request that this machine cannot run: the message says why."""

    exit_code: int = EXIT_MACHINE
