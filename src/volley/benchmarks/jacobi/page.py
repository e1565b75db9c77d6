"""The reports of a Jacobi solver: table, scaling, charts, and rows for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TextIO

from volley.benchmarks.jacobi.records import JacobiPoint
from volley.benchmarks.jacobi.results import (
    FLOPS,
    PARTS,
    JacobiResults,
    ScalingStep,
    Solution,
    check_every,
    observables,
)
from volley.records.command_again import command_again
from volley.records.record_types import Status, cpus_of
from volley.records.run_log import RunLog
from volley.references import beside_equal, gpus_of
from volley.report.cells import ALL, PLUS_MINUS, Quantity, as_they_are, bounds_of, data_of, scaled, with_bounds
from volley.report.model import EMPTY, Axis, Cell, Chart, Column, Later, Mark, Note, ReferenceLine, Report, Row, Table
from volley.run import report_parts
from volley.statistics.estimates import median
from volley.statistics.launches import of_numbers, of_ratios, ratio
from volley.text import count, escape_controls, grouped, join_words
from volley.units import format_sig


def report(result: JacobiResults) -> Report:
    series, solutions = result.series, result.solutions
    measured = [solution for solution in solutions if solution.time]
    places = grouped(measured, lambda solution: solution.point.memory).values()  # parts add up, or overlap
    tables = [_table(measured, result)] if measured else []
    tables += [table for those in places for table in _parts_table(those)]
    charts = [_parts_chart(those) for those in places if any(solution.parts_s for solution in those)]
    return Report(
        heading=[*report_parts.heading(series, "jacobi"), *map(_problem, solutions[:1])],
        tables=[*tables, *_scaling_tables(result.chains)],
        charts=[*charts, *_scaling_charts(result.chains)],
        notes=list(
            report_parts.notes_of(
                series,
                {solution.transport for solution in measured},
                failed=_lost(solutions, "failed"),
                missing=(f"skipped: {text}" for text in _lost(solutions, "skipped")),
                doubts=(
                    *report_parts.noisy(series, {each.transport: each.time for each in measured if each.time}),
                    *(Note("warning", text) for text in _crowded(measured)),
                    *(Note("warning", text) for text in dict.fromkeys(map(_other_threads, result.chains)) if text),
                ),
                unverified="only the first halos were" if any(each.messages_verified for each in solutions) else "",
            )
        ),
        details=Later(
            lambda: (
                *beside_equal(gpus_of(series.run), "jacobi", map(observables, series.logs)),
                *report_parts.one_launch_note(series, [solution.transport for solution in measured]),
            )
        ),
        results=lambda: data_of(_QUANTITIES, [name for each in _QUANTITIES[:9] for name in each.names], solutions),
        runs=series.logs,
    )


def _lost(solutions: Sequence[Solution], status: Status) -> Iterator[str]:
    for point in (each.point for each in solutions if each.point.status == status):
        yield f"{point.transport}: {point.reason or 'no reason is recorded'}"


def _problem(solution: Solution) -> str:
    """Describe the problem: ``2 × 1 processes of 4096 × 4096 points, 8192 × 4096 in all, double``."""
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
    """Return the processor of a rank: a GPU or threads; an empty text if the rank did not compute."""
    if solution.point.memory == "device":
        return "one GPU"
    return count(solution.point.threads, "thread") if solution.point.threads else ""


ITERATION = Quantity("iteration", "ms", attrgetter("time"))
UPDATES = Quantity("updates", "GLU/s", attrgetter("updates_per_s"))
RUN = Quantity("run", "s", attrgetter("run_s"))
FIRST = Quantity("first", "ms", attrgetter("first_s"))
HALOS = Quantity("halos", "µs", lambda each: each.cold_exchange_s if each.messages_timed else EMPTY)
COPY = Quantity("copy", "GB/s", attrgetter("copy_Bps"))
DEVIATION = Quantity("deviation", "", attrgetter("point.deviation"), digits=3)
TRANSPORT, VERIFIED = as_they_are("transport", "verified")


def _table(solutions: Sequence[Solution], result: JacobiResults) -> Table:
    wanted = (
        Quantity("residual", "", lambda each: Cell(None if each.residual is None else f"{each.residual:.6f}")),
        ITERATION.suited(solutions),
        PLUS_MINUS,
        UPDATES,
        Quantity("compulsory", "GB/s", attrgetter("compulsory_Bps")),
        Quantity("of copy", "%", attrgetter("of_copy")),
    )
    columns = {TRANSPORT.column(align="left"): TRANSPORT.cell}
    columns |= {each.column(): each.cell for each in with_bounds(wanted, solutions)}
    columns[VERIFIED.column(all_true=report_parts.Account.of(result.solutions).all_verified)] = VERIFIED.cell
    compulsory = f"compulsory: {solutions[0].compulsory_bytes} B per update, 10^9 B/s; of copy: compulsory / copy"
    bounds = report_parts.bounds_legend(solutions, result.series, "batches")
    meaning = "; ".join([*bounds, "updates: 10^9 points per second", compulsory])
    return Table.of(columns, solutions, legend=[*_endings(solutions), *slower_parts(solutions), meaning])


def _parts_table(solutions: Sequence[Solution]) -> Iterator[Table]:
    """Say where the time of solutions in one kind of memory went: on GPUs the parts of an iteration, which overlap, on
    CPUs their shares."""
    named = [part for part in PARTS if any(each.parts_s.get(part) or each.shares.get(part) for each in solutions)]
    if not named:
        return
    on_gpu = solutions[0].point.memory == "device"
    unit, group = ("µs", "parts of an iteration") if on_gpu else ("%", "of the ranks' time")
    spent = attrgetter("parts_s" if on_gpu else "shares")
    parts = [Quantity(part, unit, lambda each, part=part: spent(each).get(part), digits=3) for part in named]  # type: ignore[misc]
    quantities = [*parts, RUN.suited(solutions), FIRST.suited(solutions), HALOS, COPY, DEVIATION]
    groups = {**dict.fromkeys(named, group), FIRST.name: "cold start", HALOS.name: "cold start"}
    columns = {TRANSPORT.column(align="left"): TRANSPORT.cell}
    columns |= {each.column(group=groups.get(each.name, "")): each.cell for each in quantities}
    legend = "parts overlap where possible; " if on_gpu else ""
    legend += "run: all iterations, including the first; cold start: the first iteration and the first halos; "
    legend += "copy: the same field, copied by all ranks together before and after; "
    yield Table.of(columns, solutions, legend=[legend + "deviation: the largest from the exact solution"])


def _endings(solutions: Sequence[Solution]) -> Iterator[str]:
    for processors, those in grouped(solutions, _processors).items():
        if processors != _processors(solutions[0]):
            yield f"{join_words(solution.transport for solution in those)}: {processors} each"
    by_end = grouped(solutions, lambda solution: (solution.point.converged, solution.point.iterations))
    for (converged, iterations), those in by_end.items():
        which = f"{join_words(solution.transport for solution in those)}: " if len(by_end) > 1 else ""
        yield f"{which}the tolerance was {'' if converged else 'not '}reached after {count(iterations, 'iteration')}"


EXPLAINS = 0.5
"""Halos explain a longer iteration if they take at least this part of the difference longer."""


def slower_parts(solutions: Sequence[Solution]) -> Iterator[str]:
    """Say how much longer MPI on device memory takes than the copy through host memory, and that halos are the cause
    where their times explain it.

    Both are compared within each launch, as everywhere.
    """
    by_name = {solution.transport: solution for solution in solutions if solution.parts_s}
    aware, staged = by_name.get("aware"), by_name.get("staged/pinned")
    if aware is None or staged is None or aware.ranks == 1 or not (aware.repeated and staged.repeated):
        return
    whole = ratio(aware.repeated, staged.repeated)
    common = [launch for launch, halos_s in staged.halos_s.items() if halos_s and aware.halos_s.get(launch)]
    if whole is None or not common:
        return
    more = {launch: aware.halos_s[launch] - staged.halos_s[launch] for launch in common}
    longer = {launch: aware.repeated.medians[launch] - staged.repeated.medians[launch] for launch in common}
    halos = of_ratios([aware.halos_s[launch] / staged.halos_s[launch] for launch in common])
    if whole.above(1):
        times = f"aware takes {format_sig(whole.median, 3)} times as long as staged/pinned ({bounds_of(whole)})"
        if of_numbers([more[launch] - EXPLAINS * longer[launch] for launch in common]).above(0):
            halos_us = format_sig(median(list(more.values())) * 1e6, 3)
            times += f": packing and exchanging halos takes {halos_us} µs longer in each iteration"
        yield times
    elif halos.above(1):
        times = (
            f"aware's halos take {format_sig(halos.median, 3)} times as long as staged/pinned's ({bounds_of(halos)})"
        )
        yield f"{times}; the iteration is not measurably slower"


def _told_apart(names: Sequence[str], chains: Sequence[Sequence[ScalingStep]]) -> list[str]:
    """Add the start of the runs to the names of chains of one problem on several machines."""
    starts = [chain[0].solution.run.started_at if chain[0].solution.run else "" for chain in chains]
    return [f"{name}, {start}" if names.count(name) > 1 else name for name, start in zip(names, starts, strict=True)]


def _scaling_tables(chains: Sequence[Sequence[ScalingStep]]) -> Iterator[Table]:
    where = {"strong": "in all", "weak": "a process"}
    titles = [
        f"{one.kind} scaling, {one.solution.transport}, {_size(one)} points {where[one.kind]}, "
        f"{one.solution.point.precision}"
        for one, *_ in chains
    ]
    efficiency, excess = Column("efficiency", "%"), Column("excess over ideal", "µs")
    for chain, title in zip(chains, _told_apart(titles, chains), strict=True):
        iteration = ITERATION.suited(step.solution for step in chain)
        rows: list[Row] = [
            [
                f"{step.solution.point.grid[0]} × {step.solution.point.grid[1]}",
                iteration.cell(step.solution),
                UPDATES.cell(step.solution),
                None if step.efficiency is None else f"{step.efficiency * 100:.1f}",
                EMPTY if step is chain[0] else None if step.beyond_s is None else f"{step.beyond_s * 1e6:+.1f}",
            ]
            for step in chain
        ]
        columns = [Column("processes", align="left"), iteration.column(), UPDATES.column(), efficiency, excess]
        yield Table(columns, rows, title, ["efficiency and ideal: relative to one process"])


def _crowded(solutions: Sequence[Solution]) -> Iterator[str]:
    """Say that threads share cores, because somebody asked for more than there are."""
    one = next(
        (each for each in solutions if each.run and each.point.memory == "host" and each.point.threads > 1), None
    )
    if one is None or one.run is None:
        return
    host = one.run.ranks[0].host
    here = [rank for rank in one.run.ranks if rank.host == host]
    threads, cpus = one.point.threads * len(here), len(cpus_of(here))
    if cpus and threads > cpus:
        fits = command_again("jacobi", one.run.plan, threads=max(1, cpus // len(here)))
        yield f"{threads} threads share {count(cpus, 'CPU')} of {host}, so times include waiting: {fits}"


def _other_threads(chain: Sequence[ScalingStep]) -> str:
    """Say why processes have no efficiency: one process has other threads than each of several."""
    one, other = chain[0].solution, next((step.solution for step in chain if step.efficiency is None), None)
    if other is None:
        return ""
    has, have = (f"{_processors(each)} on {each.point.grid[0]} × {each.point.grid[1]}" for each in (one, other))
    fewest = min(step.solution.point.threads for step in chain)
    again = command_again("jacobi", other.run.plan if other.run else None, threads=fewest)
    return f"no efficiency for {one.transport}: a process has {has} and {have}; {again} gives all the same number"


def _parts_chart(solutions: Sequence[Solution]) -> Chart:
    marks = [
        Mark(solution.transport, spent_s * 1e6, part)
        for solution in solutions
        for part, spent_s in solution.parts_s.items()
        if spent_s > 0
    ]
    on_gpu = solutions[0].point.memory == "device"
    title = f"Parts of an iteration{' on GPUs' * on_gpu}"
    caption = f"mean over ranks and launches{'; the parts overlap, so their sum means nothing' * on_gpu}"
    return Chart("bars", title, Axis("transport"), Axis("time", "µs"), marks, caption=caption, overlap=on_gpu)


def _scaling_charts(chains: Sequence[Sequence[ScalingStep]]) -> Iterator[Chart]:
    chains = [chain for chain in chains if any(step.efficiency is not None for step in chain[1:])]
    for kind in dict.fromkeys(chain[0].kind for chain in chains):
        those = [chain for chain in chains if chain[0].kind == kind]
        names = [f"{_size(one)} {one.solution.point.precision}, {one.solution.transport}" for one, *_ in those]
        marks = [
            Mark(step.solution.ranks, step.efficiency * 100, name)
            for name, chain in zip(_told_apart(names, those), those, strict=True)
            for step in chain
            if step.efficiency is not None
        ]
        yield Chart(
            "curves",
            f"{kind.capitalize()} scaling",
            Axis("processes"),
            Axis("parallel efficiency", "%"),
            marks,
            lines=[ReferenceLine("y", 100, "ideal")],
            caption="relative to one process",
        )


def _size(one: ScalingStep) -> str:
    """Return the points that are the same in all steps: in all, or those of a process."""
    columns, rows = one.solution.whole if one.kind == "strong" else one.solution.point.domain
    return f"{columns} × {rows}"


def _own(*names: str, csv: bool = True) -> list[Quantity]:
    return [Quantity(name, "", attrgetter(f"point.{name}"), csv=csv) for name in names]


_SHARES = [Quantity(f"{part}_share", "", lambda each, part=part: each.shares.get(part)) for part in PARTS]  # type: ignore[misc]
_TIMES = [Quantity(part, "µs", lambda each, part=part: each.parts_s.get(part)) for part in PARTS]  # type: ignore[misc]
_QUANTITIES = [
    *_own("transport"),
    Quantity("grid_x", "", lambda each: each.point.grid[0]),
    Quantity("grid_y", "", lambda each: each.point.grid[1]),
    Quantity("domain_x", "", lambda each: each.point.domain[0]),
    Quantity("domain_y", "", lambda each: each.point.domain[1]),
    *_own("precision", "overlap", "memory", "threads"),
    *as_they_are("launches"),
    *_own("status", "iterations", "converged"),
    *as_they_are("residual"),
    *_own("deviation"),
    *as_they_are("run_s"),
    Quantity("iteration", "µs", attrgetter("time"), bounds=ALL),
    *as_they_are("updates_per_s"),
    Quantity("algorithmic", "GB/s", lambda each: scaled(each.updates_per_s, each.algorithmic_bytes)),
    *as_they_are("compulsory_Bps", "copy_Bps", "of_copy", "communication_s"),
    *_SHARES,
    *_TIMES,
    Quantity("first_iteration", "µs", attrgetter("first_s")),
    Quantity("cold_exchange", "µs", attrgetter("cold_exchange_s")),
    *as_they_are("messages_timed", "messages_verified"),
    *_own("field_hash", "reason"),
    Quantity("interval", "", lambda each: each.time and each.time.kind),
    Quantity("flop_per_s", "", lambda each: scaled(each.updates_per_s, FLOPS), csv=False),
    Quantity("check_every", "", attrgetter("check_every"), csv=False),
    Quantity("verified", "", attrgetter("verified"), csv=False),
    *_own("interleaved", "copy_bytes", "mismatch", "elapsed_s", csv=False),
]
"""The first nine tell rows apart."""


_PREFIXES = " kMGT"

SHOWN_EVERY = 100
"""Iterations from one line to the next; the engine keeps a residual about as often."""


def as_the_example(results: Sequence[JacobiResults], out: TextIO) -> list[str]:
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
