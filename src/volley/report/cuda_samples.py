"""The sections of the CUDA sample p2pBandwidthLatencyTest, to the character, for who compares with it.

Source of titles and layout: NVIDIA, cuda-samples, Samples/5_Domain_Specific/p2pBandwidthLatencyTest.  GPUs are numbered
as CUDA numbers them, and a copy within a GPU counts twice, once read and once written, as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TextIO

from volley.records import Device, NodeCell, NodeGpus, NodeRow
from volley.records_io import RunLog
from volley.text import count, harmless

_TITLES = (
    ("uni/off", "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)"),
    ("uni", "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)"),
    ("uni/read", "Unidirectional P2P=Enabled Bandwidth (P2P Reads) Matrix (GB/s)"),
    ("bi/off", "Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)"),
    ("bi", "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)"),
)
_LATENCIES = (
    ("issue/off", "enqueue/off", "P2P=Disabled Latency Matrix (us)"),
    ("issue", "enqueue", "P2P=Enabled Latency (P2P Writes) Matrix (us)"),
)
_NOTE = (
    "***NOTE: In case a device doesn't have P2P access to other one, it falls back to normal memcopy procedure.",
    "So you can see lesser Bandwidth (GB/s) and unstable Latency (us) in those cases.",
)

Values = Mapping[tuple[str, str], float]
"""What to print for a pair of UUIDs."""


def render_cuda_samples(logs: list[RunLog], out: TextIO) -> list[str]:
    """Write the sections of every run that has some; return what a reader of them must know besides."""
    for log in logs:
        if log.node and log.node.devices:
            for line in _lines(log.node, log.node_rows):
                out.write(line + "\n")
    lost = sum(cell.status != "ok" for log in logs for row in log.node_rows for cell in row.cells)
    return [f"nan stands for {count(lost, 'cell')} without a number (--format csv says why)"] if lost else []


def _lines(node: NodeGpus, rows: list[NodeRow]) -> Iterator[str]:
    devices = node.devices
    yield "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"
    for number, device in enumerate(devices):
        yield f"Device: {number}, {harmless(device.name)}, {_pci(device)}"
    yield from _connectivity(node)
    for section, title in _TITLES:
        found = [row for row in rows if row.section == section]
        if found:
            yield title
            yield from _matrix("   D\\D", devices, _rates(found))
    for issue, enqueue, title in _LATENCIES:
        gpu, cpu = ([row for row in rows if row.section == section] for section in (issue, enqueue))
        if gpu and cpu:
            yield title
            yield from _matrix("   GPU", devices, _times(gpu))
            yield ""
            yield from _matrix("   CPU", devices, _times(cpu))


def _pci(device: Device) -> str:
    """The address in the sample's words, hexadecimal without leading zeros."""
    domain, bus, rest = [*device.pci.split(":"), "0", "0"][:3]
    numbers = [_plain_hex(part) for part in (bus, rest.partition(".")[0], domain)]
    return "pciBusID: {}, pciDeviceID: {}, pciDomainID:{}".format(*numbers)


def _plain_hex(text: str) -> str:
    try:
        return f"{int(text, 16):x}"
    except ValueError:
        return "0"


def _connectivity(node: NodeGpus) -> Iterator[str]:
    ends = range(len(node.devices))
    for first in ends:
        for second in ends:
            if first != second:
                can = "CAN" if node.can_access[first][second] else "CANNOT"
                yield f"Device={first} {can} Access Peer Device={second}"
    yield ""
    yield from _NOTE
    yield ""
    yield "P2P Connectivity Matrix"
    yield "     D\\D" + "".join(f"{end:6d}" for end in ends)
    for first in ends:
        yield f"{first:6d}\t" + "".join(f"{int(node.can_access[first][second]):6d}" for second in ends)


def _matrix(corner: str, devices: list[Device], values: Values) -> Iterator[str]:
    yield corner + "".join(f"{number:6d} " for number in range(len(devices)))
    for number, first in enumerate(devices):
        numbers = (values.get((first.uuid, second.uuid), float("nan")) for second in devices)
        yield f"{number:6d} " + "".join(f"{value:6.02f} " for value in numbers)


def _measured(rows: list[NodeRow]) -> Iterator[tuple[NodeRow, NodeCell, float]]:
    return ((row, cell, cell.median_s) for row in rows for cell in row.cells if cell.median_s is not None)


def _rates(rows: list[NodeRow]) -> Values:
    found = {}
    for row, cell, time_s in _measured(rows):
        ways = (2 if row.direction == "bi" else 1) * (2 if row.gpu == cell.gpu else 1)
        found[row.gpu or "", cell.gpu] = row.size_bytes * row.window * ways / time_s / 1e9
    return found


def _times(rows: list[NodeRow]) -> Values:
    return {(row.gpu or "", cell.gpu): time_s * 1e6 for row, cell, time_s in _measured(rows)}
