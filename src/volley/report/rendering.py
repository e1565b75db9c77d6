"""From runs to pages, in any format: all that reports are made with is imported here."""

from __future__ import annotations

import sys
from typing import TextIO, cast

from volley.errors import UserError
from volley.records_io import RunLog
from volley.report import check_format, cuda_samples, jacobi, node_data, seed
from volley.report.csv import render_csv
from volley.report.encodable import Encodable
from volley.report.json import render_json
from volley.report.olcf import render_olcf
from volley.report.remarks import sentences
from volley.report.table import render_table
from volley.solution import solutions
from volley.summary import Series, series_of
from volley.text import several


def render(
    logs: list[RunLog], format_name: str, out: TextIO, *, color: bool | None = None, err: TextIO | None = None
) -> None:
    """Show runs as :func:`volley.report.render` says."""
    kinds = {_benchmark(log) for log in logs}
    for benchmark in kinds or {"pingpong"}:
        check_format(format_name, benchmark)
    series = series_of(logs)
    if format_name == "table":
        render_table(series, out, color=color)
        return
    apart = kinds & ({"node", "jacobi", "matrix"} if format_name == "csv" else {"jacobi"})
    if (apart and kinds != apart) or len(apart) > 1:
        raise UserError(
            f"{format_name} has other columns for {several(sorted(apart))}: show those runs apart from the others"
        )
    if "node" in kinds:
        _render_node(series, format_name, cast(TextIO, Encodable(out)), cast(TextIO, Encodable(err or sys.stderr)))
        return
    if "jacobi" in kinds:
        _render_solutions(series, format_name, cast(TextIO, Encodable(out)), cast(TextIO, Encodable(err or sys.stderr)))
        return
    render_data = {"csv": render_csv, "json": render_json, "olcf": render_olcf}[format_name]
    about = [sentence.text for one in series for sentence in sentences(one) if sentence.level != "finding"]
    for line in (*render_data(series, cast(TextIO, Encodable(out))), *about):
        print(f"volley: {line}", file=cast(TextIO, Encodable(err or sys.stderr)))


def _benchmark(log: RunLog) -> str:
    """What a run was: as its plan says or, where that is lost, as its records show."""
    if log.run:
        return log.run.plan.benchmark
    shown = {"node": log.node or log.node_rows, "jacobi": log.jacobi, "matrix": log.rows}
    return next((benchmark for benchmark, records in shown.items() if records), "pingpong")


def _render_node(series: list[Series], format_name: str, out: TextIO, err: TextIO) -> None:
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
    if format_name == "seed":
        seed.render_seed([log for one in series for log in one.logs], out)
    else:
        {"csv": jacobi.render_csv, "json": jacobi.render_json}[format_name](series, out)
    for one in series:
        about = [sentence.text for sentence in sentences(one) if sentence.level != "finding"]
        for line in (*about, *jacobi.remarks(solutions(one.logs))):
            print(f"volley: {line}", file=err)
