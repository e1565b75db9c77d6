"""Cells shared by the reports of several benchmarks."""

from __future__ import annotations

from volley.report.model import Cell
from volley.statistics.estimates import Estimate


def scaled(value: float | None, factor: float) -> float | None:
    """Multiply a number by a factor, e.g. to convert its unit; ``None`` stays ``None``."""
    return None if value is None else value * factor


def plus_minus(time: Estimate | None) -> Cell:
    """Return the half width in per cent with one decimal; in parentheses if it is a range of too few observations."""
    if time is None or time.kind == "single":
        return Cell()
    per_cent = time.half_width * 100
    shown = f"{per_cent:.1f}" if per_cent >= 0.05 else "<0.1"
    return Cell(per_cent, text=shown if time.kind == "ci" else f"({shown})")
