"""The matrices of a node for people: sections side by side, GPUs in rows and columns, coloured like a map of heat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from volley import stats
from volley.blame import Pair
from volley.machine.line_rate import described
from volley.nodes import HOST, WITHIN, Sheet
from volley.records import NodeRow
from volley.report.layout import Column, Group, print_groups
from volley.sizes import format_size
from volley.text import count, digits, harmless

_HEAT = ((0.96, "green"), (0.8, ""), (0.5, "yellow"), (0.0, "red"))
"""How a cell is shown by what it is of the best between two ends of its matrix: from this fraction on."""

_MOVED = {
    ("copy engine", "write"): "copies",
    ("copy engine", "read"): "copies, read",
    ("kernel", "write"): "kernel's stores",
    ("kernel", "read"): "kernel's loads",
}
_LATENCIES = {
    "completion": "one small copy",
    "issue": "copies, issue",
    "enqueue": "copies, enqueue",
    "store": "kernel's store",
    "load": "kernel's load",
}


def title(row: NodeRow) -> str:
    """Name a section in a few words: ``copies both ways, peer access off``."""
    if row.ends != "gpus":
        return row.ends.replace("gpu", "GPU")
    name = _MOVED[row.mover, row.way] if row.figure == "bandwidth" else _LATENCIES[row.figure]
    both = " both ways" if row.direction == "bi" else ""
    access = "" if row.mover == "kernel" else f", peer access {'on' if row.peer_access else 'off'}"
    return f"{name}{both}{access}"


def unit(row: NodeRow) -> str:
    """The unit of what is shown."""
    return "GB/s" if row.figure == "bandwidth" else "µs"


def shown(sheet: Sheet, pair: Pair) -> float | None:
    """The number to show for a pair, in that unit; ``None`` where there is none."""
    rate, time_s = sheet.rate_Bps(pair), sheet.time_s(pair)
    if sheet.row.figure == "bandwidth":
        return None if rate is None else rate / 1e9
    return None if time_s is None else time_s * 1e6


def print_node(console: Console, sheets: Sequence[Sheet]) -> None:
    """Print all sections: what has one unit and the same rows stands side by side as far as the width allows."""
    for ends, of, what in (
        ("gpus", "GB/s", "bandwidth in GB/s"),
        ("gpus", "µs", "latency in µs"),
        ("host", "GB/s", "bandwidth between host and GPU in GB/s"),
    ):
        those = [sheet for sheet in sheets if unit(sheet.row) == of and (sheet.row.ends == "gpus") == (ends == "gpus")]
        if not those:
            continue
        console.print()
        console.print(Text(what, style="bold"), soft_wrap=True)
        names = ["host" if first == HOST else str(first) for first in those[0].firsts]
        print_groups(console, "GPU" if ends == "gpus" else "", names, [_group(sheet) for sheet in those])
        legend = _legend(those, coloured=console.color_system is not None)
        for line in (*(line for sheet in those for line in _kinds(sheet)), legend):
            console.print(Text(line, style="dim"), soft_wrap=not console.is_terminal)


def _group(sheet: Sheet) -> Group:
    best = _best(sheet)
    columns = []
    for second in sheet.gpus:
        pairs = [(first, second) for first in sheet.firsts]
        columns.append(
            Column([str(second)], [_cell(sheet, pair) for pair in pairs], [_style(sheet, pair, best) for pair in pairs])
        )
    return Group(columns, title(sheet.row))


def _best(sheet: Sheet) -> float | None:
    """The shortest time between two ends."""
    times = [time for pair in sheet.cells if pair[0] != pair[1] and (time := sheet.time_s(pair)) is not None]
    return min(times, default=None)


def _cell(sheet: Sheet, pair: Pair) -> str:
    number = shown(sheet, pair)
    cell = sheet.cells.get(pair)
    if number is None:
        return "" if cell is None else "FAILED" if cell.status == "failed" else "–"
    return digits(number, 3)


def _style(sheet: Sheet, pair: Pair, best: float | None) -> str:
    """Colour repeats what the numbers say."""
    cell, time_s = sheet.cells.get(pair), sheet.time_s(pair)
    if cell is not None and cell.status == "failed":
        return "bold red"
    if time_s is None or best is None or pair[0] == pair[1]:
        return "dim"
    return next(style for least, style in _HEAT if best / time_s >= least)


def _kinds(sheet: Sheet) -> Iterator[str]:
    """One line a kind of pairs with what it reaches of its ceiling."""
    for kind in dict.fromkeys(sheet.kinds.values()):
        pairs = [pair for pair, its in sheet.kinds.items() if its == kind and sheet.time_s(pair) is not None]
        if kind == WITHIN or not pairs:
            continue
        values = [number for pair in pairs if (number := shown(sheet, pair)) is not None]
        low, high = digits(min(values), 3), digits(max(values), 3)
        spread = f"{low} to {high}" if low != high else low
        what = f"median {digits(stats.median(values), 3)}, " if len(values) > 2 else ""
        yield f"{title(sheet.row)}: {count(len(pairs), 'pair')}, {what}{spread} {unit(sheet.row)}{_share(sheet, pairs)}"


def _share(sheet: Sheet, pairs: Sequence[Pair]) -> str:
    shares = [share for pair in pairs if (share := sheet.of_ceiling(pair))]
    if not shares:
        return ""
    low, high = digits(min(shares) * 100, 2), digits(max(shares) * 100, 2)
    of = "twice the ceiling of" if sheet.row.direction == "bi" else "the ceiling of"
    return f", {low if low == high else f'{low} to {high}'} % of {of} {described(sheet.ceilings[pairs[0]])}"


def _legend(sheets: Sequence[Sheet], *, coloured: bool) -> str:
    """Say what rows and columns are, what colours mean where there are any, and what the numbers are of."""
    parts = []
    if sheets[0].row.ends == "gpus":
        parts.append("rows: the GPU that drives, columns: the other one; diagonal: within one GPU")
    if coloured:
        good, fair, poor = (f"{least * 100:.0f} %" for least, _ in _HEAT[:3])
        parts.append(f"green: from {good} of the best pair, yellow: below {fair}, red: below {poor}")
    if unit(sheets[0].row) == "GB/s":
        sizes = sorted({sheet.row.size_bytes for sheet in sheets})
        parts.append(f"messages of {' and '.join(map(format_size, sizes))}, each byte counted once; GB/s: 10^9 B/s")
    else:
        said = {
            "completion": "one small copy: until the host sees its end",
            "issue": "issue: from one to the next of many that are enqueued",
            "enqueue": "enqueue: the host's call",
            "store": "store: half a round trip",
            "load": "load: each waits for the last",
        }
        parts += [said[name] for name in dict.fromkeys(sheet.row.figure for sheet in sheets)]
    checked = [cell.messages_verified > 0 for sheet in sheets for cell in sheet.cells.values() if cell.status == "ok"]
    if checked and all(checked):
        parts.append("all verified")
    return "; ".join(parts)


def gpu_lines(numbers: dict[str, int], devices: Sequence[tuple[int, str, str]]) -> Iterator[str]:
    """Say which GPU has which number: ``GPU 0: NVIDIA H200 GPU-… (CUDA's 1)``."""
    for index, name, uuid in sorted(devices, key=lambda device: numbers[device[2]]):
        other = "" if numbers[uuid] == index else f" (CUDA's {index})"
        yield f"GPU {numbers[uuid]}: {harmless(name)} {harmless(uuid)}{other}"
