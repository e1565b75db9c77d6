"""Errors of a set-up, beyond those of the whole front."""

from __future__ import annotations

from collections.abc import Sequence

from volley.errors import EXIT_FAILED, UserError
from volley.text import harmless


class StepError(UserError):
    """A step of the set-up failed: what it said last is shown, and where all of it stands."""

    exit_code: int = EXIT_FAILED

    def __init__(self, sentence: str, tail: Sequence[str] = ()) -> None:
        """Take the sentence, and the last lines of the step's log."""
        super().__init__(sentence)
        self.tail = [harmless(line) for line in tail]


class ChecksumError(UserError):
    """A file is not the one that was meant."""

    exit_code: int = EXIT_FAILED
