"""Matrices between ranks, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from volley.benchmarks.matrix import page as common
from volley.benchmarks.matrix.comparable import SUSPECT_FROM, Pair, PairRatio
from volley.benchmarks.matrix.page import MOST_NAMED, percent
from volley.benchmarks.rank_matrix.results import KINDS, RankMatrixCase, RankMatrixResults
from volley.benchmarks.rank_matrix.slow_pairs import Remeasurement
from volley.report.model import Cell, Column, Data, Note, Report, Style, Table
from volley.run import notes
from volley.units import format_sig, format_size

_RED_FROM = 1.25
"""From this ratio on a pair is red: a quarter more time is no matter of placement within a socket."""

_COLUMNS = (
    "transport", "size_bytes", "mode", "exercise", "direction", "window", "first_rank", "second_rank", "kind", "status",
    "samples", "time_us", "time_low_us", "time_high_us", "bandwidth_GBps", "of_ceiling", "ratio", "ratio_again",
    "ratio_again_low", "blamed", "reason",
)  # fmt: skip
"""``time_us`` is half a round trip of a ping-pong, or else a window, the median over the visits; its bounds are
their range, those of a single visit its 95 % interval.  ``ratio_again`` is the ratio to the controls where the pair
was measured again, ``blamed`` says whether that flagged it."""


def reports(results: Sequence[RankMatrixResults]) -> list[Report]:
    """Return one report a series."""
    return [_report(each) for each in results]


def _report(results: RankMatrixResults) -> Report:
    series, cases = results.series, results.cases
    return Report(
        heading=notes.heading(series, "matrix"),
        tables=[_table(case) for case in cases],
        notes=[
            *notes.incomplete(series),
            *(note for case in cases for note in common.failed(_name(case), case, _ranks)),
            *notes.unavailable(series),
            *(note for case in cases for note in common.skipped(_name(case), case, _ranks)),
            *(note for case in cases for note in _findings(case)),
            *notes.slowed(series),
            *(notes.unverified(series) if cases else ()),
        ],
        data=Data(_COLUMNS, [_data(case, pair) for case in cases for pair in sorted(case.cells)]),
        runs=series.describe_runs(),
    )


# ------------------------------------------------------------------------------------------------------- tables


def _table(case: RankMatrixCase) -> Table:
    """The row's rank is the first of the pair (it sends), the column's the second."""
    slow, red = (f"{(limit - 1) * 100:.0f}" for limit in (SUSPECT_FROM, _RED_FROM))
    return Table(
        columns=[Column("rank"), *common.columns(case)],
        rows=[[str(first), *(_cell(case, (first, second)) for second in case.seconds)] for first in case.firsts],
        title=_title(case),
        legend=[*_kind_lines(case), _legend(case)],
        colors=f"yellow and red: over {slow} and {red} % slower than comparable pairs; green: faster",
    )


def _title(case: RankMatrixCase) -> str:
    """Name a matrix and its unit: ``host, 8 B: latency in µs, one pair at a time``."""
    how = "one pair at a time" if case.mode == "isolated" else "all ranks busy"
    both = " of both directions together" if case.direction == "bi" else ""
    what = "latency" if case.window is None else "bandwidth" if case.shows_rate else "time of a window"
    return f"{case.transport}, {format_size(case.size_bytes)}: {what}{both} in {case.unit}, {how}"


def _cell(case: RankMatrixCase, pair: Pair) -> Cell:
    if pair[0] == pair[1]:
        return Cell(text="·", style="dim")
    return common.shown_cell(case, pair, _style(case, pair))


def _style(case: RankMatrixCase, pair: Pair) -> Style:
    """Colour repeats what the numbers and the sentences say: how a pair compares with comparable pairs."""
    compared, remeasured = case.ratios.get(pair), case.remeasured.get(pair)
    if compared is None:
        return ""
    if compared.ratio > SUSPECT_FROM and remeasured is not None and not remeasured.flagged:
        return ""
    if compared.ratio > _RED_FROM:
        return "bad"
    return "warning" if compared.ratio > SUSPECT_FROM else "good" if compared.ratio < 1 / SUSPECT_FROM else ""


def _kind_lines(case: RankMatrixCase) -> Iterator[str]:
    """One line a kind of pairs."""
    times = case.times
    for kind in (*KINDS, "unknown"):
        if pairs := [pair for pair in times if case.kinds[pair] == kind]:
            yield common.kind_line(kind, case, pairs, "line rate")


def _legend(case: RankMatrixCase) -> str:
    parts = ["rows: first rank, columns: second"]
    if case.window is None:
        parts.append("latency: half round trip")
    if case.unit == "GB/s":
        parts.append("GB/s: 10^9 B/s")
    if case.has_rate and case.verified:
        parts.append("all verified")
    return "; ".join(parts)


# -------------------------------------------------------------------------------------------------------- notes


def _findings(case: RankMatrixCase) -> Iterator[Note]:
    """Name the slow pairs, and say what measuring suspects again has shown of the others."""
    name, again = _name(case), case.remeasured.values()
    yield from common.uneven(name, case, "; only pairs that are slower than all of it are measured again")
    for each in again:
        if each.flagged:
            yield Note("finding", f"{name}: rank {_arrow(each.first.pair)} {_flagged(case, each)}")
    if cleared := [each.first.pair for each in again if each.cleared]:
        yield Note(
            "finding",
            f"{name}: rank {_names(cleared)} took longer than comparable pairs at first; measuring again did not "
            "confirm it",
        )
    if undecided := [each for each in again if not each.flagged and not each.cleared]:
        yield Note("finding", f"{name}: {_undecided(undecided)}")
    for suspect in case.suspects:
        if suspect.pair not in case.remeasured and suspect.ratio > SUSPECT_FROM:
            yield Note("finding", f"{name}: rank {_arrow(suspect.pair)} {_not_measured_again(case, suspect)}")


def _flagged(case: RankMatrixCase, found: Remeasurement) -> str:
    """``reaches 61 % of what its 10 comparable pairs reach (same socket; measured again 9 times, 60 to 62 %)``."""
    again, comparable = found.again, f"{found.first.comparable} comparable pairs"
    low, high = format_sig(again.low, 3), format_sig(again.high, 3)
    what = f"takes {format_sig(again.median, 3)} times as long as its {comparable}"
    if case.window is not None:
        low, high = format_sig(100 / again.high, 2), percent(1 / again.low)
        what = f"reaches {percent(1 / again.median)} of what its {comparable} reach"
    return f"{what} ({case.kinds[found.first.pair]}; measured again {again.count} times, {low} to {high})"


def _undecided(found: Sequence[Remeasurement]) -> str:
    again = [each.again for each in found]
    low, high = format_sig(min(each.low for each in again), 3), format_sig(max(each.high for each in again), 3)
    return (
        f"rank {_names([each.first.pair for each in found])} may or may not be slow: {low} to {high} times as long as "
        f"comparable pairs, measured again up to {max(each.count for each in again)} times; a machine without other "
        "work, or a longer --point-time, tells more"
    )


def _not_measured_again(case: RankMatrixCase, suspect: PairRatio) -> str:
    comparable = f"{suspect.comparable} comparable pairs"
    what = f"took {format_sig(suspect.ratio, 3)} times as long as its {comparable}"
    if case.window is not None:
        what = f"reached {percent(1 / suspect.ratio)} of what its {comparable} reached"
    return f"{what} ({case.kinds[suspect.pair]}; not measured again, so this may be chance)"


def _name(case: RankMatrixCase) -> str:
    return f"{case.transport} at {format_size(case.size_bytes)}"


def _arrow(pair: Pair) -> str:
    return f"{pair[0]} → {pair[1]}"


def _names(pairs: Sequence[Pair]) -> str:
    more = f" and {len(pairs) - MOST_NAMED} more" if len(pairs) > MOST_NAMED else ""
    return ", ".join(map(_arrow, pairs[:MOST_NAMED])) + more


def _ranks(pairs: Sequence[Pair]) -> str:
    return f"rank {_names(pairs)}"


# --------------------------------------------------------------------------------------------------------- data


def _data(case: RankMatrixCase, pair: Pair) -> dict[str, Any]:
    again = case.remeasured.get(pair)
    return {
        "transport": case.transport,
        "size_bytes": case.size_bytes,
        "mode": case.mode,
        "exercise": case.pattern,
        "direction": case.direction,
        "window": case.window,
        "first_rank": pair[0],
        "second_rank": pair[1],
        **common.data_of(case, pair),
        "ratio_again": again and again.again.median,
        "ratio_again_low": again and again.again.low,
        "ratio_again_high": again and again.again.high,
        "blamed": again and again.flagged,
    }
