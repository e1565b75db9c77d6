"""Show runs in any format, also as a file: each benchmark makes reports, and no renderer depends on a benchmark."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from volley.command.commandline import load
from volley.command.options import FORMATS
from volley.errors import MachineError, UserError
from volley.files import read_bounded, write_file
from volley.records.launch_series import LaunchSeries, settings_of
from volley.records.records_file import MAX_BYTES
from volley.records.run_log import RunLog
from volley.report.columns import MEANINGS
from volley.report.model import USUAL, Details, Later, Report
from volley.run.benchmark import Benchmark
from volley.run.report_parts import hosts_of, incomplete
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
    why_is_below: bool = False,
) -> None:
    """Show runs on ``out``.

    Args:
        logs: the runs, in order.
        benchmarks: the benchmarks to which the runs may belong.
        format_name: one of ``FORMATS``, or a special format of the runs' benchmark.
        out: the output file.
        details: table and markdown only; what to show instead of the summary.
        err: the file for notes that the other formats do not contain, ``quiet``: only errors; default: standard error.
        each: ``run`` or ``launch``: show each of them by itself; ``None``: launches of the same request together.
        why_is_below: the caller says below why launches ended early, and the reports do not.
    """
    keys: dict[str | None, Callable[[RunLog], object]] = {"run": attrgetter("file"), "launch": id}
    groups = grouped(logs, keys.get(each, lambda _: None)).values()
    found = [those for group in groups for those in results_of(group, benchmarks)]
    for benchmark, _ in found if format_name not in FORMATS else ():
        _check_format(format_name, benchmark, benchmarks)
    reports = reports_of(found, why_is_below=why_is_below)
    special: list[str] = []
    if format_name in FORMATS:
        render_reports(reports, format_name, out, details)
    else:
        special = [line for benchmark, results in found for line in benchmark.renderers[format_name](results, out)]
    if format_name not in ("table", "markdown"):
        which = {"run": "{run}: ", "launch": "launch {launch} of {run}: "}[each] if each else ""
        notes = [
            (note.level, which.format(**report.origin()) + note.whole)
            for report in reports
            for note in (*report.notes, *report.doubts)
        ]
        errors = [text for level, text in notes if level == "error"]
        others = [*special, *(text for level, text in notes if level in ("missing", "warning"))]  # the data lacks them
        for line in (*errors, *(() if quiet else others)):
            print(f"volley: {escape_controls(line)}", file=err or sys.stderr)


def render_reports(reports: Sequence[Report], format_name: str, out: TextIO, details: Details = USUAL) -> None:
    """Show any reports in one of ``FORMATS``; arguments like those of :func:`render`."""
    import_module(f"volley.report.{FORMATS[format_name]}").render(reports, out, details)


Results = Sequence[tuple[Benchmark, Sequence[Any]]]
"""The results of each benchmark, one result object for each series."""


def results_of(logs: Sequence[RunLog], benchmarks: Sequence[Benchmark]) -> Results:
    """Return the results of each benchmark: that of a run's plan or, without a run record, of its records."""
    own: dict[str, list[RunLog]] = {}
    for log in logs:
        types = {type(record) for record in log.records}
        of_records = (each.name for each in benchmarks if types & set(map(load, each.records)))
        name = log.run.plan.benchmark if log.run else next(of_records, benchmarks[0].name)
        own.setdefault(name, []).append(log)
    return [(each, each.results(those)) for name, those in own.items() for each in benchmarks if each.name == name]


def reports_of(found: Results, *, why_is_below: bool = False) -> list[Report]:
    def whole(benchmark: Benchmark, report: Report) -> Report:
        series = LaunchSeries(tuple(report.runs))
        return replace(
            report,
            notes=Later(lambda: [*incomplete(series, why_is_below=why_is_below), *report.notes]),
            origin=partial(_origin, report, benchmark),
            conditions=partial(_conditions, report),
        )

    return [whole(benchmark, report) for benchmark, results in found for report in map(benchmark.report, results)]


def _origin(report: Report, benchmark: Benchmark) -> dict[str, str]:
    """Return benchmark, files, hosts, the start of the first launch, and the numbers of the launches in each file."""
    known = [each.run for each in report.runs if each.run]
    files = grouped(report.runs, attrgetter("file"))
    return {
        "benchmark": benchmark.name,
        "run": " ".join(files),
        "host": " ".join(hosts_of(rank for run in known for rank in run.ranks)),
        "date": min((run.started_at for run in known), default=""),
        "launch": " ".join(format_cpulist(each.number for each in runs) for runs in files.values()),
    }


def _conditions(report: Report) -> dict[str, Any]:
    """Return the settings of its launches that its columns do not have."""
    plan, columns = next((each.run.plan for each in report.runs if each.run), None), report.data.columns
    settings = settings_of(plan) if plan else {}
    without = {*columns} if "samples" in columns and "transport" in columns else {"sampling", *columns}
    return {name: value for name, value in settings.items() if name in MEANINGS and name not in without}


def _check_format(format_name: str, benchmark: Benchmark, benchmarks: Sequence[Benchmark]) -> None:
    """Refuse a special format that the benchmark does not have."""
    if format_name in benchmark.formats:
        return
    special = {name: text for each in benchmarks for name, text in each.formats.items()}
    if format_name not in special:
        raise UserError(f"there is no format {format_name!r}: choose {join_words((*FORMATS, *special), 'or')}")
    raise UserError(
        f"{format_name} is {special[format_name]}, and cannot show volley {benchmark.command}: "
        f"choose {join_words(FORMATS, 'or')}"
    )


# --------------------------------------------------------------------- a file: a page, or a picture of the charts

_FILES = {".html": "html", ".htm": "html", ".svg": "svg", ".png": "png"}
_PAPER, _INK = "#ffffff", "#1f2328"


def form_of(output: Path, asked: str | None = None) -> str:
    """Return what to write into a file, by its name: ``html``, ``svg`` or ``png``.

    Raises:
        UserError: the name does not say it, says something else than ``asked``, or is in no folder.
        MachineError: the packages that it needs are missing.
    """
    named = _FILES.get(output.suffix.lower())
    form = asked or named
    name = escape_controls(str(output))
    if named is not None and named != form:
        raise UserError(f"-o {name} --format {form}: this name is for {named}: leave out one of them")
    if form is None:
        raise UserError(f"-o {name}: the name does not end with .html, .svg or .png: add one")
    if not output.parent.is_dir():  # told now, not after a large report is made
        raise UserError(f"cannot write {name}: {escape_controls(str(output.parent))} is not a folder")
    _html()
    return form


def _html() -> ModuleType:
    try:
        from volley.report import html  # noqa: PLC0415  start-up: the packages of the extra `report`
    except ImportError as error:
        from volley.machine.packages import install_command  # noqa: PLC0415  start-up: only for this

        raise MachineError(f"a page needs the package {error.name}: {install_command('report')}") from None
    return html


def attached(path: str) -> tuple[str, bytes]:
    """Return the name and the content of a file of records, as a page holds them."""
    return "records.jsonl" if path == "-" else Path(path).name.removesuffix(".gz"), read_bounded(path, MAX_BYTES)


@dataclass(frozen=True)
class Sections:
    title: str
    reports: Sequence[Report]
    files: Sequence[tuple[str, bytes]]
    """Names and contents of the records behind the reports."""
    pictures: Sequence[Sequence[tuple[str, str]]] = ()
    """Titles and drawings, of each report."""

    def page(self) -> str:
        out = io.StringIO()
        _html().render(self.title, self.reports, self.pictures or [()] * len(self.reports), self.files, out)
        return out.getvalue()


def write(output: Path, form: str, sections: Sections, *, quiet: bool) -> None:
    """Write reports as a page, or only their charts; say that it is done."""
    content = sections.page().encode() if form == "html" else _picture(sections.reports, form)
    write_file(output, content)
    if not quiet:
        print(f"report: {escape_controls(str(output))}", file=sys.stderr)


def _picture(reports: Sequence[Report], form: str) -> bytes:
    import vl_convert  # noqa: PLC0415  start-up: the packages of the extra `report`

    from volley.report.vega_lite import side_by_side  # noqa: PLC0415  start-up: the page does without

    charts = [
        replace(chart, caption=f"{report.heading[0]}; {chart.caption}") if len(reports) > 1 else chart
        for report in reports
        for chart in report.charts
    ]
    if not charts:
        raise UserError("these records have no charts: write an HTML page, e.g. -o report.html")
    spec = side_by_side(charts, _INK, _PAPER)
    if form == "svg":
        return vl_convert.vegalite_to_svg(spec).encode()
    return vl_convert.vegalite_to_png(spec, scale=2)
