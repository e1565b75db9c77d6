"""Show runs in any format: each benchmark makes reports, and the renderers are independent of benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO, cast

from volley.errors import UserError
from volley.report import csv, json, terminal
from volley.report.ascii_fallback import AsciiFallback
from volley.report.model import Report
from volley.report.terminal import Details
from volley.run.benchmark import Benchmark
from volley.run.options import FORMATS
from volley.run.run_log import RunLog
from volley.text import join_words

DATA_RENDERERS: dict[str, Callable[[Sequence[Report], TextIO], None]] = {"csv": csv.render, "json": json.render}
"""The formats for programs, each for every benchmark."""


def render(
    logs: Sequence[RunLog],
    benchmarks: Sequence[Benchmark],
    format_name: str,
    out: TextIO,
    *,
    color: bool | None = None,
    err: TextIO | None = None,
    details: Details = Details(),  # noqa: B008  immutable
    command: str = "volley show",
) -> None:
    """Show runs on ``out``.

    Args:
        logs: the runs, in order; launches of the same request are shown together.
        benchmarks: the benchmarks to which the runs may belong.
        format_name: ``table``, ``csv``, ``json``, or a special format of the runs' benchmark.
        out: the output file.
        color: table only; ``None``: in colour if ``out`` is a terminal and NO_COLOR is not set.
        err: the file for notes that the other formats do not contain; default: standard error.
        details: table only; what to show instead of the one screen.
        command: the command line that shows these runs again.

    Raises:
        UserError: if the format is unknown or cannot show these runs.
    """
    found = results_of(logs, benchmarks)
    for benchmark, _ in found:
        _check_format(format_name, benchmark, benchmarks)
    reports = [report for benchmark, results in found for report in benchmark.reports(results)]
    if format_name == "table":
        terminal.render(reports, out, color=color, details=details, command=command)
        return
    safe = cast(TextIO, AsciiFallback(out))
    remarks: list[str] = []
    if format_name in DATA_RENDERERS:
        DATA_RENDERERS[format_name](reports, safe)
    else:
        remarks = [line for benchmark, results in found for line in benchmark.render(format_name, results, safe)]
    terminal.print_notes([note for report in reports for note in report.notes], remarks, err or sys.stderr)


def results_of(logs: Sequence[RunLog], benchmarks: Sequence[Benchmark]) -> list[tuple[Benchmark, list[Any]]]:
    """Return the results of each benchmark, one result object for each series, in order of appearance."""
    groups: dict[str, list[RunLog]] = {}
    for log in logs:
        groups.setdefault(_benchmark_of(log, benchmarks).name, []).append(log)
    return [(each, each.results(groups[each.name])) for name in groups for each in benchmarks if each.name == name]


def _benchmark_of(log: RunLog, benchmarks: Sequence[Benchmark]) -> Benchmark:
    """Return the benchmark of a run, from its plan or, without a run record, from the types of its records."""
    types = {type(record) for record in log.records}
    for benchmark in benchmarks:
        if log.run.plan.benchmark == benchmark.name if log.run else types & set(benchmark.record_types):
            return benchmark
    return benchmarks[0]


def _check_format(format_name: str, benchmark: Benchmark, benchmarks: Sequence[Benchmark]) -> None:
    if format_name in FORMATS or format_name in benchmark.formats:
        return
    special = {name: text for each in benchmarks for name, text in each.formats.items()}
    if format_name not in special:
        raise UserError(f"there is no format {format_name!r}: choose {join_words((*FORMATS, *special), 'or')}")
    raise UserError(
        f"{format_name} is {special[format_name]}, and cannot show {benchmark.name}: choose {join_words(FORMATS, 'or')}"
    )
