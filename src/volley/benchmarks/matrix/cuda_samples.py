"""The sections of the CUDA sample p2pBandwidthLatencyTest, to the character, for people who compare with it.

Source of titles and layout: NVIDIA, cuda-samples, Samples/5_Domain_Specific/p2pBandwidthLatencyTest.  GPUs are numbered
as CUDA numbers them, and a copy within a GPU counts twice, once read and once written, as there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TextIO

from volley.benchmarks.matrix.cases import GpuMatrixCase
from volley.benchmarks.matrix.results import MatrixResults
from volley.benchmarks.matrix.slow_pairs import Pair
from volley.machine.hardware import Device
from volley.text import count, escape_controls, join_words

_BANDWIDTHS = (
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


def render(results: Sequence[MatrixResults], out: TextIO) -> list[str]:
    """Write the sections of each series that has GPUs; return notes about missing sections and cells."""
    for each in results:
        if each.gpus.devices:
            for line in _lines(each):
                out.write(line + "\n")
    lost = sum(cell.status != "ok" for each in results for case in each.gpu_cases for cell in case.cells.values())
    notes = [f"nan stands for {count(lost, 'cell')} without a number (--format csv says why)"] if lost else []
    measured = {case.row.section for each in results for case in each.gpu_cases}
    missing = [title for *needed, title in (*_BANDWIDTHS, *_LATENCIES) if not measured.issuperset(needed)]
    if missing:
        again = "volley matrix --format cuda-samples measures all sections"
        notes.append(f"not measured, so without a section: {join_words(missing)}; {again}")
    return notes


def _lines(results: MatrixResults) -> Iterator[str]:
    numbers = [results.numbers[device.uuid] for device in results.gpus.devices]
    yield "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"
    for index, device in enumerate(results.gpus.devices):
        yield f"Device: {index}, {escape_controls(device.name)}, {_pci(device)}"
    yield from _connectivity(results, numbers)
    cases = {case.row.section: case for case in results.gpu_cases}
    for section, title in _BANDWIDTHS:
        if section in cases:
            yield title
            yield from _matrix("   D\\D", numbers, cases[section])
    for issue, enqueue, title in _LATENCIES:
        if issue in cases and enqueue in cases:
            yield title
            yield from _matrix("   GPU", numbers, cases[issue])
            yield ""
            yield from _matrix("   CPU", numbers, cases[enqueue])


def _pci(device: Device) -> str:
    """The address in the sample's words, hexadecimal without leading zeros."""
    parts = re.fullmatch(r"([0-9a-f]+):([0-9a-f]+):([0-9a-f]+).*", device.pci, re.IGNORECASE)
    domain, bus, number = (int(part, 16) for part in parts.groups()) if parts else (0, 0, 0)
    return f"pciBusID: {bus:x}, pciDeviceID: {number:x}, pciDomainID:{domain:x}"


def _connectivity(results: MatrixResults, numbers: Sequence[int]) -> Iterator[str]:
    for index, first in enumerate(numbers):
        for other, second in enumerate(numbers):
            if first != second:
                can = "CAN" if results.access.get((first, second)) else "CANNOT"
                yield f"Device={index} {can} Access Peer Device={other}"
    yield ""
    yield from _NOTE
    yield ""
    yield "P2P Connectivity Matrix"
    yield "     D\\D" + "".join(f"{index:6d}" for index in range(len(numbers)))
    for index, first in enumerate(numbers):
        cells = (bool(results.access.get((first, second))) for second in numbers)
        yield f"{index:6d}\t" + "".join(f"{can:6d}" for can in cells)


def _matrix(corner: str, numbers: Sequence[int], case: GpuMatrixCase) -> Iterator[str]:
    yield corner + "".join(f"{index:6d} " for index in range(len(numbers)))
    for index, first in enumerate(numbers):
        yield f"{index:6d} " + "".join(f"{_value(case, (first, second)):6.02f} " for second in numbers)


def _value(case: GpuMatrixCase, pair: Pair) -> float:
    """GB/s, twice those of a copy within a GPU, or µs; not a number where there is none."""
    shown = case.shown(pair)
    if shown is None:
        return float("nan")
    return 2 * shown if case.shows_rate and pair[0] == pair[1] else shown
