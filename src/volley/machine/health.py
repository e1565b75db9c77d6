"""Faults of GPUs and their links, as NVML describes them at one moment: pure functions for every tool that judges.

A GPU is compared with the others of its product on the same machine: what one of them lacks is a fault of that one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from volley.machine.hardware import SLOWDOWNS, Gpu
from volley.text import count, join_words

Part = Literal["NVLink", "PCIe", "memory", "clocks", "driver"]
End = Literal["reset", "replace", "reset clocks", "power limit", "reboot", "look"]

XIDS: dict[int, tuple[str, End]] = {
    48: ("a memory error that ECC could not correct", "reset"),
    62: ("a controller of the GPU halted", "reset"),
    63: ("a row of memory is remapped at the next reset", "reset"),
    64: ("the remapping of a row of memory failed", "replace"),
    74: ("an NVLink error", "look"),
    79: ("the GPU fell off the bus", "reboot"),
    92: ("many memory errors that ECC corrected", "look"),
    94: ("a memory error that ended one program", "reset"),
    95: ("a memory error that reached other processes", "reset"),
    119: ("the GPU's system processor (GSP) did not answer", "reset"),
    120: ("the GPU's system processor (GSP) failed", "reset"),
    140: ("a memory error that ECC could not correct", "reset"),
    143: ("the GPU did not start", "reset"),
    **dict.fromkeys(range(144, 151), ("an NVLink error", "look")),
    154: ("the driver asks for a reset of the GPU, or a restart of the machine", "look"),
    158: ("the GPU ended with a fatal error", "reset"),
}
"""Errors of the hardware, and what ends each (NVIDIA, GPU Deployment and Management: Xid Errors).  The others are those
of programs, or say less."""

_ON_A_BOARD = re.compile(r"SXM|HBM3|\b(H200|H800|H20|B200|B300|GB200|GB300)$")
"""Products whose NVLinks a board connects to other GPUs: the names of NVML.  Those of an A100 PCIe, an H100 NVL or a
workstation's card need a bridge, which connects some of them; those of a GH200 are for other nodes."""
C2C = re.compile(r"\b(GH200|GB200|GB300|GB10)\b")
"""Products whose processor is joined by NVLink-C2C; their PCIe link carries none of the data (NVIDIA, Grace Hopper
Superchip Architecture)."""
_SETTINGS = ("applications clocks setting", "display clock setting", "sync boost")
"""NVML's reasons for clocks that somebody set."""
_HELD_BELOW = 0.5
"""Defaults of products are higher parts of their largest clock than this, but for a T4, which reports ``idle``."""
_ALIKE = 0.05
"""Limits of power that differ by less are of one product; somebody set a lower one (``nvidia-smi -pl``)."""
_USUAL = {"NVLink recovery errors": 10, "PCIe replays": 1_000_000}
_USUAL_ERRORS, _TIMES = 10_000, 10
"""Links recover a few times when they are trained; corrected errors are counted on every link and in every memory, and
PCIe sends again what a busy link loses.  More than so many, and more than so many times those of every other GPU, are
of this one."""


@dataclass(frozen=True)
class GpuFault:
    part: Part
    gpu: int | str
    """Its number, as NVML counts; or its PCI address, where NVML does not list it."""
    said: str
    broken: bool = False
    """The hardware is at fault; else it works, but not as well as it could."""
    end: End = "look"
    """What ends it."""


def nvlinks_down(gpus: Sequence[Gpu]) -> dict[int, int]:
    """Return how many NVLinks that should be active are not, by the index of the GPU.

    A board connects all links of its GPUs where there are several.  Bridges are the user's, and connect some: as many
    as those of the other GPUs of the same product.
    """
    active = {gpu.index: len(gpu.nvlinks or ()) for gpu in gpus}
    boards = {gpu.index for gpu in gpus if _ON_A_BOARD.search(gpu.name or "")}
    expected = {
        gpu.index: active[gpu.index] + gpu.nvlinks_inactive
        if gpu.index in boards and len(boards) > 1
        else max(active[other.index] for other in gpus if other.name == gpu.name)
        for gpu in gpus
    }
    return {index: want - active[index] for index, want in expected.items() if active[index] < want}


def faults(gpus: Sequence[Gpu]) -> list[GpuFault]:
    """Return what is wrong with GPUs, part by part; what NVML did not say is no fault."""
    narrow = [
        GpuFault("PCIe", gpu.index, f"{gpu.pcie_width} of {gpu.pcie_width_max} lanes", broken=True)
        for gpu in gpus
        if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max
    ]
    return [*_of_links(gpus), *narrow, *_of_memory(gpus), *_of_counts(gpus), *_of_clocks(gpus)]


def of_xids(xids: Iterable[tuple[str, int]], gpus: Sequence[Gpu]) -> Iterator[GpuFault]:
    """Yield the errors of the hardware that the driver wrote down, by PCI address and number.

    Some may have ended with a reset since then; a GPU that fell off the bus, or has no rows left, is still broken.
    """
    index = {gpu.pci: gpu.index for gpu in gpus}
    for (pci, number), times in Counter(xids).items():
        if number in XIDS:
            said, end = XIDS[number]
            broken = end in ("reboot", "replace")
            yield GpuFault("driver", index.get(pci, pci), f"Xid {number}, {count(times, 'time')}: {said}", broken, end)


def _of_links(gpus: Sequence[Gpu]) -> Iterator[GpuFault]:
    total = {gpu.index: len(gpu.nvlinks or ()) + gpu.nvlinks_inactive for gpu in gpus}
    down = nvlinks_down(gpus)
    boards = [gpu for gpu in gpus if _ON_A_BOARD.search(gpu.name or "") and "nvlinks" not in gpu.unread]
    for gpu in gpus:
        most = max(total[other.index] for other in gpus if other.name == gpu.name)
        if total[gpu.index] == 0 < most and "nvlinks" not in gpu.unread:
            yield GpuFault("NVLink", gpu.index, f"reports no NVLink, and others of its kind have {most}", broken=True)
        elif total[gpu.index] and gpu.index in down:
            yield GpuFault("NVLink", gpu.index, f"{down[gpu.index]} of {total[gpu.index]} down", broken=True)
        elif most == 0 and gpu in boards and len(boards) > 1:
            yield GpuFault("NVLink", gpu.index, f"{gpu.name} has NVLinks on its board, and the driver reports none")


def _of_counts(gpus: Sequence[Gpu]) -> Iterator[GpuFault]:
    """Yield what one GPU has counted far more often than the others."""
    counted = [_counts(gpu) for gpu in gpus]
    for gpu, counts in zip(gpus, counted, strict=True):
        for what, number in counts.items():
            most = max((each.get(what, 0) for each in counted if each is not counts), default=0)
            if number > max(_USUAL.get(what, _USUAL_ERRORS), _TIMES * most):
                part: Part = "NVLink" if "NVLink" in what else "PCIe" if "PCIe" in what else "memory"
                yield GpuFault(part, gpu.index, f"{number} {what}, at most {most} on others")


def _counts(gpu: Gpu) -> dict[str, int]:
    links = {f"NVLink {kind} errors": number for kind, number in (gpu.nvlink_errors or {}).items()}
    others = {"PCIe replays": gpu.pcie_replays or 0, "memory errors that ECC corrected": gpu.ecc_corrected or 0}
    return links | others


def _of_memory(gpus: Sequence[Gpu]) -> Iterator[GpuFault]:
    for gpu in gpus:
        if gpu.row_remapping == "failed":
            said = "the remapping of a row of memory failed"
            yield GpuFault("memory", gpu.index, said, broken=True, end="replace")
        elif gpu.row_remapping == "pending":
            yield GpuFault("memory", gpu.index, "a row of memory is remapped at the next reset", end="reset")
        if gpu.ecc_uncorrected:
            said = f"{gpu.ecc_uncorrected} memory errors that ECC could not correct"
            yield GpuFault("memory", gpu.index, said, broken=True, end="reset")


def _of_clocks(gpus: Sequence[Gpu]) -> Iterator[GpuFault]:
    for gpu in gpus:
        reasons = gpu.clocks_event_reasons or ()
        most_w = max((each.power_limit_w or 0.0 for each in gpus if each.name == gpu.name), default=0.0)
        if gpu.power_limit_w and gpu.power_limit_w < most_w * (1.0 - _ALIKE):
            said = f"limited to {gpu.power_limit_w:.0f} W, others of its kind to {most_w:.0f} W"
            yield GpuFault("clocks", gpu.index, said, end="power limit")
        if slow := join_words(reason for reason in reasons if reason in SLOWDOWNS):
            yield GpuFault("clocks", gpu.index, slow)
        most, now = gpu.sm_clock_max_hz, gpu.sm_clock_hz
        held = [reason for reason in reasons if reason in _SETTINGS]
        if gpu.sm_clock_set_hz and gpu.sm_clock_default_hz and gpu.sm_clock_set_hz < gpu.sm_clock_default_hz:
            now, most, held = gpu.sm_clock_set_hz, gpu.sm_clock_default_hz, held or [_SETTINGS[0]]
        elif not (held and most and now and "idle" not in reasons and now < _HELD_BELOW * most):
            continue
        said = f"held at {now / 1e6:.0f} of {most / 1e6:.0f} MHz by a setting ({join_words(held)})"
        yield GpuFault("clocks", gpu.index, said, end="reset clocks")
