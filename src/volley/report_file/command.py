"""From files of records to a report file."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from volley.benchmarks import BENCHMARKS
from volley.errors import EXIT_FAILED, EXIT_GOOD, MachineError, UserError
from volley.files import read_bounded, refuse_input, write_file
from volley.machine.reinstall import install_command
from volley.records.records_file import MAX_BYTES, find_file, parse_runs, without_repeats
from volley.report.model import Report
from volley.report_file.message_paths import pictures_of
from volley.report_file.options import ReportOptions
from volley.run.render import reports_of, results_of
from volley.text import escape_controls

_FORMATS = {".html": "html", ".htm": "html", ".svg": "svg", ".png": "png"}
_PAPER, _INK = "#ffffff", "#1f2328"


def run(options: ReportOptions) -> int:
    """Run the command; return the exit code: 1 if a point failed or a run is incomplete."""
    if not options.records:
        raise UserError(
            "volley report takes files of records: write volley report link.jsonl, or volley report 1 for the last run "
            "of volley list"
        )
    named = _FORMATS.get(options.output.suffix.lower())
    form = options.format or named
    name = escape_controls(str(options.output))
    if named is not None and named != form:
        raise UserError(f"-o {name} --format {form}: the name ends as that of {named}: leave out one of them")
    if form is None:
        raise UserError(f"-o {name}: the name does not end with .html, .svg or .png: add one, or give --format")
    if not options.output.parent.is_dir():  # told now, not after a large report is made
        raise UserError(f"cannot write {name}: {escape_controls(str(options.output.parent))} is no folder")
    if options.records.count("-") > 1:
        raise UserError("standard input can be read once: write - once")
    try:
        from volley.report import html  # noqa: PLC0415  start-up: the packages of the extra `report`
    except ImportError as error:
        raise MachineError(f"volley report needs the package {error.name}: {install_command('report')}") from None
    paths = list(map(find_file, options.records))
    refuse_input(options.output, paths)
    files = [
        ("records.jsonl" if path == "-" else Path(path).name.removesuffix(".gz"), read_bounded(path, MAX_BYTES))
        for path in paths
    ]
    logs = [
        log
        for path, (_, data) in zip(paths, files, strict=True)
        for log in parse_runs(data, BENCHMARKS, "standard input" if path == "-" else path)
    ]
    logs = without_repeats(logs, quiet=options.quiet)
    if form == "html":
        out = io.StringIO()
        reports = reports_of(results_of(logs, BENCHMARKS))
        pictures = [[html.Picture(title, svg) for title, svg in pictures_of(report.runs)] for report in reports]
        html.render(reports, pictures, files, out)
        content = out.getvalue().encode()
    else:
        content = _picture(reports_of(results_of(logs, BENCHMARKS)), form)
    write_file(options.output, content)
    if not options.quiet:
        print(f"report: {name}", file=sys.stderr)
    return EXIT_GOOD if all(log.good for log in logs) else EXIT_FAILED


def _picture(reports: Sequence[Report], form: str) -> bytes:
    """Draw all charts as one picture."""
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
