"""``volley show``: saved records, shown again."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace

from volley.benchmarks import BENCHMARKS
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.run.commandline import Command, Options, argument, group
from volley.run.options import OutputOptions, format_change


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Options):
    """What ``volley show`` takes."""

    records: tuple[str, ...] = argument(
        "[RECORDS…]", positional="*", help="Files of records; - is standard input. Default: the last run that was kept."
    )
    output: OutputOptions = group(
        OutputOptions,
        only=("format", "full", "notes", "fit"),
        format=format_change({name: text for each in BENCHMARKS for name, text in each.formats.items()}),
    )


def _run(options: ShowOptions) -> int:
    from volley.report.terminal import Details  # noqa: PLC0415  start-up: --help does without
    from volley.run.records_file import newest_file, read_runs  # noqa: PLC0415
    from volley.run.render import render  # noqa: PLC0415

    if not options.records:
        options = replace(options, records=(str(newest_file()),))
    if options.records.count("-") > 1:
        raise UserError("standard input can be read once: write - once")

    logs = [log for path in options.records for log in read_runs(path, BENCHMARKS)]
    output = options.output
    render(
        logs,
        BENCHMARKS,
        output.format,
        sys.stdout,
        details=Details(output.full, output.notes, output.fit),
        command=shlex.join(("volley", "show", *options.records)),
    )
    failed = any("failed" in log.statuses for log in logs)
    whole = all(log.complete and log.end and log.end.status == "complete" for log in logs)
    return EXIT_GOOD if whole and not failed else EXIT_FAILED


COMMAND = Command(
    name="show",
    help="""Show saved records again, in any format; also those of a run that was aborted.

    Without a file it shows the last run that volley kept. Several files are shown as one: launches of the same plan on
    the same hosts count as repetitions. A dash stands for standard input. The exit code is 1 where a point failed, a
    run is incomplete or a line cannot be read.""",
    options=(ShowOptions,),
    run=_run,
    examples=(
        "volley show --full",
        "volley show link.jsonl --notes",
        "volley show monday.jsonl tuesday.jsonl --format csv",
        "ssh node1 cat link.jsonl | volley show -",
    ),
)
