"""One JSON document: the common records of the runs, without samples, and the results."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

from volley.report.model import USUAL, Details, Report

REPORT_VERSION = 2


def render(reports: Sequence[Report], out: TextIO, _details: Details = USUAL) -> None:
    """Write the document, indented and in ASCII, so that it has no control characters and suits any locale."""
    document = {
        "report": REPORT_VERSION,
        "series": [{"runs": report.runs, "data": list(report.data.rows), **report.extra} for report in reports],
    }
    out.write(json.dumps(_finite(msgspec.to_builtins(document)), indent=2, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    """Return plain data with ``None`` for numbers that JSON cannot represent (infinity, NaN)."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
