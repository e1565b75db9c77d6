"""What is found about a machine, in one form for every tool that judges: its status, evidence and remedy."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["good", "warning", "broken", "not applicable", "not tested"]
STATUSES: tuple[Status, ...] = ("good", "warning", "broken", "not applicable", "not tested")


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """What a check concludes from the facts."""

    check: str = ""
    """The name of the check, and its layer: filled in by the tool."""
    layer: str = ""
    status: Status
    said: str
    evidence: str = ""
    """The command or call, and what it answered."""
    remedy: str = ""
    """A command if one is enough, else a sentence."""
    also: tuple[str, ...] = ()
    """Further problems of the same kind, a line each, with what to do."""
    explains: tuple[str, ...] = ()
    """The checks whose problems follow from this one, whatever they say."""
