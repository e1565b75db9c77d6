"""What ``volley show`` and ``volley list`` do."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace

from volley.benchmarks import BENCHMARKS
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.grouping import grouped
from volley.records.records_file import kept_files, read_runs, without_repeats
from volley.run.render import render, render_reports
from volley.show.kept import report
from volley.show.options import ListOptions, ShowOptions


def show(options: ShowOptions) -> int:
    """Show saved records; return the exit code.

    Raises:
        UserError: if there is no such file, or it cannot be shown in this format.
    """
    if not options.records:
        kept = kept_files()
        if not kept:
            raise UserError("no run is kept on this machine: name a file of records, or measure first with volley")
        options = replace(options, records=(str(kept[0]),))
    if options.records.count("-") > 1:
        raise UserError("standard input can be read once: write - once")

    output = options.output
    logs = [log for path in options.records for log in read_runs(path, BENCHMARKS)]
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
    return EXIT_GOOD if all(log.good for log in logs) else EXIT_FAILED


def list_runs(options: ListOptions) -> int:
    """List the runs that were kept; return the exit code."""
    render_reports([report(full=options.output.full)], options.output.format, sys.stdout)
    return EXIT_GOOD
