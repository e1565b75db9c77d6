"""A figure of docs/method.md: how far visits of a pair of ranks are off, by their median and when disturbed least."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volley.records_io import read_runs
from volley.statistics import estimates as stats

FOLDER = Path(__file__).parents[2] / "results/two-cores"
RECORDED = ("noise-2-ranks", "noise-4-ranks")


def least_disturbed() -> Iterator[str]:
    """Yield the sentence about bandwidths."""
    falls = [f"from {_off(name, 'median_s'):.0%} to {_off(name, 'low_s'):.0%}" for name in RECORDED]
    yield (
        "On the bandwidths by which the limits were chosen (`noise-2-ranks`, `noise-4-ranks`) the 95th percentile of "
        f"how far a visit is off falls {falls[0]} with 2 ranks and {falls[1]} with 4 ([records](../results/README.md))."
    ).replace("%", " %")


def _off(name: str, which: str) -> float:
    """The 95th percentile of a visit's distance from what is usual for its pair, as a fraction of that."""
    times: dict[tuple[int, int], list[float]] = {}
    for row in (row for log in read_runs(str(FOLDER / f"{name}.jsonl")) for row in log.rows):
        for cell in row.cells if row.exercise == "stream" else ():
            times.setdefault((row.rank, cell.rank), []).append(getattr(cell, which))
    off = sorted(abs(time / stats.median(those) - 1) for those in times.values() for time in those)
    return off[len(off) * 95 // 100]
