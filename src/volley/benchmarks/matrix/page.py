"""The reports of matrices between ranks and between GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import asdict

from volley.benchmarks.matrix.cases import HOST, WITHIN, GpuMatrixCase, MatrixCase, RankMatrixCase
from volley.benchmarks.matrix.notes import MAX_ENDS, account, details, findings, notes_of
from volley.benchmarks.matrix.records import GpuMatrixCell
from volley.benchmarks.matrix.results import MatrixResults
from volley.benchmarks.matrix.slow_pairs import SUSPECT_FROM, Pair
from volley.report.cells import known_digits, percent
from volley.report.model import (
    EMPTY,
    Axis,
    Cell,
    Chart,
    Column,
    ColumnRows,
    Data,
    Later,
    Mark,
    Overview,
    Report,
    Style,
    Table,
    Value,
)
from volley.run import report_parts
from volley.statistics.estimates import median
from volley.statistics.two_runs import Booleans, Floats, Integers
from volley.text import count, join_words
from volley.units import format_size

MAX_DRAWN = 128
"""A heat map has at most this many rows and columns; beyond, each of its cells stands for several pairs."""

MAX_IN_TABLES = 128
"""The cells of a matrix of more ends are in no table: only CSV and JSON have them."""

_HEAT: tuple[tuple[float, Style], ...] = ((0.96, "good"), (0.8, ""), (0.5, "warning"), (0.0, "bad"))
"""The style of a cell between GPUs by its share of the best pair of its matrix: from this fraction on."""

_HEAT_LEGEND = "green: from {:.0f} % of the best pair, yellow: below {:.0f} %, red: below {:.0f} %".format(
    *(100 * least for least, _ in _HEAT[:3])
)

_RED_FROM = 1.25
"""From this ratio on a pair of ranks is red: placement within a socket does not explain a quarter more time."""


def report(results: MatrixResults) -> Report:
    cases, series = results.cases, results.series
    tables = list(_tables(results))
    return Report(
        heading=_heading(results),
        tables=tables,
        notes=Later(lambda: notes_of(results)),
        findings=Later(lambda: findings(results)),
        details=Later(lambda: details(results)),
        summary=lambda: _screen(cases, tables[0]) if tables else None,
        charts=[
            heat_map(case) for case in cases if np.count_nonzero(~np.isnan(case.times_s)) + len(case.unmeasured) > 1
        ],
        results=lambda: _data(results),
        runs=series.logs,
        extra={
            "gpus": [{"number": results.numbers[device.uuid], "device": device} for device in results.gpus.devices],
            "no_peer_access": results.unreachable,
        }
        if results.of_gpus
        else {},
    )


def _heading(results: MatrixResults) -> list[str]:
    """Return the heading.  One process uses all GPUs without MPI, so it lists GPUs instead of ranks.

    A line for each GPU: ``GPU 0: NVIDIA H200 GPU-… (CUDA's 1)``.
    """
    run = results.series.run
    if run is None or not results.of_gpus:
        return report_parts.heading(results.series, "matrix")
    lines = report_parts.heading(results.series, "matrix, one process with all GPUs")[:1]
    lines += [f"{rank.host} ({rank.cpu})" for rank in run.ranks[:1]]
    for device in sorted(results.gpus.devices, key=lambda each: results.numbers[each.uuid]):
        number = results.numbers[device.uuid]
        other = "" if number == device.index else f" (CUDA's {device.index})"
        lines.append(f"GPU {number}: {device.name} {device.uuid}{other}")
    return lines


# ------------------------------------------------------------------------------------------------------ tables


def _tables(results: MatrixResults) -> Iterator[Table]:
    cases, legend = results.cases, []
    if not cases and not results.of_gpus:
        return
    launches = sorted({case.launches for case in results.gpu_cases})
    if launches and launches[-1] > 1:
        legend.append(f"each cell is the median of the medians of {join_words(map(str, launches), 'or')} launches")
    shown = [case for case in results.rank_cases if len(case.firsts) <= MAX_IN_TABLES]
    if len(shown) < len(results.rank_cases):
        legend.append(f"the cells of more than {MAX_IN_TABLES} ranks: --format csv or json")
    alone = all(len(case.cells) == 1 for case in results.gpu_cases)  # the summary shows them
    if results.of_gpus and alone and (text := _gpu_legend(results.gpu_cases)):
        legend.append(text)
    yield _summary(cases, legend)
    yield from map(_rank_table, shown)
    if not alone:
        yield from _gpu_tables(results.gpu_cases)


_SUMMARY = [
    Column("", align="left"),
    Column("pairs", spare=1),
    Column("median", digits=3),
    Column("lowest", digits=3),
    Column("highest", digits=3),
    Column("unit", align="left"),
    Column("line"),
]


def _summary(cases: Sequence[MatrixCase], more: Sequence[str]) -> Table:
    rows: list[list[Cell | Value]] = []
    rates: dict[str, None] = {}
    for case in cases:
        measured = ~np.isnan(case.numbers)
        numbers, places = np.unique(case.kinds.numbers[measured], return_index=True)
        kinds = [number for _, number in sorted(zip(places.tolist(), numbers.tolist(), strict=True))]
        others = [number for number in kinds if case.kinds.names[number] != WITHIN]
        for number in others or kinds:
            shown = case.numbers[measured & (case.kinds.numbers == number)]
            several = len(others) > 1 or not others
            title = f"{case.name} ({case.kinds.names[number]})" if several else case.name
            line, names = _of_line_rate(case, number)
            rates |= dict.fromkeys(names)
            middle, low, high = (float(reduce(shown)) for reduce in (np.median, np.min, np.max))
            rows.append([title, shown.size, middle, low, high, case.unit, line])
    if not rates:
        return Table(_SUMMARY[:-1], [row[:-1] for row in rows], legend=more)
    both = "; for both ways, of twice the line rate" * any(
        case.line_rates and case.row.direction == "bi" for case in cases
    )
    meaning = f"line: share of the line rate of {' or '.join(rates)}{both}"
    return Table(_SUMMARY, rows, legend=[meaning, *more])


def _of_line_rate(case: MatrixCase, kind: int) -> tuple[Cell, list[str]]:
    pairs = [pair for pair in case.line_rates if case.kinds.numbers[case.kinds.place(pair)] == kind]
    shares = [share for pair in pairs if (share := case.of_line_rate(pair)) is not None and case.shows_rate]
    if not shares:
        return EMPTY, []
    middle = median(shares)
    return Cell(middle, text=f"{middle * 100:.0f} %"), [case.line_rates[pair].describe() for pair in pairs]


def _rank_table(case: RankMatrixCase) -> Table:
    """The first rank of a pair (it sends) gives the row, the second one the column."""
    slow, red = (f"{(limit - 1) * 100:.0f}" for limit in (SUSPECT_FROM, _RED_FROM))
    what = "latency" if case.row.window is None else "bandwidth" if case.shows_rate else "time of a window"
    both = " of both directions together" if case.row.direction == "bi" else ""
    how = {
        "isolated": "one pair at a time",
        "nodes": "one pair of each node at a time",
        "loaded": "all ranks but one busy" if len(case.nodes) % 2 else "all ranks busy",
    }[case.row.mode]
    legend = ["rows: first rank, columns: second"]
    legend += ["latency: half round trip"] if case.row.window is None else []
    legend += ["GB/s: 10^9 B/s"] if case.shows_rate else []
    legend += filter(None, [account([case]).all_verified if case.moved_bytes else ""])
    widths = np.fmax(case.highs_s / case.times_s - 1, 1 - case.lows_s / case.times_s)
    digits = 3
    if not np.isnan(widths).all():  # how far the bounds of a cell are from its number: a table has no room for them
        middle, most = float(np.nanmedian(widths)), float(np.nanmax(widths))
        digits = min(3, known_digits(middle))
        known = f"{percent(middle, 1, '±')} in the median, to {percent(most, 1, '±')} at worst"
        legend.append(f"a cell is known to {known}")
    return Table(
        columns=[Column("rank"), *(Column(str(second), digits=digits) for second in case.second_ends)],
        rows=[
            [str(first), *(_rank_cell(case, (first, second)) for second in case.second_ends)] for first in case.firsts
        ],
        title=f"{case.row.transport}, {format_size(case.row.size_bytes)}: {what}{both} in {case.unit}, {how}",
        legend=["; ".join(legend)],
        colors=f"yellow and red: over {slow} and {red} % slower than comparable pairs; green: faster",
    )


def _rank_cell(case: RankMatrixCase, pair: Pair) -> Cell:
    """Return a cell in its colour; a suspect that was measured again and not confirmed has none."""
    if pair[0] == pair[1]:
        return Cell(text="·", style="dim")
    compared, again = case.comparison.at(pair), case.remeasured.get(pair)
    style: Style = ""
    if compared and compared.ratio < 1 / SUSPECT_FROM:
        style = "good"
    elif compared and compared.ratio > SUSPECT_FROM and not (again and not again.flagged):
        style = "bad" if compared.ratio > _RED_FROM else "warning"
    return _cell(case, pair, style)


def _gpu_tables(cases: Sequence[GpuMatrixCase]) -> Iterator[Table]:
    for title, with_host, unit in (
        ("bandwidth in GB/s", False, "GB/s"),
        ("latency in µs", False, "µs"),
        ("bandwidth between host and GPU in GB/s", True, "GB/s"),
        ("latency between host and GPU in µs", True, "µs"),
    ):
        these = [case for case in cases if case.unit == unit and (case.row.ends != "gpus") is with_host]
        if these:
            firsts = sorted({first for case in these for first in case.firsts})
            columns = [Column(str(second), digits=3, group=case.name) for case in these for second in case.second_ends]
            yield Table(
                columns=[Column("" if with_host else "GPU"), *columns],
                rows=[[_end(first), *_gpu_row(these, first)] for first in firsts],
                title=title,
                legend=[_gpu_legend(these)],
                colors=_HEAT_LEGEND,
            )


def _gpu_row(cases: Sequence[GpuMatrixCase], first: int) -> Iterator[Cell]:
    """Yield the cells of a row; a colour shows the share of the best pair of the matrix."""
    for case in cases:
        best_s = min((time_s for pair, time_s in case.times.items() if pair[0] != pair[1]), default=0.0)
        for second in case.second_ends:
            share = best_s / case.times.get((first, second), math.inf)
            style = next(style for least, style in _HEAT if share >= least)
            yield _cell(case, (first, second), "dim" if first == second else style)


_METRICS = {
    "completion": "completion: one small copy until the host sees its end",
    "issue": "issue: from one small copy to the next of many that are enqueued",
    "enqueue": "enqueue: the host's call",
    "store": "store: half a round trip",
    "load": "load: each waits for the last",
}


def _gpu_legend(cases: Sequence[GpuMatrixCase]) -> str:
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
    if any(" all " in f" {case.row.ends}" for case in cases):
        parts.append("all GPUs: the bandwidth of each while the others copy too")
    return "; ".join(filter(None, (*parts, account(cases).all_verified)))


def _end(number: int) -> str:
    return "host" if number == HOST else str(number)


def _cell(case: MatrixCase, pair: Pair, style: Style) -> Cell:
    number, lost = case.shown(pair), case.unmeasured.get(pair)
    if lost and lost.status == "failed":
        return Cell(text="FAILED", style="error")
    if lost:
        return Cell(style="dim")
    return EMPTY if number is None else Cell(number, style)


def _screen(cases: Sequence[MatrixCase], table: Table) -> Overview | None:
    """Return the summary of large matrices; ``None`` if the cells fit too."""
    if max((len(case.second_ends) for case in cases), default=0) <= MAX_ENDS:
        return None
    return Overview(f"{account(cases).words('pair')}, in {count(len(cases), 'table')}", table)


def heat_map(case: MatrixCase) -> Chart:
    """Return the heat map of a matrix, without the pairs of an end with itself.

    A cell of a large matrix stands for all pairs between two nodes, or between some nodes and some others where there
    are many.
    """
    rows, columns = "first rank", "second rank"
    if isinstance(case, GpuMatrixCase):
        rows, columns = ("GPU that drives", "other GPU") if case.row.ends == "gpus" else ("", "GPU")
    nodes = case.nodes if isinstance(case, RankMatrixCase) else ()
    numbers, caption = case.numbers.copy(), case.unit
    names = [list(map(_end, ends)) for ends in (case.firsts, case.second_ends)]
    square = case.firsts == case.second_ends
    if square:
        np.fill_diagonal(numbers, np.nan)
        caption += ", without the pairs of an end with itself"
    if square and len(case.firsts) > MAX_DRAWN:
        what, of_ends = ("node", nodes) if len(set(nodes)) > 1 else ("rank", case.firsts)
        of = np.array(of_ends, np.int64)
        units = np.unique(of)
        some = -(-len(units) // MAX_DRAWN)
        first_units = units[::some]
        block_of = np.searchsorted(first_units, of, side="right") - 1
        order = np.argsort(block_of, kind="stable")
        starts = np.searchsorted(block_of[order], np.arange(len(first_units)))
        slowest = np.fmin if case.shows_rate else np.fmax
        numbers = slowest.reduceat(slowest.reduceat(numbers[np.ix_(order, order)], starts), starts, axis=1)
        rows, columns = (f"{what} of the {title}" if what == "node" else title for title in (rows, columns))
        names = [list(map(str, first_units.tolist()))] * 2
        ends_of = f"two {what}s" if some == 1 else f"{some} {what}s and {some} {what}s"
        caption += f"; each cell is the slowest pair between {ends_of}"
    marks = [
        Mark(column, row, value=None if np.isnan(number) else number)
        for row, those in zip(names[0], numbers.tolist(), strict=True)
        for column, number in zip(names[1], those, strict=True)
    ]
    return Chart("heat map", case.name, Axis(columns), Axis(rows), marks, Axis(case.name, case.unit), (), caption)


# -------------------------------------------------------------------------------------------- rows for programs


def _data(results: MatrixResults) -> Data:
    cases = results.rank_cases
    if results.of_gpus:
        rows = [_gpu_data(case, pair, cell) for case in results.gpu_cases for pair, cell in case.cells.items()]
        return Data(_GPU_COLUMNS, _GPU_COLUMNS[:10], rows)
    pairs = sum(case.pairs for case in cases)
    return Data(_RANK_COLUMNS, _RANK_COLUMNS[:8], ColumnRows(pairs, lambda: map(_rank_columns, cases)))


_RANK_COLUMNS = (
    "transport", "size_bytes", "mode", "pattern", "direction", "window", "first_rank", "second_rank", "kind", "status",
    "samples", "time_s", "time_low_s", "time_high_s", "bandwidth_Bps", "of_line_rate", "ratio", "ratio_again",
    "ratio_again_low", "flagged", "reason",
)  # fmt: skip
"""The first eight tell rows apart.  ``time_s`` is half a round trip of a ping-pong, or else a window, the median over
the visits; its bounds are their range, those of a single visit its 95 % interval.  ``ratio_again`` is the ratio to the
controls where the pair was measured again, ``flagged`` says whether that flagged it."""


def _rank_columns(case: RankMatrixCase) -> dict[str, Sequence[Any]]:
    """Return the columns of a matrix: arrays, because a thousand ranks have a million pairs."""
    row, where = case.row, case.there
    number = int(np.count_nonzero(where))
    firsts, seconds = (np.array(case.firsts)[place].tolist() for place in np.nonzero(where))
    of_few = ("reason", "mismatch", "of_line_rate", "ratio_again", "ratio_again_low", "ratio_again_high", "flagged")
    judged: dict[str, list[Any]] = {"status": ["ok"] * number, **{name: [None] * number for name in of_few}}
    place_of = np.cumsum(where).reshape(where.shape) - 1

    def put(pair: Pair, **values: Any) -> None:
        for name, value in values.items():
            judged[name][int(place_of[case.kinds.place(pair)])] = value

    for pair, missing in case.unmeasured.items():
        put(pair, status=missing.status, reason=missing.reason, mismatch=missing.mismatch)
    for pair, found in case.remeasured.items():
        again = found.again
        put(
            pair,
            ratio_again=again.median,
            ratio_again_low=again.low,
            ratio_again_high=again.high,
            flagged=found.flagged,
        )
    for pair in case.line_rates:
        put(pair, of_line_rate=case.of_line_rate(pair))
    rates = (case.moved_bytes or np.nan) / case.times_s[where]
    ratios = case.comparison.ratios[where]
    return {
        **{name: [getattr(row, name)] * number for name in _RANK_COLUMNS[:6]},
        "first_rank": firsts,
        "second_rank": seconds,
        "kind": np.array(case.kinds.names, object)[case.kinds.numbers[where]].tolist(),
        "samples": case.samples[where].tolist(),
        "time_s": _or_none(case.times_s[where]),
        "time_low_s": _or_none(case.lows_s[where]),
        "time_high_s": _or_none(case.highs_s[where]),
        "bandwidth_Bps": _or_none(rates),
        "ratio": _or_none(ratios),
        "comparable_pairs": _or_none(case.comparison.comparable[where], np.isnan(ratios)),
        **judged,
    }


def _or_none(numbers: Floats | Integers, unknown: Booleans | None = None) -> list[Any]:
    found: list[Any] = numbers.tolist()
    for place in np.flatnonzero(np.isnan(numbers) if unknown is None else unknown).tolist():
        found[place] = None
    return found


_GPU_COLUMNS = (
    "section", "metric", "engine", "operation", "direction", "size_bytes", "window", "first", "second", "peer_access",
    "status", "samples", "time_s", "time_low_s", "time_high_s", "bandwidth_Bps", "of_line_rate", "ratio",
    "messages_verified", "reason", "launches",
)  # fmt: skip
"""The first ten tell rows apart.  ``time_s`` is the time of the metric (docs/method), ``ratio`` that time over the
median of comparable pairs.  ``time_low_s`` and ``time_high_s`` are the 95 % interval of its median: within the launch
where there is one, over launches where there are six or more; of fewer launches they are the range."""

_LEFT_OUT = ("median_s", "low_s", "high_s", "samples_s", "visits", "work_s", "gpu")
"""Fields of the cell that a row has in other columns, or omits because they are long."""


def _gpu_data(case: GpuMatrixCase, pair: Pair, cell: GpuMatrixCell) -> dict[str, Any]:
    row, compared = case.row, case.comparison.at(pair)
    return {
        **{name: value for name, value in asdict(cell).items() if name not in _LEFT_OUT},
        "kind": case.kinds.kind(pair),
        "time_s": cell.median_s,
        "time_low_s": cell.low_s,
        "time_high_s": cell.high_s,
        "bandwidth_Bps": case.rate_Bps(pair),
        "of_line_rate": case.of_line_rate(pair),
        "ratio": compared and compared.ratio,
        "comparable_pairs": compared and compared.comparable,
        **{name: getattr(row, name) for name in (*_GPU_COLUMNS[:5], "ends", "size_bytes", "window")},
        "first": "host" if pair[0] == HOST else pair[0],
        "second": pair[1],
        "peer_access": {True: "on", False: "off", None: None}[cell.peer_access],
        "suspect": any(each.pair == pair for each in case.suspects),
        "launches": case.launches,
    }
