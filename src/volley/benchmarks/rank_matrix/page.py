"""The reports of matrices between ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from volley.benchmarks.rank_matrix import POINT_TIME_S
from volley.benchmarks.rank_matrix.results import RankMatrixCase, RankMatrixResults
from volley.benchmarks.rank_matrix.slow_groups import SlowGroup
from volley.benchmarks.shared.matrix import page as common
from volley.benchmarks.shared.matrix.comparable_pairs import SUSPECT_FROM, Booleans, Floats, Integers, Pair
from volley.report.model import Cell, Column, ColumnRows, Conclusion, Data, Report, Style, Table, Verdict
from volley.run import report_parts
from volley.run.command_again import command_again
from volley.run.plan import Plan
from volley.statistics.estimates import median
from volley.text import join_few
from volley.units import format_sig, format_size

_RED_FROM = 1.25
"""From this ratio on a pair is red: placement within a socket does not explain a quarter more time."""

_COLUMNS = (
    "transport", "size_bytes", "mode", "pattern", "direction", "window", "first_rank", "second_rank", "kind", "status",
    "samples", "time_us", "time_low_us", "time_high_us", "bandwidth_GBps", "of_line_rate", "ratio", "ratio_again",
    "ratio_again_low", "flagged", "reason",
)  # fmt: skip
"""The first eight tell rows apart.  ``time_us`` is half a round trip of a ping-pong, or else a window, the median over
the visits; its bounds are their range, those of a single visit its 95 % interval.  ``ratio_again`` is the ratio to the
controls where the pair was measured again, ``flagged`` says whether that flagged it."""


def report(results: RankMatrixResults) -> Report:
    cases, summary = results.cases, common.summary(results.cases)
    found = common.conclusions(cases, partial(_findings, plan=results.series.plan))
    notes = common.notes_of(results.series, cases, _names, found)
    tables = [_table(case) for case in cases if len(case.firsts) <= common.MAX_IN_TABLES]
    if len(tables) < len(cases):
        legend = [*summary.legend, f"the cells of more than {common.MAX_IN_TABLES} ranks: --format csv or json"]
        summary = replace(summary, legend=legend)
    return Report(
        heading=report_parts.heading(results.series, "matrix"),
        tables=[summary, *tables] if cases else [],
        notes=notes,
        overview=common.screen(cases, summary, found),
        charts=[common.heat_map(case, "first rank", "second rank", str, case.nodes) for case in cases],
        data=Data(_COLUMNS, _COLUMNS[:8], ColumnRows(sum(case.pairs for case in cases), lambda: map(_columns, cases))),
        runs=results.series.describe_runs(),
    )


def _table(case: RankMatrixCase) -> Table:
    """The first rank of a pair (it sends) gives the row, the second one the column."""
    slow, red = (f"{(limit - 1) * 100:.0f}" for limit in (SUSPECT_FROM, _RED_FROM))
    what = "latency" if case.row.window is None else "bandwidth" if case.shows_rate else "time of a window"
    both = " of both directions together" if case.row.direction == "bi" else ""
    how = "one pair at a time" if case.row.mode == "isolated" else "all ranks busy"
    legend = ["rows: first rank, columns: second"]
    legend += ["latency: half round trip"] if case.row.window is None else []
    legend += ["GB/s: 10^9 B/s"] if case.shows_rate else []
    legend += ["all verified"] if case.moved_bytes and case.verified else []
    return Table(
        columns=[Column("rank"), *(Column(str(second), digits=3) for second in case.seconds)],
        rows=[[str(first), *(_cell(case, (first, second)) for second in case.seconds)] for first in case.firsts],
        title=f"{case.row.transport}, {format_size(case.row.size_bytes)}: {what}{both} in {case.unit}, {how}",
        legend=["; ".join(legend)],
        colors=f"yellow and red: over {slow} and {red} % slower than comparable pairs; green: faster",
    )


def _cell(case: RankMatrixCase, pair: Pair) -> Cell:
    if pair[0] == pair[1]:
        return Cell(text="·", style="dim")
    return common.shown_cell(case, pair, _style(case, pair))


def _style(case: RankMatrixCase, pair: Pair) -> Style:
    """Return the colour of a cell; a suspect that was measured again and not confirmed has none."""
    compared, again = case.comparison.at(pair), case.remeasured.get(pair)
    if compared is None or (again and not again.flagged and compared.ratio > SUSPECT_FROM):
        return ""
    if compared.ratio > _RED_FROM:
        return "bad"
    return "warning" if compared.ratio > SUSPECT_FROM else "good" if compared.ratio < 1 / SUSPECT_FROM else ""


# -------------------------------------------------------------------------------------------------------- notes


def _findings(case: RankMatrixCase, plan: Plan | None = None) -> Iterator[Conclusion]:
    """Name what is slow, first what many pairs share, and the result of measuring suspects again."""
    yield from common.uneven_kinds(case, "; only pairs that are slower than all of it are measured again")
    for group in case.groups:
        yield _group(case, group)
    grouped = {pair for group in case.groups for pair in group.again}
    remeasured = [each for pair, each in case.remeasured.items() if pair not in grouped]
    for again, first in ((each.again, each.first) for each in remeasured if each.flagged):
        low, high = format_sig(again.low, 3), format_sig(again.high, 3)
        if case.shows_rate:
            low, high = format_sig(100 / again.high, 2), common.percent(1 / again.low)
        what = common.slower(case, again.median, f"{first.comparable} comparable pairs")
        text = f"{_names([first.pair])} {what} ({first.kind}; measured again {again.count} times, {low} to {high})"
        yield Conclusion("SLOW", text)
    if cleared := [each.first.pair for each in remeasured if each.cleared]:
        text = f"{_names(cleared)} took longer than comparable pairs at first; measuring again did not confirm it"
        yield Conclusion("OK", text)
    if undecided := [each for each in remeasured if each.undecided]:
        time_s = 10 * (plan.sampling.point_time_s if plan else POINT_TIME_S)
        longer = command_again("matrix", plan, ranks=len(case.firsts), point_time=f"{time_s:g}")
        low = format_sig(min(each.again.low for each in undecided), 3)
        high = format_sig(max(each.again.high for each in undecided), 3)
        yield Conclusion(
            "SLOW?",
            f"{_names([each.first.pair for each in undecided])} may or may not be slow: {low} to {high} times as long "
            f"as comparable pairs, measured again up to {max(each.again.count for each in undecided)} times; a machine "
            "without other work, or a longer time for each pair "
            f"({longer}), tells more",
        )
    left = [each for each in case.suspects if each.pair not in case.remeasured and each.pair not in grouped]
    left = [each for each in left if each.ratio > SUSPECT_FROM]
    if len(left) > common.MAX_NAMED:
        low, high = (format_sig(pick(each.ratio for each in left), 3) for pick in (min, max))
        yield Conclusion(
            "SLOW?",
            f"{_names([each.pair for each in left])} took {low} to {high} times as long as comparable pairs "
            "(not confirmed: not measured again, so this may be chance)",
        )
        return
    for each in left:
        what = common.slower(case, each.ratio, f"{each.comparable} comparable pairs", past=True)
        text = f"{_names([each.pair])} {what} ({each.kind}; not confirmed: not measured again, so this may be chance)"
        yield Conclusion("SLOW?", text)


def _group(case: RankMatrixCase, group: SlowGroup) -> Conclusion:
    """``node 3 (a) ↔ node 9 (b): all 128 pairs reach 63 % of the bandwidth of comparable pairs``."""
    again = [case.remeasured[pair] for pair in group.again if pair in case.remeasured]
    if again and all(each.cleared for each in again):
        return Conclusion(
            "OK",
            f"{group.name}: {group.slow} of {group.pairs} pairs took longer than comparable pairs at first; measuring "
            f"{len(again)} of them again did not confirm it",
        )
    ratio = median([each.again.median for each in again]) if again else group.ratio
    which = f"all {group.pairs}" if group.slow == group.pairs else f"{group.slow} of {group.pairs}"
    much = f"take {format_sig(ratio, 3)} times as long as comparable pairs"
    if case.shows_rate:
        much = f"reach {common.percent(1 / ratio)} of the bandwidth of comparable pairs"
    sure = "not confirmed: not measured again"
    if again:
        sure = f"{len(again)} of them measured again, {sum(each.flagged for each in again)} slow for certain"
    more = f"; {group.hint}" if group.hint else ""
    verdict: Verdict = "SLOW" if any(each.flagged for each in again) else "SLOW?"
    return Conclusion(verdict, f"{group.name}: {which} pairs {much} ({sure}){more}")


def _names(pairs: Sequence[Pair]) -> str:
    return f"rank {join_few((f'{first} → {second}' for first, second in pairs), common.MAX_NAMED)}"


def _columns(case: RankMatrixCase) -> dict[str, Sequence[Any]]:
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
    rates = (case.moved_bytes or np.nan) / case.times_s[where] / 1e9
    ratios = case.comparison.ratios[where]
    same = {
        "transport": row.transport,
        "size_bytes": row.size_bytes,
        "mode": row.mode,
        "pattern": row.pattern,
        "direction": row.direction,
        "window": row.window,
    }
    return {
        **{name: [value] * number for name, value in same.items()},
        "first_rank": firsts,
        "second_rank": seconds,
        "kind": np.array(case.kinds.names, object)[case.kinds.numbers[where]].tolist(),
        "samples": case.samples[where].tolist(),
        "time_us": _or_none(case.times_s[where] * 1e6),
        "time_low_us": _or_none(case.lows_s[where] * 1e6),
        "time_high_us": _or_none(case.highs_s[where] * 1e6),
        "bandwidth_GBps": _or_none(rates),
        "ratio": _or_none(ratios),
        "comparable_pairs": _or_none(case.comparison.comparable[where], np.isnan(ratios)),
        **judged,
    }


_AGAIN = ("ratio_again", "ratio_again_low", "ratio_again_high", "flagged")


def _or_none(numbers: Floats | Integers, unknown: Booleans | None = None) -> list[Any]:
    """Return the numbers, and ``None`` where they are ``unknown``; without that for NaN."""
    found: list[Any] = numbers.tolist()
    for place in np.flatnonzero(np.isnan(numbers) if unknown is None else unknown).tolist():
        found[place] = None
    return found
