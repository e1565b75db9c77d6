"""``volley show``: saved records, shown again."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from volley.benchmarks import BENCHMARKS
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.run.commandline import Command, Options, argument, group
from volley.run.options import OutputOptions, format_change


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Options):
    """What ``volley show`` takes."""

    records: tuple[str, ...] = argument("RECORDS…", help="Files of records; - is standard input.")
    output: OutputOptions = group(
        OutputOptions,
        only=("format",),
        format=format_change({name: text for each in BENCHMARKS for name, text in each.formats.items()}),
    )


def _run(options: ShowOptions) -> int:
    if options.records.count("-") > 1:
        raise UserError("standard input can be read once: write - once")
    from volley.run.records_file import read_runs  # noqa: PLC0415  start-up: --help does without
    from volley.run.show import render  # noqa: PLC0415

    logs = [log for path in options.records for log in read_runs(path, BENCHMARKS)]
    render(logs, BENCHMARKS, options.output.format, sys.stdout)
    failed = any("failed" in log.statuses for log in logs)
    whole = all(log.complete and log.end and log.end.status == "complete" for log in logs)
    return EXIT_GOOD if whole and not failed else EXIT_FAILED


COMMAND = Command(
    name="show",
    help="""Show saved records again, in any format; also those of a run that was aborted.

    Several files are shown as one: launches of the same plan on the same hosts count as repetitions. A dash stands for
    standard input. The exit code is 1 where a point failed, a run is incomplete or a line cannot be read.""",
    options=(ShowOptions,),
    run=_run,
    examples=(
        "volley show link.jsonl",
        "volley show monday.jsonl tuesday.jsonl --format csv",
        "ssh node1 cat link.jsonl | volley show -",
    ),
)
