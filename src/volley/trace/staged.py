"""Calls of MPI whose messages the application itself copies between GPU and host memory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from volley.benchmarks.replay import BENCHMARK
from volley.benchmarks.replay.program import SUMS
from volley.benchmarks.replay.results import ReplayPlan, results
from volley.errors import UserError
from volley.records.records_file import read_runs
from volley.records.saved_runs import saved_runs
from volley.records.trace_calls import COLLECTIVES
from volley.records.trace_copies import Copies
from volley.records.trace_file import Trace
from volley.text import grouped
from volley.trace.waiting import Split


@dataclass(frozen=True)
class Staged:
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


def staged_calls(trace: Trace, times: Split, copied: list[Copies]) -> list[Staged]:
    by_call = grouped((each for each in copied if each.call and not each.in_mpi), lambda each: each.call)
    by_call = {name: those for name, those in by_call.items() if name in times.told and name not in SUMS}
    replayed = _replayed(trace.info.application) if by_call else {}
    found = []
    for name, those in by_call.items():
        both_ways = name.startswith("Sendrecv") or name in COLLECTIVES
        calls, number = times.told[name][0], sum(each.number for each in those)
        mean_bytes, copies_s = sum(each.bytes for each in those) / number, sum(each.seconds for each in those) / calls
        now = replayed.get(f"MPI_{name}") if both_ways else None
        found.append(Staged(name, calls, mean_bytes, copies_s, now))
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
