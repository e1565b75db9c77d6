"""What a trace shows, in sentences: what failed, what waits cost and why, and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from volley.benchmarks.replay.program import why_not
from volley.machine.mpi_stack import UCX_MCA
from volley.machine.variables import tuned
from volley.records.trace_calls import Calls
from volley.records.trace_copies import Copies
from volley.records.trace_file import Trace
from volley.report.model import Note, finding
from volley.text import count, escape_controls, grouped, join_few, join_words
from volley.trace.roll_call import roll_call
from volley.trace.staged import Staged
from volley.trace.tables import percent
from volley.trace.waiting import ONLY_COUNTED, Split, added
from volley.units import approximate_size, format_time

_WORTH = 0.05
_WORTH_OF_ALL = 0.01
"""Smaller shares of the time in MPI and of all time are no finding."""
_MOST = 0.9
"""Of the time that ranks waited for another one: the calls that are counted hold so much of it."""


def findings(trace: Trace, calls: Calls, times: Split, copied: list[Copies], staged: list[Staged]) -> Iterator[Note]:
    hangs = trace.info.ended_s is None and any(each.open_s for each in times.ranks)  # nobody knows for how long
    yield from _endings(trace, times)
    yield from _shared_gpus(trace)
    yield from () if hangs else _waits(times)
    yield from _cores(times)
    yield from _kept(trace, times)
    yield from _clocks(trace)
    yield from _buffers(trace)
    can_replay = not why_not(trace, calls)
    for note in (*_copies(trace, times, copied, staged), *_rest(trace, times)):  # their commands replay it
        yield note if can_replay else replace(note, command="")


def _endings(trace: Trace, times: Split) -> Iterator[Note]:
    lines = trace.info.roll_call or roll_call(trace)
    open_s = sum(each.open_s for each in times.ranks)
    if open_s and trace.info.ended_s is not None:
        lines = [
            *lines,
            f"calls that did not return: {percent(open_s, times.mpi_s)} of the time in MPI ({format_time(open_s)})",
        ]
    if lines:
        yield Note("error", f"not all ranks came to MPI_Finalize: {'; '.join(lines)}", "BROKEN")


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
            share = f"{percent(in_turn_s, times.mpi_s)} of the time in MPI ({format_time(in_turn_s)})"
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
    share = f"{percent(seconds, times.mpi_s)} of the time in MPI ({format_time(seconds)})"
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
        each.rank: percent(each.lost_s, each.total_s) for each in times.ranks if each.lost_s and not each.has_core
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
        said = f"{percent(counted_s, mpi_s)} of the time in MPI is not split: the last {dropped} calls are only counted"
        command = ""
        if trace.info.command:
            output = str(Path(trace.name).with_suffix(".all.trace"))
            again = ["volley", "record", "--events", events, "-o", output, "--", *trace.info.command]
            command = escape_controls(shlex.join(again))
        yield Note("missing", f"{said}; --events {events} keeps all", "", command, first=counted_s > mpi_s / 2)
    named = {f"MPI_{name}": seconds for name, seconds in untold.items()}
    named |= {} if dropped else {"polls that found nothing": counted_s}
    shown = [f"{name} ({percent(seconds, mpi_s)})" for name, seconds in named.items() if seconds >= _WORTH * mpi_s > 0]
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


def _copies(trace: Trace, times: Split, copied: list[Copies], staged: list[Staged]) -> Iterator[Note]:
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
            f"{percent(seconds, times.total_s)} of all time copies messages between GPU and host memory, most of it "
            f"{approximate_size(most.mean_bytes)} at a time for MPI_{most.call}. {told}",
            escape_controls(shlex.join(["volley", "replay", trace.name, "--memory", "aware", "--gaps"])),
        )
    by_mpi = [each for each in copied if each.in_mpi]
    seconds = sum(each.seconds for each in by_mpi)
    if seconds >= _WORTH * times.mpi_s > 0:
        yield finding(
            "SLOW?",
            f"{percent(seconds, times.mpi_s)} of the time in MPI copies messages between GPU and host memory, within "
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
        f"{percent(rest_s, times.mpi_s)} of the time in MPI is MPI itself, {percent(rest_s, times.total_s)} of all "
        f"time: most of it in MPI_{name}{sized}, {format_time(each_s)} each{told}",
        again,
    )
