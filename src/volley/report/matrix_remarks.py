"""The sentences about matrices: cells that failed or are missing, and pairs that are slower than their like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley import blame
from volley.blame import Pair, Standing, Verdict
from volley.matrices import Sheet
from volley.sizes import format_size
from volley.text import count, digits, harmless

_MOST_NAMED = 6
"""Pairs that are named one by one; more are counted."""


def failed(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Name the cells whose data was wrong."""
    for sheet in sheets:
        wrong = [(pair, cell) for pair, cell in sheet.cells.items() if cell.status == "failed"]
        for pair, cell in wrong[:_MOST_NAMED]:
            reason = harmless(cell.reason or "no reason is recorded")
            yield f"FAILED: {_place(sheet)}, rank {_arrow(pair)}: {reason}"
        if len(wrong) > _MOST_NAMED:
            yield f"FAILED: {_place(sheet)}: {count(len(wrong) - _MOST_NAMED, 'pair')} more (--format csv names them)"


def skipped(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Say what was not measured, and why."""
    for sheet in sheets:
        reasons: dict[str, list[Pair]] = {}
        for pair, cell in sheet.cells.items():
            if cell.status == "skipped":
                reasons.setdefault(cell.reason or "no reason is recorded", []).append(pair)
        for reason, pairs in reasons.items():
            named = f"rank {_names(pairs)}" if len(pairs) <= _MOST_NAMED else count(len(pairs), "pair")
            yield f"{_place(sheet)} skipped {named}: {harmless(reason)}"


def findings(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Name the pairs that are slower than their like, and say what measuring again has shown of the others."""
    for sheet in sheets:
        for kind, many in sheet.uneven.items():
            yield (
                f"{_place(sheet)}: {count(many, 'pair')} of the kind {kind} took over "
                f"{_percent(blame.SUSPECT_FROM - 1)} longer than like pairs: this kind is uneven, and only what stands "
                "out from all of it is looked at again"
            )
        for verdict in sheet.verdicts:
            if verdict.blamed:
                yield f"{_place(sheet)}: rank {_arrow(verdict.first.pair)} {_slow(sheet, verdict)}"
        cleared = [each.first.pair for each in sheet.verdicts if each.cleared]
        if cleared:
            yield (
                f"{_place(sheet)}: rank {_names(cleared)} took longer than like pairs at first, which measuring "
                "again did not confirm"
            )
        if undecided := [each for each in sheet.verdicts if not each.blamed and not each.cleared]:
            yield f"{_place(sheet)}: {_undecided(undecided)}"
        tested = {each.first.pair for each in sheet.verdicts}
        for suspect in sheet.suspects:
            if suspect.pair not in tested and suspect.ratio > blame.SUSPECT_FROM:
                yield f"{_place(sheet)}: rank {_arrow(suspect.pair)} {_unproven(sheet, suspect)}"


def _slow(sheet: Sheet, verdict: Verdict) -> str:
    """``reaches 61 % of what its 10 like pairs reach (same socket; measured again 9 times, 60 to 62 %)``."""
    again = verdict.again
    kind = f"{sheet.kinds[verdict.first.pair]}; measured again {again.count} times"
    if sheet.exercise == "stream":
        bounds = f"{digits(100 / again.high, 2)} to {_percent(1 / again.low)}"
        return (
            f"reaches {_percent(1 / again.median)} of what its {verdict.first.like} like pairs reach ({kind}, {bounds})"
        )
    bounds = f"{digits(again.low, 3)} to {digits(again.high, 3)}"
    return f"takes {digits(again.median, 3)} times as long as its {verdict.first.like} like pairs ({kind}, {bounds})"


def _undecided(verdicts: Sequence[Verdict]) -> str:
    """``rank 0 → 2, 1 → 3 may be slow or may not: …``."""
    again = [each.again for each in verdicts]
    low, high = digits(min(each.low for each in again), 3), digits(max(each.high for each in again), 3)
    names = _names([each.first.pair for each in verdicts])
    return (
        f"rank {names} may be slow or may not: {low} to {high} times as long as like pairs, measured again "
        f"up to {max(each.count for each in again)} times; a machine without other work, or a longer --point-time, "
        "tells more"
    )


def _unproven(sheet: Sheet, suspect: Standing) -> str:
    kind = f"{sheet.kinds[suspect.pair]}; not measured again, so this may be chance"
    if sheet.exercise == "stream":
        return f"reached {_percent(1 / suspect.ratio)} of what its {suspect.like} like pairs reached ({kind})"
    return f"took {digits(suspect.ratio, 3)} times as long as its {suspect.like} like pairs ({kind})"


def _percent(fraction: float) -> str:
    return f"{digits(100 * fraction, 2)} %"


def _place(sheet: Sheet) -> str:
    return f"{harmless(sheet.transport)} at {format_size(sheet.size_bytes)}"


def _arrow(pair: Pair) -> str:
    return f"{pair[0]} → {pair[1]}"


def _names(pairs: Sequence[Pair]) -> str:
    more = f" and {len(pairs) - _MOST_NAMED} more" if len(pairs) > _MOST_NAMED else ""
    return ", ".join(map(_arrow, pairs[:_MOST_NAMED])) + more
