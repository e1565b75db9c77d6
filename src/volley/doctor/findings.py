"""What doctor says: findings, and how a check writes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from volley.doctor.facts import Facts, Probe
from volley.errors import EXIT_FAILED, EXIT_GOOD

DIAGNOSIS_VERSION = 1

Status = Literal["good", "warning", "broken", "not applicable", "not tested"]
STATUSES: tuple[Status, ...] = ("good", "warning", "broken", "not applicable", "not tested")


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a check makes of the facts."""

    status: Status
    said: str
    evidence: str = ""
    """The command or call, and what it answered."""
    remedy: str = ""
    """A command where one will do, else a sentence."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with the name of its check."""

    check: str
    layer: str
    status: Status
    said: str
    evidence: str = ""
    remedy: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All findings of one set of facts: what ``--json`` prints."""

    diagnosis: int = DIAGNOSIS_VERSION
    volley: str
    captured_at: str
    note: str = ""
    counts: dict[str, int]
    findings: list[Finding]

    @property
    def exit_code(self) -> int:
        """1 where something is broken."""
        return EXIT_FAILED if any(each.status == "broken" for each in self.findings) else EXIT_GOOD


@dataclass(frozen=True)
class Check:
    """A check: a pure function from facts to a verdict, and what docs/doctor.md says of it."""

    name: str
    layer: str
    tries: str
    remedy: str
    judge: Callable[[Facts], Verdict]
    needs: tuple[str, ...] = ()
    """Earlier checks: where one of them is broken, nothing is said of this one but that."""


def good(said: str, evidence: str = "") -> Verdict:
    """It works."""
    return Verdict(status="good", said=said, evidence=evidence)


def warning(said: str, evidence: str, remedy: str) -> Verdict:
    """It works, and less well than it could."""
    return Verdict(status="warning", said=said, evidence=evidence, remedy=remedy)


def broken(said: str, evidence: str, remedy: str) -> Verdict:
    """It does not work."""
    return Verdict(status="broken", said=said, evidence=evidence, remedy=remedy)


def not_applicable(why: str) -> Verdict:
    """There is nothing here that it could be about."""
    return Verdict(status="not applicable", said=why)


def not_tested(why: str, remedy: str = "") -> Verdict:
    """Nobody knows; the reason is said."""
    return Verdict(status="not tested", said=why, remedy=remedy)


def answered(probe: Probe[Any], answer: str) -> str:
    """Write the evidence: what was tried, and what came of it."""
    return f"{probe.call}: {answer}"


def lost(probe: Probe[Any], what: str, remedy: str) -> Verdict:
    """A probe that has no value: skipped, crashed or hung."""
    if probe.skipped is not None:
        return not_tested(probe.skipped)
    said = f"; {probe.said.splitlines()[-1]}" if probe.said else ""
    return broken(f"{what}: {probe.error}", answered(probe, f"{probe.error}{said}"), remedy)
