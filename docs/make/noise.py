"""A figure of docs/method: how far visits of a pair of ranks are off, by their median and when disturbed least."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix.records import RankMatrixRow
from volley.records.records_file import read_runs
from volley.statistics.estimates import median

FOLDER = Path(__file__).parents[2] / "results/two-cores"
RECORDED = ("noise-2-ranks", "noise-4-ranks")


def least_disturbed() -> Iterator[str]:
    """Yield the sentence about bandwidths."""
    falls = [f"from {_off(name, 'times_s'):.0%} to {_off(name, 'lows_s'):.0%}" for name in RECORDED]
    yield (
        "On the bandwidths that were used to choose the limits (`noise-2-ranks`, `noise-4-ranks`) the 95th percentile "
        f"of the deviation of a visit decreases {falls[0]} with 2 ranks and {falls[1]} with 4 ranks "
        "([records](../../results/README.md))."
    ).replace("%", " %")


def _off(name: str, which: str) -> float:
    """The 95th percentile of a visit's distance from what is usual for its pair, as a fraction of that."""
    times: dict[tuple[int, int], list[float]] = {}
    rows = [row for log in read_runs(FOLDER / f"{name}.jsonl", BENCHMARKS) for row in log.of(RankMatrixRow)]
    for row in (row for row in rows if row.pattern == "stream"):
        for second, time_s in zip(row.seconds, getattr(row, which), strict=True):
            times.setdefault((row.rank, second), []).append(time_s)
    off = sorted(abs(time / median(those) - 1) for those in times.values() for time in those)
    return off[len(off) * 95 // 100]
