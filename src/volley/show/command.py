"""``volley show``: its options, and saved records as a report."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from typing import Literal

from volley.benchmarks import BENCHMARKS
from volley.command import option_values
from volley.command.commandline import Options, argument, group, option
from volley.command.options import OUTPUT, OutputOptions, format_change
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.grouping import grouped
from volley.records.kept_runs import kept_runs
from volley.records.records_file import read_all, without_repeats
from volley.run.render import render


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Options):
    """What ``volley show`` takes."""

    records: tuple[str, ...] = argument(
        "[RECORDS…]",
        positional="*",
        help="Files of records, or ids or names of kept runs (volley list); - is standard input. Default: last, the "
        "newest run that was kept.",
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


def show(options: ShowOptions) -> int:
    if not options.records:
        if not kept_runs():
            raise UserError("no run is kept on this machine: name a file of records, or measure first with volley")
        options = replace(options, records=("last",))
    if options.records.count("-") > 1:
        raise UserError("standard input can be read once: write - once")

    output = options.output
    logs, refused = read_all(options.records, BENCHMARKS)
    groups = grouped(logs, lambda log: log.file if options.each else "").values()
    logs = [log for those in groups for log in without_repeats(those, quiet=output.quiet)]
    render(
        logs,
        BENCHMARKS,
        output.format,
        sys.stdout,
        details=output.details(shlex.join(("volley", "show", *options.records))),
        each=options.each,
        quiet=output.quiet,
    )
    return EXIT_GOOD if not refused and all(log.good for log in logs) else EXIT_FAILED
