"""``volley explain``: findings first, then the time of each rank and call; on request a page with a timeline."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from volley.benchmarks.replay import BENCHMARK
from volley.benchmarks.replay.program import SUMS, why_not
from volley.benchmarks.replay.results import ReplayPlan, results
from volley.document import readable_json
from volley.errors import EXIT_GOOD, UserError
from volley.files import refuse_existing, refuse_input
from volley.machine.mpi_stack import UCX_MCA
from volley.machine.variables import tuned
from volley.records.records_file import read_runs
from volley.records.saved_runs import saved_runs
from volley.records.trace_calls import COLLECTIVES, Calls, resolve
from volley.records.trace_copies import Copies, copies_of
from volley.records.trace_file import CallTotal, RankTrace, Trace, read_trace
from volley.report.cells import scaled
from volley.report.model import (
    EMPTY,
    Axis,
    Cell,
    Chart,
    Column,
    Details,
    Later,
    Mark,
    Note,
    Overview,
    Report,
    Table,
    finding,
)
from volley.run.render import Sections, form_of, render_reports, write
from volley.text import count, escape_controls, grouped, join_few, join_words, mpi_name
from volley.trace.options import ExplainOptions
from volley.trace.roll_call import roll_call
from volley.trace.waiting import LOST_CORE, ONLY_COUNTED, RankTime, Split, added, split
from volley.units import approximate_size, format_sig, format_time, time_unit

DOCUMENT_VERSION = 1
_WORTH = 0.05
_WORTH_OF_ALL = 0.01
"""Smaller shares of the time in MPI and of all time are no finding."""
_MOST = 0.9
"""Of the time that ranks waited for another one: the calls that are counted hold so much of it."""
_BINS = 120


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


# ------------------------------------------------------------------------------------------------------ findings


def explanation(trace: Trace, calls: Calls) -> Report:
    times, copied = split(trace, calls), copies_of(trace, calls)
    staged = _staged_calls(trace, times, copied)
    longest_s = max(each.total_s for each in times.ranks)
    command = " ".join(trace.info.command) or trace.name
    span = f"{format_time(longest_s)} from MPI_Init to" if longest_s else "no call was recorded between MPI_Init and"
    heading = [
        f"{command}: {count(len(times.ranks), 'rank')}, {span} {_last(trace)}",
        f"hosts: {join_few(trace.hosts)}; MPI: {join_few(dict.fromkeys(map(_mpi, trace.ranks)))}",
    ]
    hangs = trace.info.ended_s is None and any(each.open_s for each in times.ranks)  # nobody knows for how long
    replays = [*_copies(trace, times, copied, staged), *_rest(trace, times)]
    notes = [
        *_endings(trace, times),
        *_shared_gpus(trace),
        *([] if hangs else _waits(times)),
        *_cores(times),
        *_kept(trace, times),
        *_clocks(trace),
        *_buffers(trace),
        *(replays if not why_not(trace, calls) else (replace(note, command="") for note in replays)),
    ]
    by_rank = _rank_table(times)
    whose = "threads that call MPI" if any(each.threads > 1 for each in times.ranks) else "ranks"
    line = f"in MPI: {_percent(times.mpi_s, times.total_s)} of the time of all {whose}"
    return Report(
        heading,
        [
            *(by_rank, _call_table(trace, times), _partner_table(trace), _size_table(trace)),
            *_copy_tables(copied),
            *_aware_tables(staged),
        ],
        notes,
        summary=lambda: Overview(line, by_rank),
        charts=Later(lambda: [_timeline(calls), _partners(trace)]),
    )


def _mpi(rank: RankTrace) -> str:
    return f"{mpi_name(rank.mpi)} ({rank.library})" if rank.mpi else rank.library


def _last(trace: Trace) -> str:
    if all(rank.finalized for rank in trace.ranks):
        return "MPI_Finalize"
    return "the last call that was recorded" if trace.info.ended_s is None else "the end of the program"


def _endings(trace: Trace, times: Split) -> Iterator[Note]:
    lines = trace.info.roll_call or roll_call(trace)
    open_s = sum(each.open_s for each in times.ranks)
    if open_s and trace.info.ended_s is not None:
        lines = [
            *lines,
            f"calls that did not return: {_percent(open_s, times.mpi_s)} of the time in MPI ({format_time(open_s)})",
        ]
    if lines:
        yield Note("error", f"not all ranks came to MPI_Finalize: {'; '.join(lines)}", "BROKEN")


def _percent(part: float, whole: float) -> str:
    return f"{_part(part, whole).text or format_sig(_share(part, whole), 2)} %"


def _shared_gpus(trace: Trace) -> Iterator[Note]:
    users = grouped((rank for rank in trace.ranks if rank.gpu), lambda rank: (rank.host, rank.gpu))
    if shared := [ranks for ranks in users.values() if len(ranks) > 1]:
        those = f"ranks {join_words(str(each.rank) for each in shared[0])} use the same GPU of {shared[0][0].host}"
        more = f", and other ranks share {count(len(shared) - 1, 'other GPU')}" if len(shared) > 1 else ""
        advice = "call cudaSetDevice with its number on the host (MPI_Comm_split_type) before it uses CUDA"
        yield finding("SLOW?", f"{those}{more}. Where the host has more GPUs, let each rank {advice}")


def _waits(times: Split) -> Iterator[Note]:
    least_s = max(_WORTH * times.mpi_s, _WORTH_OF_ALL * times.total_s)
    for what in ("late_s", "absent_s"):
        found = added(getattr(each, what) for each in times.ranks)
        in_turn_s = sum(found.values())
        for partner, seconds in sorted(found.items(), key=lambda item: -item[1])[:3]:
            if seconds >= least_s > 0 and (what == "absent_s" or partner in times.always_late):
                yield _wait_note(times, what, partner, seconds)
                in_turn_s -= seconds
        if what == "late_s" and in_turn_s >= max(least_s, sum(found.values()) / 2) > 0:
            share = f"{_percent(in_turn_s, times.mpi_s)} of the time in MPI ({format_time(in_turn_s)})"
            said = f"ranks come late in turn: waiting for them is {share}, and no one of them is late all the time"
            yield finding("SLOW?", f"{said}. Look for what disturbs ranks, or let them wait for each other less often")
    unsplit_s = sum(each.without_core_s for each in times.ranks)
    if unsplit_s >= least_s > 0 and not any(each.lost_s for each in times.ranks if not each.has_core):
        said = "the program was too short to tell who computes too long from who was not let run. Record a longer run"
        yield Note("missing", f"waits for other ranks ({format_time(unsplit_s)}) are not split: {said}", first=True)


def _wait_note(times: Split, what: str, partner: int, seconds: float) -> Note:
    those = [each for each in times.waits if each.partner == partner and getattr(each, what) > 0]
    longest_s = np.sort([getattr(each, what) for each in those])[::-1]
    most_s = longest_s[: int(np.searchsorted(longest_s.cumsum(), _MOST * longest_s.sum())) + 1]
    worst = max({each.name for each in those}, key=lambda name: sum(getattr(w, what) for w in those if w.name == name))
    share = f"{_percent(seconds, times.mpi_s)} of the time in MPI ({format_time(seconds)})"
    if what == "late_s":
        text = (
            f"rank {partner} comes late: waiting for it is {share}, most of it in {count(len(most_s), 'call')} of "
            f"{format_time(float(np.median(most_s)))} (MPI_{worst}). Give it less work, or its messages earlier"
        )
    else:
        text = (
            f"rank {partner} makes no progress: it is outside MPI while its message waits, {share}, most of it in "
            f"MPI_{worst} of its partners. Let it call MPI_Test while it computes, or complete its requests earlier"
        )
    return finding("SLOW", text)


def _cores(times: Split) -> Iterator[Note]:
    without = {
        each.rank: _percent(each.lost_s, each.total_s) for each in times.ranks if each.lost_s and not each.has_core
    }
    unsplit_s = sum(each.without_core_s for each in times.ranks)
    if without:
        named = join_few(f"rank {rank} for {share}" for rank, share in without.items())
        waits = (
            f"Waits of and for a rank without a core ({format_time(unsplit_s)}) are not split: who computes too long "
            "cannot be told from who was not let run. "
        )
        yield finding(
            "NOISY",
            f"ready to run, but without a core: {named} of the time. {waits if unsplit_s else ''}"
            "Start fewer ranks than cores, bind them, or end what else runs there",
        )


def _kept(trace: Trace, times: Split) -> Iterator[Note]:
    untold = added(each.untold for each in times.ranks)
    mpi_s, counted_s = times.mpi_s, untold.pop(ONLY_COUNTED, 0.0)
    dropped = sum(int(rank.header["dropped"]) for rank in trace.ranks)
    if dropped:
        most = max(int(rank.header["n_events"]) + int(rank.header["dropped"]) for rank in trace.ranks)
        events = str(-(-most // 1000) * 1000)
        said = (
            f"{_percent(counted_s, mpi_s)} of the time in MPI is not split: the last {dropped} calls are only counted"
        )
        command = ""
        if trace.info.command:
            output = str(Path(trace.name).with_suffix(".all.trace"))
            again = ["volley", "record", "--events", events, "-o", output, "--", *trace.info.command]
            command = escape_controls(shlex.join(again))
        yield Note("missing", f"{said}; --events {events} keeps all", "", command, first=counted_s > mpi_s / 2)
    named = {f"MPI_{name}": seconds for name, seconds in untold.items()}
    named |= {} if dropped else {"polls that found nothing": counted_s}
    shown = [f"{name} ({_percent(seconds, mpi_s)})" for name, seconds in named.items() if seconds >= _WORTH * mpi_s > 0]
    if shown:
        said = f"not split, because the trace does not tell for whom they wait: {join_few(shown)}"
        yield Note("missing", said, first=sum(named.values()) > mpi_s / 2)
    if trace.missing:
        yield Note("missing", f"no trace of {count(len(trace.missing), 'rank')}: {join_few(map(str, trace.missing))}")


def _clocks(trace: Trace) -> Iterator[Note]:
    """Say of each host by how much its times were moved."""
    hosts = {rank.clock: rank.host for rank in trace.ranks}
    moved = [(hosts[clock], shift_s) for clock, shift_s in trace.shift_s.items() if shift_s]
    if moved:
        sides = (f"that of {host} is {format_time(abs(s))} {'ahead' if s < 0 else 'behind'}" for host, s in moved)
        said = f"the clocks of the hosts differ: {join_few(sides)}"
        yield Note("finding", f"{said}; messages and collectives show this, and all times allow for it")


def _buffers(trace: Trace) -> Iterator[Note]:
    found = [f"{each.on_device} of MPI_{name}" for name, each in trace.totals.items() if each.on_device]
    if found:
        yield Note("finding", f"calls with buffers in GPU memory: {join_few(found)}", first=True)


def _copies(trace: Trace, times: Split, copied: list[Copies], staged: list[_Staged]) -> Iterator[Note]:
    seconds = sum(each.copies_s * each.calls for each in staged)
    if seconds >= _WORTH_OF_ALL * times.total_s > 0:
        most = max(staged, key=lambda each: each.copies_s * each.calls)
        told = "A CUDA-aware MPI needs none of these copies; a replay measures what its calls take"
        if most.replayed:
            recorded_s, aware_s = most.replayed
            told = (
                f"With a CUDA-aware MPI, which needs none of these copies, the call takes {format_time(aware_s)}, the "
                "median of the newest replay of this trace with gaps from GPU memory. In the application it took "
                f"{format_time(recorded_s)}, both with what they waited, "
                f"and {format_time(most.copies_s)} for its copies"
            )
        yield finding(
            "SLOW?" if not most.replayed else "SLOW" if aware_s < recorded_s + most.copies_s else "OK",
            f"{_percent(seconds, times.total_s)} of all time copies messages between GPU and host memory, most of it "
            f"{approximate_size(most.mean_bytes)} at a time for MPI_{most.call}. {told}",
            escape_controls(shlex.join(["volley", "replay", trace.name, "--memory", "aware", "--gaps"])),
        )
    by_mpi = [each for each in copied if each.in_mpi]
    seconds = sum(each.seconds for each in by_mpi)
    if seconds >= _WORTH * times.mpi_s > 0:
        yield finding(
            "SLOW?",
            f"{_percent(seconds, times.mpi_s)} of the time in MPI copies messages between GPU and host memory, within "
            f"MPI: {approximate_size(sum(each.bytes for each in by_mpi))} in all. volley pingpong -t aware says why",
        )


def _rest(trace: Trace, times: Split) -> Iterator[Note]:
    rest_s, waited_s = sum(each.rest_s for each in times.ranks), times.waited_s
    if not rest_s or rest_s / times.mpi_s < 0.5 or not all(each.has_core for each in times.ranks):
        return
    name, (number, seconds) = max(times.told.items(), key=lambda call: call[1][1] - waited_s[call[0]])
    each_s, most = (seconds - waited_s[name]) / number, trace.totals[name]
    sized = f" of {approximate_size(most.mean_bytes)}" if most.bytes else ""
    large = times.mpi_s / times.total_s >= _WORTH
    needed = {f"OMPI_MCA_{name}={value}" for name, value in UCX_MCA.items()}  # volley env sets it
    settings = [each for each in tuned(trace.info.environment, {"MPI"}, trace.ranks[0].mpi) if each not in needed]
    told = f". The environment sets {join_words(settings)}: try it without" if settings else ""
    again = escape_controls(shlex.join(["volley", "replay", trace.name]))
    if settings:
        variable = settings[0].rpartition(" ")[2].partition("=")[0]
        again = shlex.join(["volley", "compare", "--live", again, f"env -u {variable} {again}"])
    yield finding(
        "SLOW?" if large and settings else "" if large else "OK",
        f"{_percent(rest_s, times.mpi_s)} of the time in MPI is MPI itself, {_percent(rest_s, times.total_s)} of all "
        f"time: most of it in MPI_{name}{sized}, {format_time(each_s)} each{told}",
        again,
    )


# -------------------------------------------------------------------------------------------- tables and charts


def _share(part: float, whole: float) -> float:
    return round(100 * part / whole, 6) if whole > 0 else 0.0  # the rest is of the differences of times


def _time_cell(seconds: float) -> Cell:
    return Cell(seconds, text=format_time(seconds))


def _part(part: float, whole: float) -> Cell:
    share = _share(part, whole)
    return Cell(share, text="<0.01" if 0 < share < 0.01 else None)


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


@dataclass(frozen=True)
class _Staged:
    """The calls of one name whose messages the application copies from GPU memory, or to it."""

    call: str
    calls: int
    mean_bytes: float
    """Of a copy."""
    copies_s: float
    """Of one call."""
    replayed: tuple[float, float] | None
    """The median time of a recorded call, and that in the newest saved replay of this trace with gaps, with its buffers
    in GPU memory, in s; both with what they waited.  Only of calls that move messages both ways: of others the rest is
    in another call."""


def _staged_calls(trace: Trace, times: Split, copied: list[Copies]) -> list[_Staged]:
    by_call = grouped((each for each in copied if each.call and not each.in_mpi), lambda each: each.call)
    by_call = {name: those for name, those in by_call.items() if name in times.told and name not in SUMS}
    replayed = _replayed(trace.info.application) if by_call else {}
    found = []
    for name, those in by_call.items():
        both_ways = name.startswith("Sendrecv") or name in COLLECTIVES
        calls, number = times.told[name][0], sum(each.number for each in those)
        mean_bytes, copies_s = sum(each.bytes for each in those) / number, sum(each.seconds for each in those) / calls
        now = replayed.get(f"MPI_{name}") if both_ways else None
        found.append(_Staged(name, calls, mean_bytes, copies_s, now))
    return found


def _replayed(application: str) -> dict[str, tuple[float, float]]:
    """Return for each call of the newest saved replay with gaps from GPU memory what it took when recorded, and there.

    Without gaps, calls that follow each other at once take a third less (two H200s).
    """
    files = [run.path for run in saved_runs() if "-replay" in run.path.stem] if application else []
    for file in files:
        with suppress(UserError):
            for each in results(read_runs(file, [BENCHMARK])):
                plan: ReplayPlan | None = each.series.plan.options if each.series.plan else None
                about = plan.recorded if plan and plan.gaps and not each.failed else None
                if about and about.application == application and about.memory in ("aware", "device"):
                    return {
                        call.call: (call.recorded_s, call.time.median)
                        for call in each.calls
                        if call.recorded_s and call.time
                    }
    return {}


def _aware_tables(staged: list[_Staged]) -> list[Table]:
    columns: dict[Column, Callable[[_Staged], Any]] = {
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
