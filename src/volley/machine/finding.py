"""What is found about a machine or a cluster, in one form for every tool that judges.

Doctor judges the layers of one machine by a status, check parts of a machine or cluster by a verdict; each adds what
only it knows.  What both need is here: which finding comes first, and the exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

from volley.document import Frozen
from volley.errors import EXIT_FAILED, EXIT_GOOD, EXIT_MACHINE, EXIT_UNDECIDED

Status = Literal["broken", "warning", "not tested", "good", "not applicable"]
"""Of doctor."""
Verdict = Literal["FAIL", "UNDECIDED", "NOT POSSIBLE", "NOT JUDGED", "PASS"]
"""Of check.  NOT JUDGED: the data is correct, and there is nothing to compare the speed with."""

EXIT_CODES: dict[Status | Verdict, int] = {
    "broken": EXIT_FAILED,
    "FAIL": EXIT_FAILED,
    "UNDECIDED": EXIT_UNDECIDED,
    "NOT POSSIBLE": EXIT_MACHINE,
    **dict.fromkeys(("warning", "not tested", "good", "not applicable", "NOT JUDGED", "PASS"), EXIT_GOOD),
}
"""The most important first."""


class Finding(Frozen, frozen=True):
    """What is known of a part; a tool whose document calls a key otherwise says so (``msgspec.field(name=…)``)."""

    status: Status | Verdict
    said: str
    evidence: str = ""
    """The command or call, and what it answered; or the yardstick, what it was compared with."""
    remedy: str = ""
    """A command if one is enough, else a sentence: what ends it, or what would decide it."""


F = TypeVar("F", bound=Finding)


def in_order(findings: Sequence[F]) -> list[F]:
    """Return the findings, the most important first."""
    return sorted(findings, key=lambda each: [*EXIT_CODES].index(each.status))


def exit_code(findings: Sequence[Finding]) -> int:
    """Return the exit code, that of the most important one; nothing was possible where there is none."""
    return EXIT_CODES[in_order(findings)[0].status] if findings else EXIT_MACHINE


def counts(findings: Sequence[Finding], statuses: Sequence[Status | Verdict]) -> dict[str, int]:
    """Return how many findings there are of each status."""
    return {status: sum(each.status == status for each in findings) for status in statuses}
