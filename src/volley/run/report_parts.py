"""The parts of a report that all benchmarks share: the heading, and notes on errors and missing parts."""

from __future__ import annotations

from collections.abc import Iterator

from volley.grouping import grouped
from volley.report.model import Note
from volley.run.launch_series import LaunchSeries
from volley.run.plan import Plan
from volley.run.records import Rank, Transport
from volley.text import count, join_words, mpi_name
from volley.units import format_cpulist, format_duration

MAX_RANKS = 8
"""The heading names the cores and GPUs of at most this many ranks of a node; it counts the others."""

MAX_NODES = 8
"""Of more nodes the heading describes only the first; it counts the others."""

HOUR_S = 3600.0

_BINDERS = {"engine": "bound by volley", "launcher": "bound by the launcher", "nobody": "not bound"}


def heading(series: LaunchSeries, command: str, *more: str) -> list[str]:
    """Return the heading of a series: first what was measured, then one line for each node.

    Args:
        series: the runs.
        command: the name of the command.
        more: text after it in the first line, e.g. the only transport.
    """
    run = series.run
    if run is None:
        return ["The record that describes the run is missing: machine and MPI are unknown."]
    parts = [f"volley {command}", *more]
    if run.mpi:
        parts.append(mpi_name(run.mpi.library))
    launcher = run.plan.launch.get("launcher")
    if isinstance(launcher, str) and launcher != "none":
        parts.append(f"launched by {launcher}")
    parts.append(count(len(series.logs), "launch") if len(series.logs) > 1 else "one launch")
    return [" · ".join([*parts, run.started_at]), *_places(run.ranks)]


def _places(ranks: list[Rank]) -> Iterator[str]:
    """Yield one line for each node: its processor, and the cores and the GPU of each of its ranks."""
    nodes = grouped(ranks, lambda rank: (rank.node, rank.host))
    for number, ((_, host), here) in enumerate(nodes.items()):
        if number == 1 and len(nodes) > MAX_NODES:
            others = list(nodes)[1:]
            yield f"{others[0][1]} to {others[-1][1]}: {count(len(others), 'more node')} of {len(ranks)} ranks in all"
            return
        places = join_words(_place(rank) for rank in here[:MAX_RANKS])
        more = f" and {len(here) - MAX_RANKS} more" if len(here) > MAX_RANKS else ""
        binding = join_words(sorted({_BINDERS[rank.bound_by] for rank in here}))
        yield f"{host} ({here[0].cpu}): {places}{more}, {binding}"


def _place(rank: Rank) -> str:
    cores = f"core{'' if len(rank.cores) == 1 else 's'} {format_cpulist(rank.cores) or 'unknown'}"
    gpu = f" with GPU {rank.device.index} ({rank.device.name})" if rank.device else ""
    return f"rank {rank.rank} on {cores}{gpu}"


def launch_again(command: str, launches: int, plan: Plan | None) -> str:
    """Return what to type for more launches: ``volley pingpong --launches 6``; another launcher starts only one."""
    outside = " without a launcher around it" if plan and plan.launch.get("inside") else ""
    return f"volley {command} --launches {launches}{outside}"


def over_launches(launches: int, series: LaunchSeries) -> str:
    """Return what an interval is over, and in which time: launches of some seconds do not know of other hours."""
    if series.span_s is None:
        return count(launches, "launch")
    more = ", another hour may differ by more" if series.span_s < HOUR_S else ""
    return f"{count(launches, 'launch')} in {format_duration(series.span_s)}{more}"


def not_mpi(transport: Transport | None) -> str:
    """Return a mark for a transport that does not use MPI."""
    if transport is None or transport.mpi:
        return ""
    return " (sends nothing)" if transport.memory == "none" else " (not MPI)"


def incomplete(series: LaunchSeries) -> Iterator[Note]:
    """Report launches with unreadable lines, and launches that were aborted or ended early."""
    for number, log in enumerate(series.logs, start=1):
        which = f"launch {number} of {len(series.logs)}" if len(series.logs) > 1 else "this run"
        for problem in log.problems:
            yield Note("error", f"UNREADABLE in {which}: {problem}")
        if log.end is None:
            points = count(len(log.statuses), "point")
            yield Note("error", f"INCOMPLETE: {which} was aborted before its last record; it had measured {points}")
            continue
        why = f": {log.end.reason}" if log.end.reason else ""
        if log.end.status == "stopped":
            yield Note("error", f"INCOMPLETE: {which} was stopped before its last point{why}")
        elif why:
            yield Note("error", f"INCOMPLETE: {which} ended early{why}")


def unavailable(series: LaunchSeries) -> Iterator[Note]:
    """Report the unavailable transports; transports with the same reason share a note."""
    lost = (transport for transport in series.transports.values() if not transport.available)
    by_reason = grouped(lost, lambda transport: transport.reason or "no reason is recorded")
    for reason, transports in by_reason.items():
        names = join_words(transport.transport for transport in transports)
        if len(transports) == 1:
            yield Note("missing", f"{names} ({transports[0].summary}) is unavailable: {reason}")
        else:
            yield Note("missing", f"{names} are unavailable: {reason}")


def weakly_tested(series: LaunchSeries, measured: set[str]) -> Iterator[Note]:
    """Report transports that were tried only by a message of a process to itself, and not measured.

    Args:
        series: the runs.
        measured: transports with a successful measurement.
    """
    tried = series.plan.launch.get("tried_alone") if series.plan else None
    for name, transport in series.transports.items():
        if isinstance(tried, list) and name in tried and transport.available and name not in measured:
            yield Note(
                "missing",
                f"{name} is listed as available because a process could send GPU memory to itself. This is weaker "
                "evidence than a message between two ranks; inside a launcher, a failed message would end the job",
            )


def unverified(series: LaunchSeries) -> Iterator[Note]:
    """Report that nothing was verified; call it only if something was measured."""
    if series.plan and not series.plan.verify:
        yield Note(
            "warning",
            "nothing was verified, because --no-verify was given",
        )
