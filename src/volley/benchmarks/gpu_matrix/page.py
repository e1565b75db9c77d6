"""The reports of matrices between GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from msgspec.structs import asdict

from volley.benchmarks.gpu_matrix import HINT, cuda_samples
from volley.benchmarks.gpu_matrix.records import GpuMatrixCell
from volley.benchmarks.gpu_matrix.results import HOST, WITHIN, GpuMatrixCase, GpuMatrixResults, observables
from volley.benchmarks.shared.matrix import page as common
from volley.benchmarks.shared.matrix.comparable_pairs import Pair
from volley.references import beside_equal
from volley.report.cells import scaled
from volley.report.model import Cell, Column, Conclusion, Data, Note, Report, Style, Table
from volley.run import report_parts
from volley.text import count, join_words
from volley.units import format_size

_HEAT: tuple[tuple[float, Style], ...] = ((0.96, "good"), (0.8, ""), (0.5, "warning"), (0.0, "bad"))
"""The style of a cell by its share of the best pair of its matrix: from this fraction on."""

_COLORS = "green: from {:.0f} % of the best pair, yellow: below {:.0f} %, red: below {:.0f} %".format(
    *(100 * least for least, _ in _HEAT[:3])
)

_COLUMNS = (
    "section", "metric", "engine", "operation", "direction", "size_bytes", "window", "first", "second", "peer_access",
    "status", "samples", "time_us", "time_low_us", "time_high_us", "bandwidth_GBps", "of_line_rate", "ratio",
    "messages_verified", "reason", "launches",
)  # fmt: skip
"""The first ten tell rows apart.  ``time_us`` is the time of the metric (docs/method), ``ratio`` that time over the
median of comparable pairs.  ``time_low_us`` and ``time_high_us`` are the 95 % interval of its median: within the launch
where there is one, over launches where there are three or more; of two launches they are the range."""

_METRICS = {
    "completion": "completion: one small copy until the host sees its end",
    "issue": "issue: from one small copy to the next of many that are enqueued",
    "enqueue": "enqueue: the host's call",
    "store": "store: half a round trip",
    "load": "load: each waits for the last",
}

FORMATS = {"cuda-samples": cuda_samples.render}


def report(results: GpuMatrixResults) -> Report:
    cases, launches = results.cases, len(results.series.logs)
    tables = list(_tables(cases, launches))
    found = common.conclusions(cases, _findings)
    notes = common.notes_of(results.series, cases, _names, found, _missing(results))
    observed = map(observables, results.series.logs)
    if equal := beside_equal((device.name for device in results.devices), "gpu_matrix", observed):
        notes.append(Note("finding", equal))
    return Report(
        heading=_heading(results),
        tables=tables,
        notes=notes,
        overview=common.screen(cases, tables[0], found),
        charts=[
            common.heat_map(case, *(("GPU that drives", "other GPU") if case.row.ends == "gpus" else ("", "GPU")), _end)
            for case in cases
            if len(case.cells) > 1
        ],
        data=Data(
            _COLUMNS,
            _COLUMNS[:10],
            [{**_data(case, pair, cell), "launches": launches} for case in cases for pair, cell in case.cells.items()],
        ),
        runs=results.series.describe_runs(),
        extra={
            "gpus": [{"number": results.numbers[device.uuid], "device": device} for device in results.devices],
            "no_peer_access": results.unreachable,
        },
    )


def _heading(results: GpuMatrixResults) -> list[str]:
    """Return the heading.  One process uses all GPUs without MPI, so it lists GPUs instead of ranks.

    A line for each GPU: ``GPU 0: NVIDIA H200 GPU-… (CUDA's 1)``.
    """
    lines = report_parts.heading(results.series, "matrix, one process with all GPUs")
    run = results.series.run
    if run is None:
        return lines
    lines = [lines[0], *(f"{rank.host} ({rank.cpu})" for rank in run.ranks[:1])]
    for device in sorted(results.devices, key=lambda each: results.numbers[each.uuid]):
        number = results.numbers[device.uuid]
        other = "" if number == device.index else f" (CUDA's {device.index})"
        lines.append(f"GPU {number}: {device.name} {device.uuid}{other}")
    return lines


def _tables(cases: Sequence[GpuMatrixCase], launches: int) -> Iterator[Table]:
    """Put sections with one unit and the same rows side by side, below the summary of all.

    Matrices of one GPU have one cell each: the summary shows them.
    """
    summary = common.summary(cases, without=WITHIN)
    if launches > 1:
        over = f"each cell is the median of the medians of {count(launches, 'launch')}"
        summary = replace(summary, legend=[*summary.legend, over])
    if all(len(case.cells) == 1 for case in cases):
        yield replace(summary, legend=[*summary.legend, *filter(None, [_legend(cases)])])
        return
    yield summary
    for title, with_host, unit in (
        ("bandwidth in GB/s", False, "GB/s"),
        ("latency in µs", False, "µs"),
        ("bandwidth between host and GPU in GB/s", True, "GB/s"),
    ):
        these = [case for case in cases if case.unit == unit and (case.row.ends != "gpus") is with_host]
        if these:
            firsts = sorted({first for case in these for first in case.firsts})
            columns = [Column(str(second), digits=3, group=case.name) for case in these for second in case.seconds]
            yield Table(
                columns=[Column("" if with_host else "GPU"), *columns],
                rows=[[_end(first), *_row(these, first)] for first in firsts],
                title=title,
                legend=[_legend(these)],
                colors=_COLORS,
            )


def _row(cases: Sequence[GpuMatrixCase], first: int) -> Iterator[Cell]:
    """Yield the cells of a row; a colour shows the share of the best pair of the matrix."""
    for case in cases:
        best_s = min((time_s for pair, time_s in case.times.items() if pair[0] != pair[1]), default=0.0)
        for second in case.seconds:
            share = best_s / (case.time_s((first, second)) or math.inf)
            style = next(style for least, style in _HEAT if share >= least)
            yield common.shown_cell(case, (first, second), "dim" if first == second else style)


def _end(number: int) -> str:
    return "host" if number == HOST else str(number)


def _legend(cases: Sequence[GpuMatrixCase]) -> str:
    parts = []
    if cases and cases[0].row.ends == "gpus" and len(cases[0].cells) > 1:
        parts.append("rows: the GPU that starts the transfer, columns: the other GPU; diagonal: within one GPU")
    sizes = sorted({case.row.size_bytes for case in cases if case.unit == "GB/s"})
    if sizes:
        parts.append(f"messages of {join_words(map(format_size, sizes))}, each byte counted once; GB/s: 10^9 B/s")
    metrics = dict.fromkeys(case.row.metric for case in cases)
    parts += [_METRICS[metric] for metric in metrics if metric in _METRICS]
    if any(case.row.engine == "copy engine" for case in cases):
        parts.append("CE: copy engine")
    if any(case.row.engine == "SM" for case in cases):
        parts.append("SM: a kernel's loads and stores")
    if cases and all(case.verified for case in cases):
        parts.append("all verified")
    return "; ".join(parts)


# -------------------------------------------------------------------------------------------------------- notes


def _missing(results: GpuMatrixResults) -> Iterator[str]:
    for reason in results.reasons:
        yield f"no GPU can be used: {reason}; {HINT}"
    if len(results.devices) == 1:
        if "MIG" in results.devices[0].name.split():
            what = "one slice of a GPU (MIG): CUDA gives a process one slice and no peer access, so there are no pairs"
        else:
            what = "one GPU: there are no pairs"
        yield what
    if None in results.access.values():
        yield "the record does not say for every pair of GPUs whether peer access is possible"
    if results.unreachable:
        pairs = common.few_or_count(results.unreachable, _names)
        yield f"no peer access is possible: {pairs}; CUDA's copies between them go through the host in any section"


def _findings(case: GpuMatrixCase) -> Iterator[Conclusion]:
    yield from common.uneven_kinds(case)
    for each in case.suspects:
        others = f"{each.comparable} comparable {'GPU' if each.kind == WITHIN else 'link'}s"
        yield Conclusion("SLOW", f"{_names([each.pair])} {common.slower(case, each.ratio, others)}")


def _names(pairs: Sequence[Pair]) -> str:
    return join_words(
        f"GPU {second}" if first == HOST else f"within GPU {first}" if first == second else f"GPU {first} → {second}"
        for first, second in pairs
    )


_LEFT_OUT = ("median_s", "low_s", "high_s", "samples_s", "visits", "gpu")
"""Fields of the cell that a row has in other columns, or omits because they are long."""


def _data(case: GpuMatrixCase, pair: Pair, cell: GpuMatrixCell) -> dict[str, Any]:
    row, compared = case.row, case.comparison.at(pair)
    return {
        **{name: value for name, value in asdict(cell).items() if name not in _LEFT_OUT},
        "kind": case.kinds.kind(pair),
        "time_us": scaled(cell.median_s, 1e6),
        "time_low_us": scaled(cell.low_s, 1e6),
        "time_high_us": scaled(cell.high_s, 1e6),
        "bandwidth_GBps": scaled(case.rate_Bps(pair), 1e-9),
        "of_line_rate": case.of_line_rate(pair),
        "ratio": compared and compared.ratio,
        "comparable_pairs": compared and compared.comparable,
        "section": row.section,
        "metric": row.metric,
        "engine": row.engine,
        "operation": row.operation,
        "direction": row.direction,
        "ends": row.ends,
        "size_bytes": row.size_bytes,
        "window": row.window,
        "first": "host" if pair[0] == HOST else pair[0],
        "second": pair[1],
        "peer_access": {True: "on", False: "off", None: None}[cell.peer_access],
        "suspect": any(each.pair == pair for each in case.suspects),
    }
