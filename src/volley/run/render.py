"""Show runs in any format: each benchmark makes reports, and the renderers are independent of benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from operator import attrgetter, itemgetter
from types import ModuleType
from typing import Any, TextIO

from volley.command.options import FORMATS
from volley.errors import UserError
from volley.records.run_log import RunLog
from volley.report.model import USUAL, Details, Note, Report
from volley.run.benchmark import Benchmark
from volley.run.report_parts import hosts_of
from volley.text import escape_controls, grouped, join_words
from volley.units import format_cpulist


def render(
    logs: Sequence[RunLog],
    benchmarks: Sequence[Benchmark],
    format_name: str,
    out: TextIO,
    *,
    details: Details = USUAL,
    err: TextIO | None = None,
    each: str | None = None,
    quiet: bool = False,
) -> None:
    """Show runs on ``out``.

    Args:
        logs: the runs, in order; launches of the same request are shown together.
        benchmarks: the benchmarks to which the runs may belong.
        format_name: one of ``FORMATS``, or a special format of the runs' benchmark.
        out: the output file.
        details: table and markdown only; what to show instead of the summary.
        err: the file for notes that the other formats do not contain; default: standard error.
        each: ``run`` or ``launch``: show each of them by itself; ``None``: launches of the same request together.
        quiet: of those notes, write only errors.
    """
    keys: dict[str | None, Callable[[RunLog], object]] = {"run": attrgetter("file"), "launch": id}
    groups = grouped(logs, keys.get(each, lambda _: None)).values()
    found = [those for group in groups for those in results_of(group, benchmarks)]
    for benchmark, _ in found:
        _check_format(format_name, benchmark, benchmarks)
    reports = reports_of(found)
    special: list[str] = []
    if format_name in FORMATS:
        render_reports(reports, format_name, out, details)
    else:
        special = [line for benchmark, results in found for line in benchmark.renderers[format_name](results, out)]
    if format_name not in ("table", "markdown"):
        shown = [replace(note, text=_of(report, each) + note.text) for report in reports for note in report.all_notes]
        print_notes(shown, special, err or sys.stderr, quiet=quiet)


def _of(report: Report, each: str | None) -> str:
    """Return what stands before a note where each run, or each launch, is shown by itself."""
    run, launch = report.origin["run"], report.origin["launch"]
    return {"run": f"{run}: ", "launch": f"launch {launch} of {run}: "}[each] if each else ""


def render_reports(reports: Sequence[Report], format_name: str, out: TextIO, details: Details = USUAL) -> None:
    """Show any reports in one of ``FORMATS``; arguments like those of :func:`render`."""
    renderer(format_name).render(reports, out, details)


def renderer(format_name: str) -> ModuleType:
    return import_module(f"volley.report.{FORMATS[format_name]}")


def print_notes(notes: Iterable[Note], special: Iterable[str], err: TextIO, *, quiet: bool = False) -> None:
    """Write what the data on standard output lacks: the notes of a special format, and all notes except findings.

    If ``quiet``, only errors are written.
    """
    errors = [note.text for note in notes if note.level == "error"]
    others = [] if quiet else [*special, *(note.text for note in notes if note.level in ("missing", "warning"))]
    for line in (*errors, *others):
        print(f"volley: {escape_controls(line)}", file=err)


Results = Sequence[tuple[Benchmark, Sequence[Any]]]
"""The results of each benchmark, one result object for each series."""


def results_of(logs: Sequence[RunLog], benchmarks: Sequence[Benchmark]) -> Results:
    """Compute the results of runs, in order of appearance."""
    groups = grouped(logs, lambda log: _benchmark_of(log, benchmarks).name)
    return [(each, each.results(groups[each.name])) for name in groups for each in benchmarks if each.name == name]


def reports_of(found: Results) -> list[Report]:
    return [
        replace(report, origin=_origin(report, benchmark))
        for benchmark, results in found
        for report in benchmark.reports(results)
    ]


def _origin(report: Report, benchmark: Benchmark) -> dict[str, str]:
    """Return benchmark, files, hosts, the start of the first launch, and the numbers of the launches in each file."""
    known = [each["run"] for each in report.runs if each["run"]]
    files = grouped(report.runs, itemgetter("file"))
    return {
        "benchmark": benchmark.name,
        "run": " ".join(files),
        "host": " ".join(hosts_of(rank for run in known for rank in run.ranks)),
        "date": min((run.started_at for run in known), default=""),
        "launch": " ".join(format_cpulist(each["launch"] for each in runs) for runs in files.values()),
    }


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
        f"{format_name} is {special[format_name]}, and cannot show volley {benchmark.command}: "
        f"choose {join_words(FORMATS, 'or')}"
    )
