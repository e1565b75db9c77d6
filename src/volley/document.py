"""The base types of the plan and of all records: immutable structs, bounded numbers, format versions."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from volley.text import ascii_json, escape_controls
from volley.units import LARGEST_COUNT, LARGEST_NUMBER, LARGEST_WHOLE, LARGEST_WINDOW, LONGEST_S, SHORTEST_S


def doc(description: str, **limits: Any) -> Meta:
    """Return what the schema and docs/records.md say of a field, with further limits of its type (``msgspec.Meta``)."""
    return Meta(description=description, **limits)


PLAN_VERSION = 2
RECORD_VERSION = 2

Count = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Window = Annotated[int, Meta(ge=1, le=LARGEST_WINDOW)]
CountOrNone = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST_WHOLE)]
NonNegative = Annotated[int, Meta(ge=0, le=LARGEST_WHOLE)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]
PositiveSeconds = Annotated[float, Meta(ge=SHORTEST_S, le=LONGEST_S)]
PositiveNumber = Annotated[float, Meta(gt=0, le=LARGEST_NUMBER)]
Number = Annotated[float, Meta(ge=0, le=LARGEST_NUMBER)]
Version = Annotated[int, Meta(ge=1)]


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises where a text is no document of a type."""


def why_unreadable(error: Exception) -> str:
    """Return the reason of such an error, for people."""
    if isinstance(error, UnicodeDecodeError):
        return "the text is not UTF-8"
    return "JSON nested too deeply" if isinstance(error, RecursionError) else escape_controls(str(error))


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a document of facts: written without what is at its default; unknown keys are ignored."""


class Frozen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of a document type: immutable, rejects unknown keys."""


def readable_json(document: Any) -> str:
    """Return a document as commands print it: indented, ASCII, with its last line ended."""
    return ascii_json(msgspec.json.format(msgspec.json.encode(document), indent=2)) + "\n"
