"""``volley show``, ``list`` and ``delete``: their options, and saved records as a report."""

from __future__ import annotations

import re
import shlex
import sys
import time
from calendar import timegm
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import Any, Literal

from volley.benchmarks import BENCHMARKS
from volley.command import option_values
from volley.command.commandline import Lazy, Options, argument, flag, group, option
from volley.command.options import FORMATS, OUTPUT, WHICH, OutputOptions, format_change
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.records.command_again import budget_named, launches_named
from volley.records.records_file import first_and_last, read_all, without_repeats
from volley.records.saved_runs import TIME, SavedRun, run_named, saved_runs, state_folder
from volley.report.model import Cell, Column, Data, Details, Report, Table
from volley.run.render import render, render_reports
from volley.text import count, escape_controls, grouped, join_words
from volley.units import format_duration


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Options):
    records: tuple[str, ...] = argument(
        "[RECORDS…]",
        positional="*",
        help="Files of records, or ids or names of saved runs (volley list); - is standard input. Default: last, the "
        "newest saved run.",
    )
    each: Literal["run", "launch"] | None = option(
        read=option_values.choice("run", "launch"),
        panel=OUTPUT,
        help="Show every file, or every launch, by itself.",
    )
    output: OutputOptions = group(
        OutputOptions,
        only=("format", "full", "quiet"),
        format=format_change({name: text for each in BENCHMARKS for name, text in each.formats.items()}),
    )


def show(options: ShowOptions) -> int:
    if not options.records:
        if not saved_runs():
            raise UserError("no run is saved on this machine: name a file of records, or measure first with volley")
        options = replace(options, records=("last",))

    output = options.output
    try:
        logs, refused = read_all(options.records, BENCHMARKS)
    except UserError:
        from volley.references import published  # noqa: PLC0415  start-up: only after an error

        if reference := next((word for word in options.records if word in published()), None):
            raise UserError(
                f"{reference} is not a run but a published reference: volley references {reference}"
            ) from None
        raise
    groups = grouped(logs, lambda log: log.file if options.each else "").values()
    logs = [log for those in groups for log in without_repeats(those, quiet=output.quiet)]
    again = shlex.join(("volley", "show", *options.records))
    files = grouped(logs, lambda log: log.file) if output.format == "table" and not output.full else {}
    checks = {file: those for file, those in files.items() if any(log.of_check for log in those)}
    for file, those in checks.items():  # other records are shown without what judges these
        if len(files) > 1:
            print(f"{escape_controls(file)}:")
        Lazy("volley.check.kept.judge_logs")(those)
    if others := [log for log in logs if log.file not in checks]:
        details = Details(output.full, again)
        render(others, BENCHMARKS, output.format, sys.stdout, details=details, each=options.each, quiet=output.quiet)
    if checks:
        print(f"what was measured: {again} --full")
    return EXIT_GOOD if not refused and all(log.good for log in logs) else EXIT_FAILED


# ---------------------------------------------------------------------------------------------- saved runs


_FORMATS = tuple(name for name in FORMATS if name != "prometheus")
"""A list of files has no metrics."""
_MAX_RUNS = 20
"""The newest runs that are listed; ``--full`` lists all."""
COLUMNS = (
    "id", "name", "tags", "started_at", "benchmark", "host", "launches", "points", "failed", "elapsed_s", "status",
    "path",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ListOptions(Options):
    PANEL = WHICH

    name: str = option(
        read=option_values.text, default="*", metavar="PATTERN", help="Only runs whose name matches this pattern."
    )
    tag: tuple[str, ...] = option(
        read=option_values.texts, repeat=True, help="Only runs with this tag; may be repeated."
    )
    output: OutputOptions = group(
        OutputOptions,
        only=("format", "full"),
        format={"read": option_values.choice(*_FORMATS), "help": f"{join_words(_FORMATS, 'or')}."},
        full={"help": "List all runs, and not only the newest ones."},
    )


@dataclass(frozen=True, kw_only=True)
class DeleteOptions(Options):
    runs: tuple[str, ...] = argument(
        "[RUN…]", positional="*", help="Ids or names of saved runs (volley list); or --older-than, --keep or both."
    )
    older_than: float | None = option(
        read=option_values.age,
        panel=WHICH,
        help="Runs older than this, e.g. 30d, 12h or 8w, without those that have a name or are being measured.",
    )
    keep: int | None = option(
        read=option_values.number(0),
        panel=WHICH,
        help="Runs without a name, except this many of the newest runs.",
    )
    yes: bool = flag("-y", panel=OUTPUT, help="Delete without asking.")


def report(runs: Sequence[SavedRun], heading: str, *, full: bool = True) -> Report:
    shown = runs if full else runs[:_MAX_RUNS]
    rows = list(map(_row, shown))
    columns: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
        Column("id", align="left"): lambda row: row["id"] or row["path"].rpartition("/")[2].removesuffix(".jsonl"),
        Column("begun", align="left"): lambda row: _local(row["started_at"]),
        Column("command", align="left"): _typed,
        Column("host", align="left", spare=2): itemgetter("host"),
        Column("launches", spare=1): itemgetter("launches"),
        Column("points"): itemgetter("points"),
        Column("measured", spare=3): lambda row: format_duration(row["elapsed_s"]),
        Column("name, tags", align="left"): lambda row: " ".join(
            filter(None, (row["name"], row["tags"] and f"[{row['tags']}]"))
        ),
        Column("status", align="left"): _status,
    }
    legend = ["points: of all launches together"] if runs else []
    legend += [f"and {count(len(runs) - len(shown), 'older run')}: --full lists all"] if len(shown) < len(runs) else []
    return Report(
        heading=[heading],
        tables=[Table.of(columns, rows, legend=legend)] if rows else [],
        results=lambda: Data(COLUMNS, ("id", "path"), rows),
    )


def _row(run: SavedRun) -> dict[str, Any]:
    data = b""
    with suppress(OSError):
        data = run.path.read_bytes()
    runs, ends, ended, further = first_and_last(data)
    status = next((end.status for end in ends if end.status != "complete"), "complete")
    cut = not data.endswith(b"\n") or ended < sum("asked" in run.plan.launch for run in runs)
    without_limit = (run.plan for run in runs if budget_named(run.plan) is None)
    if cut or len(ends) < len(runs) or len(runs) < max(map(launches_named, without_limit), default=0):
        status = "incomplete"
    return {
        "id": run.id,
        "name": run.known.name,
        "tags": " ".join(run.known.tags),
        "started_at": run.begun[0],
        "benchmark": " ".join(dict.fromkeys(run.plan.benchmark for run in runs)),
        "host": " ".join(dict.fromkeys(rank.host for run in runs for rank in run.ranks)),
        "launches": len(runs),
        "points": sum(end.points_ok for end in ends) + further,
        "failed": sum(end.points_failed for end in ends),
        "elapsed_s": sum(end.elapsed_s for end in ends),
        "status": "running" if run.running else status if runs else "unreadable" if data else "empty",
        "path": str(run.path),
    }


def _status(row: Mapping[str, Any]) -> Cell:
    measures = {each.name for each in BENCHMARKS if each.records} & {*row["benchmark"].split()}
    running = f"running, {count(row['points'], 'point')} so far"
    words = {"complete": "nothing measured" if measures and not row["points"] else "", "running": running}
    status = words.get(row["status"], row["status"])
    if row["failed"]:
        status = f"{row['failed']} failed{f', {running}' if row['status'] == 'running' else ''}"
    return Cell(text=status, style="" if row["status"] == "running" else "error")


def _typed(row: Mapping[str, Any]) -> str:
    """Return the command that measured: the name of the file tells a check, which runs several benchmarks."""
    if re.search(r"-check(-\d+)?\.jsonl$", row["path"]):
        return "check"
    commands = {each.name: each.command for each in BENCHMARKS}
    return " ".join(dict.fromkeys(commands.get(name, name) for name in row["benchmark"].split()))


def _local(started_at: str) -> str:
    with suppress(ValueError, OverflowError):
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(timegm(time.strptime(started_at, TIME))))
    return started_at


def list_runs(options: ListOptions) -> int:
    saved = saved_runs()
    runs = [
        run for run in saved if fnmatchcase(run.known.name, options.name) and set(options.tag) <= set(run.known.tags)
    ]
    of = f" of {len(saved)}" if len(runs) < len(saved) else ""
    heading = f"{count(len(runs), 'run')}{of} saved in {state_folder()}"
    render_reports([report(runs, heading, full=options.output.full)], options.output.format, sys.stdout)
    return EXIT_GOOD


def delete(options: DeleteOptions) -> int:
    by_age = options.older_than is not None or options.keep is not None
    if by_age == bool(options.runs):
        wrong = "takes either runs or --older-than and --keep, not both" if by_age else "takes the runs to delete"
        raise UserError(f"volley delete {wrong}: write volley delete last, or volley delete --older-than 30d --keep 20")
    before_s = time.time() - (options.older_than or 0.0)
    old = (run for run in saved_runs()[options.keep or 0 :] if run.begun_s <= before_s) if by_age else ()
    found = dict.fromkeys(run for run in old if not run.known.name and not run.running)
    for word in options.runs:
        run, shown = run_named(word), escape_controls(word)
        if run is None:
            raise UserError(f"there is no saved run {shown}: see volley list; rm deletes other files")
        if run.running:
            raise UserError(f"{shown} is being measured now: stop it first")
        if run.path.parent != state_folder():
            raise UserError(f"{shown} is the file {escape_controls(str(run.path))}, which -o named: rm deletes it")
        found[run] = None
    return _delete(list(found), ask=not options.yes)


def _delete(runs: Sequence[SavedRun], *, ask: bool) -> int:
    """Say what will be deleted, and delete it where the user agrees."""
    render_reports([report(runs, f"to delete: {count(len(runs), 'run')} of {len(saved_runs())}")], "table", sys.stdout)
    if not runs:
        return EXIT_GOOD
    if ask:
        if not sys.stdin.isatty():
            raise UserError("nothing was deleted: write --yes to delete without being asked")
        print("Delete? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("volley: nothing was deleted", file=sys.stderr)
            return EXIT_GOOD
    for run in runs:
        run.path.unlink(missing_ok=True)
    print(f"volley: deleted {count(len(runs), 'run')}", file=sys.stderr)
    return EXIT_GOOD
