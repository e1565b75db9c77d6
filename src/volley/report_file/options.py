"""The options of ``volley report``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from volley.command import option_values
from volley.command.commandline import Options, argument, flag, option
from volley.command.options import OUTPUT


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """The options of ``volley report``."""

    records: tuple[str, ...] = argument(
        "RECORDS…",
        positional="*",
        help="Files of records, or numbers or names of kept runs (volley list); - is standard input.",
    )
    output: Path = option(
        "--output",
        "-o",
        read=option_values.file,
        default=Path("report.html"),
        shown="report.html",
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
