"""The table of docs/method: what ``volley matrix`` says of the GPUs of one machine, from its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix.results import GpuMatrixCase, results
from volley.records.records_file import read_runs
from volley.statistics.estimates import median
from volley.units import format_sig, format_size

RECORDS = Path(__file__).parents[2] / "results/h200-x2/matrix.jsonl"


def between_gpus() -> Iterator[str]:
    """Yield the table: one row a section, the range over all pairs and the median within a GPU."""
    yield "| section | | unit | a window | between two | within one |"
    yield "| --- | --- | --- | --- | --: | --: |"
    for case in (case for series in results(read_runs(RECORDS, BENCHMARKS)) for case in series.gpu_cases):
        apart = _numbers(case, within=False)
        within = _numbers(case, within=True)
        window = f"{case.row.window} × {format_size(case.row.size_bytes)}"
        cells = [f"`{case.row.section}`", case.name, case.unit, window, _range(apart)]
        yield f"| {' | '.join(cells)} | {format_sig(median(within)) if within else '–'} |"


def _numbers(case: GpuMatrixCase, *, within: bool) -> list[float]:
    pairs = (pair for pair in case.cells if (pair[0] == pair[1]) is within)
    return [number for pair in pairs if (number := case.shown(pair)) is not None]


def _range(numbers: Iterable[float]) -> str:
    ends = [format_sig(end) for end in (min(numbers), max(numbers))] if (numbers := list(numbers)) else ["–"]
    return "–".join(dict.fromkeys(ends))
