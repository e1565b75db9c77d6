"""References: published results of other machines as data, one file each, and records that a user keeps as one.

A published figure is one number without an interval, made by the method of its source; each file says which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import product, repeat, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import msgspec

from volley.document import Frozen, PositiveNumber, doc
from volley.errors import UserError
from volley.files import write_file
from volley.records.launch_series import Sweep, observed_in
from volley.records.record_types import Run
from volley.records.records_file import parse_runs, read_file
from volley.records.run_log import Observable, RunLog
from volley.records.saved_runs import REFERENCES, state_folder
from volley.report.model import Cell, Column, Data, Note, Report, Row, Table
from volley.run.benchmark import Benchmark
from volley.statistics.estimates import median
from volley.statistics.launches import of_ratios
from volley.text import count, escape_controls, grouped, join_words, mpi_name
from volley.units import slower_or_faster

EQUAL = 0.005
"""Times that differ by less than this count as equal beside a reference, which has no interval."""


class Figures(Frozen, frozen=True, kw_only=True):
    """One table of a reference, as published: a row for each place in a sweep, a column for each series."""

    benchmark: Annotated[str, doc("that measures the same quantity.")]
    series: Annotated[list[str], doc("the benchmark's names for what the columns are of.")]
    titles: Annotated[list[str], doc("the source's names for them.")] = []
    unit: str = "s"
    rate: Annotated[bool, doc("a figure is factor · work / seconds; else factor · seconds.")] = False
    factor: Annotated[PositiveNumber, doc("the unit in SI units.")] = 1.0
    figures: Annotated[dict[str, list[PositiveNumber]], doc("by place, one for each series.")]

    def seconds(self, series: str, at: str, work: float | None) -> float | None:
        """Return the time of a figure, from the work that is done in it; ``None`` if either is unknown."""
        if series not in self.series or at not in self.figures or (self.rate and not work):
            return None
        figure = self.figures[at][self.series.index(series)]
        return self.factor * work / figure if self.rate and work else figure / self.factor


class Reference(Frozen, frozen=True, kw_only=True):
    """Results of one machine."""

    machine: str
    gpu: Annotated[str | None, doc("CUDA's name of its GPUs, if volley measured it.")] = None
    cpu: Annotated[str | None, doc("the name of its processors, if volley measured it.")] = None
    source: Annotated[str, doc("where the figures were published.")]
    date: Annotated[str | None, doc("of the measurement; null: unknown.")] = None
    method: Annotated[list[str], doc("how the method of the source affects its numbers.")] = []
    tables: list[Figures]


@cache
def published() -> dict[str, Reference]:
    """Return the references that volley brings, by name."""
    found = (each for each in files(__package__).iterdir() if each.name.endswith(".json"))
    return {
        each.name.removesuffix(".json"): msgspec.json.decode(each.read_bytes(), type=Reference)
        for each in sorted(found, key=lambda each: each.name)
    }


def ratio_to_equal(
    device: str, sweep: Sweep, at: str, seconds: float, work: float | None = None
) -> tuple[str, float] | None:
    """Return the published reference with GPUs or processors of this name, and the time / its time for the same."""
    name, table = _equal(device).get((*sweep, at), ("", None))
    figure_s = table and table.seconds(sweep[1], at, work)
    return (name, seconds / figure_s) if figure_s else None


@cache
def _equal(device: str) -> dict[tuple[str, str, str], tuple[str, Figures]]:
    """Return the first reference with devices of this name, and its table, by benchmark, series and place."""
    found: dict[tuple[str, str, str], tuple[str, Figures]] = {}
    for name, reference in published().items():
        for table in reference.tables if device in (reference.gpu, reference.cpu) else ():
            for series, at in product(table.series, table.figures):
                found.setdefault((table.benchmark, series, at), (name, table))
    return found


def beside_words(ratio: float, name: str) -> str:
    """Say what the ratio of a time to that of a reference means: ``2.1 % slower than the reference h200-x2``."""
    return f"as fast as {name}" if abs(ratio - 1) < EQUAL else f"{slower_or_faster(ratio)} than {name}"


def gpus_of(run: Run | None) -> list[str]:
    """Return the names of the GPUs of its ranks; none if they are on several nodes or share one: no reference does."""
    ranks = run.ranks if run else []
    gpus = [rank.device for rank in ranks if rank.device]
    shared = len({each.uuid for each in gpus}) < len(gpus)
    return [] if shared or len({rank.node for rank in ranks}) > 1 else [each.name for each in gpus]


def beside_equal(gpus: Iterable[str], benchmark: str, launches: Iterable[Iterable[Observable]]) -> list[Note]:
    """Return how the launches compare with a published reference with GPUs of this one name; nothing without one.

    Each launch has the median of its ratios; these medians have an interval over launches, which is told if it
    contains 1.
    """
    names = set(gpus)
    if len(names) != 1:
        return []
    gpu = names.pop()
    compared = [
        [
            (each.series, at, *found)
            for each in launch
            for at, seconds in each.times
            if (found := ratio_to_equal(gpu, (benchmark, each.series), at, seconds, each.work))
        ]
        for launch in launches
    ]
    if not any(compared):
        return []
    known = dict.fromkeys(name for launch in compared for _, _, name, _ in launch)
    points = {(series, at) for launch in compared for series, at, _, _ in launch}
    ratio = of_ratios([median([ratio for *_, ratio in launch]) for launch in compared if launch])
    name = f"the reference{'s' if len(known) > 1 else ''} {join_words(known)}"
    words, details = beside_words(ratio.median, name), [f"median of {count(len(points), 'point')}", "volley references"]
    if ratio.kind != "single" and not (ratio.above(1) or ratio.below(1)):
        words = f"no difference from {name} is shown"
        details.insert(0, f"launches: {' to '.join(map(slower_or_faster, (ratio.low, ratio.high)))}")
    return [Note("finding", f"{words} ({'; '.join(details)})")]


def add(name: str, records: str, benchmarks: Sequence[Benchmark]) -> Path:
    if name in published():
        raise UserError(f"--add {name}: volley has a built-in reference of this name: choose another name")
    path = state_folder() / REFERENCES / f"{name}.jsonl"
    if path.exists():
        raise UserError(f"--add {name}: this reference exists already: remove {path} first, or choose another name")
    data, shown = read_file(records)
    if not observed_in(parse_runs(data, benchmarks, shown), benchmarks).rows:
        raise UserError(f"{escape_controls(shown)} contains no measured point: nothing can be compared with it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    write_file(path, data)
    return path


def machine_of(logs: Sequence[RunLog]) -> str:
    """Describe the largest run: GPUs, processor, hosts, MPI."""
    run = max((log.run for log in logs if log.run), key=lambda run: len(run.ranks), default=None)
    if run is None:
        return "unknown"
    gpus = max(([gpu.name for record in log.hardware[:1] for gpu in record.gpus] for log in logs), key=len, default=[])
    hosts = {rank.host for rank in run.ranks}
    if len(hosts) > 1 or not gpus:  # the records have the whole hardware of one host only
        gpus = list({(rank.host, rank.device.uuid): rank.device.name for rank in run.ranks if rank.device}.values())
    kinds = [join_words(f"{number} × {name}" for name, number in Counter(gpus).items())] if gpus else []
    parts = [*kinds, *(rank.cpu for rank in run.ranks[:1])]
    parts[:1] = [f"{part} on {len(hosts)} hosts" if len(hosts) > 1 else part for part in parts[:1]]
    library = next((log.run.mpi.library for log in logs if log.run and log.run.mpi), None)
    return ", ".join([*parts, *([mpi_name(library)] if library else [])])


COLUMNS = ("reference", "benchmark", "series", "at", "title", "unit", "published")


def list_report(
    references: Mapping[str, Reference], own: Mapping[str, Path], benchmarks: Sequence[Benchmark]
) -> Report:
    columns = [Column("name", align="left"), Column("figures"), Column("machine", align="left")]
    rows: list[list[str | int]] = [[name, len(_rows(name, each)), each.machine] for name, each in references.items()]
    return Report(
        heading=["Published results of other machines: volley compare NAME RECORDS"],
        tables=[Table(columns, [*rows, *(_own_row(name, path, benchmarks) for name, path in own.items())])],
        findings=[Note("finding", f"{name}: {each.source}") for name, each in references.items()],
        results=lambda: Data(
            COLUMNS, COLUMNS[:-1], [row for name, each in references.items() for row in _rows(name, each)]
        ),
        extra={"references": references, "own": own},
    )


def _own_row(name: str, path: Path, benchmarks: Sequence[Benchmark]) -> list[str | int]:
    try:
        data, shown = read_file(path)
        logs = parse_runs(data, benchmarks, shown)
        return [name, len(observed_in(logs, benchmarks).work), f"yours: {machine_of(logs)}"]
    except UserError as error:
        return [name, 0, f"yours: {error}"]


def _rows(name: str, reference: Reference) -> list[dict[str, object]]:
    return [
        dict(zip(COLUMNS, (name, table.benchmark, series, at, title, table.unit, figure), strict=True))
        for table in reference.tables
        for series, title, *figures in zip(
            table.series, table.titles or repeat(None), *table.figures.values(), strict=False
        )
        for at, figure in zip(table.figures, figures, strict=True)
    ]


def one_report(name: str, reference: Reference) -> Report:
    single = [table for table in reference.tables if len(table.figures) == 1]
    return Report(
        heading=[f"{name}: {reference.machine}", f"{reference.date or 'date unknown'} · {reference.source}"],
        tables=[
            *([_single(single)] if single else []),
            *(_sweep(table) for table in reference.tables if len(table.figures) > 1),
        ],
        findings=[Note("finding", line) for line in reference.method],
        results=lambda: Data(COLUMNS, COLUMNS[:-1], _rows(name, reference)),
        extra={"reference": reference},
    )


def _sweep(table: Figures) -> Table:
    titles, title = _titles(table), table.benchmark
    if len(titles) == 1:
        titles, title = [""], f"{title}, {titles[0]}"
    columns = [Column(each.replace(": ", "\n", 1), _unit(table)[0]) for each in titles]
    rows: list[Row] = [[at, *(_shown(table, each) for each in figures)] for at, figures in table.figures.items()]
    return Table([Column("at", align="left"), *columns], rows, title)


def _single(tables: Sequence[Figures]) -> Table:
    """Return the figures that are the only ones of their series and unit."""
    titled = [(title, table, place) for table in tables for place, title in enumerate(_titles(table))]
    sections: dict[int, str] = {}
    rows: list[Row] = []
    for title, those in grouped(titled, itemgetter(0)).items():
        sections[len(rows)] = title
        for _, table, place in those:
            ((at, figures),) = table.figures.items()
            rows.append([at, f"{_shown(table, figures[place]).text} {_unit(table)[0]}"])
    return Table([Column("at", align="left"), Column(align="left")], rows, sections=sections)


def _titles(table: Figures) -> list[str]:
    return [": ".join(filter(None, each)) for each in zip_longest(table.series, table.titles)]


def _unit(table: Figures) -> tuple[str, float]:
    return ("µs", 1e6) if table.unit == "s" else (table.unit, 1.0)


def _shown(table: Figures, figure: float) -> Cell:
    return Cell(figure, text=f"{figure * _unit(table)[1]:.9g}")
