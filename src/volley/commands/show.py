"""``volley show``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from volley.commands.common import Command
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.options import shared as opt


def show(
    records: Annotated[list[str], typer.Argument(metavar="RECORDS…", help="Files of records; - is standard input.")],
    format_name: opt.Format = "table",
) -> None:
    """Show saved records again, in any format; also those of a run that broke off.

    Several files are shown as one: launches of the same plan on the same hosts count as repetitions. A dash stands for
    standard input. The exit code is 1 where a point failed, a run is incomplete or a line cannot be read.
    """
    if records.count("-") > 1:
        raise UserError("standard input can be read once: write - once")
    from volley.records_io import read_runs  # noqa: PLC0415  start-up: --help does without
    from volley.report import render  # noqa: PLC0415

    logs = [log for path in records for log in read_runs(path)]
    render(logs, format_name, sys.stdout)
    failed = any("failed" in log.statuses for log in logs)
    whole = all(log.complete and log.end and log.end.status == "complete" for log in logs)
    raise typer.Exit(EXIT_GOOD if whole and not failed else EXIT_FAILED)


COMMAND = Command(
    show,
    examples=(
        "volley show link.jsonl",
        "volley show monday.jsonl tuesday.jsonl --format csv",
        "ssh node1 cat link.jsonl | volley show -",
    ),
)
