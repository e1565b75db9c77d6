"""What must be said of a node's matrices in words: what failed, what was left out and why, which pairs stand out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley import blame, nodes
from volley.blame import Pair, Standing
from volley.nodes import HOST, Sheet
from volley.records_io import RunLog
from volley.report import cells
from volley.report.node import title
from volley.text import count, digits, harmless, several


def failed(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Name the cells whose data was wrong, or that hung."""
    for sheet in sheets:
        yield from cells.failed(title(sheet.row), sheet.cells, _names)


def missing(sheets: Sequence[Sheet], logs: Sequence[RunLog]) -> Iterator[str]:
    """Say what there is none of, what was not measured, and why."""
    for log in logs:
        if log.node and log.node.reason:
            yield f"no GPU can be used: {harmless(log.node.reason)}; --transport host measures between ranks"
    devices = nodes.devices_of(logs)
    if len(devices) == 1:
        if "MIG" in devices[0].name.split():
            yield "one slice of a GPU (MIG): CUDA gives a process one slice and no peer access, so there are no pairs"
        else:
            yield "one GPU: there are no pairs, and all matrices are 1 × 1"
    yield from _apart(logs)
    for sheet in sheets:
        yield from cells.skipped(title(sheet.row), sheet.cells, _names)


def _apart(logs: Sequence[RunLog]) -> Iterator[str]:
    """Name the pairs without peer access."""
    label = nodes.numbers(logs)
    for log in logs[:1]:
        if log.node is None:
            continue
        ends = [label[device.uuid] for device in log.node.devices]
        pairs = [
            (ends[first], ends[second])
            for first, row in enumerate(log.node.can_access)
            for second, can in enumerate(row)
            if not can
        ]
        if pairs:
            named = cells.named(pairs, _names)
            yield f"no peer access is possible: {named}; CUDA's copies between them go through the host in any section"


def findings(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Name the pairs that stand out from their like."""
    for sheet in sheets:
        for kind, many in blame.uneven(sheet.standings, sheet.kinds).items():
            yield (
                f"{title(sheet.row)}: {count(many, 'pair')} of the kind {harmless(kind)} took over "
                f"{digits((blame.SUSPECT_FROM - 1) * 100, 2)} % longer than like pairs: this kind is uneven"
            )
        for suspect in sheet.suspects:
            yield f"{title(sheet.row)}: {_arrow(suspect.pair)} {_slow(sheet, suspect)}"


def _slow(sheet: Sheet, suspect: Standing) -> str:
    like = count(suspect.like, "like link") if suspect.pair[0] != suspect.pair[1] else count(suspect.like, "like GPU")
    if sheet.row.figure == "bandwidth":
        return f"reaches {digits(100 / suspect.ratio, 2)} % of what its {like} reach"
    return f"takes {digits(suspect.ratio, 3)} times as long as its {like}"


def _arrow(pair: Pair) -> str:
    first, second = pair
    if first == HOST:
        return f"GPU {second}"
    return f"within GPU {first}" if first == second else f"GPU {first} → {second}"


def _names(pairs: Sequence[Pair]) -> str:
    return several(map(_arrow, pairs))
