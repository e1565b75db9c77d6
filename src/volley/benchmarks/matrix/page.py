"""The reports of matrices between ranks and between GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from msgspec.structs import asdict

from volley.benchmarks.matrix import HINT, RANKS_POINT_TIME_S
from volley.benchmarks.matrix.records import GpuMatrixCell, GpuMatrixRow
from volley.benchmarks.matrix.results import (
    HOST,
    WITHIN,
    GpuMatrixCase,
    MatrixCase,
    MatrixResults,
    RankMatrixCase,
    observables,
)
from volley.benchmarks.matrix.slow_pairs import SUSPECT_FROM, Booleans, Floats, Integers, Pair, SlowGroup
from volley.records.command_again import command_again
from volley.records.plan import Plan
from volley.records.record_types import Status
from volley.records.run_log import RunLog
from volley.references import beside_equal
from volley.report.cells import known_digits, percent
from volley.report.model import (
    EMPTY,
    Axis,
    Cell,
    Chart,
    Column,
    ColumnRows,
    Conclusion,
    Data,
    Mark,
    Note,
    Overview,
    Report,
    Style,
    Table,
    Value,
    Verdict,
)
from volley.run import report_parts
from volley.statistics.estimates import median
from volley.text import count, grouped, join_few, join_words
from volley.units import format_sig, format_size

MAX_DRAWN = 128
"""A heat map has at most this many rows and columns; beyond, each of its cells stands for several pairs."""

MAX_IN_TABLES = 128
"""The cells of a matrix of more ends are in no table: only CSV and JSON have them."""

MAX_NAMED = 6
"""Pairs that a sentence names one by one; more are counted."""

MAX_ENDS = 16
"""A matrix of more ranks or GPUs is shown as its summary; ``--full`` shows the cells."""

MAX_FINDINGS = 12
"""On the screen of large matrices; ``--notes`` shows all."""

_HEAT: tuple[tuple[float, Style], ...] = ((0.96, "good"), (0.8, ""), (0.5, "warning"), (0.0, "bad"))
"""The style of a cell between GPUs by its share of the best pair of its matrix: from this fraction on."""

_HEAT_LEGEND = "green: from {:.0f} % of the best pair, yellow: below {:.0f} %, red: below {:.0f} %".format(
    *(100 * least for least, _ in _HEAT[:3])
)

_RED_FROM = 1.25
"""From this ratio on a pair of ranks is red: placement within a socket does not explain a quarter more time."""


def report(results: MatrixResults) -> Report:
    cases, series = results.cases, results.series
    found = [
        replace(each, text=f"{case.name}: {each.text}") for case in cases for each in _conclusions(case, series.plan)
    ]
    names = [case.name for case in cases]
    remarks = report_parts.remarks(series, names, found=[each.note() for each in found])
    gpus = (device.name for device in results.gpus.devices)
    remarks += beside_equal(gpus, "gpu_matrix", map(observables, series.logs))
    remarks += [Note("finding", text) for text in _compared(series.logs)]
    tables = list(_tables(results))
    return Report(
        heading=_heading(results),
        tables=tables,
        notes=report_parts.lost(
            series,
            names,
            failed=(text for case in cases for text in _failed(case)),
            missing=[*_missing(results), *(text for case in cases for text in _skipped(case))],
        ),
        remarks=remarks,
        overview=_screen(cases, tables[0], found) if tables else None,
        charts=[
            heat_map(case) for case in cases if np.count_nonzero(~np.isnan(case.times_s)) + len(case.unmeasured) > 1
        ],
        data=_data(results),
        runs=series.describe_runs(),
        extra={
            "gpus": [{"number": results.numbers[device.uuid], "device": device} for device in results.gpus.devices],
            "no_peer_access": results.unreachable,
        }
        if results.of_gpus
        else {},
    )


def _compared(logs: Sequence[RunLog]) -> Iterator[str]:
    fewer = {
        row.section: (cell.compared_in_flight, row.window)
        for log in logs
        for row in log.of(GpuMatrixRow)
        for cell in row.cells
        if cell.messages_verified and cell.compared_in_flight is not None and cell.compared_in_flight < row.window
    }
    for (in_flight, window), sections in grouped(fewer, fewer.__getitem__).items():
        yield report_parts.compared_fewer(in_flight, window, join_words(sections))


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
    cases, launches = results.cases, len(results.series.logs)
    if not cases and not results.of_gpus:
        return
    legend = []
    if results.of_gpus and launches > 1:
        legend.append(f"each cell is the median of the medians of {count(launches, 'launch')}")
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
    Column("", align="left"),
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
    meaning = f"line: share of the line rate of {' or '.join(rates)}; for both ways, of twice the line rate"
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
        "loaded": "all ranks busy",
    }[case.row.mode]
    legend = ["rows: first rank, columns: second"]
    legend += ["latency: half round trip"] if case.row.window is None else []
    legend += ["GB/s: 10^9 B/s"] if case.shows_rate else []
    legend += ["all verified"] if case.moved_bytes and case.verified else []
    widths = np.fmax(case.highs_s / case.times_s - 1, 1 - case.lows_s / case.times_s)
    digits = 3
    if not np.isnan(widths).all():  # how far the bounds of a cell are from its number: a table has no room for them
        middle, most = float(np.nanmedian(widths)), float(np.nanmax(widths))
        digits = min(digits, known_digits(middle))
        legend.append(f"cells vary by {percent(middle, 1, '±')} in the median, by at most {percent(most, 1, '±')}")
    return Table(
        columns=[Column("rank"), *(Column(str(second), digits=digits) for second in case.seconds)],
        rows=[[str(first), *(_rank_cell(case, (first, second)) for second in case.seconds)] for first in case.firsts],
        title=f"{case.row.transport}, {format_size(case.row.size_bytes)}: {what}{both} in {case.unit}, {how}",
        legend=["; ".join(legend)],
        colors=f"yellow and red: over {slow} and {red} % slower than comparable pairs; green: faster",
    )


def _rank_cell(case: RankMatrixCase, pair: Pair) -> Cell:
    if pair[0] == pair[1]:
        return Cell(text="·", style="dim")
    return _cell(case, pair, _rank_style(case, pair))


def _rank_style(case: RankMatrixCase, pair: Pair) -> Style:
    """Return the colour of a cell; a suspect that was measured again and not confirmed has none."""
    compared, again = case.comparison.at(pair), case.remeasured.get(pair)
    if compared is None or (again and not again.flagged and compared.ratio > SUSPECT_FROM):
        return ""
    if compared.ratio > _RED_FROM:
        return "bad"
    return "warning" if compared.ratio > SUSPECT_FROM else "good" if compared.ratio < 1 / SUSPECT_FROM else ""


def _gpu_tables(cases: Sequence[GpuMatrixCase]) -> Iterator[Table]:
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
                rows=[[_end(first), *_gpu_row(these, first)] for first in firsts],
                title=title,
                legend=[_gpu_legend(these)],
                colors=_HEAT_LEGEND,
            )


def _gpu_row(cases: Sequence[GpuMatrixCase], first: int) -> Iterator[Cell]:
    """Yield the cells of a row; a colour shows the share of the best pair of the matrix."""
    for case in cases:
        best_s = min((time_s for pair, time_s in case.times.items() if pair[0] != pair[1]), default=0.0)
        for second in case.seconds:
            share = best_s / (case.time_s((first, second)) or math.inf)
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
    if cases and all(case.verified for case in cases):
        parts.append("all verified")
    return "; ".join(parts)


def _end(number: int) -> str:
    return "host" if number == HOST else str(number)


def _cell(case: MatrixCase, pair: Pair, style: Style) -> Cell:
    number, lost = case.shown(pair), case.unmeasured.get(pair)
    if lost and lost.status == "failed":
        return Cell(text="FAILED", style="error")
    if lost:
        return Cell(style="dim")
    return EMPTY if number is None else Cell(number, style)


def _screen(cases: Sequence[MatrixCase], table: Table, found: Sequence[Conclusion]) -> Overview | None:
    """Return the summary of large matrices; ``None`` if the cells fit too."""
    if max((len(case.seconds) for case in cases), default=0) <= MAX_ENDS:
        return None
    measured, compared = (
        sum(int(np.count_nonzero(~np.isnan(numbers))) for numbers in matrices)
        for matrices in ([case.times_s for case in cases], [case.comparison.ratios for case in cases])
    )
    pairs, failed = sum(case.pairs for case in cases), sum(len(_unmeasured(case, "failed")) for case in cases)
    shown = [Conclusion("BROKEN", f"{count(failed, 'pair')} failed")] if failed else []
    shown += found[:MAX_FINDINGS]
    if compared and not shown:
        which = f"{pairs}" if compared == pairs else f"{compared} of {pairs}"
        shown = [Conclusion("OK", f"no slow pair found: {which} pairs were compared with comparable ones")]
    return Overview(f"{count(measured, 'pair')} in {count(len(cases), 'table')}", shown, table)


def heat_map(case: MatrixCase) -> Chart:
    """Return the heat map of a matrix, without the pairs of an end with itself.

    A cell of a large matrix stands for all pairs between two nodes, or between some nodes and some others where there
    are many.
    """
    rows, columns = "first rank", "second rank"
    if isinstance(case, GpuMatrixCase):
        rows, columns = ("GPU that drives", "other GPU") if case.row.ends == "gpus" else ("", "GPU")
    nodes = case.nodes if isinstance(case, RankMatrixCase) else ()
    numbers = case.numbers.copy()
    square = case.firsts == case.seconds
    if square:
        np.fill_diagonal(numbers, np.nan)
    ends, order = case.firsts, np.arange(len(case.firsts))
    caption = f"{case.unit}, without the pairs of an end with itself" if square else case.unit
    if square and len(ends) > MAX_DRAWN:
        of = np.array(nodes if len(set(nodes)) > 1 else ends, np.int64)
        units = np.unique(of)
        some = -(-len(units) // MAX_DRAWN)
        first_units = units[::some]
        block_of = np.searchsorted(first_units, of, side="right") - 1
        order = np.argsort(block_of, kind="stable")
        starts = np.searchsorted(block_of[order], np.arange(len(first_units)))
        slowest = np.fmin if case.shows_rate else np.fmax
        numbers = slowest.reduceat(slowest.reduceat(numbers[np.ix_(order, order)], starts), starts, axis=1)
        what = "node" if len(set(nodes)) > 1 else "rank"
        rows, columns = (f"{what} of the {title}" if what == "node" else title for title in (rows, columns))
        labels = [str(unit) for unit in first_units.tolist()]
        ends_of = f"two {what}s" if some == 1 else f"{some} {what}s and {some} {what}s"
        caption += f"; each cell is the slowest pair between {ends_of}"
        row_names, column_names = labels, labels
    else:
        row_names, column_names = [_end(end) for end in case.firsts], [_end(end) for end in case.seconds]
    marks = [
        Mark(column, row, value=None if np.isnan(number) else number)
        for row, those in zip(row_names, numbers.tolist(), strict=True)
        for column, number in zip(column_names, those, strict=True)
    ]
    return Chart("heat map", case.name, Axis(columns), Axis(rows), marks, Axis(case.name, case.unit), (), caption)


# ------------------------------------------------------------------------------------------------------- notes


def _unmeasured(case: MatrixCase, status: Status) -> list[tuple[Pair, str]]:
    lost = case.unmeasured.items()
    return [(pair, each.reason or "no reason is recorded") for pair, each in lost if each.status == status]


def _failed(case: MatrixCase) -> Iterator[str]:
    wrong = _unmeasured(case, "failed")
    for pair, reason in wrong[:MAX_NAMED]:
        yield f"{case.name}, {_names(case, [pair])}: {reason}"
    if len(wrong) > MAX_NAMED:
        more = count(len(wrong) - MAX_NAMED, "pair")
        yield f"{case.name}: {more} more (--format csv names them)"


def _skipped(case: MatrixCase) -> Iterator[str]:
    for reason, those in grouped(_unmeasured(case, "skipped"), itemgetter(1)).items():
        yield f"{case.name} skipped {_few_or_count([pair for pair, _ in those], partial(_names, case))}: {reason}"


def _few_or_count(pairs: Sequence[Pair], names: Callable[[Sequence[Pair]], str]) -> str:
    return names(pairs) if len(pairs) <= MAX_NAMED else count(len(pairs), "pair")


def _missing(results: MatrixResults) -> Iterator[str]:
    if results.gpus.reason:
        yield f"no GPU can be used: {results.gpus.reason}; {HINT}"
    if len(results.gpus.devices) == 1:
        if "MIG" in results.gpus.devices[0].name.split():
            what = "one slice of a GPU (MIG): CUDA gives a process one slice and no peer access, so there are no pairs"
        else:
            what = "one GPU: there are no pairs"
        yield what
    if None in results.access.values():
        yield "the record does not say for every pair of GPUs whether peer access is possible"
    if results.unreachable:
        pairs = _few_or_count(results.unreachable, _gpu_names)
        yield f"no peer access is possible: {pairs}; CUDA's copies between them go through the host in any section"


def _conclusions(case: MatrixCase, plan: Plan | None) -> Iterator[Conclusion]:
    ranks = isinstance(case, RankMatrixCase)
    consequence = "; only pairs that are slower than this whole group are measured again" if ranks else ""
    for kind, pairs in case.comparison.uneven().items():
        slow = f"{count(pairs, 'pair')} took over {_percent(SUSPECT_FROM - 1)} longer than comparable pairs"
        yield Conclusion("SLOW?", f"pairs of kind '{kind}' vary too much to blame single ones: {slow}{consequence}")
    if isinstance(case, RankMatrixCase):
        yield from _slow_ranks(case, plan)
        return
    for each in case.suspects:
        others = f"{each.comparable} comparable {'GPU' if each.kind == WITHIN else 'link'}s"
        yield Conclusion("SLOW", f"{_names(case, [each.pair])} {_slower(case, each.ratio, others)}")


def _slow_ranks(case: RankMatrixCase, plan: Plan | None) -> Iterator[Conclusion]:
    for group in case.groups:
        yield _group(case, group)
    grouped = {pair for group in case.groups for pair in group.again}
    remeasured = [each for pair, each in case.remeasured.items() if pair not in grouped]
    for again, first in ((each.again, each.first) for each in remeasured if each.flagged):
        low, high = format_sig(again.low, 3), format_sig(again.high, 3)
        if case.shows_rate:
            low, high = format_sig(100 / again.high, 2), _percent(1 / again.low)
        what = _slower(case, again.median, f"{first.comparable} comparable pairs")
        sure = f"{first.kind}; measured again {again.count} times, {low} to {high}"
        yield Conclusion("SLOW", f"{_names(case, [first.pair])} {what} ({sure})")
    if cleared := [each.first.pair for each in remeasured if each.cleared]:
        text = f"{_names(case, cleared)} took longer than comparable pairs at first; measuring again did not confirm it"
        yield Conclusion("OK", text)
    if undecided := [each for each in remeasured if each.undecided]:
        time_s = 10 * (plan.sampling.point_time_s if plan else RANKS_POINT_TIME_S)
        longer = command_again("matrix", plan, ranks=len(case.firsts), point_time=f"{time_s:g}")
        times = _range([each.again.low for each in undecided] + [each.again.high for each in undecided])
        yield Conclusion(
            "SLOW?",
            f"undecided after up to {max(each.again.count for each in undecided)} repeats: "
            f"{_names(case, [each.first.pair for each in undecided])}, {times} times as long as comparable "
            f"pairs; rerun without background load, or with {longer}",
        )
    shown = [case.comparison.at(each.pair) for each in case.suspects if each.pair not in {*case.remeasured, *grouped}]
    uneven = case.comparison.uneven()
    if left := [each for each in shown if each and each.ratio > SUSPECT_FROM and each.kind not in uneven]:
        text = f"took {_range([each.ratio for each in left])} times as long as comparable pairs"
        why = "not confirmed: not measured again, so this may be chance"
        yield Conclusion("SLOW?", f"{_names(case, [each.pair for each in left])} {text} ({why})")


def _range(ratios: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(format_sig(end(ratios), 3) for end in (min, max)))


def _group(case: RankMatrixCase, group: SlowGroup) -> Conclusion:
    """``node 3 (a) ↔ node 9 (b): all 128 pairs reach 63 % of the bandwidth of comparable pairs``."""
    again = [case.remeasured[pair] for pair in group.again if pair in case.remeasured]
    if again and all(each.cleared for each in again):
        return Conclusion(
            "OK",
            f"{group.name}: {group.slow} of {group.pairs} pairs took longer than comparable pairs at first; measuring "
            f"{len(again)} of them again did not confirm it",
        )
    shown = case.comparison.ratios[group.places].tolist()
    ratio = median([each.again.median for each in again] or shown)
    which = f"all {group.pairs}" if group.slow == group.pairs else f"{group.slow} of {group.pairs}"
    much = f"take {format_sig(ratio, 3)} times as long as comparable pairs"
    if case.shows_rate:
        much = f"reach {_percent(1 / ratio)} of the bandwidth of comparable pairs"
    sure = "not confirmed: not measured again"
    if again:
        sure = f"{len(again)} of them measured again, {sum(each.flagged for each in again)} slow for certain"
    more = f"; {group.hint}" if group.hint else ""
    verdict: Verdict = "SLOW" if any(each.flagged for each in again) else "SLOW?"
    return Conclusion(verdict, f"{group.name}: {which} pairs {much} ({sure}){more}")


def _slower(case: MatrixCase, ratio: float, others: str) -> str:
    """``reaches 61 % of what its 10 comparable pairs reach``; of times ``takes 1.64 times as long as its …``."""
    if case.shows_rate:
        return f"reaches {_percent(1 / ratio)} of what its {others} reach"
    return f"takes {format_sig(ratio, 3)} times as long as its {others}"


def _percent(fraction: float) -> str:
    return f"{format_sig(100 * fraction, 2)} %"


def _names(case: MatrixCase, pairs: Sequence[Pair]) -> str:
    if isinstance(case, RankMatrixCase):
        return f"rank {join_few((f'{first} → {second}' for first, second in pairs), MAX_NAMED)}"
    return _gpu_names(pairs)


def _gpu_names(pairs: Sequence[Pair]) -> str:
    return join_words(
        f"GPU {second}" if first == HOST else f"within GPU {first}" if first == second else f"GPU {first} → {second}"
        for first, second in pairs
    )


# -------------------------------------------------------------------------------------------- rows for programs


def _data(results: MatrixResults) -> Data:
    cases, launches = results.rank_cases, len(results.series.logs)
    if results.of_gpus:
        rows = [
            _gpu_data(case, pair, cell, launches) for case in results.gpu_cases for pair, cell in case.cells.items()
        ]
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
    judged: dict[str, list[Any]] = {
        "status": ["ok"] * number,
        **{name: [None] * number for name in ("reason", "mismatch", "of_line_rate", *_AGAIN)},
    }
    place_of = np.cumsum(where).reshape(where.shape) - 1
    for pair, lost in case.unmeasured.items():
        place = int(place_of[case.kinds.place(pair)])
        for name in ("status", "reason", "mismatch"):
            judged[name][place] = getattr(lost, name)
    for pair, found in case.remeasured.items():
        place = int(place_of[case.kinds.place(pair)])
        for name, value in zip(
            _AGAIN, (found.again.median, found.again.low, found.again.high, found.flagged), strict=True
        ):
            judged[name][place] = value
    for pair in case.line_rates:
        judged["of_line_rate"][int(place_of[case.kinds.place(pair)])] = case.of_line_rate(pair)
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


_AGAIN = ("ratio_again", "ratio_again_low", "ratio_again_high", "flagged")


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


def _gpu_data(case: GpuMatrixCase, pair: Pair, cell: GpuMatrixCell, launches: int) -> dict[str, Any]:
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
        "launches": launches,
    }
