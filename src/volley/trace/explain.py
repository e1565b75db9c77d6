"""``volley explain``: findings first, then the time of each rank and call; on request a page with a timeline."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from volley.document import readable_json
from volley.errors import EXIT_GOOD, UserError
from volley.files import refuse_existing, refuse_input
from volley.records.trace_calls import Calls, resolve
from volley.records.trace_copies import copies_of
from volley.records.trace_file import RankTrace, Trace, read_trace
from volley.report.model import Cell, Details, Later, Overview, Report, Table
from volley.run.render import Sections, form_of, render_reports, write
from volley.text import count, escape_controls, join_few, mpi_name
from volley.trace.findings import findings
from volley.trace.options import ExplainOptions
from volley.trace.staged import staged_calls
from volley.trace.tables import charts_of, percent, tables_of
from volley.trace.waiting import split
from volley.units import format_time

DOCUMENT_VERSION = 1


def run(options: ExplainOptions) -> int:
    if len(options.trace) != 1:
        raise UserError("name one trace: volley explain mpi.trace")
    trace = read_trace(options.trace[0])
    calls = resolve(trace)
    if not calls.ranks:
        raise UserError("no rank of this trace came out of MPI_Init: there is nothing to explain")
    report = explanation(trace, calls)
    if options.output:
        form = form_of(options.output)
        refuse_existing(options.output, force=options.force)
        refuse_input(options.output, options.trace)
        write(options.output, form, Sections(report.heading[0], [report], ()), quiet=False)
    if options.format == "json":
        sys.stdout.write(readable_json(_document(report)))
    elif not options.output:
        details = Details(options.full, escape_controls(shlex.join(["volley", "explain", trace.name])))
        render_reports([report], "table", sys.stdout, details)
    return EXIT_GOOD


def _document(report: Report) -> dict[str, Any]:
    names = ("ranks", "calls", "partners", "sizes", "copies", "aware")
    return {
        "explain": DOCUMENT_VERSION,
        "heading": list(report.heading),
        "findings": [
            {"verdict": note.verdict or None, "text": note.text, "command": note.command} for note in report.notes
        ],
        **{name: _rows(table) for name, table in zip(names, report.tables, strict=False)},
    }


def _rows(table: Table) -> list[dict[str, Any]]:
    units = {"time": "s"}  # cells for people have their own
    keys = [" ".join(filter(None, (each.title, each.unit or units.get(each.title)))) for each in table.columns]
    cells = ([cell.value if isinstance(cell, Cell) else cell for cell in row] for row in table.rows)
    return [dict(zip(keys, row, strict=True)) for row in cells]


def explanation(trace: Trace, calls: Calls) -> Report:
    times, copied = split(trace, calls), copies_of(trace, calls)
    staged = staged_calls(trace, times, copied)
    longest_s = max(each.total_s for each in times.ranks)
    command = " ".join(trace.info.command) or trace.name
    span = f"{format_time(longest_s)} from MPI_Init to" if longest_s else "no call was recorded between MPI_Init and"
    heading = [
        f"{command}: {count(len(times.ranks), 'rank')}, {span} {_last(trace)}",
        f"hosts: {join_few(trace.hosts)}; MPI: {join_few(dict.fromkeys(map(_mpi, trace.ranks)))}",
    ]
    tables = tables_of(trace, times, copied, staged)
    whose = "threads that call MPI" if any(each.threads > 1 for each in times.ranks) else "ranks"
    line = f"in MPI: {percent(times.mpi_s, times.total_s)} of the time of all {whose}"
    return Report(
        heading,
        tables,
        [*findings(trace, calls, times, copied, staged)],
        summary=lambda: Overview(line, tables[0]),
        charts=Later(lambda: charts_of(trace, calls)),
    )


def _mpi(rank: RankTrace) -> str:
    return f"{mpi_name(rank.mpi)} ({rank.library})" if rank.mpi else rank.library


def _last(trace: Trace) -> str:
    if all(rank.finalized for rank in trace.ranks):
        return "MPI_Finalize"
    return "the last call that was recorded" if trace.info.ended_s is None else "the end of the program"
