"""The base types of the plan and of all records: immutable structs, bounded numbers, format versions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

PLAN_VERSION = 2
RECORD_VERSION = 2

Positive = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
PositiveSeconds = Annotated[float, Meta(gt=0)]
PositiveNumber = Annotated[float, Meta(gt=0)]
Number = Annotated[float, Meta(ge=0)]
Version = Annotated[int, Meta(ge=1)]


class Frozen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of a document type: immutable, rejects unknown keys."""
