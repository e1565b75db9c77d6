"""One JSON document: what the records say of the runs, without their samples, and the results."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

from volley.report.model import Report

REPORT_VERSION = 2


def render(reports: Sequence[Report], out: TextIO) -> None:
    """Write the document, indented; ASCII only: a terminal obeys none of it, and any locale can write it."""
    document = {
        "report": REPORT_VERSION,
        "series": [{"runs": report.runs, "data": report.data.rows, **report.extra} for report in reports],
    }
    out.write(json.dumps(_finite(msgspec.to_builtins(document)), indent=2, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    """Plain data without what JSON cannot hold: a rate over next to no time is null."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
