"""The plan and the records of a replay, its launches, their results, and the report."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np

from volley.benchmarks.replay import ReplayOptions
from volley.benchmarks.replay.program import LEAST_SHOWN, OPERATION_OF_CALL, Where, build
from volley.document import RECORD_VERSION as VERSION
from volley.document import Frozen, NonNegative, Number, PositiveSeconds, Seconds, Version, doc
from volley.errors import MachineError, UserError
from volley.files import write_file
from volley.records.launch_series import LaunchSeries, series_of
from volley.records.record_types import Mismatch, Status
from volley.records.run_log import Observable, RunLog
from volley.records.saved_runs import folders_to_write
from volley.records.trace_calls import collective_of, resolve
from volley.records.trace_file import read_trace
from volley.report.cells import ALL, PLUS_MINUS, Quantity, as_they_are, data_of, with_bounds
from volley.report.model import Cell, Column, Note, Report, Row, Table
from volley.run import report_parts
from volley.run.jobs import Forecast, Job, JobContext, count_ranks, make_plan
from volley.run.launches import Jobs
from volley.statistics.estimates import Estimate, median
from volley.statistics.launches import FIRST_LOOK, Repeated
from volley.text import escape_controls, join_few, utf8
from volley.units import format_sig

_LAUNCHES_WITH_GAPS = 3
_ONCE = "one pass"


class RecordedCalls(Frozen, frozen=True, kw_only=True):
    """What the application did, and what was asked for; the engine does not look at it."""

    calls: Annotated[list[NonNegative], doc("of each name, by all ranks.")]
    median_s: Annotated[list[Number], doc("the median time of a call of each name.")]
    pass_s: Annotated[
        Seconds | None, doc("from the first call that is replayed to the end of the last one, on the slowest rank.")
    ] = None
    left_out: Annotated[dict[str, Number], doc("what is not replayed, with its share of the time in MPI.")] = {}
    unchecked: Annotated[
        dict[str, NonNegative], doc("messages and results of collectives that are not compared, by the reason.")
    ] = {}
    memory: Annotated[Where, doc("where the buffers are.")] = "recorded"
    library: Annotated[str, doc("the MPI library of the application.")] = ""
    application: Annotated[str, doc("when it was recorded, and its command.")] = ""


class ReplayPlan(Frozen, frozen=True, kw_only=True):
    """Which calls are repeated, and how."""

    program: Annotated[list[str], doc("the path of the file with the calls.", min_length=1, max_length=1)]
    names: Annotated[list[str], doc("the names of the calls.")]
    recorded: RecordedCalls
    gaps: Annotated[bool, doc("wait between calls as long as the application did.")] = False
    time_s: Annotated[
        PositiveSeconds, doc("repeat the calls for this time; up to three times, for ten times as long.")
    ] = 1.0

    @property
    def operations(self) -> list[str]:
        """The collectives among the calls, as volley calls them."""
        return [OPERATION_OF_CALL[kind] for name in self.names if (kind := collective_of(name))]


class ReplayPoint(Frozen, frozen=True, kw_only=True, tag_field="record", tag="replay"):
    """The calls of an application, repeated several times in one launch."""

    version: Version = VERSION
    status: Annotated[Status, doc("`failed`: a message or a result was wrong; see `reason`.")]
    reason: Annotated[str | None, doc("what was wrong first.")] = None
    pass_s: Annotated[list[PositiveSeconds], doc("one entry per pass: the calls once, on the slowest rank.")]
    call_s: Annotated[list[Seconds], doc("of each name, the median over calls, ranks and passes.")]
    checked: Annotated[NonNegative, doc("messages and results of collectives, compared byte for byte.")] = 0
    wrong: Annotated[NonNegative, doc("those with a wrong byte.")] = 0
    mismatch: Mismatch | None = None
    failed_calls: Annotated[
        list[str], doc("the names of the calls that moved something wrong; empty in earlier records: all may have.")
    ] = []

    def failed(self, name: str) -> bool:
        """Whether calls of this name moved something wrong; all calls together if something was wrong at all."""
        return self.status == "failed" and name in (*(self.failed_calls or [name]), "")


class ReplayForecast(Forecast):
    """A launch has one record."""

    def add(self, record: Any) -> str | None:
        if not isinstance(record, ReplayPoint):
            return None
        self.done = 1
        return f"{_ONCE}: {format_sig(1e3 * median(record.pass_s), 3)} ms"


def jobs(options: ReplayOptions, context: JobContext) -> Jobs:
    if len(options.trace) != 1:
        raise UserError("name one trace: volley replay mpi.trace")
    trace = read_trace(options.trace[0])
    program = build(trace, resolve(trace), options.memory)
    if options.memory == "aware" and not program.copied:
        raise UserError(f"{options.trace[0]} has no copy of a message between GPU and host memory: leave --memory out")
    ranks = count_ranks(options.job, context, usual=trace.size)
    if ranks != trace.size:
        raise UserError(f"{options.trace[0]} has {trace.size} ranks, and this job has {ranks}")
    if program.on_gpus and context.on_this_host and not context.sees_gpus and not options.job.dry_run:
        why = "no NVIDIA GPU can be used here" if context.about.cuda_built else "this engine was built without CUDA"
        raise MachineError(
            f"the messages of this replay are in GPU memory, and {why}: volley doctor looks for the cause, and "
            "--memory host replays them from host memory"
        )
    path = _place_of_calls(options.trace[0])
    recorded = RecordedCalls(
        calls=[program.recorded[name][0] for name in program.names],
        median_s=[program.recorded[name][1] for name in program.names],
        pass_s=program.span_s,
        left_out=program.left_out,
        unchecked=program.unchecked,
        memory=options.memory,
        library=trace.ranks[0].library,
        application=trace.info.application,
    )
    part = ReplayPlan(
        program=[str(path)], names=program.names, recorded=recorded, gaps=options.gaps, time_s=options.time
    )
    if not options.job.dry_run:
        write_file(path, np.array(program.words, np.int64).tobytes(), "the calls to replay")
    plan = make_plan("replay", part, options, ranks=ranks, verify=options.verify)
    usual = 1 if context.position else _LAUNCHES_WITH_GAPS if options.gaps else FIRST_LOOK
    passes_s = min(3 * program.span_s, 10 * options.time + program.span_s) if options.gaps else 0.0
    return Jobs((Job(plan, measuring_s=options.time + passes_s),), times=options.job.launches or usual)


def _place_of_calls(trace: str) -> Path:
    """Return the file for the calls: beside the trace or, where this user may not write there, in one for records."""
    beside = Path(f"{trace}.replay").absolute()

    def usable(file: Path) -> bool:
        is_utf8 = utf8(str(file)) == str(file)  # as the plan is that names it
        return is_utf8 and os.access(file if file.exists() else file.parent, os.W_OK)

    if usable(beside):
        return beside
    for folder in folders_to_write():
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if usable(kept := folder / f"{zlib.crc32(bytes(beside)):08x}-{utf8(beside.name)}"):
            return kept
    where = escape_controls(str(beside.parent))
    raise UserError(f"neither {where} nor a folder for records can be written: copy the trace to another folder")


@dataclass(frozen=True)
class ReplayedCall:
    call: str
    calls: int
    recorded_s: float | None
    time: Estimate | None
    """``None``: data was wrong."""
    launches: int
    verified: bool | None
    unchecked: dict[str, int]
    """Of all calls in a pass, as in the plan."""

    @property
    def status(self) -> Status:
        return "ok" if self.time else "failed"


@dataclass(frozen=True)
class ReplayResult:
    series: LaunchSeries
    calls: list[ReplayedCall]
    """The first one is a pass: the calls that are replayed, once."""
    points: list[ReplayPoint]

    @property
    def checked(self) -> int:
        return sum(each.checked for each in self.points)

    @property
    def failed(self) -> list[ReplayPoint]:
        return [each for each in self.points if each.status == "failed"]


def results(logs: Iterable[RunLog]) -> list[ReplayResult]:
    return [_result(series) for series in series_of(logs)]


def _result(series: LaunchSeries) -> ReplayResult:
    result = ReplayResult(series, [], [point for log in series.logs for point in log.of(ReplayPoint)])
    if result.points and series.plan:
        plan: ReplayPlan = series.plan.options
        unchecked = plan.recorded.unchecked

        def add(name: str, calls: int, recorded_s: float | None, times_s: list[list[float]]) -> None:
            failed = any(point.failed(name) for point in result.points)
            time = None if failed else Repeated.of(dict(enumerate(times_s))).estimate
            call, verified = f"MPI_{name}" if name else _ONCE, not failed if result.checked else None
            result.calls.append(ReplayedCall(call, calls, recorded_s, time, len(times_s), verified, unchecked))

        add("", 1, plan.recorded.pass_s if plan.gaps else None, [point.pass_s for point in result.points])
        known = zip(plan.names, plan.recorded.calls, plan.recorded.median_s, strict=False)  # a file may say anything
        for place, (name, calls, recorded_s) in enumerate(known):
            times_s = [its for point in result.points if any(its := point.call_s[place : place + 1])]
            if times_s:
                add(name, calls, recorded_s, times_s)
    return result


def observables(log: RunLog) -> Iterator[Observable]:
    for point in (point for point in log.of(ReplayPoint) if point.status == "ok"):
        names = log.run.plan.options.names if log.run else []
        yield Observable("replay", [""], [median(point.pass_s)])
        for name, time_s in zip(names, point.call_s, strict=False):
            if time_s > 0:
                yield Observable(f"MPI_{name}", [""], [time_s], part=True)


TIME = Quantity("time", "µs", attrgetter("time"), "replayed", bounds=ALL)
UNCHECKED = Quantity("unchecked", "", attrgetter("unchecked"), csv=False)
RECORDED = Quantity("recorded", "µs", lambda each: each.recorded_s)
QUANTITIES = (*as_they_are("call", "calls", "status", "verified"), TIME, RECORDED, UNCHECKED)


def report(result: ReplayResult) -> Report:
    series = result.series
    shown = with_bounds([*as_they_are("calls"), RECORDED, TIME, PLUS_MINUS], result.calls)
    rows: list[Row] = [[each.call, *(_cell(quantity, each) for quantity in shown)] for each in result.calls]
    columns = [Column("call", align="left"), *(quantity.column() for quantity in shown)]
    meaning = (
        f"median time of a call over ranks and passes; {_ONCE}: these calls once through, on the slowest rank; "
        "recorded: of one run of the application, and another one may differ"
    )
    legend = "; ".join([meaning, *report_parts.bounds_legend(result.calls, series, "passes")])
    with_gaps = bool(series.plan and series.plan.options.gaps)
    judged = {each.call: each.time for each in result.calls[: None if with_gaps else 1] if each.time}
    gaps = "with gaps" if with_gaps else "without gaps"
    memory = [_IN_MEMORY[where]] if (where := _memory(result)) in _IN_MEMORY else []
    return Report(
        heading=report_parts.heading(series, "replay", gaps, *memory),
        tables=[Table(columns, rows, legend=[legend])] if rows else [],
        notes=[
            *_notes(result),
            *report_parts.notes_of(series, ("replay",), _failures(result), doubts=report_parts.noisy(series, judged)),
        ],
        results=lambda: data_of(QUANTITIES, ("call",), result.calls),
        runs=series.logs,
    )


def _cell(quantity: Quantity, call: ReplayedCall) -> Cell:
    return Cell(text="FAILED", style="error") if quantity is TIME and not call.time else quantity.cell(call)


_IN_MEMORY: dict[Where, str] = {
    "aware": "copied buffers in GPU memory",
    "host": "buffers in host memory",
    "device": "buffers in GPU memory",
}


def _memory(result: ReplayResult) -> Where:
    plan = result.series.plan
    return plan.options.recorded.memory if plan else "recorded"


def _is_same_library(recorded: str, replayed: str) -> bool:
    """Whether two paths lead to one MPI library; on another machine, where they lead nowhere, whether the names are
    those of one interface."""
    try:
        return Path(recorded).samefile(replayed)
    except OSError:
        return Path(recorded).name == Path(replayed).name


def _failures(result: ReplayResult) -> Iterator[str]:
    if result.failed:
        first, wrong = result.failed[0], sum(each.wrong for each in result.failed)
        byte = f"; {first.reason} ({first.mismatch.byte})" if first.mismatch else ""
        yield f"{wrong} of {result.checked} checked messages and results were wrong{byte}"


def _notes(result: ReplayResult) -> Iterator[Note]:
    if not result.calls and _memory(result) in ("aware", "device"):
        sums = ", and few MPIs form sums in GPU memory" * (_memory(result) == "device")
        yield Note("missing", f"buffers were in GPU memory{sums}; volley doctor says whether this MPI is CUDA-aware")
    plan = result.series.plan
    if result.checked and not result.failed:
        said = f"{result.checked} messages and results of collectives were checked byte for byte"
        yield Note("finding", f"{said}, in passes that were not timed")
    if plan and plan.verify and result.points:
        unchecked = [
            f"{number * len(result.points)} {what}" for what, number in plan.options.recorded.unchecked.items()
        ]
        if unchecked:
            yield Note("missing", f"not checked byte for byte: {join_few(unchecked)}")
        elif not result.checked:
            yield Note("missing", "nothing was checked byte for byte: no call that is replayed brings data")
    recorded = plan.options.recorded.library if plan else ""
    replayed = plan.launch.get("stack", {}).get("mpi_library") if plan else None
    if recorded and replayed and not _is_same_library(recorded, replayed):
        said = f"recorded with {recorded} and replayed with {replayed}: the times are those of two MPIs"
        yield Note("finding", f"{said}; --mpi {quote(recorded)} takes the one of the application", first=True)
    left_out = plan.options.recorded.left_out if plan else {}
    shown = {name: share for name, share in left_out.items() if share >= LEAST_SHOWN}
    if shown:
        named = join_few(f"{name} ({format_sig(100 * share, 2)} %)" for name, share in shown.items())
        yield Note("missing", f"not replayed, with the share of the recorded time in MPI: {named}")
