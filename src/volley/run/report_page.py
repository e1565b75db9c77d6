"""Reports as a file: an HTML page, or a picture of the charts."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from volley.errors import MachineError, UserError
from volley.files import write_file
from volley.machine.reinstall import install_command
from volley.report.model import Report
from volley.text import escape_controls

_FORMATS = {".html": "html", ".htm": "html", ".svg": "svg", ".png": "png"}
_PAPER, _INK = "#ffffff", "#1f2328"


def form_of(output: Path, asked: str | None = None) -> str:
    """Return what to write into a file, by its name: ``html``, ``svg`` or ``png``.

    Raises:
        UserError: the name does not say it, says something else than ``asked``, or is in no folder.
        MachineError: the packages that it needs are missing.
    """
    named = _FORMATS.get(output.suffix.lower())
    form = asked or named
    name = escape_controls(str(output))
    if named is not None and named != form:
        raise UserError(f"-o {name} --format {form}: the name ends as that of {named}: leave out one of them")
    if form is None:
        raise UserError(f"-o {name}: the name does not end with .html, .svg or .png: add one, or give --format")
    if not output.parent.is_dir():  # told now, not after a large report is made
        raise UserError(f"cannot write {name}: {escape_controls(str(output.parent))} is no folder")
    _html()
    return form


def _html() -> ModuleType:
    try:
        from volley.report import html  # noqa: PLC0415  start-up: the packages of the extra `report`
    except ImportError as error:
        raise MachineError(f"volley report needs the package {error.name}: {install_command('report')}") from None
    return html


@dataclass(frozen=True)
class Sections:
    """What a page consists of."""

    title: str
    reports: Sequence[Report]
    files: Sequence[tuple[str, bytes]]
    """Names and contents of the records behind the reports."""
    pictures: Sequence[Sequence[tuple[str, str]]] = ()
    """Titles and drawings, of each report."""

    def page(self) -> str:
        html, out = _html(), io.StringIO()
        pictures = self.pictures or [()] * len(self.reports)
        drawn = [[html.Picture(*each) for each in those] for those in pictures]
        html.render(self.title, self.reports, drawn, self.files, out)
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
