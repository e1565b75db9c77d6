"""The lines of NVIDIA's CUDA-aware MPI example (a Jacobi solver), for scripts and people who compare with it.

Its rates are over the total run time, and its "device bandwidth" is algorithmic: 64 bytes an update in double
precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

import msgspec

from volley.records import JacobiPoint, JacobiResidue, Run
from volley.records_io import RunLog
from volley.solution import FLOPS, Solution, solutions
from volley.text import count, harmless

SHOWN_EVERY = 100
"""Iterations from one line to the next; the engine keeps a residue about as often."""


def render_seed(logs: list[RunLog], out: TextIO) -> None:
    """Write the lines of every solution of every launch that came to its end."""
    for log in logs:
        for point in log.jacobi:
            if point.status == "ok":
                (solution,) = solutions([RunLog(jacobi=[point])])
                for line in _lines(log, point, solution):
                    out.write(line + "\n")


def _lines(log: RunLog, point: JacobiPoint, solution: Solution) -> Iterator[str]:
    (across, along), (columns, rows) = solution.topology, solution.domain
    yield f"Topology size: {across} x {along}"
    yield f"Local domain size (current node): {columns} x {rows}"
    yield f"Global domain size (all nodes): {across * columns} x {along * rows}"
    yield f"Starting Jacobi run with {count(solution.ranks, 'process')} using {_processor(log, solution)}:"
    for residue in _shown(log.run, point):
        yield f"Iteration: {residue.iteration} - Residue: {residue.residue:.6f}"
    yield f"Stopped after {count(solution.iterations, 'iteration')} with residue {solution.residue or 0:.6f}"
    yield f"Total Jacobi run time: {solution.run_s or 0:.4f} sec."
    yield f"Average per-process communication time: {solution.communication_s or 0:.4f} sec."
    updates = solution.overall_updates_per_s or 0.0
    for what, each, unit, note in (
        ("Measured lattice updates", 1, "LU/s", ""),
        ("Measured FLOPS", FLOPS, "FLOPS", ""),
        ("Measured device bandwidth", solution.algorithmic_bytes, "B/s", " (algorithmic: {} B an update)"),
        ("Compulsory bandwidth", solution.compulsory_bytes, "B/s", " ({} B an update)"),
    ):
        total, share = _rate(updates * each, unit), _rate(updates * each / solution.ranks, unit)
        yield f"{what}: {total} (total), {share} (per process){note.format(each)}"


def _processor(log: RunLog, solution: Solution) -> str:
    run = log.run
    if solution.memory == "device":
        devices = [rank.device for rank in run.ranks if rank.device] if run else []
        names = list(dict.fromkeys(harmless(device.name) for device in devices)) or ["unknown"]
        known = {gpu.uuid: gpu.ecc for hardware in log.hardware for gpu in hardware.gpus}
        modes = [known.get(device.uuid) for device in devices]
        ecc = "unknown" if None in modes or not modes else f"{sum(map(bool, modes))} / {len(modes)}"
        return f'"{", ".join(names)}" GPUs (ECC enabled: {ecc})'
    name = harmless(run.ranks[0].cpu) if run and run.ranks else "unknown"
    return f'"{name}" CPUs ({count(solution.threads, "thread")} each)'


def _shown(run: Run | None, point: JacobiPoint) -> Iterator[JacobiResidue]:
    """The residues on the hundreds, or on the next iteration that has one; not the last unless it is one of those."""
    problem = run.plan.jacobi if run else msgspec.UNSET
    step = problem.check_every if problem is not msgspec.UNSET else 1
    apart = -(-SHOWN_EVERY // step) * step
    for residue in point.residues:
        if residue.iteration % apart == 0 and residue.residue is not None:
            yield residue


def _rate(value: float, unit: str) -> str:
    """The example's units: giga, and tera from a thousand of them on."""
    giga = value / 1e9
    return f"{giga / 1000:.2f} T{unit}" if giga >= 1000 else f"{giga:.2f} G{unit}"
