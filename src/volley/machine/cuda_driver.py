"""Query the CUDA driver API through ``ctypes``: this needs no compiler and no CUDA toolkit."""

from __future__ import annotations

import contextlib
import ctypes
import uuid
from typing import Any

from volley.machine.capture import Attempt, Skip
from volley.machine.facts import CudaDevice, CudaFacts
from volley.machine.sysfs import pci_address


def load(name: str) -> tuple[ctypes.CDLL | None, str | None]:
    """Open a shared library; return it, or the loader's own words."""
    try:
        return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL), None
    except OSError as error:
        return None, str(error)


def cuda_gpu_count() -> int:
    """Return the number of devices that CUDA shows; 0 where it does not start."""
    try:
        return len(CudaDriver().start())
    except (CudaError, Skip):
        return 0


class CudaError(Exception):
    def __init__(self, call: str, status: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({status})")
        self.call, self.status, self.name = call, status, name


class CudaDriver:
    """The driver API; every call is checked."""

    def __init__(self) -> None:
        library, error = load("libcuda.so.1")
        if library is None:
            raise Skip(f"libcuda.so.1 does not load: {str(error).removeprefix('libcuda.so.1: ')}")
        self._library = library

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the API; raise ``CudaError`` unless it succeeds."""
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(text))
            raise CudaError(name, status, (text.value or b"unknown error").decode())

    def integer(self, name: str, *arguments: Any) -> int:
        found = ctypes.c_int()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def start(self) -> list[int]:
        self.call("cuInit", 0)
        return [self.integer("cuDeviceGet", index) for index in range(self.integer("cuDeviceGetCount"))]

    def pci(self, device: int) -> str:
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, len(text), device)
        return pci_address(text.value.decode())

    def retain(self, device: int) -> None:
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def allocate(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address


def facts() -> CudaFacts:
    """Initialise CUDA; list devices, attributes and who reaches whom."""
    driver = CudaDriver()
    version = 0
    try:
        version = driver.integer("cuDriverGetVersion")
        handles = driver.start()
        return CudaFacts(
            driver_version=version,
            devices=[_describe(driver, index, handle) for index, handle in enumerate(handles)],
            peers=[
                [one == other or driver.integer("cuDeviceCanAccessPeer", one, other) != 0 for other in handles]
                for one in handles
            ],
        )
    except CudaError as error:
        return CudaFacts(status=error.status, status_name=error.name, failed_call=error.call, driver_version=version)


CUDA = Attempt("cuda", "cuInit, cuDeviceGetCount, cuDeviceCanAccessPeer", facts)


def _describe(driver: CudaDriver, index: int, handle: int) -> CudaDevice:
    name = ctypes.create_string_buffer(256)
    driver.call("cuDeviceGetName", name, len(name), handle)
    identity = (ctypes.c_ubyte * 16)()
    driver.call("cuDeviceGetUuid", identity, handle)
    size = ctypes.c_size_t()
    driver.call("cuDeviceTotalMem_v2", ctypes.byref(size), handle)
    attributes = {}
    for attribute, number in ATTRIBUTES.items():
        with contextlib.suppress(CudaError):  # a driver does not know those that came later
            attributes[attribute] = driver.integer("cuDeviceGetAttribute", number, handle)
    return CudaDevice(
        index=index,
        name=name.value.decode("utf-8", "replace"),
        uuid=f"GPU-{uuid.UUID(bytes=bytes(identity))}",
        pci=driver.pci(handle),
        memory_bytes=size.value,
        attributes=attributes,
    )


_NUMBERS = """
COMPUTE_CAPABILITY_MAJOR=75 COMPUTE_CAPABILITY_MINOR=76 MULTIPROCESSOR_COUNT=16 CLOCK_RATE=13 MEMORY_CLOCK_RATE=36
GLOBAL_MEMORY_BUS_WIDTH=37 L2_CACHE_SIZE=38 TOTAL_CONSTANT_MEMORY=9 MAX_SHARED_MEMORY_PER_BLOCK=8
MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97 MAX_SHARED_MEMORY_PER_MULTIPROCESSOR=81 MAX_REGISTERS_PER_BLOCK=12
MAX_REGISTERS_PER_MULTIPROCESSOR=82 WARP_SIZE=10 MAX_THREADS_PER_MULTIPROCESSOR=39 MAX_THREADS_PER_BLOCK=1
MAX_BLOCK_DIM_X=2 MAX_BLOCK_DIM_Y=3 MAX_BLOCK_DIM_Z=4 MAX_GRID_DIM_X=5 MAX_GRID_DIM_Y=6 MAX_GRID_DIM_Z=7
MAXIMUM_TEXTURE1D_WIDTH=21 MAXIMUM_TEXTURE2D_WIDTH=22 MAXIMUM_TEXTURE2D_HEIGHT=23 MAXIMUM_TEXTURE3D_WIDTH=24
MAXIMUM_TEXTURE3D_HEIGHT=25 MAXIMUM_TEXTURE3D_DEPTH=26 MAXIMUM_TEXTURE1D_LAYERED_WIDTH=42
MAXIMUM_TEXTURE1D_LAYERED_LAYERS=43 MAXIMUM_TEXTURE2D_LAYERED_WIDTH=27 MAXIMUM_TEXTURE2D_LAYERED_HEIGHT=28
MAXIMUM_TEXTURE2D_LAYERED_LAYERS=29 MAX_PITCH=11 TEXTURE_ALIGNMENT=14 SURFACE_ALIGNMENT=30 ASYNC_ENGINE_COUNT=40
KERNEL_EXEC_TIMEOUT=17 INTEGRATED=18 CAN_MAP_HOST_MEMORY=19 ECC_ENABLED=32 UNIFIED_ADDRESSING=41 MANAGED_MEMORY=83
COMPUTE_PREEMPTION_SUPPORTED=90 COOPERATIVE_LAUNCH=95 COOPERATIVE_MULTI_DEVICE_LAUNCH=96 GPU_DIRECT_RDMA_SUPPORTED=116
MEMORY_POOLS_SUPPORTED=115 COMPUTE_MODE=20 DMA_BUF_SUPPORTED=124
"""
ATTRIBUTES = {name: int(number) for name, _, number in (each.partition("=") for each in _NUMBERS.split())}
"""CUdevice_attribute (cuda.h), without CU_DEVICE_ATTRIBUTE_."""
