"""The list of the runs that volley kept: when, what, where, how much, and the file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from volley.records.command_again import launches_asked
from volley.records.records_file import first_and_last, kept_files, state_folder
from volley.report.model import Cell, Column, Data, Report, Row, Table
from volley.text import count, join_words
from volley.units import format_duration

_MAX_RUNS = 20
"""The newest runs that are listed; ``--full`` lists all."""

_COLUMNS = ("number", "started_at", "benchmark", "host", "launches", "points", "failed", "elapsed_s", "status", "path")


def report(*, full: bool) -> Report:
    """Return the list."""
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
        data=Data(_COLUMNS, ("path",), rows),
    )


def _read(path: Path, number: int) -> dict[str, Any]:
    """Return what the first and the last records of the launches of a file say; unreadable lines are left out."""
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
