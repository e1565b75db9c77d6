"""The sentences about the cells of a matrix that failed or are missing, be it between ranks or between GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from volley.blame import Pair
from volley.records import Cell, NodeCell
from volley.text import count, harmless

MOST_NAMED = 6
"""Pairs that are named one by one; more are counted."""

Cells = Mapping[Pair, Cell] | Mapping[Pair, NodeCell]
Naming = Callable[[Sequence[Pair]], str]
"""How a few pairs are called."""


def failed(matrix: str, cells: Cells, names: Naming) -> Iterator[str]:
    """Name the cells of a matrix whose data was wrong, or that hung."""
    wrong = [(pair, cell) for pair, cell in cells.items() if cell.status == "failed"]
    for pair, cell in wrong[:MOST_NAMED]:
        yield f"FAILED: {matrix}, {names([pair])}: {harmless(cell.reason or 'no reason is recorded')}"
    if len(wrong) > MOST_NAMED:
        yield f"FAILED: {matrix}: {count(len(wrong) - MOST_NAMED, 'pair')} more (--format csv names them)"


def skipped(matrix: str, cells: Cells, names: Naming) -> Iterator[str]:
    """Say what was not measured of a matrix, and why."""
    reasons: dict[str, list[Pair]] = {}
    for pair, cell in cells.items():
        if cell.status == "skipped":
            reasons.setdefault(cell.reason or "no reason is recorded", []).append(pair)
    for reason, pairs in reasons.items():
        yield f"{matrix} skipped {named(pairs, names)}: {harmless(reason)}"


def named(pairs: Sequence[Pair], names: Naming) -> str:
    """Name a few pairs; say how many there are of many."""
    return names(pairs) if len(pairs) <= MOST_NAMED else count(len(pairs), "pair")
