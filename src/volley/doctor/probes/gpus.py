"""GPUs on the PCI bus, in NVML, and on their PCIe links while these are busy."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from volley.doctor.facts import Bridge, Bus, Iommu, LoadedLink, NvLink, Nvml, NvmlDevice, PciDevice
from volley.doctor.isolate import Skip
from volley.doctor.probes.cuda import Api, sysfs_address
from volley.machine.nvml import PEER_CAPS, PEER_STATUS, REMOTES, line_rates

_DEVICES = Path("/sys/bus/pci/devices")
_NVIDIA, _DISPLAY = "0x10de", "0x03"
"""Vendor, and the class of display controllers (PCI Code and ID Assignment Specification)."""
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
"""GT/s of a lane, as sysfs writes them, to the PCIe generation."""
_ACS_CAPABILITY, _ACS_CONTROL, _FIRST_EXTENDED = 0x000D, 6, 0x100
"""Extended capability and its control register (PCI Express Base Specification 7.7.12; Linux pci_regs.h)."""
_LOAD_S, _LOAD_BYTES = 0.3, 64 << 20

T = TypeVar("T")


def bus() -> Bus:
    """Walk sysfs for NVIDIA display controllers and RDMA devices."""
    found = [path for path in sorted(_DEVICES.glob("*")) if _is_gpu(path)]
    return Bus(gpus=[_pci_device(path) for path in found], infiniband=_names("/sys/class/infiniband"))


def _is_gpu(path: Path) -> bool:
    return _word(path / "vendor") == _NVIDIA and _word(path / "class").startswith(_DISPLAY)


def _pci_device(path: Path) -> PciDevice:
    driver = path / "driver"
    node = _word(path / "numa_node")
    return PciDevice(
        address=path.name,
        device_id=_word(path / "device"),
        driver=driver.resolve().name if driver.exists() else None,
        generation_max=_generation(path / "max_link_speed"),
        width_max=_width(path / "max_link_width"),
        numa_node=int(node) if node.isdecimal() else None,  # -1: the firmware does not say
    )


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).glob("*"))


def _generation(path: Path) -> int | None:
    return _GENERATIONS.get(_word(path).partition(" ")[0])


def _width(path: Path) -> int | None:
    word = _word(path)
    return int(word) if word.isdecimal() and int(word) > 0 else None


# ------------------------------------------------------------------------------------------------ NVML


def nvml() -> Nvml:
    """Ask NVML for each GPU's modes, links and PCIe, and for the table of peer reads."""
    try:
        pynvml: Any = import_module("pynvml")  # only where it is used, and perhaps not installed
    except ImportError:
        raise Skip("nvidia-ml-py is not installed: pip install nvidia-ml-py") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        raise Skip("there is no NVML (libnvidia-ml.so.1)") from None
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    return Nvml(
        driver_version=str(pynvml.nvmlSystemGetDriverVersion()),
        devices=[_nvml_device(pynvml, index, handle) for index, handle in enumerate(handles)],
        p2p=[[_p2p(pynvml, one, other) for other in handles] for one in handles],
    )


def _nvml_device(nvml: Any, index: int, handle: Any) -> NvmlDevice:
    def ask(call: Callable[..., T], *arguments: Any) -> T | None:
        """Return the answer, or nothing where this GPU or driver has none."""
        try:
            return call(handle, *arguments)
        except nvml.NVMLError:
            return None

    mig, ecc, pci = ask(nvml.nvmlDeviceGetMigMode), ask(nvml.nvmlDeviceGetEccMode), ask(nvml.nvmlDeviceGetPciInfo)
    links = [_link(nvml, handle, number) for number in range(nvml.NVML_NVLINK_MAX_LINKS)]
    return NvmlDevice(
        index=index,
        name=str(ask(nvml.nvmlDeviceGetName) or ""),
        uuid=str(ask(nvml.nvmlDeviceGetUUID) or ""),
        pci=sysfs_address(str(pci.busId)) if pci else "",
        mig=bool(mig[0]) if mig else None,
        compute_mode=ask(nvml.nvmlDeviceGetComputeMode),
        ecc=bool(ecc[0]) if ecc else None,
        pcie_generation=ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration),
        pcie_generation_max=ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration),
        pcie_width=ask(nvml.nvmlDeviceGetCurrPcieLinkWidth),
        pcie_width_max=ask(nvml.nvmlDeviceGetMaxPcieLinkWidth),
        links=[link for link in links if link],
    )


def _link(nvml: Any, handle: Any, number: int) -> NvLink | None:
    try:
        active = bool(nvml.nvmlDeviceGetNvLinkState(handle, number))
    except nvml.NVMLError:
        return None  # no such link

    def ask(call: str) -> Any:
        try:
            return getattr(nvml, call)(handle, number)
        except (nvml.NVMLError, AttributeError):
            return None  # a link that is down has no other end, a hypervisor may hide it, an old module not know it

    remote, kind = ask("nvmlDeviceGetNvLinkRemotePciInfo"), ask("nvmlDeviceGetNvLinkRemoteDeviceType")
    return NvLink(
        link=number,
        active=active,
        version=ask("nvmlDeviceGetNvLinkVersion"),
        remote=sysfs_address(str(remote.busId)) if remote else None,
        remote_kind=None if kind is None else REMOTES.get(kind),
        line_rate_bytes_per_s=_line_rate(nvml, handle, number) if active else None,
    )


def _line_rate(nvml: Any, handle: Any, number: int) -> float | None:
    try:
        return line_rates(nvml, handle, [number]).get(number)
    except AttributeError:
        return None  # a module that does not know these fields


def _p2p(nvml: Any, one: Any, other: Any) -> str:
    """Name the status of reads from one GPU by another (nvmlGpuP2PStatus_t)."""
    try:
        status = nvml.nvmlDeviceGetP2PStatus(one, other, PEER_CAPS["read"])
    except nvml.NVMLError as error:
        return str(error)
    return PEER_STATUS.get(status, f"NVML's status {status}")


# ------------------------------------------------------------------------------------------- PCIe under load


def pcie_load() -> list[LoadedLink]:
    """Copy to each GPU for a moment and look at its link meanwhile: an idle link steps down."""
    api = Api()
    api.call("cuInit", 0)
    return [_loaded(api, handle) for handle in api.devices()]


def _loaded(api: Api, handle: int) -> LoadedLink:
    path = _DEVICES / api.pci(handle)
    api.retain(handle)
    target, source = api.allocate(_LOAD_BYTES), ctypes.c_void_p()
    api.call("cuMemAllocHost_v2", ctypes.byref(source), ctypes.c_size_t(_LOAD_BYTES))
    generations, widths = [0], [0]
    until = time.monotonic() + _LOAD_S
    while time.monotonic() < until:
        api.call("cuMemcpyHtoDAsync_v2", target, source, ctypes.c_size_t(_LOAD_BYTES), None)
        generations.append(_generation(path / "current_link_speed") or 0)
        widths.append(_width(path / "current_link_width") or 0)
        api.call("cuStreamSynchronize", None)
    api.call("cuMemFreeHost", source)
    api.call("cuMemFree_v2", target)
    return LoadedLink(pci=path.name, generation=max(generations) or None, width=max(widths) or None)


# ------------------------------------------------------------------------------------------------ IOMMU and ACS


def iommu() -> Iommu:
    """Look for IOMMUs, and read the ACS control registers of the bridges above each GPU."""
    gpus = [path.resolve() for path in sorted(_DEVICES.glob("*")) if _is_gpu(path)]
    above = {parent for path in gpus for parent in path.parents if (parent / "config").exists()}
    spaces = {path.name: _config(path) for path in sorted(above)}
    words = _word(Path("/proc/cmdline")).split()
    return Iommu(
        units=_names("/sys/class/iommu"),
        bridges=[Bridge(address=name, acs_control=acs_control(space)) for name, space in spaces.items()],
        readable=all(len(space) > _FIRST_EXTENDED for space in spaces.values()),
        parameters=[word for word in words if "iommu" in word or "acs" in word],
        types=sorted({_word(path / "iommu_group/type") for path in gpus} - {""}),
    )


def _config(path: Path) -> bytes:
    """Read a device's configuration space; without root the kernel shows its first 64 bytes."""
    try:
        return (path / "config").read_bytes()
    except OSError:
        return b""


def acs_control(space: bytes) -> int | None:
    """Find the ACS control register in a configuration space; ``None`` where there is none."""
    at, seen = _FIRST_EXTENDED, set[int]()
    while _FIRST_EXTENDED <= at <= len(space) - 8 and at not in seen:
        seen.add(at)
        header = int.from_bytes(space[at : at + 4], "little")
        if header & 0xFFFF == _ACS_CAPABILITY:
            return int.from_bytes(space[at + _ACS_CONTROL : at + _ACS_CONTROL + 2], "little")
        at = header >> 20
    return None
