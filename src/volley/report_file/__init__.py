"""``volley report``: saved records as one file: an HTML page, or a picture of the charts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from volley.run import option_values
from volley.run.commandline import Command, Options, argument, flag, option
from volley.run.options import OUTPUT


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """The options of ``volley report``."""

    records: tuple[str, ...] = argument("RECORDS…", help="Files of records; - is standard input.")
    output: Path = option(
        "--output",
        "-o",
        read=lambda _, words: Path(words[-1]),
        default=Path("report.html"),
        shown="report.html",
        metavar="FILE",
        panel=OUTPUT,
        help="The file to write.",
    )
    format: Literal["html", "svg", "png"] | None = option(
        "--format",
        "-f",
        read=option_values.choice("html", "svg", "png"),
        shown="by the name of the file",
        metavar="html|svg|png",
        panel=OUTPUT,
        help="html: a page with charts, tables and the records; svg, png: a picture of the charts.",
    )
    quiet: bool = flag("--quiet", "-q", panel=OUTPUT, help="Show no message except errors.")


def _run(options: ReportOptions) -> int:
    from volley.report_file.command import run  # noqa: PLC0415  start-up: --help does without

    return run(options)


COMMAND = Command(
    name="report",
    help="""Write saved records as one HTML page that needs no network, or as a picture.

    The page contains findings, charts, sortable tables, the environment, and the records themselves. Several files
    become one page, side by side. With -o NAME.svg or -o NAME.png, only the charts are drawn. The exit code is 1 if a
    point failed, a run is incomplete or a line cannot be read.""",
    options=(ReportOptions,),
    run=_run,
    examples=(
        "volley report link.jsonl -o link.html",
        "volley report monday.jsonl tuesday.jsonl -o week.html",
        "volley report link.jsonl -o link.svg",
    ),
)
