"""The plan of a probe; its results are the common ``transport`` records."""

from __future__ import annotations

from typing import Any

from volley.document import Frozen


class ProbePlan(Frozen, frozen=True, kw_only=True):
    """A probe has no options."""


PLAN = ProbePlan
RECORDS: tuple[Any, ...] = ()
