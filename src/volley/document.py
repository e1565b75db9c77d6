"""The base types of the plan and of all records: immutable structs, bounded numbers, format versions."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from volley.text import ascii_json, escape_controls
from volley.units import LARGEST_COUNT, LARGEST_NUMBER, LARGEST_WHOLE, LARGEST_WINDOW, LONGEST_S, SHORTEST_S


def doc(description: str, **limits: Any) -> Meta:
    """Return what the schema and docs/records.md say of a field, with further limits of its type (``msgspec.Meta``)."""
    return Meta(description=description, **limits)


PLAN_VERSION: Final = 2
RECORD_VERSION: Final = 2

Count = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Window = Annotated[int, Meta(ge=1, le=LARGEST_WINDOW)]
CountOrNone = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST_WHOLE)]
NonNegative = Annotated[int, Meta(ge=0, le=LARGEST_WHOLE)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]
PositiveSeconds = Annotated[float, Meta(ge=SHORTEST_S, le=LONGEST_S)]
PositiveNumber = Annotated[float, Meta(gt=0, le=LARGEST_NUMBER)]
Number = Annotated[float, Meta(ge=0, le=LARGEST_NUMBER)]
Version = Literal[2]


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises where a text is no document of a type."""


_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def why_unreadable(error: Exception, document: bytes | None = None, within: str = "") -> str:
    """Return the reason of such an error, for people: which line or field, and what it should be.

    Args:
        error: one of ``UNREADABLE``.
        document: the whole text, of which a line can be named.
        within: the place of what was read in a larger document: ``plan.options``.
    """
    if isinstance(error, UnicodeDecodeError) or "Invalid UTF-8" in str(error):  # as msgspec 0.23 says
        return "the text is not UTF-8"
    if isinstance(error, RecursionError):
        return "JSON nested too deeply"
    said, _, path = escape_controls(str(error)).partition(" - at `$")
    place = (within + path.rstrip("`")).lstrip(".")
    if said == "Input data was truncated":
        said = "it is empty" if document is not None and not document.strip() else "it ends within a value"
    elif wrong := re.fullmatch(r"JSON is malformed: (.*) \(byte (\d+)\)", said):
        line = 0 if document is None else document.count(b"\n", 0, int(wrong[2])) + 1
        said = f"no JSON: {wrong[1]} {f'in line {line}' if line else f'at byte {wrong[2]}'}"
    elif wrong := re.fullmatch(r"Object (contains unknown|missing required) field `(.*)`", said):
        field = f"field {wrong[2]!r}{place and f' in {place}'}"
        said = f"unknown {field}" if wrong[1] == "contains unknown" else f"{field} is missing"
    elif wrong := re.fullmatch(r"Expected `(.*)`, got `(.*)`", said):
        wanted, found = wrong[1].removesuffix(" | null"), wrong[2]  # who means null leaves it out
        kinds = " or ".join(_KINDS.get(each, each) for each in wanted.split(" | "))
        other = "a number with decimals" if found == "float" else _KINDS.get(found, found)
        said = f"{place or 'the document'} must be {kinds}, and is {other}"
    elif wrong := re.fullmatch(r"Expected `(.*)` (.*)", said):
        said = f"{place} is not {_KINDS.get(wrong[1], wrong[1])} {wrong[2]}"
    elif place:
        said = f"{place}: {said}"
    return said


Form = TypeVar("Form")


def part_of(document: Any, form: type[Form], *place: str) -> Form | None:
    """Return what stands in a place of a document that somebody may have written; ``None``: nothing of this form."""
    for name in place:
        document = document.get(name) if isinstance(document, dict) else None
    with suppress(msgspec.ValidationError):
        return msgspec.convert(document, form)
    return None


def other_version(name: str, version: Any, known: int, again: str) -> str:
    """Return what to say of a document of another version than the known one; ``again``: what to do if it is older."""
    if not isinstance(version, int) or version == known:
        return ""
    age, remedy = ("a newer", "upgrade volley to read it") if version > known else ("an older", again)
    return f"written by {age} volley ({name} version {version}, this volley reads version {known}): {remedy}"


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a document of facts: written without what is at its default; unknown keys are ignored."""


class Frozen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of a document type: immutable, rejects unknown keys."""


def readable_json(document: Any) -> str:
    """Return a document as commands print it: indented, ASCII, with its last line ended."""
    return ascii_json(msgspec.json.format(msgspec.json.encode(document), indent=2)) + "\n"
