"""The table of docs/method: what ``volley jacobi`` reached on GPUs, from its records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.jacobi.results import Solution, solutions
from volley.records.records_file import read_runs
from volley.units import format_sig

RESULTS = Path(__file__).parents[2] / "results"
FILES = {"h200-x2/jacobi": 1, "h200-x2/jacobi-scaling": 1, "h200-x4/jacobi-scaling": 4}
"""From how many ranks on they are shown: what one and two GPUs do is shown once."""


def jacobi_on_gpus() -> Iterator[str]:
    """Yield the table: one row a solution, grids of one process first."""
    yield "| GPUs | points each | precision | residual every | transport | ms an iteration | GLU/s | of a copy |"
    yield "| --- | --- | --- | --- | --- | --: | --: | --: |"
    found = [each for name, least in FILES.items() for each in _solved(name) if each.ranks >= least]
    for each in sorted(found, key=lambda one: (one.ranks, one.point.precision, one.check_every)):
        grid, domain = (" × ".join(map(str, pair)) for pair in (each.point.grid, each.point.domain))
        of_copy = f"{100 * each.of_copy:.0f} %" if each.of_copy else "–"
        time_ms, rate = (each.iteration_s or 0) * 1e3, (each.updates_per_s or 0) / 1e9
        cells = [grid, domain, each.point.precision, str(each.check_every), f"`{each.transport}`"]
        yield f"| {' | '.join(cells)} | {format_sig(time_ms, 4)} | {format_sig(rate, 4)} | {of_copy} |"


def _solved(name: str) -> Iterator[Solution]:
    """Yield the solutions of each run of a file; one process alone has no halos, and its first transport stands."""
    for log in read_runs(RESULTS / f"{name}.jsonl", BENCHMARKS):
        good = [each for each in solutions([log]) if each.point.status == "ok"]
        yield from good if not good or good[0].ranks > 1 else good[:1]
