"""One JSON document: the common records of the runs, without samples, and the results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

from volley.report.columns import SCHEMA
from volley.report.model import USUAL, Details, Report


def render(reports: Sequence[Report], out: TextIO, _details: Details = USUAL) -> None:
    """Write the document in ASCII, so that it has no control characters and suits any locale.

    A result is one line and is written at once: a matrix may have millions of them.
    """
    out.write(f'{{\n"schema": {SCHEMA},\n"series": [')
    for number, report in enumerate(reports):
        out.write(
            f'{"," if number else ""}\n{{\n"runs": {_text(list(map(described, report.runs)), indent=2)},\n"data": ['
        )
        for place, row in enumerate(report.data.rows):
            out.write(f"{',' if place else ''}\n{_text(row)}")
        out.write("\n]")
        conditions = {"conditions": known} if (known := report.conditions()) else {}
        for name, value in {**conditions, **report.extra}.items():
            out.write(f",\n{_text(name)}: {_text(value, indent=2)}")
        out.write("\n}")
    out.write("\n]\n}\n")


def described(log: Any) -> dict[str, Any]:
    """Return the common records of a launch (``volley.records.run_log.RunLog``), without results."""
    names = ("complete", "problems", "run", "settings", "hardware", "transports", "end")
    return {"file": log.file, "launch": log.number, **{name: getattr(log, name) for name in names}}


_FINITE = json.JSONDecoder(parse_constant=lambda _: None)
"""Reads what Python writes for infinity and NaN, which JSON cannot represent, as ``null``."""


def _text(value: Any, indent: int | None = None) -> str:
    finite = _FINITE.decode(json.dumps(msgspec.to_builtins(value, enc_hook=list)))
    return json.dumps(finite, indent=indent, allow_nan=False)
