"""The matrices of a node for programs: CSV with one row a cell, and plain data for JSON."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from volley.blame import Pair
from volley.nodes import HOST, Sheet
from volley.text import harmless


def _number(value: float | None, scale: float) -> str:
    """Nine significant digits: a clock has fewer.  Nothing where there is no number."""
    return "" if value is None else f"{value * scale:.9g}"


def _end(number: int) -> object:
    return "host" if number == HOST else number


COLUMNS: dict[str, Callable[[Sheet, Pair], object]] = {
    "section": lambda sheet, _: harmless(sheet.row.section),
    "figure": lambda sheet, _: sheet.row.figure,
    "mover": lambda sheet, _: sheet.row.mover,
    "way": lambda sheet, _: sheet.row.way,
    "direction": lambda sheet, _: sheet.row.direction,
    "size_bytes": lambda sheet, _: sheet.row.size_bytes,
    "window": lambda sheet, _: sheet.row.window,
    "first": lambda _, pair: _end(pair[0]),
    "second": lambda _, pair: _end(pair[1]),
    "peer_access": lambda sheet, pair: {True: "on", False: "off", None: ""}[sheet.cells[pair].peer_access],
    "status": lambda sheet, pair: sheet.cells[pair].status,
    "samples": lambda sheet, pair: sheet.cells[pair].samples,
    "time_us": lambda sheet, pair: _number(sheet.cells[pair].median_s, 1e6),
    "time_low_us": lambda sheet, pair: _number(sheet.cells[pair].low_s, 1e6),
    "time_high_us": lambda sheet, pair: _number(sheet.cells[pair].high_s, 1e6),
    "bandwidth_GBps": lambda sheet, pair: _number(sheet.rate_Bps(pair), 1e-9),
    "of_ceiling": lambda sheet, pair: _number(sheet.of_ceiling(pair), 1),
    "ratio": lambda sheet, pair: _number(standing.ratio, 1) if (standing := sheet.standings.get(pair)) else "",
    "messages_verified": lambda sheet, pair: sheet.cells[pair].messages_verified,
    "reason": lambda sheet, pair: harmless(sheet.cells[pair].reason or ""),
}
"""``time_us`` is what the figure says (docs/method.md), ``ratio`` that time over the median of like pairs."""


def render_csv(sheets: Sequence[Sheet], out: TextIO) -> None:
    """Write one row a cell."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for sheet in sheets:
        writer.writerows([cell(sheet, pair) for cell in COLUMNS.values()] for pair in sorted(sheet.cells))


def plain(sheet: Sheet) -> dict[str, Any]:
    """Return one section as plain data, a list of its cells."""
    names = ("section", "figure", "mover", "way", "direction", "ends", "peer_access", "size_bytes", "window")
    return {
        **{name: getattr(sheet.row, name) for name in names},
        "gpus": sheet.gpus,
        "cells": [_plain_cell(sheet, pair) for pair in sorted(sheet.cells)],
    }


def _plain_cell(sheet: Sheet, pair: Pair) -> dict[str, Any]:
    cell, standing = sheet.cells[pair], sheet.standings.get(pair)
    return {
        "first": _end(pair[0]),
        "second": _end(pair[1]),
        "kind": sheet.kinds[pair],
        "peer_access": cell.peer_access,
        "status": cell.status,
        "reason": cell.reason,
        "samples": cell.samples,
        "time_s": cell.median_s,
        "low_s": cell.low_s,
        "high_s": cell.high_s,
        "bandwidth_Bps": sheet.rate_Bps(pair),
        "of_ceiling": sheet.of_ceiling(pair),
        "ratio": standing and standing.ratio,
        "like_pairs": standing and standing.like,
        "stands_out": any(each.pair == pair for each in sheet.suspects),
        "messages_verified": cell.messages_verified,
    }
