"""What all facts are made of: immutable types, and a probe."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of the document: immutable, closed to unknown keys, written without what is at its default."""


class Probe(Fact, Generic[T], frozen=True, kw_only=True):
    """One thing that was tried."""

    call: Annotated[str, Meta(description="the command or the call, as a person would repeat it.")]
    value: T | None = None
    error: Annotated[str | None, Meta(description="why it has no value, or only half of one.")] = None
    skipped: Annotated[str | None, Meta(description="why it was not tried.")] = None
    exit: Annotated[int | None, Meta(description="how its process ended; negative: by that signal.")] = None
    said: Annotated[str, Meta(description="the end of what it printed, where it has no value.")] = ""
    elapsed_s: float = 0.0
