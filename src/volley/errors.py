"""Errors that end volley with one sentence on stderr and an exit code of their own."""

from __future__ import annotations

EXIT_GOOD = 0
EXIT_FAILED = 1
"""A check or verification failed, or the run was aborted."""
EXIT_USAGE = EXIT_REQUEST = 2
"""Usage error."""
EXIT_MACHINE = 3
"""The machine cannot do it."""
EXIT_INTERRUPTED = 130
"""Ctrl-C: 128 + SIGINT, as shells report it."""


class UserError(Exception):
    """A usage error: the message says so in one sentence and names the nearest valid form."""

    exit_code: int = EXIT_USAGE


class MachineError(UserError):
    """The request is fine and this machine cannot do it: the message says why."""

    exit_code: int = EXIT_MACHINE
