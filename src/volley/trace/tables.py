"""The tables and charts of a trace."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from volley.records.trace_calls import Calls
from volley.records.trace_copies import Copies
from volley.records.trace_file import CallTotal, Trace
from volley.report.cells import scaled
from volley.report.model import EMPTY, Axis, Cell, Chart, Column, Mark, Table
from volley.trace.staged import Staged
from volley.trace.waiting import LOST_CORE, RankTime, Split
from volley.units import approximate_size, format_sig, format_time, time_unit

_BINS = 120


def tables_of(trace: Trace, times: Split, copied: list[Copies], staged: list[Staged]) -> list[Table]:
    """Return all tables, that of the ranks first."""
    return [
        *(_rank_table(times), _call_table(trace, times), _partner_table(trace), _size_table(trace)),
        *_copy_tables(copied),
        *_aware_tables(staged),
    ]


def charts_of(trace: Trace, calls: Calls) -> list[Chart]:
    return [_timeline(calls), _partners(trace)]


def _share(part: float, whole: float) -> float:
    return round(100 * part / whole, 6) if whole > 0 else 0.0  # the rest is of the differences of times


def _time_cell(seconds: float) -> Cell:
    return Cell(seconds, text=format_time(seconds))


def _part(part: float, whole: float) -> Cell:
    share = _share(part, whole)
    return Cell(share, text="<0.01" if 0 < share < 0.01 else None)


def percent(part: float, whole: float) -> str:
    return f"{_part(part, whole).text or format_sig(_share(part, whole), 2)} %"


def _rank_table(times: Split) -> Table:
    of_mpi = "of the time in MPI"
    columns: dict[Column, Callable[[RankTime], Any]] = {
        Column("rank"): lambda each: each.rank,
        Column("time"): lambda each: _time_cell(each.total_s),
        Column("threads"): lambda each: each.threads,
        Column("in MPI", "%", 3): lambda each: _part(each.mpi_s, each.threads_s),
        Column("late", "%", 3, group=of_mpi): lambda each: _part(sum(each.late_s.values()), each.mpi_s),
        Column("for", align="left", group=of_mpi): lambda each: (
            f"rank {max(each.late_s, key=each.late_s.__getitem__)}" if each.late_s else EMPTY
        ),
        Column("absent", "%", 3, group=of_mpi): lambda each: _part(sum(each.absent_s.values()), each.mpi_s),
        Column("not split", "%", 3, group=of_mpi): lambda each: _part(each.unsplit_s, each.mpi_s),
        Column("no return", "%", 3, group=of_mpi): lambda each: _part(each.open_s, each.mpi_s),
        Column("the rest", "%", 3, group=of_mpi): lambda each: _part(each.rest_s, each.mpi_s),
        Column("without core", "%", 3): lambda each: (
            EMPTY
            if each.lost_s is None
            else replace(_part(each.lost_s, each.total_s), style="" if each.has_core else "bad")
        ),
    }
    legend = (
        "late: the partner had not begun; absent: the partner was outside MPI while its message waited; without core: "
        f"ready to run, but another program ran (not split from {100 * LOST_CORE:.0f} % on)"
    )
    left_out = set() if any(each.open_s for each in times.ranks) else {"no return"}
    if any(each.threads > 1 for each in times.ranks):
        legend = f"in MPI: of the time of all threads that call MPI; {legend}"
    else:
        left_out.add("threads")
    columns = {column: cell for column, cell in columns.items() if column.title not in left_out}
    return Table.of(columns, times.ranks, title="Time of each rank", legend=[legend])


def _call_table(trace: Trace, times: Split) -> Table:
    columns: dict[Column, Callable[[tuple[str, CallTotal]], Any]] = {
        Column("call", align="left"): lambda call: f"MPI_{call[0]}",
        Column("calls"): lambda call: call[1].calls,
        Column("time"): lambda call: _time_cell(call[1].seconds),
        Column("waited", "%", 3): lambda call: _part(min(times.waited_s[call[0]], call[1].seconds), call[1].seconds),
        Column("own", "µs", 3): lambda call: scaled(times.own_s.get(call[0]), 1e6),
        Column("mean size", align="left"): lambda call: Cell(
            call[1].mean_bytes, text=approximate_size(call[1].mean_bytes) if call[1].bytes else ""
        ),
        Column("polls"): lambda call: call[1].polls or EMPTY,
    }
    without_end: dict[str, CallTotal] = {}
    for each in times.ranks:
        for name, seconds in each.no_return:
            total = without_end.setdefault(f"{name}, no return", CallTotal())
            total.calls, total.seconds = total.calls + 1, total.seconds + seconds
    calls = sorted((trace.totals | without_end).items(), key=lambda call: -call[1].seconds)
    legend = (
        "waited: for partners that were late or absent; own: the median time of a call without what it waited; "
        "polls: calls that found nothing, which are only counted"
    )
    return Table.of(columns, calls, title="Calls", legend=[legend])


def _partner_table(trace: Trace) -> Table:
    columns = [Column("from"), Column("to"), Column("messages"), Column("data", "B")]
    rows = [
        [rank.rank, to, int(each["sent"]), int(each["sent_bytes"])]
        for rank in trace.ranks
        for to, each in enumerate(rank.partners)
        if each["sent"]
    ]
    return Table(columns, rows, "Partners: messages between two ranks")


def _size_table(trace: Trace) -> Table:
    rows = [
        [f"MPI_{name}", 2**power - 1, int(each.sizes[power])]
        for name, each in sorted(trace.totals.items())
        for power in np.flatnonzero(each.sizes).tolist()
    ]
    return Table([Column("call", align="left"), Column("up to", "B"), Column("calls")], rows, "Sizes")


def _aware_tables(staged: list[Staged]) -> list[Table]:
    columns: dict[Column, Callable[[Staged], Any]] = {
        Column("call", align="left"): lambda each: f"MPI_{each.call}",
        Column("calls"): lambda each: each.calls,
        Column("copies", "µs", 3): lambda each: 1e6 * each.copies_s,
        Column("recorded", "µs", 3): lambda each: scaled(each.replayed and each.replayed[0], 1e6),
        Column("from GPU", "µs", 3): lambda each: scaled(each.replayed and each.replayed[1], 1e6),
    }
    replay = "in the newest replay of this trace with gaps from GPU memory"
    legend = [
        f"copies: of one call; recorded: the median call, with what it waited; from GPU: instead of both, {replay}"
    ]
    return [Table.of(columns, staged, title="With a CUDA-aware MPI", legend=legend)] if staged else []


def _copy_tables(copied: list[Copies]) -> list[Table]:
    columns: dict[Column, Callable[[Copies], Any]] = {
        Column("rank"): lambda each: each.rank,
        Column("from", align="left"): lambda each: "GPU" if each.to_host else "host",
        Column("for", align="left"): lambda each: (
            "MPI itself" if each.in_mpi else f"MPI_{each.call}" if each.call else EMPTY
        ),
        Column("copies"): lambda each: each.number,
        Column("time"): lambda each: _time_cell(each.seconds),
        Column("mean size", align="left"): lambda each: Cell(each.mean_bytes, text=approximate_size(each.mean_bytes)),
    }
    return [Table.of(columns, copied, title="Copies between GPU and host memory")] if copied else []


def _timeline(calls: Calls) -> Chart:
    """Return the share of the time in MPI, by rank and time since the first call after MPI_Init: a long phase in one
    colour is a rank that waits.  Ten columns are a whole number of a unit."""
    first_s = min((float(each.begin_s.min()) for each in calls.ranks.values() if len(each.begin_s)), default=0.0)
    last_s = max((float(each.end_s.max()) for each in calls.ranks.values() if len(each.end_s)), default=0.0)
    span_s = max(last_s - first_s, 1e-6)
    widths_s = (digit * 10.0**power for power in range(-9, 10) for digit in (1, 2, 5))
    width_s = next(width_s for width_s in widths_s if width_s * _BINS >= span_s)
    unit, factor = time_unit(10 * width_s)
    edges = np.arange(math.ceil(span_s / width_s) + 1) * width_s
    marks = []
    for rank, each in calls.ranks.items():
        # The time that some thread was in MPI up to a moment is a line with a knee at each begin and end.
        ends = np.maximum.accumulate(each.end_s)
        begins = np.maximum(each.begin_s, np.append(first_s, ends)[:-1])
        knees = np.stack([begins, ends], 1).ravel() - first_s
        spent = np.stack([np.zeros_like(ends), ends - begins], 1).ravel().cumsum()
        shares = np.diff(np.interp(edges, knees, spent)) / width_s if len(knees) else np.zeros(len(edges) - 1)
        for since_s, share in zip(edges.tolist(), shares.tolist(), strict=False):
            marks.append(Mark(f"{since_s * factor:g}", str(rank), value=100 * min(share, 1.0)))
    in_mpi = Axis("in MPI", "%")
    return Chart("heat map", "Timeline: time in MPI", Axis("time", unit), Axis("rank"), marks, value=in_mpi)


def _partners(trace: Trace) -> Chart:
    marks = [
        Mark(str(to), str(rank.rank), value=float(each["sent_bytes"]))
        for rank in trace.ranks
        for to, each in enumerate(rank.partners)
    ]
    return Chart("heat map", "Partners: data sent", Axis("to rank"), Axis("from rank"), marks, value=Axis("data", "B"))
