"""Matrices between ranks, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from volley.benchmarks.matrix import page as common
from volley.benchmarks.matrix.comparable import SUSPECT_FROM, Pair
from volley.benchmarks.rank_matrix.results import KINDS, RankMatrixCase, RankMatrixResults
from volley.report.model import Cell, Column, Data, Report, Style, Table
from volley.run import notes
from volley.units import format_sig, format_size

_RED_FROM = 1.25
"""From this ratio on a pair is red: a quarter more time is no matter of placement within a socket."""

_COLUMNS = (
    "transport", "size_bytes", "mode", "pattern", "direction", "window", "first_rank", "second_rank", "kind", "status",
    "samples", "time_us", "time_low_us", "time_high_us", "bandwidth_GBps", "of_line_rate", "ratio", "ratio_again",
    "ratio_again_low", "flagged", "reason",
)  # fmt: skip
"""``time_us`` is half a round trip of a ping-pong, or else a window, the median over the visits; its bounds are
their range, those of a single visit its 95 % interval.  ``ratio_again`` is the ratio to the controls where the pair
was measured again, ``flagged`` says whether that flagged it."""


def reports(results: Sequence[RankMatrixResults]) -> list[Report]:
    return [
        Report(
            heading=notes.heading(each.series, "matrix"),
            tables=[_table(case) for case in each.cases],
            notes=common.notes_of(each.series, each.cases, _names, notes.unavailable(each.series), _findings),
            data=Data(_COLUMNS, [_data(case, pair) for case in each.cases for pair in sorted(case.cells)]),
            runs=each.series.describe_runs(),
        )
        for each in results
    ]


# ------------------------------------------------------------------------------------------------------- tables


def _table(case: RankMatrixCase) -> Table:
    """The row's rank is the first of the pair (it sends), the column's the second."""
    slow, red = (f"{(limit - 1) * 100:.0f}" for limit in (SUSPECT_FROM, _RED_FROM))
    what = "latency" if case.row.window is None else "bandwidth" if case.shows_rate else "time of a window"
    both = " of both directions together" if case.row.direction == "bi" else ""
    lines = [line for kind in (*KINDS, "unknown") for line in common.kind_line(kind, case, kind, "line rate")]
    how = "one pair at a time" if case.row.mode == "isolated" else "all ranks busy"
    return Table(
        columns=[Column("rank"), *(Column(str(second), digits=3) for second in case.seconds)],
        rows=[[str(first), *(_cell(case, (first, second)) for second in case.seconds)] for first in case.firsts],
        title=f"{case.row.transport}, {format_size(case.row.size_bytes)}: {what}{both} in {case.unit}, {how}",
        legend=[*lines, _legend(case)],
        colors=f"yellow and red: over {slow} and {red} % slower than comparable pairs; green: faster",
    )


def _cell(case: RankMatrixCase, pair: Pair) -> Cell:
    if pair[0] == pair[1]:
        return Cell(text="·", style="dim")
    return common.shown_cell(case, pair, _style(case, pair))


def _style(case: RankMatrixCase, pair: Pair) -> Style:
    """The colour repeats what numbers and sentences say; what measuring again did not confirm has none."""
    compared, again = case.ratios.get(pair), case.remeasured.get(pair)
    if compared is None or (again and not again.flagged and compared.ratio > SUSPECT_FROM):
        return ""
    if compared.ratio > _RED_FROM:
        return "bad"
    return "warning" if compared.ratio > SUSPECT_FROM else "good" if compared.ratio < 1 / SUSPECT_FROM else ""


def _legend(case: RankMatrixCase) -> str:
    parts = ["rows: first rank, columns: second"]
    if case.row.window is None:
        parts.append("latency: half round trip")
    if case.shows_rate:
        parts.append("GB/s: 10^9 B/s")
    if case.moved_bytes and case.verified:
        parts.append("all verified")
    return "; ".join(parts)


# -------------------------------------------------------------------------------------------------------- notes


def _findings(case: RankMatrixCase) -> Iterator[str]:
    """Name the slow pairs, and say what measuring suspects again has shown of the others."""
    remeasured = case.remeasured.values()
    yield from common.uneven_kinds(case, "; only pairs that are slower than all of it are measured again")
    for again, first in ((each.again, each.first) for each in remeasured if each.flagged):
        low, high = format_sig(again.low, 3), format_sig(again.high, 3)
        if case.shows_rate:
            low, high = format_sig(100 / again.high, 2), common.percent(1 / again.low)
        what = common.slower(case, again.median, f"{first.comparable} comparable pairs")
        yield f"{_names([first.pair])} {what} ({first.kind}; measured again {again.count} times, {low} to {high})"
    if cleared := [each.first.pair for each in remeasured if each.cleared]:
        yield f"{_names(cleared)} took longer than comparable pairs at first; measuring again did not confirm it"
    if undecided := [each for each in remeasured if each.undecided]:
        low = format_sig(min(each.again.low for each in undecided), 3)
        high = format_sig(max(each.again.high for each in undecided), 3)
        yield (
            f"{_names([each.first.pair for each in undecided])} may or may not be slow: {low} to {high} times as long "
            f"as comparable pairs, measured again up to {max(each.again.count for each in undecided)} times; a machine "
            "without other work, or a longer --point-time, tells more"
        )
    for each in case.suspects:
        if each.pair not in case.remeasured and each.ratio > SUSPECT_FROM:
            what = common.slower(case, each.ratio, f"{each.comparable} comparable pairs", past=True)
            yield f"{_names([each.pair])} {what} ({each.kind}; not measured again, so this may be chance)"


def _names(pairs: Sequence[Pair]) -> str:
    more = len(pairs) - common.MOST_NAMED
    named = ", ".join(f"{first} → {second}" for first, second in pairs[: common.MOST_NAMED])
    return f"rank {named}{f' and {more} more' if more > 0 else ''}"


# --------------------------------------------------------------------------------------------------------- data


def _data(case: RankMatrixCase, pair: Pair) -> dict[str, Any]:
    row, again = case.row, case.remeasured.get(pair)
    return {
        "transport": row.transport,
        "size_bytes": row.size_bytes,
        "mode": row.mode,
        "pattern": row.pattern,
        "direction": row.direction,
        "window": row.window,
        "first_rank": pair[0],
        "second_rank": pair[1],
        **common.data_of(case, pair),
        "ratio_again": again and again.again.median,
        "ratio_again_low": again and again.again.low,
        "ratio_again_high": again and again.again.high,
        "flagged": again and again.flagged,
    }
