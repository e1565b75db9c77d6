"""One matrix, between ranks or between GPUs: its cells, the kinds of its pairs, and how pairs compare.

All quantities are in SI units: seconds and bytes per second.
"""

# GB/s and B/s keep their capital letter in names.
# ruff: noqa: N802

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Literal, TypeVar

from volley.benchmarks.matrix.comparable import Pair, PairRatio, uneven
from volley.benchmarks.matrix.records import MatrixCell
from volley.machine.line_rate import LineRate

CellT = TypeVar("CellT", bound=MatrixCell)


@dataclass(frozen=True, kw_only=True)
class MatrixCase(Generic[CellT]):
    """One quantity at one message size, between all pairs."""

    firsts: tuple[int, ...]
    """The ends that have a row."""
    seconds: tuple[int, ...]
    """The ends that have a column."""
    size_bytes: int
    direction: Literal["uni", "bi"] | None
    window: int | None
    has_rate: bool
    """The time of a cell is that of a message or a window, so that there is a bandwidth."""
    shows_rate: bool
    """The bandwidth is shown, and not the time."""
    cells: Mapping[Pair, CellT]
    kinds: Mapping[Pair, str]
    """Pairs of one kind are comparable."""
    line_rates: Mapping[Pair, LineRate] = field(default_factory=dict)
    ratios: Mapping[Pair, PairRatio] = field(default_factory=dict)
    suspects: tuple[PairRatio, ...] = ()
    """The pairs that took longer than comparable pairs."""

    @cached_property
    def times(self) -> dict[Pair, float]:
        """Seconds of each good pair."""
        return {pair: cell.median_s for pair, cell in self.cells.items() if cell.median_s is not None}

    @property
    def uneven(self) -> dict[str, int]:
        """The kinds of which too many pairs look slow, with their number."""
        return uneven(self.ratios, self.kinds)

    @property
    def unit(self) -> str:
        """The unit of what is shown."""
        return "GB/s" if self.shows_rate else "µs"

    @property
    def verified(self) -> bool:
        """Data of all good cells was checked."""
        checked = [cell.messages_verified > 0 for cell in self.cells.values() if cell.status == "ok"]
        return bool(checked) and all(checked)

    def time_s(self, pair: Pair) -> float | None:
        """The seconds of a pair; ``None`` where there are none."""
        cell = self.cells.get(pair)
        return cell.median_s if cell else None

    def rate_Bps(self, pair: Pair) -> float | None:
        """The bandwidth of a pair, both directions together; each byte counts once, within a GPU too."""
        time_s = self.time_s(pair)
        if time_s is None or not self.has_rate:
            return None
        return self.size_bytes * (self.window or 1) * (2 if self.direction == "bi" else 1) / time_s

    def of_line_rate(self, pair: Pair) -> float | None:
        """The bandwidth as a fraction of the line rate."""
        rate, line_rate = self.rate_Bps(pair), self.line_rates.get(pair)
        return rate / line_rate.of(self.direction) if rate and line_rate else None

    def shown(self, pair: Pair) -> float | None:
        """The number to show for a pair, in ``unit``; ``None`` where there is none."""
        number = self.rate_Bps(pair) if self.shows_rate else self.time_s(pair)
        return None if number is None else number / 1e9 if self.shows_rate else number * 1e6
