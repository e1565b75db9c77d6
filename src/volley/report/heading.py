"""The lines above a table: what was measured, with which MPI, on which machine, and where the ranks ran."""

from __future__ import annotations

from collections.abc import Iterator

from volley import nodes
from volley.records import Rank, Run
from volley.report.node import gpu_lines
from volley.summary import Series
from volley.text import count, harmless, mpi_name, several, spans

_COMMANDS = {"node": "matrix, one process with all GPUs", "probe": "transports"}
"""What people call a benchmark, where that is not its name."""

_BINDERS = {"engine": "bound by volley", "launcher": "bound by the launcher", "nobody": "not bound"}


def heading(series: Series) -> list[str]:
    """Return the lines that describe the runs of one series."""
    run = next((log.run for log in series.logs if log.run), None)
    if run is None:
        return ["The record that describes the run is missing: machine and MPI are unknown."]
    if run.plan.benchmark == "node":
        devices = [(each.index, each.name, each.uuid) for each in nodes.devices_of(series.logs)]
        where = [f"{harmless(run.ranks[0].host)} ({harmless(run.ranks[0].cpu)})"] if run.ranks else []
        return [" · ".join(_what(run, series)), *where, *gpu_lines(nodes.numbers(series.logs), devices)]
    return [" · ".join(_what(run, series)), *_where(run)]


def _what(run: Run, series: Series) -> Iterator[str]:
    yield f"volley {_COMMANDS.get(run.plan.benchmark, run.plan.benchmark)}"
    measured = {point.transport for point in series.points}
    if len(measured) == 1:  # several are named in the table
        yield harmless(*measured)
    if run.mpi and run.plan.benchmark != "node":  # no message goes through MPI there
        yield mpi_name(run.mpi.library)
    launcher = run.plan.launch.get("launcher")
    if isinstance(launcher, str) and launcher != "none":
        yield f"launched by {harmless(launcher)}"
    if len(series.logs) > 1:
        yield count(len(series.logs), "launch")
    yield harmless(run.started_at)


def _where(run: Run) -> Iterator[str]:
    """One line a node: its processor, and the cores and GPU of each rank on it."""
    nodes: dict[tuple[int, str], list[Rank]] = {}
    for rank in run.ranks:
        nodes.setdefault((rank.node, rank.host), []).append(rank)
    for (_, host), ranks in nodes.items():
        shown = ranks if len(ranks) <= 8 else ranks[:8]
        places = several(_place(rank) for rank in shown)
        more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
        binding = several(sorted({_BINDERS[rank.bound_by] for rank in ranks}))
        yield f"{harmless(host)} ({harmless(ranks[0].cpu)}): {places}{more}, {binding}"


def _place(rank: Rank) -> str:
    cores = f"core{'' if len(rank.cores) == 1 else 's'} {spans(rank.cores) or 'unknown'}"
    gpu = f" with GPU {rank.device.index} ({harmless(rank.device.name)})" if rank.device else ""
    return f"rank {rank.rank} on {cores}{gpu}"
