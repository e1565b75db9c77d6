"""The lines of NVIDIA's CUDA-aware MPI example (a Jacobi solver), for scripts and people who compare with it.

Its rates are over the total run time, and its "device bandwidth" is algorithmic: 64 bytes an update in double
precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from volley.benchmarks.jacobi.records import JacobiPoint
from volley.benchmarks.jacobi.results import FLOPS, JacobiResults, Solution, check_every
from volley.run.run_log import RunLog
from volley.text import count, escape_controls

_PREFIXES = " kMGT"

SHOWN_EVERY = 100
"""Iterations from one line to the next; the engine keeps a residual about as often."""


def render(results: Sequence[JacobiResults], out: TextIO) -> list[str]:
    """Write the lines of each good solution of each launch; return what the example has no line for."""
    solved = [
        (log, Solution({1: point}, check_every(log)))
        for each in results
        for log in each.series.logs
        for point in log.of(JacobiPoint)
        if point.status == "ok"
    ]
    for log, solution in solved:
        for line in _lines(log, solution):
            out.write(line + "\n")
    notes = []
    for number, (_, solution) in enumerate(solved, start=1):
        total = (solution.overall_updates_per_s or 0.0) * solution.compulsory_bytes
        counted = f"{solution.algorithmic_bytes} B per update, as the example counts"
        notes.append(
            f"block {number}: {escape_controls(solution.transport)}; device bandwidth: {counted}; "
            f"{solution.compulsory_bytes} B must move: {_number(total, 'B/s')}"
        )
    return notes


def _lines(log: RunLog, solved: Solution) -> Iterator[str]:
    (across, along), (columns, rows) = solved.point.grid, solved.point.domain
    yield f"Topology size: {across} x {along}"
    yield f"Local domain size (current node): {columns} x {rows}"
    yield f"Global domain size (all nodes): {across * columns} x {along * rows}"
    yield f"Starting Jacobi run with {solved.ranks} processes using {_processor(log, solved)}:"
    # The residuals on the hundreds, or on the next iteration that has one; not the last unless it is one of those.
    apart = -(-SHOWN_EVERY // solved.check_every) * solved.check_every
    for each in solved.point.residuals:
        if each.iteration % apart == 0 and each.residual is not None:
            yield f"Iteration: {each.iteration} - Residue: {each.residual:.6f}"
    yield f"Stopped after {solved.point.iterations} iterations with residue {solved.residual or 0:.6f}"
    yield f"Total Jacobi run time: {solved.run_s or 0:.4f} sec."
    yield f"Average per-process communication time: {solved.communication_s or 0:.4f} sec."
    updates = solved.overall_updates_per_s or 0.0
    for what, each_update, unit in (
        ("lattice updates", 1, "LU/s"),
        ("FLOPS", FLOPS, "FLOPS"),
        ("device bandwidth", solved.algorithmic_bytes, "B/s"),
    ):
        total, share = _number(updates * each_update, unit), _number(updates * each_update / solved.ranks, unit)
        yield f"Measured {what}: {total} (total), {share} (per process)"


def _processor(log: RunLog, solved: Solution) -> str:
    run = log.run
    if solved.point.memory == "device":
        devices = [rank.device for rank in run.ranks if rank.device] if run else []
        names = list(dict.fromkeys(escape_controls(device.name) for device in devices)) or ["unknown"]
        known = {gpu.uuid: gpu.ecc for hardware in log.hardware for gpu in hardware.gpus}
        modes = [known.get(device.uuid) for device in devices]
        ecc = "unknown" if None in modes or not modes else f"{sum(map(bool, modes))} / {len(modes)}"
        return f'"{", ".join(names)}" GPUs (ECC enabled: {ecc})'
    name = escape_controls(run.ranks[0].cpu) if run and run.ranks else "unknown"
    return f'"{name}" CPUs ({count(solved.point.threads, "thread")} each)'


def _number(value: float, unit: str) -> str:
    """Format as the example does: up to 1000 of k, M, G or T; without a prefix there are two blanks."""
    power = 0
    while value > 1000 and power < len(_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.2f} {_PREFIXES[power]}{unit}"
