"""Matrices for people: numbers aligned, colour for how a pair stands among its like, kinds of pairs below."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from volley import stats
from volley.blame import SUSPECT_FROM, Pair
from volley.matrices import KINDS, Sheet
from volley.report.layout import Column, Group, print_groups
from volley.sizes import format_size
from volley.text import count, digits, harmless

_FAR = 1.25
"""From here on a pair is shown in red: a quarter more than its like is no matter of placement within a socket."""

_DIAGONAL = "·"


def print_matrix(console: Console, sheet: Sheet) -> None:
    """Print one matrix: the row's rank is the first of the pair (it sends), the column's the second."""
    console.print()
    console.print(Text(title(sheet), style="bold"), soft_wrap=True)
    groups = [Group([_column(sheet, second)]) for second in sheet.ranks]
    print_groups(console, "rank", [str(rank) for rank in sheet.ranks], groups)
    for line in (*_kinds(sheet), _legend(sheet, coloured=console.color_system is not None)):
        console.print(Text(line, style="dim"), soft_wrap=not console.is_terminal)


def title(sheet: Sheet) -> str:
    """Name a matrix and its unit: ``host, 8 B: latency in µs, one pair at a time``."""
    how = "one pair at a time" if sheet.mode == "isolated" else "all ranks busy"
    both = " of both directions together" if sheet.direction == "bi" else ""
    what = f"{_quantity(sheet)}{both} in {unit(sheet)}"
    return f"{harmless(sheet.transport)}, {format_size(sheet.size_bytes)}: {what}, {how}"


def _quantity(sheet: Sheet) -> str:
    if sheet.exercise == "pingpong":
        return "latency"
    return "bandwidth" if sheet.moves else "time of a window"


def unit(sheet: Sheet) -> str:
    """The unit of what is shown."""
    return "GB/s" if sheet.exercise == "stream" and sheet.moves else "µs"


def shown(sheet: Sheet, pair: Pair) -> float | None:
    """The number to show for a pair, in that unit; ``None`` where there is none."""
    rate = sheet.rate_Bps(pair)
    if sheet.exercise == "stream" and sheet.moves:
        return None if rate is None else rate / 1e9
    time_s = sheet.times.get(pair)
    return None if time_s is None else time_s * 1e6


def _column(sheet: Sheet, second: int) -> Column:
    pairs = [(first, second) for first in sheet.ranks]
    return Column([str(second)], [_cell(sheet, pair) for pair in pairs], [_style(sheet, pair) for pair in pairs])


def _cell(sheet: Sheet, pair: Pair) -> str:
    if pair[0] == pair[1]:
        return _DIAGONAL
    number = shown(sheet, pair)
    if number is not None:
        return digits(number, 3)
    cell = sheet.cells.get(pair)
    return "" if cell is None else "FAILED" if cell.status == "failed" else "–"


def _style(sheet: Sheet, pair: Pair) -> str:
    """Colour repeats what the numbers and the sentences say: how far a pair is from its like."""
    cell, standing = sheet.cells.get(pair), sheet.standings.get(pair)
    if cell is not None and cell.status == "failed":
        return "bold red"
    if standing is None:
        return "dim" if pair not in sheet.times else ""
    verdict = sheet.verdict(pair)
    if standing.ratio > SUSPECT_FROM and verdict is not None and not verdict.blamed:
        return ""  # measured again, it does not stand out
    if standing.ratio > _FAR:
        return "red"
    return "yellow" if standing.ratio > SUSPECT_FROM else "green" if standing.ratio < 1 / SUSPECT_FROM else ""


def _kinds(sheet: Sheet) -> Iterator[str]:
    """One line a kind of pairs: ``same socket: 12 pairs, median 0.31 µs, 0.30 to 0.35 µs``."""
    for kind in (*KINDS, "unknown"):
        found = [shown(sheet, pair) for pair, its in sheet.kinds.items() if its == kind and pair in sheet.times]
        numbers = [number for number in found if number is not None]
        if numbers:
            low, high = digits(min(numbers), 3), digits(max(numbers), 3)
            middle = f"median {digits(stats.median(numbers), 3)}, {low} to {high} {unit(sheet)}"
            yield f"{kind}: {count(len(numbers), 'pair')}, {middle}{_share(sheet, kind)}"


def _share(sheet: Sheet, kind: str) -> str:
    shares = [share for pair, its in sheet.kinds.items() if its == kind and (share := sheet.of_ceiling(pair))]
    if not shares or sheet.exercise != "stream":
        return ""
    return f", {digits(min(shares) * 100, 2)} to {digits(max(shares) * 100, 2)} % of the ceiling"


def _legend(sheet: Sheet, *, coloured: bool) -> str:
    parts = ["rows: first rank, columns: second"]
    if coloured:
        slow, far = (f"{(limit - 1) * 100:.0f}" for limit in (SUSPECT_FROM, _FAR))
        parts.append(f"yellow and red: over {slow} and {far} % slower than like pairs, green: faster")
    if sheet.exercise == "pingpong":
        parts.append("latency: half round trip")
    if unit(sheet) == "GB/s":
        parts.append("GB/s: 10^9 B/s")
    checked = [cell.messages_verified > 0 for cell in sheet.cells.values() if cell.status == "ok"]
    if sheet.moves and checked and all(checked):
        parts.append("all verified")
    return "; ".join(parts)
