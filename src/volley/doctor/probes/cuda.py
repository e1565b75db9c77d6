"""What the CUDA driver API answers, through ``ctypes``: it needs no compiler and no CUDA toolkit."""

from __future__ import annotations

import ctypes
import uuid
from typing import Any

from volley.doctor.facts import Cuda, CudaDevice
from volley.doctor.isolate import Skip
from volley.doctor.probes.attributes import ATTRIBUTES
from volley.doctor.probes.libraries import load


class CudaError(Exception):
    """A call of the driver API failed."""

    def __init__(self, call: str, status: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({status})")
        self.call, self.status, self.name = call, status, name


class Api:
    """The driver API; every call is checked."""

    def __init__(self) -> None:
        library, error = load("libcuda.so.1")
        if library is None:
            raise Skip(f"libcuda.so.1 does not load: {error}")
        self._library = library

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the API.

        Raises:
            CudaError: if it does not return CUDA_SUCCESS.
        """
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(text))
            raise CudaError(name, status, (text.value or b"unknown error").decode())

    def integer(self, name: str, *arguments: Any) -> int:
        """Call a function whose first argument receives an ``int``."""
        found = ctypes.c_int()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def devices(self) -> list[int]:
        """Return the handles of all devices."""
        return [self.integer("cuDeviceGet", index) for index in range(self.integer("cuDeviceGetCount"))]

    def pci(self, device: int) -> str:
        """Return a device's PCI address as sysfs writes it."""
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, len(text), device)
        return sysfs_address(text.value.decode())

    def retain(self, device: int) -> None:
        """Make the device's primary context the current one."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Return device memory of the current context."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address


def sysfs_address(address: str) -> str:
    """Write a PCI address as sysfs does: four digits of domain, lower case."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:].zfill(4)}:{rest}"


def cuda() -> Cuda:
    """Initialise CUDA; list devices, attributes and who reaches whom."""
    api = Api()
    version = 0
    try:
        version = api.integer("cuDriverGetVersion")
        api.call("cuInit", 0)
        handles = api.devices()
        return Cuda(
            driver_version=version,
            devices=[_describe(api, index, handle) for index, handle in enumerate(handles)],
            peers=[[one == other or _reaches(api, one, other) for other in handles] for one in handles],
        )
    except CudaError as error:
        return Cuda(status=error.status, status_name=error.name, failed_call=error.call, driver_version=version)


def _describe(api: Api, index: int, handle: int) -> CudaDevice:
    name = ctypes.create_string_buffer(256)
    api.call("cuDeviceGetName", name, len(name), handle)
    identity = (ctypes.c_ubyte * 16)()
    api.call("cuDeviceGetUuid", identity, handle)
    size = ctypes.c_size_t()
    api.call("cuDeviceTotalMem_v2", ctypes.byref(size), handle)
    return CudaDevice(
        index=index,
        name=name.value.decode("utf-8", "replace"),
        uuid=f"GPU-{uuid.UUID(bytes=bytes(identity))}",
        pci=api.pci(handle),
        memory_bytes=size.value,
        attributes=_attributes(api, handle),
    )


def _attributes(api: Api, handle: int) -> dict[str, int]:
    """Ask for every attribute of the table; those that this driver does not know are left out."""
    found = {}
    for attribute in ATTRIBUTES:
        try:
            found[attribute.name] = api.integer("cuDeviceGetAttribute", attribute.number, handle)
        except CudaError:
            continue
    return found


def _reaches(api: Api, one: int, other: int) -> bool:
    return api.integer("cuDeviceCanAccessPeer", one, other) != 0
