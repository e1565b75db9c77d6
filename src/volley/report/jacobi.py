"""What people and programs read of ``volley jacobi``: a table, CSV, JSON."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, TextIO

from volley.records_io import RunLog
from volley.report.json import write
from volley.solution import PARTS, Solution, solutions
from volley.stats import FEWEST, Estimate
from volley.summary import Series
from volley.text import count, digits, harmless, several

REPORT_VERSION = 1


def dimensions(solution: Solution) -> str:
    """Say what was solved: ``2 × 1 processes of 4096 × 4096 points, 8192 × 4096 in all, double``."""
    (across, along), (columns, rows), whole = solution.topology, solution.domain, solution.whole
    hands = _hands(solution)
    return (
        f"{across} × {along} processes of {columns} × {rows} points, {whole[0]} × {whole[1]} in all, "
        f"{solution.precision}, {f'{hands} each, ' if hands else ''}overlap {'on' if solution.overlap else 'off'}"
    )


def _hands(solution: Solution) -> str:
    """Say what a rank computes with; nothing where it came to no computing."""
    if solution.memory == "device":
        return "one GPU"
    return count(solution.threads, "thread") if solution.threads else ""


# ------------------------------------------------------------------------------------------------- the table


def _plus_minus(time: Estimate) -> str:
    if time.kind == "single":
        return "–"
    shown = f"{time.half_width * 100:.1f}" if time.half_width >= 0.0005 else "<0.1"
    return shown if time.kind == "interval" else f"({shown})"


def _scaled(scale: float, what: Callable[[Solution], float | None]) -> Callable[[Solution], str]:
    def cell(solution: Solution) -> str:
        value = what(solution)
        return "–" if value is None else digits(value * scale)

    return cell


COLUMNS: tuple[tuple[str, str, Callable[[Solution], str]], ...] = (
    ("residue", "", lambda solution: "–" if solution.residue is None else f"{solution.residue:.6f}"),
    ("iteration", "ms", _scaled(1e3, lambda solution: solution.iteration_s)),
    ("", "± %", lambda solution: "–" if solution.time is None else _plus_minus(solution.time)),
    ("updates", "GLU/s", _scaled(1e-9, lambda solution: solution.updates_per_s)),
    ("compulsory", "GB/s", _scaled(1e-9, lambda solution: solution.compulsory_Bps)),
    ("of copy", "%", _scaled(1e2, lambda solution: solution.of_copy)),
    ("verified", "", lambda solution: "–" if solution.ranks == 1 else "✓" if solution.verified else "no"),
)


def table_lines(found: list[Solution]) -> Iterator[tuple[str, list[str]]]:
    """Yield one row a solution that has numbers."""
    for solution in found:
        if solution.time is not None:
            yield harmless(solution.transport), [cell(solution) for _, _, cell in COLUMNS]


def legend(found: list[Solution]) -> list[str]:
    """Say what the columns mean, where the time went, and how good the solution is."""
    lines: list[str] = []
    measured = [solution for solution in found if solution.time is not None]
    for solution in measured:
        if _hands(solution) != _hands(found[0]):
            lines.append(f"{harmless(solution.transport)}: {_hands(solution)} each")
        lines += _of_one(solution)
    lines += slower_parts(measured)
    if measured:
        kinds = {solution.time.kind for solution in measured if solution.time}
        bounds = "±: 95 % interval of the median of batch means" if "interval" in kinds else ""
        few = f"(±): range of fewer than {FEWEST} batches" if "range" in kinds else ""
        lines.append(
            "; ".join(
                part
                for part in (
                    bounds,
                    few,
                    "updates: 10^9 points a second",
                    f"compulsory: {measured[0].compulsory_bytes} B an update, 10^9 B/s",
                )
                if part
            )
        )
    return lines


def _of_one(solution: Solution) -> Iterator[str]:
    name = harmless(solution.transport)
    if solution.run_s is not None:
        took = f"{count(solution.iterations, 'iteration')} in {digits(solution.run_s)} s, the first included"
        yield f"{name}: {took}; the tolerance was {'' if solution.converged else 'not '}reached"
    if solution.memory == "device" and solution.parts_s:
        parts = several(f"{part} {digits(spent * 1e6)} µs" for part, spent in solution.parts_s.items() if spent > 0)
        yield f"{name}: in an iteration {parts}, side by side where they can be"
    elif solution.shares:
        shares = several(f"{part} {share * 100:.1f} %" for part, share in solution.shares.items())
        yield f"{name}: of the ranks' time {shares}"
    if solution.copy_Bps is not None:
        how = f" with {solution.stores} stores" if solution.stores else ""
        how += " by all ranks together" if solution.ranks > 1 else ""
        yield f"{name}: the same field is copied at {digits(solution.copy_Bps / 1e9)} GB/s{how}, before and after"
    if solution.first_s is not None:
        halos = ""
        if solution.cold_exchange_s is not None and solution.messages_timed:
            halos = f"the first halos took {digits(solution.cold_exchange_s * 1e6)} µs, "
        yield f"{name}: cold start: {halos}the first iteration {digits(solution.first_s * 1e3)} ms"
    if solution.deviation is not None:
        yield f"{name}: differs from the exact solution by at most {solution.deviation:.3g}"


_LIKE = 1.02
"""Times that differ by less than this factor are alike: launches differ by about as much."""


def slower_parts(found: list[Solution]) -> Iterator[str]:
    """Say what takes longer where MPI on device memory is no faster than by way of host memory."""
    by_name = {solution.transport: solution for solution in found if solution.parts_s and solution.iteration_s}
    aware, staged = by_name.get("aware"), by_name.get("staged/pinned")
    if aware is None or staged is None or aware.ranks == 1:
        return
    more = {part: spent - staged.parts_s[part] for part, spent in aware.parts_s.items()}
    part = max(more, key=lambda name: more[name])
    blame = f"{part} takes {digits(more[part] * 1e6)} µs an iteration more"
    ratio = (aware.iteration_s or 0) / (staged.iteration_s or 1)
    halos = (aware.halo_s or 0) / staged.halo_s if staged.halo_s else 0.0
    if ratio > _LIKE and more[part] > 0:
        yield f"aware takes {ratio:.2f} times as long as staged/pinned: {blame}"
    elif halos > _LIKE:
        yield f"aware's halos take {halos:.2f} times as long as staged/pinned's: {blame}; overlap hides it"


def remarks(found: list[Solution]) -> Iterator[str]:
    """Yield what failed or was left out, and why."""
    for solution in found:
        if solution.status != "ok":
            word = "FAILED" if solution.status == "failed" else "skipped"
            yield f"{word}: {harmless(solution.transport)}: {harmless(solution.reason or 'no reason is recorded')}"


# ------------------------------------------------------------------------------------------------ csv and json


def _number(value: float | None, scale: float = 1) -> str:
    return "" if value is None else f"{value * scale:.9g}"


def _share(part: str) -> Callable[[Solution], str]:
    return lambda solution: _number(solution.shares.get(part))


def _part(part: str) -> Callable[[Solution], str]:
    return lambda solution: _number(solution.parts_s.get(part), 1e6)


CSV_COLUMNS: dict[str, Callable[[Solution], object]] = {
    "exchange": lambda solution: harmless(solution.transport),
    "topology_x": lambda solution: solution.topology[0],
    "topology_y": lambda solution: solution.topology[1],
    "domain_x": lambda solution: solution.domain[0],
    "domain_y": lambda solution: solution.domain[1],
    "precision": lambda solution: solution.precision,
    "overlap": lambda solution: "yes" if solution.overlap else "no",
    "memory": lambda solution: solution.memory,
    "threads": lambda solution: solution.threads,
    "launches": lambda solution: solution.launches,
    "status": lambda solution: solution.status,
    "iterations": lambda solution: solution.iterations,
    "converged": lambda solution: "yes" if solution.converged else "no",
    "residue": lambda solution: _number(solution.residue),
    "deviation": lambda solution: _number(solution.deviation),
    "run_s": lambda solution: _number(solution.run_s),
    "iteration_us": lambda solution: _number(solution.iteration_s, 1e6),
    "iteration_low_us": lambda solution: _number(solution.time.low if solution.time else None, 1e6),
    "iteration_high_us": lambda solution: _number(solution.time.high if solution.time else None, 1e6),
    "GLUps": lambda solution: _number(solution.updates_per_s, 1e-9),
    "algorithmic_GBps": lambda solution: _number(solution.algorithmic_Bps, 1e-9),
    "compulsory_GBps": lambda solution: _number(solution.compulsory_Bps, 1e-9),
    "copy_GBps": lambda solution: _number(solution.copy_Bps, 1e-9),
    "of_copy": lambda solution: _number(solution.of_copy),
    "stores": lambda solution: solution.stores or "",
    "communication_s": lambda solution: _number(solution.communication_s),
    **{f"{part}_share": _share(part) for part in PARTS},
    **{f"{part}_us": _part(part) for part in PARTS},
    "first_iteration_us": lambda solution: _number(solution.first_s, 1e6),
    "cold_exchange_us": lambda solution: _number(solution.cold_exchange_s, 1e6),
    "messages_timed": lambda solution: solution.messages_timed,
    "messages_verified": lambda solution: solution.messages_verified,
    "field_hash": lambda solution: harmless(solution.field_hash or ""),
    "reason": lambda solution: harmless(solution.reason or ""),
}


def render_csv(series: list[Series], out: TextIO) -> None:
    """Write one row a solution."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for solution in (solution for one in series for solution in solutions(one.logs)):
        writer.writerow([cell(solution) for cell in CSV_COLUMNS.values()])


def render_json(series: list[Series], out: TextIO) -> None:
    """Write the document, indented."""
    document = {
        "report": REPORT_VERSION,
        "series": [
            {
                "runs": [_run(log) for log in one.logs],
                "solutions": [_plain(solution) for solution in solutions(one.logs)],
            }
            for one in series
        ],
    }
    write(document, out)


def _run(log: RunLog) -> dict[str, Any]:
    return {
        "complete": log.complete,
        "problems": log.problems,
        "run": log.run,
        "transports": log.transports,
        "end": log.end,
    }


def _plain(solution: Solution) -> dict[str, Any]:
    derived = (
        "updates_per_s",
        "flops_per_s",
        "algorithmic_Bps",
        "compulsory_Bps",
        "of_copy",
        "verified",
    )
    return {**asdict(solution), **{name: getattr(solution, name) for name in derived}}
