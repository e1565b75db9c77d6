"""``volley show`` and ``volley list``: their options, what they do, and the list of the runs that volley kept."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from volley.benchmarks import BENCHMARKS
from volley.command import option_values
from volley.command.commandline import Options, argument, group, option
from volley.command.options import FORMATS, OUTPUT, OutputOptions, format_change
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.grouping import grouped
from volley.records.command_again import launches_asked
from volley.records.records_file import first_and_last, kept_files, read_runs, state_folder, without_repeats
from volley.report.model import Cell, Column, Data, Report, Row, Table
from volley.run.render import render, render_reports
from volley.text import count, join_words
from volley.units import format_duration

LIST_FORMATS = tuple(name for name in FORMATS if name != "prometheus")
"""A list of files has no metrics."""


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
        OutputOptions,
        only=("format", "full"),
        format={"read": option_values.choice(*LIST_FORMATS), "help": f"{join_words(LIST_FORMATS, 'or')}."},
        full={"help": "List all runs, and not only the last ones."},
    )


_MAX_RUNS = 20
"""The newest runs that are listed; ``--full`` lists all."""

COLUMNS = ("number", "started_at", "benchmark", "host", "launches", "points", "failed", "elapsed_s", "status", "path")


def report(*, full: bool) -> Report:
    files = kept_files()
    shown = files if full else files[:_MAX_RUNS]
    rows = [_read(path, number) for number, path in enumerate(shown, start=1)]
    columns = [
        Column(),
        Column("name: begun, benchmark", align="left"),
        Column("host", align="left"),
        Column("launches"),
        Column("points"),
        Column("measured"),
        Column("", align="left"),
    ]
    folders = dict.fromkeys(str(path.parent) for path in files) or [str(state_folder())]
    hidden = len(files) - len(shown)
    legend = ["points: of all launches together"] if files else []
    legend += [f"and {count(hidden, 'older run')}: --full lists all"] if hidden else []
    return Report(
        heading=[f"{count(len(files), 'run')} kept in {join_words(folders)}"],
        tables=[Table(columns, list(map(_cells, rows)), legend=legend)] if rows else [],
        data=Data(COLUMNS, ("path",), rows),
    )


def _read(path: Path, number: int) -> dict[str, Any]:
    data = b""
    with suppress(OSError):
        data = path.read_bytes()
    runs, ends = first_and_last(data)
    status = next((end.status for end in ends if end.status != "complete"), "complete")
    if len(ends) < len(runs) or (runs and len(runs) < launches_asked(runs[0].plan)):
        status = "incomplete"
    return {
        "number": number,
        "started_at": runs[0].started_at if runs else None,
        "benchmark": " ".join(dict.fromkeys(run.plan.benchmark for run in runs)),
        "host": " ".join(dict.fromkeys(rank.host for run in runs for rank in run.ranks)),
        "launches": len(runs),
        "points": sum(end.points_ok for end in ends),
        "failed": sum(end.points_failed for end in ends),
        "elapsed_s": sum(end.elapsed_s for end in ends),
        "status": status if runs else "unreadable",
        "path": str(path),
    }


def _cells(row: Mapping[str, Any]) -> Row:
    """Return the cells of a run: ``1  2026-11-22T21-30-00-pingpong  node1  6  240  48 s``."""
    failed = [f"{row['failed']} failed"] if row["failed"] else []
    status = [row["status"]] if row["status"] != "complete" and not failed else []
    return [
        row["number"],
        Path(row["path"]).stem,
        *(row[name] for name in ("host", "launches", "points")),
        format_duration(row["elapsed_s"]),
        Cell(text=" ".join(failed + status), style="error"),
    ]


def show(options: ShowOptions) -> int:
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
    render_reports([report(full=options.output.full)], options.output.format, sys.stdout)
    return EXIT_GOOD
