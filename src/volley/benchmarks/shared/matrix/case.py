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

import numpy as np

from volley.benchmarks.shared.matrix.comparable_pairs import Floats, Pair, PairComparison, PairKinds, PairRatio
from volley.machine.line_rate import LineRate
from volley.run.records import Mismatch, Status


@dataclass(frozen=True)
class Unmeasured:
    """Why a pair has no number."""

    status: Status
    reason: str | None = None
    mismatch: Mismatch | None = None


@dataclass(frozen=True, kw_only=True)
class MatrixCase:
    """One quantity at one message size, between all pairs."""

    name: str
    """What sentences call it."""
    direction: Literal["uni", "bi"] | None
    moved_bytes: int | None
    """Bytes that move in the time of a cell, each counted once; ``None``: the time is not that of messages."""
    shows_rate: bool
    """The bandwidth is shown, and not the time."""
    verified: bool
    """Data of all good cells was checked."""
    times_s: Floats
    """Seconds of each good pair; NaN elsewhere."""
    unmeasured: Mapping[Pair, Unmeasured]
    """The pairs that the records have without a number, in order."""
    line_rates: Mapping[Pair, LineRate]
    comparison: PairComparison
    suspects: tuple[PairRatio, ...]
    """The pairs that took longer than comparable pairs."""

    @property
    def kinds(self) -> PairKinds:
        """The ends, and the kind of each pair."""
        return self.comparison.kinds

    @property
    def pairs(self) -> int:
        """How many pairs the records have."""
        return int(np.count_nonzero(~np.isnan(self.times_s))) + len(self.unmeasured)

    @property
    def firsts(self) -> tuple[int, ...]:
        """The ends that have a row."""
        return self.kinds.firsts

    @property
    def seconds(self) -> tuple[int, ...]:
        """The ends that have a column."""
        return self.kinds.seconds

    @cached_property
    def times(self) -> dict[Pair, float]:
        """Seconds of each good pair."""
        where = ~np.isnan(self.times_s)
        return dict(zip(self.kinds.pairs(where), self.times_s[where].tolist(), strict=True))

    @property
    def unit(self) -> str:
        return "GB/s" if self.shows_rate else "µs"

    @cached_property
    def numbers(self) -> Floats:
        """The numbers to show, in ``unit``; NaN where there are none."""
        return (self.moved_bytes or 0) / self.times_s / 1e9 if self.shows_rate else self.times_s * 1e6

    def shown(self, pair: Pair) -> float | None:
        """The number to show for a pair, in ``unit``; ``None`` where there is none."""
        return self._number(self.numbers, pair)

    def time_s(self, pair: Pair) -> float | None:
        """The seconds of a good pair."""
        return self._number(self.times_s, pair)

    def _number(self, matrix: Floats, pair: Pair) -> float | None:
        if pair[0] not in self.kinds.rows or pair[1] not in self.kinds.columns:
            return None
        number = float(matrix[self.kinds.place(pair)])
        return None if np.isnan(number) else number

    def rate_Bps(self, pair: Pair) -> float | None:
        """The bandwidth of a pair, both directions together."""
        time_s = self.time_s(pair)
        return self.moved_bytes / time_s if self.moved_bytes and time_s else None

    def of_line_rate(self, pair: Pair) -> float | None:
        """The bandwidth as a fraction of the line rate."""
        rate, line_rate = self.rate_Bps(pair), self.line_rates.get(pair)
        return rate / line_rate.of(self.direction) if rate and line_rate else None
