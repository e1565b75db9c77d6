"""From the rows of a node's matrices to what reports show: one sheet a section, kinds of pairs, and who stands out.

All quantities are in SI units: seconds and bytes per second.
"""

# GB/s and B/s keep their capital letter in names.
# ruff: noqa: N802

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from volley import blame
from volley.blame import Pair, Standing
from volley.machine.line_rate import LineRate, Route, between
from volley.records import Device, NodeCell, NodeRow
from volley.records_io import RunLog

HOST = -1
"""Stands for the host where a GPU's number would stand."""

HOSTED = frozenset({"host-to-gpu", "gpu-to-host"})
"""Sections with the host at one end: they have one row, and not one for each GPU."""

WITHIN = "within a GPU"


@dataclass(frozen=True)
class Sheet:
    """One section: one figure between all GPUs of a node, or between them and the host."""

    row: NodeRow
    """The first of its rows, for what all have in common."""
    gpus: tuple[int, ...]
    cells: Mapping[Pair, NodeCell]
    kinds: Mapping[Pair, str]
    """Pairs of one kind are compared."""
    ceilings: Mapping[Pair, LineRate] = field(default_factory=dict)
    standings: Mapping[Pair, Standing] = field(default_factory=dict)
    suspects: tuple[Standing, ...] = ()
    """Those that stand out with the whole of their interval."""

    @property
    def firsts(self) -> tuple[int, ...]:
        """The ends that have a row."""
        return self.gpus if self.row.ends == "gpus" else (HOST,)

    def time_s(self, pair: Pair) -> float | None:
        """What the figure says of a pair, in seconds."""
        cell = self.cells.get(pair)
        return cell.median_s if cell else None

    def rate_Bps(self, pair: Pair) -> float | None:
        """The bandwidth of a pair, both ways together; each byte counts once, within a GPU too."""
        time_s = self.time_s(pair)
        if time_s is None or self.row.figure != "bandwidth":
            return None
        return self.row.size_bytes * self.row.window * (2 if self.row.direction == "bi" else 1) / time_s

    def of_ceiling(self, pair: Pair) -> float | None:
        """The bandwidth as a fraction of what the hardware allows."""
        rate, most = self.rate_Bps(pair), self.ceilings.get(pair)
        return rate / most.of(self.row.direction) if rate and most else None


def numbers(logs: Sequence[RunLog]) -> dict[str, int]:
    """Number the GPUs of a run by UUID, whatever CUDA_VISIBLE_DEVICES made of their order.

    The numbers are NVML's where they are known; else PCI addresses are counted.
    """
    devices = devices_of(logs)
    known = {gpu.uuid: gpu.index for log in logs for record in log.hardware for gpu in record.gpus}
    if all(device.uuid in known for device in devices):
        return {device.uuid: known[device.uuid] for device in devices}
    ordered = sorted({device.uuid: device for device in devices}.values(), key=lambda device: device.pci)
    return {device.uuid: number for number, device in enumerate(ordered)}


def devices_of(logs: Sequence[RunLog]) -> list[Device]:
    """Return the GPUs of the first run that has some, in CUDA's order."""
    return next((log.node.devices for log in logs if log.node and log.node.devices), [])


def sheets(logs: Sequence[RunLog]) -> tuple[Sheet, ...]:
    """Return the sections of a run, in the order in which they were measured; of several runs, those of the last."""
    label = numbers(logs)
    found: dict[str, list[NodeRow]] = {}
    for log in logs:
        latest: dict[str, list[NodeRow]] = {}
        for row in log.node_rows:
            latest.setdefault(row.section, []).append(row)
        found.update(latest)
    return tuple(_sheet(rows, label, logs) for rows in found.values())


def _sheet(rows: Sequence[NodeRow], label: Mapping[str, int], logs: Sequence[RunLog]) -> Sheet:
    gpus = dict(label)
    for uuid in (each for row in rows for each in (row.gpu, *(cell.gpu for cell in row.cells)) if each is not None):
        gpus.setdefault(uuid, len(gpus))  # of a run whose record of GPUs is missing
    cells: dict[Pair, NodeCell] = {}
    ceilings: dict[Pair, LineRate] = {}
    for row in rows:
        for cell in row.cells:
            pair = (HOST if row.gpu is None else gpus[row.gpu], gpus[cell.gpu])
            cells[pair] = cell
            if most := _ceiling(row, cell, logs):
                ceilings[pair] = most
    kinds = {pair: _kind(pair, cell, ceilings.get(pair)) for pair, cell in cells.items()}
    shown = tuple(sorted({end for pair in cells for end in pair if end != HOST}))
    return _judged(Sheet(rows[0], shown, cells, kinds, ceilings))


def _ceiling(row: NodeRow, cell: NodeCell, logs: Sequence[RunLog]) -> LineRate | None:
    """Without peer access CUDA copies through the host, and so it is with the host at one end."""
    if row.gpu == cell.gpu:
        return None
    way: Route = "direct" if cell.peer_access else "staged"
    found = (between(way, (row.gpu or cell.gpu, cell.gpu), log.hardware) for log in logs if log.hardware)
    return next((each for each in found if each), None)


def _kind(pair: Pair, cell: NodeCell, most: LineRate | None) -> str:
    if pair[0] == pair[1]:
        return WITHIN
    way = "host" if pair[0] == HOST else "peer access" if cell.peer_access else "through the host"
    return f"{way}, {most.over} {most.words}" if most else way


def _judged(sheet: Sheet) -> Sheet:
    """Add who stands out.  A pair is named only where its whole interval does."""
    times = {pair: cell.median_s for pair, cell in sheet.cells.items() if cell.median_s is not None}
    kinds = {pair: kind for pair, kind in sheet.kinds.items() if pair in times}
    standings = blame.standings(times, kinds)
    out = []
    for each in blame.suspects(standings, standings, kinds):
        cell = sheet.cells[each.pair]
        if cell.low_s is not None and each.ratio * cell.low_s / times[each.pair] > blame.BLAME_FROM:
            out.append(each)
    return Sheet(sheet.row, sheet.gpus, sheet.cells, sheet.kinds, sheet.ceilings, standings, tuple(out))
