"""Solutions of Laplace's equation, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from msgspec.structs import asdict

from volley.benchmarks.jacobi import nvidia
from volley.benchmarks.jacobi.results import FLOPS, PARTS, JacobiResults, ScalingStep, Solution, scaling_chains
from volley.report.cells import plus_minus, scaled
from volley.report.model import EMPTY, Cell, Column, Data, Level, Note, Report, Table
from volley.run import notes
from volley.run.records import Status
from volley.run.series import Series
from volley.statistics.estimates import FEWEST
from volley.statistics.launches import FEWEST_LAUNCHES
from volley.text import count, join_words
from volley.units import format_sig

_SIMILAR = 1.02
"""Times that differ by less than this factor are similar: launches differ by about as much."""

_COLUMNS = [
    Column("transport", align="left"),
    Column("residual"),
    Column("iteration", "ms"),
    Column("", "± %"),
    Column("updates", "GLU/s"),
    Column("compulsory", "GB/s"),
    Column("of copy", "%"),
    Column("verified"),
]

FORMATS = {"nvidia-jacobi": nvidia.render}


def reports(results: Sequence[JacobiResults]) -> list[Report]:
    """Return one report a series; scaling, which compares all of them, follows the last."""
    found = [_report(each.series, each.solutions) for each in results]
    chains = scaling_chains(solution for each in results for solution in each.solutions)
    if chains:
        found[-1] = replace(found[-1], tables=[*found[-1].tables, *map(_scaling_table, chains)])
    return found


def _report(series: Series, solutions: Sequence[Solution]) -> Report:
    measured = [solution for solution in solutions if solution.time]
    return Report(
        heading=[*notes.heading(series, "jacobi"), *map(_problem, solutions[:1])],
        tables=[_table(measured, _processors(solutions[0]))] if measured else [],
        notes=[
            *notes.incomplete(series),
            *_lost(solutions, "failed", "error", "FAILED"),
            *notes.unavailable(series),
            *_lost(solutions, "skipped", "missing", "skipped"),
            *notes.slowed(series),
            *(notes.unverified(series) if measured else ()),
        ],
        data=Data(_CSV, [_data(solution) for solution in solutions]),
        runs=series.describe_runs(),
    )


def _lost(solutions: Sequence[Solution], status: Status, level: Level, word: str) -> Iterator[Note]:
    for point in (each.point for each in solutions if each.point.status == status):
        yield Note(level, f"{word}: {point.transport}: {point.reason or 'no reason is recorded'}")


def _problem(solution: Solution) -> str:
    """Say what was solved: ``2 × 1 processes of 4096 × 4096 points, 8192 × 4096 in all, double``."""
    (across, along), (columns, rows), whole = solution.point.grid, solution.point.domain, solution.whole
    parts = [
        f"{across} × {along} processes of {columns} × {rows} points",
        f"{whole[0]} × {whole[1]} in all",
        solution.point.precision,
        *([f"{_processors(solution)} each"] if _processors(solution) else []),
        f"overlap {'on' if solution.point.overlap else 'off'}",
    ]
    return ", ".join(parts)


def _processors(solution: Solution) -> str:
    """Return what a rank computes with; nothing if it did not compute."""
    if solution.point.memory == "device":
        return "one GPU"
    return count(solution.point.threads, "thread") if solution.point.threads else ""


# -------------------------------------------------------------------------------------------------------- table


def _table(solutions: Sequence[Solution], processors: str) -> Table:
    """One row a solution; ``processors`` are those of the heading."""
    rows = [
        [
            solution.transport,
            Cell(None if solution.residual is None else f"{solution.residual:.6f}"),
            scaled(solution.iteration_s, 1e3),
            plus_minus(solution.time),
            scaled(solution.updates_per_s, 1e-9),
            scaled(solution.compulsory_Bps, 1e-9),
            scaled(solution.of_copy, 1e2),
            None if solution.ranks == 1 else solution.verified,
        ]
        for solution in solutions
    ]
    legend = [line for solution in solutions for line in _about(solution, processors)]
    return Table(_COLUMNS, rows, legend=[*legend, *slower_parts(solutions), _meaning(solutions)])


def _meaning(solutions: Sequence[Solution]) -> str:
    kinds = {solution.time.kind for solution in solutions if solution.time}
    launches = max(len(solution.points) for solution in solutions)
    parts = [f"±: 95 % confidence interval (CI) of the median over {launches} launches"] if "ci" in kinds else []
    if "within" in kinds:
        parts.append("(±): 95 % CI of the median of batch means within one launch; other launches may differ by more")
    if "range" in kinds:
        fewer = f"{FEWEST_LAUNCHES} launches" if launches > 1 else f"{FEWEST} batches"
        parts.append(f"(±): range of fewer than {fewer}")
    compulsory = f"compulsory: {solutions[0].compulsory_bytes} B an update, 10^9 B/s"
    return "; ".join([*parts, "updates: 10^9 points a second", compulsory])


def _about(solution: Solution, processors: str) -> Iterator[str]:
    """Say where the time went, and how good the solution is."""
    name, point = solution.transport, solution.point
    if _processors(solution) != processors:
        yield f"{name}: {_processors(solution)} each"
    if solution.run_s is not None:
        took = f"{count(point.iterations, 'iteration')} in {format_sig(solution.run_s)} s, the first included"
        yield f"{name}: {took}; the tolerance was {'' if point.converged else 'not '}reached"
    if point.memory == "device" and solution.parts_s:
        parts = [f"{part} {format_sig(spent_s * 1e6)} µs" for part, spent_s in solution.parts_s.items() if spent_s > 0]
        yield f"{name}: in an iteration {join_words(parts)}, overlapped where possible"
    elif solution.shares:
        shares = [f"{part} {100 * share:.1f} %" for part, share in solution.shares.items()]
        yield f"{name}: of the ranks' time {join_words(shares)}"
    if solution.copy_Bps is not None:
        how = " by all ranks together" if solution.ranks > 1 else ""
        yield f"{name}: the same field is copied at {format_sig(solution.copy_Bps / 1e9)} GB/s{how}, before and after"
    if solution.first_s is not None:
        halos = ""
        if point.cold_exchange_s is not None and solution.messages_timed:
            halos = f"the first halos took {format_sig(point.cold_exchange_s * 1e6)} µs, "
        yield f"{name}: cold start: {halos}the first iteration {format_sig(solution.first_s * 1e3)} ms"
    if point.deviation is not None:
        yield f"{name}: differs from the exact solution by at most {point.deviation:.3g}"


def slower_parts(solutions: Sequence[Solution]) -> Iterator[str]:
    """Say what takes longer if MPI on device memory is no faster than through host memory."""
    by_name = {solution.transport: solution for solution in solutions if solution.parts_s}
    aware, staged = by_name.get("aware"), by_name.get("staged/pinned")
    if aware is None or staged is None or aware.ranks == 1:
        return
    more = {part: spent_s - staged.parts_s[part] for part, spent_s in aware.parts_s.items()}
    part = max(more, key=lambda name: more[name])
    cause = f"{part} takes {format_sig(more[part] * 1e6)} µs an iteration more"
    ratio = (aware.iteration_s or 0) / (staged.iteration_s or 1)
    aware_halos_s, staged_halos_s = (each.parts_s["pack"] + each.parts_s["exchange"] for each in (aware, staged))
    halos = aware_halos_s / staged_halos_s if staged_halos_s else 0.0
    if ratio > _SIMILAR and more[part] > 0:
        yield f"aware takes {ratio:.2f} times as long as staged/pinned: {cause}"
    elif halos > _SIMILAR:
        yield f"aware's halos take {halos:.2f} times as long as staged/pinned's: {cause}; overlap hides it"


def _scaling_table(chain: Sequence[ScalingStep]) -> Table:
    one = chain[0]
    size = one.solution.whole if one.kind == "strong" else one.solution.point.domain
    where = "in all" if one.kind == "strong" else "a process"
    return Table(
        columns=[
            Column("processes", align="left"),
            Column("iteration", "ms"),
            Column("updates", "GLU/s"),
            Column("efficiency", "%"),
            Column("beyond ideal", "µs"),
        ],
        rows=[
            [
                f"{step.solution.point.grid[0]} × {step.solution.point.grid[1]}",
                scaled(step.solution.iteration_s, 1e3),
                scaled(step.solution.updates_per_s, 1e-9),
                f"{step.efficiency * 100:.1f}",
                EMPTY if step is one else f"{step.beyond_s * 1e6:+.1f}",
            ]
            for step in chain
        ],
        title=f"{one.kind} scaling, {one.solution.transport}, {size[0]} × {size[1]} points {where}, "
        f"{one.solution.point.precision}",
        legend=["efficiency and ideal: relative to one process"],
    )


# --------------------------------------------------------------------------------------------------------- data


_CSV = (
    "transport", "grid_x", "grid_y", "domain_x", "domain_y", "precision", "overlap", "memory", "threads",
    "launches", "status", "iterations", "converged", "residual", "deviation", "run_s", "iteration_us",
    "iteration_low_us", "iteration_high_us", "GLUps", "algorithmic_GBps", "compulsory_GBps", "copy_GBps", "of_copy",
    "communication_s", *(f"{part}_share" for part in PARTS), *(f"{part}_us" for part in PARTS),
    "first_iteration_us", "cold_exchange_us", "messages_timed", "messages_verified", "field_hash", "reason",
)  # fmt: skip


_LEFT_OUT = ("version", "transport", "grid", "domain", "batch_iterations", "batch_s", "residuals", "parts", "copy_s")
"""What a row for programs has in columns of its own, or leaves out of the record: its series."""


def _data(solution: Solution) -> dict[str, Any]:
    """Return a row: the record without its series, and the numbers over all launches."""
    time, updates = solution.time, solution.updates_per_s
    point = {name: value for name, value in asdict(solution.point).items() if name not in _LEFT_OUT}
    return {
        "transport": solution.transport,
        "grid_x": solution.point.grid[0],
        "grid_y": solution.point.grid[1],
        "domain_x": solution.point.domain[0],
        "domain_y": solution.point.domain[1],
        **point,
        "check_every": solution.check_every,
        "launches": len(solution.points),
        "residual": solution.residual,
        "run_s": solution.run_s,
        "iteration_us": scaled(solution.iteration_s, 1e6),
        "iteration_low_us": time and time.low * 1e6,
        "iteration_high_us": time and time.high * 1e6,
        "iteration_bounds": time and time.kind,
        "GLUps": scaled(updates, 1e-9),
        "GFLOPS": scaled(updates, FLOPS * 1e-9),
        "algorithmic_GBps": scaled(updates, solution.algorithmic_bytes * 1e-9),
        "compulsory_GBps": scaled(updates, solution.compulsory_bytes * 1e-9),
        "copy_GBps": scaled(solution.copy_Bps, 1e-9),
        "of_copy": solution.of_copy,
        "communication_s": solution.communication_s,
        **{f"{part}_share": solution.shares.get(part) for part in PARTS},
        **{f"{part}_us": scaled(solution.parts_s.get(part), 1e6) for part in PARTS},
        "first_iteration_us": scaled(solution.first_s, 1e6),
        "cold_exchange_us": scaled(solution.point.cold_exchange_s, 1e6),
        "verified": solution.verified,
        "messages_timed": solution.messages_timed,
        "messages_verified": solution.messages_verified,
    }
