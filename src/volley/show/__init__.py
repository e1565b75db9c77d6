"""``volley show`` and ``volley list``: saved records, shown again, and which ones there are."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from typing import Literal

from volley.benchmarks import BENCHMARKS
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.run import option_values
from volley.run.commandline import Command, Options, argument, group, option
from volley.run.options import OUTPUT, OutputOptions, format_change


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Options):
    """What ``volley show`` takes."""

    records: tuple[str, ...] = argument(
        "[RECORDS…]",
        positional="*",
        help="Files of records, or numbers or names of kept runs (volley list); - is standard input. Default: the last "
        "run that was kept.",
    )
    each: Literal["run", "launch"] | None = option(
        read=option_values.choice("run", "launch"),
        metavar="run|launch",
        panel=OUTPUT,
        help="Show every file, or every launch, by itself.",
    )
    output: OutputOptions = group(
        OutputOptions,
        only=("format", "full", "notes", "fit", "quiet"),
        format=format_change({name: text for each in BENCHMARKS for name, text in each.formats.items()}),
    )


@dataclass(frozen=True, kw_only=True)
class ListOptions(Options):
    """What ``volley list`` takes."""

    output: OutputOptions = group(
        OutputOptions, only=("format", "full"), full={"help": "List all runs, and not only the last ones."}
    )


def _show(options: ShowOptions) -> int:
    from volley.run.records_file import kept_files, read_runs  # noqa: PLC0415  start-up: --help does without
    from volley.run.render import render  # noqa: PLC0415

    if not options.records:
        kept = kept_files()
        if not kept:
            raise UserError("no run is kept on this machine: name a file of records, or measure first with volley")
        options = replace(options, records=(str(kept[0]),))
    if options.records.count("-") > 1:
        raise UserError("standard input can be read once: write - once")

    logs = [log for path in options.records for log in read_runs(path, BENCHMARKS)]
    output = options.output
    render(
        logs,
        BENCHMARKS,
        output.format,
        sys.stdout,
        details=output.details(shlex.join(("volley", "show", *options.records))),
        each=options.each,
        quiet=output.quiet,
    )
    failed = any("failed" in log.statuses for log in logs)
    whole = all(log.complete and log.end and log.end.status == "complete" for log in logs)
    return EXIT_GOOD if whole and not failed else EXIT_FAILED


def _list(options: ListOptions) -> int:
    from volley.run.render import render_reports  # noqa: PLC0415  start-up: --help does without
    from volley.show.kept import report  # noqa: PLC0415

    render_reports([report(full=options.output.full)], options.output.format, sys.stdout)
    return EXIT_GOOD


COMMANDS = (
    Command(
        name="show",
        help="""Show saved records again, in any format; also those of a run that was aborted.

        Without a file it shows the last run that volley kept. Several files are shown as one: launches of the same plan
        on the same hosts count as repetitions, unless --each separates them. A dash stands for standard input. The exit
        code is 1 where a point failed, a run is incomplete or a line cannot be read.""",
        options=(ShowOptions,),
        run=_show,
        examples=(
            "volley show --full",
            "volley show link.jsonl --notes",
            "volley show monday.jsonl tuesday.jsonl --each run --format csv",
            "ssh node1 cat link.jsonl | volley show -",
        ),
    ),
    Command(
        name="list",
        help="""List the runs that volley kept on this machine, the newest first.

        Other commands take the number or the name of a run in place of a file.""",
        options=(ListOptions,),
        run=_list,
        examples=("volley list", "volley show 2"),
    ),
)
