"""One matrix, between ranks or between GPUs: its cells, the kinds of its pairs, and how pairs compare.

All quantities are in SI units: seconds and bytes per second.
"""

# GB/s and B/s keep their capital letter in names.
# ruff: noqa: N802

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from volley.benchmarks.shared.matrix.comparable_pairs import Pair, PairRatio
from volley.benchmarks.shared.matrix.records import MatrixCell
from volley.machine.line_rate import LineRate


@dataclass(frozen=True, kw_only=True)
class MatrixCase:
    """One quantity at one message size, between all pairs."""

    name: str
    """What sentences call it."""
    firsts: tuple[int, ...]
    """The ends that have a row."""
    seconds: tuple[int, ...]
    """The ends that have a column."""
    direction: Literal["uni", "bi"] | None
    moved_bytes: int | None
    """Bytes that move in the time of a cell, each counted once; ``None``: the time is not that of messages."""
    shows_rate: bool
    """The bandwidth is shown, and not the time."""
    cells: Mapping[Pair, MatrixCell]
    kinds: Mapping[Pair, str]
    """Pairs of one kind are comparable."""
    line_rates: Mapping[Pair, LineRate]
    ratios: Mapping[Pair, PairRatio]
    suspects: tuple[PairRatio, ...]
    """The pairs that took longer than comparable pairs."""

    @cached_property
    def times(self) -> dict[Pair, float]:
        """Seconds of each good pair."""
        return times_of(self.cells)

    @property
    def unit(self) -> str:
        return "GB/s" if self.shows_rate else "µs"

    @property
    def verified(self) -> bool:
        """Data of all good cells was checked."""
        checked = [cell.messages_verified > 0 for cell in self.cells.values() if cell.status == "ok"]
        return bool(checked) and all(checked)

    def rate_Bps(self, pair: Pair) -> float | None:
        """The bandwidth of a pair, both directions together."""
        time_s = self.times.get(pair)
        return self.moved_bytes / time_s if self.moved_bytes and time_s else None

    def of_line_rate(self, pair: Pair) -> float | None:
        """The bandwidth as a fraction of the line rate."""
        rate, line_rate = self.rate_Bps(pair), self.line_rates.get(pair)
        return rate / line_rate.of(self.direction) if rate and line_rate else None

    def shown(self, pair: Pair) -> float | None:
        """The number to show for a pair, in ``unit``; ``None`` where there is none."""
        number = self.rate_Bps(pair) if self.shows_rate else self.times.get(pair)
        return number and (number / 1e9 if self.shows_rate else number * 1e6)


def times_of(cells: Mapping[Pair, MatrixCell]) -> dict[Pair, float]:
    """Return the seconds of each good cell."""
    return {pair: cell.median_s for pair, cell in cells.items() if cell.median_s is not None}
