"""What people and programs read: tables, CSV, JSON, the tutorial's lines, and progress.

Only data goes to ``out``.  With the others the sentences that belong to it (what failed, what was left out and
why, warnings) go to ``err``.
"""

from __future__ import annotations

import sys
from typing import TextIO, cast

from volley.errors import UserError
from volley.records_io import RunLog
from volley.report.csv import render_csv
from volley.report.encodable import Encodable
from volley.report.json import render_json
from volley.report.olcf import render_olcf
from volley.report.remarks import sentences
from volley.solution import solutions
from volley.summary import Series, series_of
from volley.text import several

FORMATS = ("table", "csv", "json", "olcf", "seed", "cuda-samples")
_OF_ONE = {
    "olcf": ("pingpong", "olcf is the ping-pong tutorial's line"),
    "seed": ("jacobi", "seed is the report of NVIDIA's Jacobi example"),
    "cuda-samples": ("node", "cuda-samples is the report of the CUDA sample p2pBandwidthLatencyTest"),
}


def check_format(format_name: str, benchmark: str) -> None:
    """Refuse a format that does not exist or that cannot show the benchmark.

    Raises:
        UserError: naming the formats that would do.
    """
    if format_name not in FORMATS:
        raise UserError(f"there is no format {format_name!r}: choose {several(FORMATS, 'or')}")
    of, what = _OF_ONE.get(format_name, (benchmark, ""))
    if benchmark != of:
        shown = "a matrix between ranks" if of == "node" and benchmark == "matrix" else benchmark
        raise UserError(f"{what} and cannot show {shown}: choose table, csv or json")


def render(
    logs: list[RunLog], format_name: str, out: TextIO, *, color: bool | None = None, err: TextIO | None = None
) -> None:
    """Show runs on ``out``.

    Args:
        logs: the runs, in order; launches of the same request are shown as one.
        format_name: one of ``FORMATS``.
        out: where the data goes.
        color: table only; ``None`` decides by whether ``out`` is a terminal (and by NO_COLOR).
        err: where remarks about the data go; standard error unless given.

    Raises:
        UserError: if the format is unknown or cannot show these runs.
    """
    for benchmark in {log.run.plan.benchmark for log in logs if log.run} or {"pingpong"}:
        check_format(format_name, benchmark)
    series = series_of(logs)
    if format_name == "table":
        from volley.report.table import render_table  # noqa: PLC0415  start-up: Rich's tables take 40 ms

        render_table(series, out, color=color)
        return
    if any(log.node or log.node_rows for log in logs):
        _render_node(series, format_name, cast(TextIO, Encodable(out)), cast(TextIO, Encodable(err or sys.stderr)))
        return
    solved = [log for log in logs if log.jacobi or (log.run and log.run.plan.benchmark == "jacobi")]
    if solved and len(solved) < len(logs):
        raise UserError(f"{format_name} has other columns for jacobi: show those runs apart from the others")
    if solved:
        _render_solutions(series, format_name, cast(TextIO, Encodable(out)), cast(TextIO, Encodable(err or sys.stderr)))
        return
    render_data = {"csv": render_csv, "json": render_json, "olcf": render_olcf}[format_name]
    about = [sentence.text for one in series for sentence in sentences(one) if sentence.level != "finding"]
    for line in (*render_data(series, cast(TextIO, Encodable(out))), *about):
        print(f"volley: {line}", file=cast(TextIO, Encodable(err or sys.stderr)))


def _render_node(series: list[Series], format_name: str, out: TextIO, err: TextIO) -> None:
    from volley.report import cuda_samples, node_data  # noqa: PLC0415  start-up: other benchmarks do without

    notes = []
    if format_name == "cuda-samples":
        notes = cuda_samples.render_cuda_samples([log for one in series for log in one.logs], out)
    elif format_name == "csv":
        node_data.render_csv([sheet for one in series for sheet in one.nodes], out)
    else:
        render_json(series, out)
    for line in (*notes, *(each.text for one in series for each in sentences(one) if each.level != "finding")):
        print(f"volley: {line}", file=err)


def _render_solutions(series: list[Series], format_name: str, out: TextIO, err: TextIO) -> None:
    from volley.report import jacobi, seed  # noqa: PLC0415  start-up: other benchmarks do without

    if format_name == "seed":
        seed.render_seed([log for one in series for log in one.logs], out)
    else:
        {"csv": jacobi.render_csv, "json": jacobi.render_json}[format_name](series, out)
    for one in series:
        about = [sentence.text for sentence in sentences(one) if sentence.level != "finding"]
        for line in (*about, *jacobi.remarks(solutions(one.logs))):
            print(f"volley: {line}", file=err)
