"""The table of docs/method.md: what ``volley matrix`` says of the GPUs of one machine, from its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from volley import nodes
from volley.nodes import Sheet
from volley.records_io import read_runs
from volley.report.node import shown, title, unit
from volley.statistics import estimates as stats
from volley.text import digits
from volley.units import format_size

RECORDS = Path(__file__).parents[2] / "results/h200-x2/matrix.jsonl"


def between_gpus() -> Iterator[str]:
    """Yield the table: one row a section, the range over all pairs and the median within a GPU."""
    yield "| section | | unit | a window | between two | within one |"
    yield "| --- | --- | --- | --- | --: | --: |"
    for sheet in nodes.sheets(read_runs(str(RECORDS))):
        apart = _numbers(sheet, within=False)
        within = _numbers(sheet, within=True)
        window = f"{sheet.row.window} × {format_size(sheet.row.size_bytes)}"
        cells = [f"`{sheet.row.section}`", title(sheet.row), unit(sheet.row), window, _range(apart)]
        yield f"| {' | '.join(cells)} | {digits(stats.median(within), 4) if within else '–'} |"


def _numbers(sheet: Sheet, *, within: bool) -> list[float]:
    pairs = (pair for pair in sheet.cells if (pair[0] == pair[1]) is within)
    return [number for pair in pairs if (number := shown(sheet, pair)) is not None]


def _range(numbers: Iterable[float]) -> str:
    ends = [digits(end, 4) for end in (min(numbers), max(numbers))] if (numbers := list(numbers)) else ["–"]
    return "–".join(dict.fromkeys(ends))
