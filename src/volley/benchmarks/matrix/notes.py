"""What is said of matrices: pairs that failed or are missing, and slow pairs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

import numpy as np

from volley.benchmarks.matrix import HINT, RANKS_POINT_TIME_S
from volley.benchmarks.matrix.cases import HOST, WITHIN, GpuMatrixCase, MatrixCase, RankMatrixCase
from volley.benchmarks.matrix.records import GpuMatrixRow
from volley.benchmarks.matrix.results import MatrixResults, observables
from volley.benchmarks.matrix.slow_groups import SlowGroup
from volley.benchmarks.matrix.slow_pairs import SUSPECT_FROM, Pair
from volley.records.command_again import command_again
from volley.records.plan import OUT_OF_TIME, Plan
from volley.records.record_types import Status
from volley.records.run_log import RunLog
from volley.references import beside_equal
from volley.report.model import Note, Verdict, finding
from volley.run import report_parts
from volley.statistics.estimates import median
from volley.text import count, grouped, join_few, join_words
from volley.units import format_sig

MAX_ENDS = 16
"""A matrix of more ranks or GPUs is shown as its summary; ``--full`` shows the cells."""

MAX_NAMED = 6
"""Pairs that a sentence names one by one; more are counted."""


def notes_of(results: MatrixResults) -> Iterator[Note]:
    cases = results.cases
    return report_parts.notes_of(
        results.series,
        [case.name for case in cases],
        failed=(text for case in cases for text in _failed(case)),
        missing=[*_missing(results), *(text for case in cases for text in _skipped(case)), *_out_of_time(results)],
    )


def findings(results: MatrixResults) -> list[Note]:
    cases, series = results.cases, results.series
    pairs = account(cases)
    found = [finding("BROKEN", f"{count(pairs.failed, 'pair')} failed")] if pairs.failed else []
    found += [
        replace(each, text=f"{case.name}: {each.text}") for case in cases for each in conclusions(case, series.plan)
    ]
    compared = sum(int(np.count_nonzero(~np.isnan(case.comparison.ratios))) for case in cases)
    if compared and not found and len(cases[0].second_ends) > MAX_ENDS:
        asked = sum(case.pairs for case in cases)
        which = f"{asked}" if compared == asked else f"{compared} of {asked}"
        found = [finding("OK", f"no slow pair found: {which} pairs were compared with comparable ones")]
    return found


def details(results: MatrixResults) -> Iterator[Note]:
    gpus, logs = (device.name for device in results.gpus.devices), results.series.logs
    yield from beside_equal(gpus, "gpu_matrix", map(observables, logs))
    yield from (Note("finding", text) for text in _compared(logs))


def account(cases: Sequence[MatrixCase]) -> report_parts.Account:
    """Count the pairs of these matrices; those without data are neither verified nor not."""
    lost = [each.status for case in cases for each in case.unmeasured.values()]
    good = [(int(np.count_nonzero(~np.isnan(case.times_s))), case) for case in cases]
    return report_parts.Account(
        verified=sum(number for number, case in good if case.verified),
        unverified=sum(number for number, case in good if not case.verified and case.moved_bytes),
        failed=lost.count("failed"),
        skipped=lost.count("skipped"),
    )


def _compared(logs: Sequence[RunLog]) -> Iterator[str]:
    fewer = {
        row.section: (cell.compared_in_flight, row.window)
        for log in logs
        for row in log.of(GpuMatrixRow)
        if row.metric not in ("store", "load")  # their kernels have one place for all messages
        for cell in row.cells
        if cell.status == "ok" and cell.messages_verified  # one with wrong data ended before it
        if cell.compared_in_flight is not None and cell.compared_in_flight < row.window
    }
    for (in_flight, window), sections in grouped(fewer, fewer.__getitem__).items():
        yield report_parts.compared_fewer(in_flight, window, join_words(sections))


def unmeasured(case: MatrixCase, status: Status) -> list[tuple[Pair, str]]:
    lost = case.unmeasured.items()
    return [(pair, each.reason or "no reason is recorded") for pair, each in lost if each.status == status]


def _failed(case: MatrixCase) -> Iterator[str]:
    wrong = unmeasured(case, "failed")
    for pair, reason in wrong[:MAX_NAMED]:
        yield f"{case.name}, {_names(case, [pair])}: {reason}"
    if len(wrong) > MAX_NAMED:
        yield f"{case.name}: {count(len(wrong) - MAX_NAMED, 'more pair')} (--format csv names them)"


_OF_A_PAIR = re.compile(r"\branks \d+ and \d+\b")
"""Pairs that share a GPU are skipped for one reason."""


def _skipped(case: MatrixCase) -> Iterator[str]:
    left_out = ((pair, _OF_A_PAIR.sub("both ranks", reason)) for pair, reason in unmeasured(case, "skipped"))
    for reason, those in grouped(left_out, itemgetter(1)).items():
        yield f"{case.name} skipped {_few_or_count([pair for pair, _ in those], partial(_names, case))}: {reason}"


def _out_of_time(results: MatrixResults) -> Iterator[str]:
    reasons = {reason for case in results.cases for _, reason in unmeasured(case, "skipped")}
    if OUT_OF_TIME in reasons and results.series.plan:
        yield f"without a budget no pair is left out: {command_again('matrix', results.series.plan, budget=None)}"


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


def conclusions(case: MatrixCase, plan: Plan | None) -> Iterator[Note]:
    for kind, pairs in case.comparison.uneven().items():
        slow = f"{count(pairs, 'pair')} took over {_percent(SUSPECT_FROM - 1)} longer than comparable pairs"
        yield finding("SLOW?", f"pairs of kind '{kind}' vary too much to single any out: {slow}")
    yield from (_group(case, group) for group in case.groups)
    if isinstance(case, RankMatrixCase):
        yield from _slow_ranks(case, plan)
        return
    for each in case.alone:
        others = f"{each.comparable} comparable {'GPU' if each.kind == WITHIN else 'link'}s"
        yield _of_gpus(case, f"{_names(case, [each.pair])} {_slower(case, each.ratio, others)}")


def _slow_ranks(case: RankMatrixCase, plan: Plan | None) -> Iterator[Note]:
    remeasured = [case.remeasured[each.pair] for each in case.alone if each.pair in case.remeasured]
    for again, first in ((each.again, each.first) for each in remeasured if each.flagged):
        low, high = format_sig(again.low, 3), format_sig(again.high, 3)
        if case.shows_rate:
            low, high = format_sig(100 / again.high, 2), _percent(1 / again.low)
        what = _slower(case, again.median, f"{first.comparable} comparable pairs")
        sure = f"{first.kind}; measured again {again.count} times, {low} to {high}"
        yield finding("SLOW", f"{_names(case, [first.pair])} {what} ({sure})")
    if cleared := [each.first.pair for each in remeasured if each.cleared]:
        text = f"{_names(case, cleared)} took longer than comparable pairs at first; measuring again did not confirm it"
        yield finding("OK", text)
    if undecided := [each for each in remeasured if each.undecided]:
        more = {"point_time": f"{10 * (plan.sampling.point_time_s if plan else RANKS_POINT_TIME_S):g}"}
        if plan and plan.sampling.mode == "fixed":
            more = {"iterations": f"{10 * plan.sampling.iterations}"}
        longer = command_again("matrix", plan, ranks=len(case.firsts), budget=None, **more)
        times = _range([each.again.low for each in undecided] + [each.again.high for each in undecided])
        yield finding(
            "SLOW?",
            f"undecided after up to {max(each.again.count for each in undecided)} repeats: "
            f"{_names(case, [each.first.pair for each in undecided])}, {times} times as long as comparable "
            f"pairs; rerun without background load, or with {longer}",
        )
    uneven = case.comparison.uneven()
    slow = case.comparison.slowest((case.comparison.ratios > SUSPECT_FROM) & ~case.of_groups)
    those = (case.comparison.at(pair) for pair in slow if pair not in case.remeasured)
    if left := [each for each in those if each and each.kind not in uneven]:
        text = f"took {_range([each.ratio for each in left])} times as long as comparable pairs"
        why = "not confirmed: not measured again, so this may be chance"
        yield finding("SLOW?", f"{_names(case, [each.pair for each in left])} {text} ({why})")


def _range(ratios: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(format_sig(end(ratios), 3) for end in (min, max)))


def _group(case: MatrixCase, group: SlowGroup) -> Note:
    """``node 3 (a) ↔ node 9 (b): all 128 pairs reach 63 % of the bandwidth of comparable pairs``."""
    remeasured = case.remeasured if isinstance(case, RankMatrixCase) else {}
    again = [remeasured[pair] for pair in group.again if pair in remeasured]
    if again and all(each.cleared for each in again):
        return finding(
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
    text = f"{group.name}: {which} pairs {much}"
    if isinstance(case, GpuMatrixCase):
        return _of_gpus(case, text)
    sure = "not confirmed: not measured again"
    if again:
        sure = f"{len(again)} of them measured again, {sum(each.flagged for each in again)} slow for certain"
    more = f"; {group.hint}" if group.hint else ""
    verdict: Verdict = "SLOW" if any(each.flagged for each in again) else "SLOW?"
    return finding(verdict, f"{text} ({sure}){more}")


def _of_gpus(case: MatrixCase, text: str) -> Note:
    if isinstance(case, GpuMatrixCase) and case.launches > 1:
        return finding("SLOW", text)
    return finding("SLOW?", f"{text} (not confirmed: one launch; another one tells whether it lasts)")


def _slower(case: MatrixCase, ratio: float, others: str) -> str:
    """``reaches 61 % of what the 10 comparable pairs reach``; of times ``takes 1.64 times as long as the …``."""
    if case.shows_rate:
        return f"reaches {_percent(1 / ratio)} of what the {others} reach"
    return f"takes {format_sig(ratio, 3)} times as long as the {others}"


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
