"""The sentences about matrices: cells that failed or are missing, and pairs that are slower than their like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley import blame
from volley.blame import Pair, Standing, Verdict
from volley.matrices import Sheet
from volley.report import cells
from volley.report.cells import MOST_NAMED
from volley.sizes import format_size
from volley.text import count, digits, harmless


def failed(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Name the cells whose data was wrong."""
    for sheet in sheets:
        yield from cells.failed(_place(sheet), sheet.cells, _ranks)


def skipped(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Say what was not measured, and why."""
    for sheet in sheets:
        yield from cells.skipped(_place(sheet), sheet.cells, _ranks)


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
    more = f" and {len(pairs) - MOST_NAMED} more" if len(pairs) > MOST_NAMED else ""
    return ", ".join(map(_arrow, pairs[:MOST_NAMED])) + more


def _ranks(pairs: Sequence[Pair]) -> str:
    return f"rank {_names(pairs)}"
