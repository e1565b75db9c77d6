"""PCIe links under load, and settings that may send traffic between GPUs through the root complex."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

from volley.machine import sysfs
from volley.machine.cuda_driver import CudaDriver
from volley.machine.facts import Bridge, IommuFacts, LoadedLink

_ACS_CAPABILITY, _ACS_CONTROL, _FIRST_EXTENDED = 0x000D, 6, 0x100
"""Extended capability and its control register (PCI Express Base Specification 7.7.12; Linux pci_regs.h)."""
_LOAD_S, _LOAD_BYTES = 0.3, 64 << 20


def pcie_load() -> list[LoadedLink]:
    """Read the state of each PCIe link during copies to its GPU: an idle link reduces its speed."""
    driver = CudaDriver()
    return [_loaded_link(driver, handle) for handle in driver.start()]


def _loaded_link(driver: CudaDriver, handle: int) -> LoadedLink:
    path = sysfs.ROOT / "bus/pci/devices" / driver.pci(handle)
    driver.retain(handle)
    target, source = driver.allocate(_LOAD_BYTES), ctypes.c_void_p()
    driver.call("cuMemAllocHost_v2", ctypes.byref(source), ctypes.c_size_t(_LOAD_BYTES))
    generations, widths = [0], [0]
    until = time.monotonic() + _LOAD_S
    while time.monotonic() < until:
        driver.call("cuMemcpyHtoDAsync_v2", target, source, ctypes.c_size_t(_LOAD_BYTES), None)
        generation, width = sysfs.link(path, "current")
        generations.append(generation or 0)
        widths.append(width or 0)
        driver.call("cuStreamSynchronize", None)
    driver.call("cuMemFreeHost", source)
    driver.call("cuMemFree_v2", target)
    return LoadedLink(pci=path.name, generation=max(generations) or None, width=max(widths) or None)


def iommu() -> IommuFacts:
    """Look for IOMMUs, and read the ACS control registers of the bridges above each GPU."""
    gpus = [path.resolve() for path in sysfs.pci_devices() if sysfs.kind_of(path) == "gpu"]
    above = {parent for path in gpus for parent in path.parents if (parent / "config").exists()}
    spaces = {path.name: _config(path) for path in sorted(above)}
    parameters = sysfs.word(Path("/proc/cmdline")).split()
    return IommuFacts(
        units=sysfs.names("class/iommu"),
        bridges=[Bridge(address=name, acs_control=acs_control(space)) for name, space in spaces.items()],
        readable=all(len(space) > _FIRST_EXTENDED for space in spaces.values()),
        parameters=[word for word in parameters if "iommu" in word or "acs" in word],
        types=sorted({sysfs.word(path / "iommu_group/type") for path in gpus} - {""}),
    )


def _config(path: Path) -> bytes:
    """Read a device's configuration space; without root the kernel shows its first 64 bytes."""
    try:
        return (path / "config").read_bytes()
    except OSError:
        return b""


def acs_control(space: bytes) -> int | None:
    """Find the ACS control register in a configuration space; ``None`` if there is none."""
    at, seen = _FIRST_EXTENDED, set[int]()
    while _FIRST_EXTENDED <= at <= len(space) - 8 and at not in seen:
        seen.add(at)
        header = int.from_bytes(space[at : at + 4], "little")
        if header & 0xFFFF == _ACS_CAPABILITY:
            return int.from_bytes(space[at + _ACS_CONTROL : at + _ACS_CONTROL + 2], "little")
        at = header >> 20
    return None
