"""What CUDA says of every GPU, in the layout of the CUDA sample deviceQuery."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from volley.machine.facts import CudaDevice, CudaFacts
from volley.text import escape_controls

_MODES = (
    "Default (multiple host threads can use ::cudaSetDevice() with device simultaneously)",
    "Exclusive (only one host thread in one process is able to use ::cudaSetDevice() with this device)",
    "Prohibited (no host thread can use ::cudaSetDevice() with this device)",
    "Exclusive Process (many threads in one process is able to use ::cudaSetDevice() with this device)",
)
"""By the number of ``CUcomputemode``."""

_CORES = {(5, 0): 128, (6, 0): 64, (6, 1): 128, (7, 0): 64, (8, 0): 64, (8, 6): 128}
"""FP32 cores of a multiprocessor, from this compute capability on (CUDA C++ Programming Guide, "Compute
capabilities")."""

_PCI = re.compile(r"(?P<domain>[0-9a-fA-F]+):(?P<bus>[0-9a-fA-F]+):(?P<slot>[0-9a-fA-F]+)\.")

_LINES = """
CUDA Capability Major/Minor version number: | {COMPUTE_CAPABILITY_MAJOR}.{COMPUTE_CAPABILITY_MINOR}
Total amount of global memory: | {mebibytes:.0f} MBytes ({bytes} bytes)
({MULTIPROCESSOR_COUNT:03}) Multiprocessors, ({cores:03}) CUDA Cores/MP: | {all_cores} CUDA Cores
GPU Max Clock rate: | {megahertz:.0f} MHz ({gigahertz:.2f} GHz)
Memory Clock rate: | {memory_megahertz:.0f} Mhz
Memory Bus Width: | {GLOBAL_MEMORY_BUS_WIDTH}-bit
L2 Cache Size: | {L2_CACHE_SIZE} bytes
Maximum Texture Dimension Size (x,y,z) | 1D=({MAXIMUM_TEXTURE1D_WIDTH}), 2D=({MAXIMUM_TEXTURE2D_WIDTH}, \
{MAXIMUM_TEXTURE2D_HEIGHT}), 3D=({MAXIMUM_TEXTURE3D_WIDTH}, {MAXIMUM_TEXTURE3D_HEIGHT}, {MAXIMUM_TEXTURE3D_DEPTH})
Maximum Layered 1D Texture Size, (num) layers | 1D=({MAXIMUM_TEXTURE1D_LAYERED_WIDTH}), \
{MAXIMUM_TEXTURE1D_LAYERED_LAYERS} layers
Maximum Layered 2D Texture Size, (num) layers | 2D=({MAXIMUM_TEXTURE2D_LAYERED_WIDTH}, \
{MAXIMUM_TEXTURE2D_LAYERED_HEIGHT}), {MAXIMUM_TEXTURE2D_LAYERED_LAYERS} layers
Total amount of constant memory: | {TOTAL_CONSTANT_MEMORY} bytes
Total amount of shared memory per block: | {MAX_SHARED_MEMORY_PER_BLOCK} bytes
Total shared memory per multiprocessor: | {MAX_SHARED_MEMORY_PER_MULTIPROCESSOR} bytes
Total number of registers available per block: | {MAX_REGISTERS_PER_BLOCK}
Warp size: | {WARP_SIZE}
Maximum number of threads per multiprocessor: | {MAX_THREADS_PER_MULTIPROCESSOR}
Maximum number of threads per block: | {MAX_THREADS_PER_BLOCK}
Max dimension size of a thread block (x,y,z): ({MAX_BLOCK_DIM_X}, {MAX_BLOCK_DIM_Y}, {MAX_BLOCK_DIM_Z})
Max dimension size of a grid size    (x,y,z): ({MAX_GRID_DIM_X}, {MAX_GRID_DIM_Y}, {MAX_GRID_DIM_Z})
Maximum memory pitch: | {MAX_PITCH} bytes
Texture alignment: | {TEXTURE_ALIGNMENT} bytes
Concurrent copy and kernel execution: | {yes[ASYNC_ENGINE_COUNT]} with {ASYNC_ENGINE_COUNT} copy engine(s)
Run time limit on kernels: | {yes[KERNEL_EXEC_TIMEOUT]}
Integrated GPU sharing Host Memory: | {yes[INTEGRATED]}
Support host page-locked memory mapping: | {yes[CAN_MAP_HOST_MEMORY]}
Alignment requirement for Surfaces: | {yes[SURFACE_ALIGNMENT]}
Device has ECC support: | {ecc}
Device supports Unified Addressing (UVA): | {yes[UNIFIED_ADDRESSING]}
Device supports Managed Memory: | {yes[MANAGED_MEMORY]}
Device supports Compute Preemption: | {yes[COMPUTE_PREEMPTION_SUPPORTED]}
Supports Cooperative Kernel Launch: | {yes[COOPERATIVE_LAUNCH]}
Supports MultiDevice Co-op Kernel Launch: | {yes[COOPERATIVE_MULTI_DEVICE_LAUNCH]}
Device PCI Domain ID / Bus ID / location ID: | {domain} / {bus} / {slot}
Compute Mode:\\n     < {mode} >
UUID: | {uuid}
Shared memory per block, at most: | {MAX_SHARED_MEMORY_PER_BLOCK_OPTIN} bytes
Registers per multiprocessor: | {MAX_REGISTERS_PER_MULTIPROCESSOR}
Supports GPUDirect RDMA: | {yes[GPU_DIRECT_RDMA_SUPPORTED]}
Supports Memory Pools: | {yes[MEMORY_POOLS_SUPPORTED]}
"""
"""Label and value: deviceQuery's own in its order, then what it does not show.  A line whose fact nobody has is left
out; ``yes`` has every attribute as ``Yes`` or ``No``."""


def device_query(cuda: CudaFacts, runtime: str | None) -> Iterator[str]:
    """Yield the lines; ``runtime`` is the CUDA runtime of the engine, if it has one."""
    driver = f"{cuda.driver_version // 1000}.{cuda.driver_version % 1000 // 10}"
    yield from (" CUDA Device Query (driver API, by volley doctor)", "")
    yield f"Detected {len(cuda.devices)} CUDA Capable device(s)"
    for device in cuda.devices:
        yield from ("", f'Device {device.index}: "{escape_controls(device.name)}"')
        yield f"  {'CUDA Driver Version / Runtime Version':47}{driver} / {runtime or 'none'}"
        values = _values(device)
        for line in _LINES.strip().split("\n"):
            label, _, value = line.replace(r"\n", "\n").partition(" | ")
            with suppress(KeyError):
                yield f"  {label.format_map(values):47}{value.format_map(values)}".rstrip()
    names = [escape_controls(device.name) for device in cuda.devices]
    for one, row in enumerate(cuda.peers):
        for other, reaches in enumerate(row):
            if one != other:
                answer = "Yes" if reaches else "No"
                yield f"> Peer access from {names[one]} (GPU{one}) -> {names[other]} (GPU{other}) : {answer}"
    versions = f"CUDA Driver Version = {driver}, CUDA Runtime Version = {runtime or 'none'}"
    yield from ("", f"deviceQuery, CUDA Driver = CUDART, {versions}, NumDevs = {len(cuda.devices)}", "Result = PASS")


def _values(device: CudaDevice) -> dict[str, object]:
    """Return what the lines name: attributes, and what follows from them."""
    known = device.attributes
    values: dict[str, object] = {**known, "yes": {name: "Yes" if value else "No" for name, value in known.items()}}
    if place := _PCI.match(device.pci):
        values |= {name: int(number, 16) for name, number in place.groupdict().items()}
    values |= {"uuid": escape_controls(device.uuid)}
    values |= {"bytes": device.memory_bytes, "mebibytes": device.memory_bytes / (1 << 20)}
    if "CLOCK_RATE" in known:
        values |= {"megahertz": known["CLOCK_RATE"] / 1e3, "gigahertz": known["CLOCK_RATE"] / 1e6}
    if "MEMORY_CLOCK_RATE" in known:
        values["memory_megahertz"] = known["MEMORY_CLOCK_RATE"] / 1e3
    if "ECC_ENABLED" in known:
        values["ecc"] = "Enabled" if known["ECC_ENABLED"] else "Disabled"
    if known.get("COMPUTE_MODE", -1) in range(len(_MODES)):
        values["mode"] = _MODES[known["COMPUTE_MODE"]]
    capability = (known.get("COMPUTE_CAPABILITY_MAJOR", 0), known.get("COMPUTE_CAPABILITY_MINOR", 0))
    cores = [count for since, count in _CORES.items() if since <= capability]
    if cores and "MULTIPROCESSOR_COUNT" in known:
        values |= {"cores": cores[-1], "all_cores": cores[-1] * known["MULTIPROCESSOR_COUNT"]}
    return values
