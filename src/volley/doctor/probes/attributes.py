"""The attributes of a CUDA device that deviceQuery shows, as a table.

Names and numbers: ``CUdevice_attribute`` of cuda.h, without ``CU_DEVICE_ATTRIBUTE_``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attribute:
    """One attribute of a device."""

    number: int
    name: str
    says: str
    unit: str = ""
    """Written after the number; ``yes/no`` for truth values."""


ATTRIBUTES = tuple(
    Attribute(*row)
    for row in (
        (75, "COMPUTE_CAPABILITY_MAJOR", "compute capability, major"),
        (76, "COMPUTE_CAPABILITY_MINOR", "compute capability, minor"),
        (16, "MULTIPROCESSOR_COUNT", "multiprocessors"),
        (13, "CLOCK_RATE", "highest clock rate", "kHz"),
        (36, "MEMORY_CLOCK_RATE", "memory clock rate", "kHz"),
        (37, "GLOBAL_MEMORY_BUS_WIDTH", "memory bus width", "bit"),
        (38, "L2_CACHE_SIZE", "L2 cache", "bytes"),
        (9, "TOTAL_CONSTANT_MEMORY", "constant memory", "bytes"),
        (8, "MAX_SHARED_MEMORY_PER_BLOCK", "shared memory per block", "bytes"),
        (97, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "shared memory per block, at most", "bytes"),
        (81, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", "shared memory per multiprocessor", "bytes"),
        (12, "MAX_REGISTERS_PER_BLOCK", "registers per block"),
        (82, "MAX_REGISTERS_PER_MULTIPROCESSOR", "registers per multiprocessor"),
        (10, "WARP_SIZE", "warp size"),
        (39, "MAX_THREADS_PER_MULTIPROCESSOR", "threads per multiprocessor"),
        (1, "MAX_THREADS_PER_BLOCK", "threads per block"),
        (2, "MAX_BLOCK_DIM_X", "block dimension x"),
        (3, "MAX_BLOCK_DIM_Y", "block dimension y"),
        (4, "MAX_BLOCK_DIM_Z", "block dimension z"),
        (5, "MAX_GRID_DIM_X", "grid dimension x"),
        (6, "MAX_GRID_DIM_Y", "grid dimension y"),
        (7, "MAX_GRID_DIM_Z", "grid dimension z"),
        (21, "MAXIMUM_TEXTURE1D_WIDTH", "1D texture width"),
        (22, "MAXIMUM_TEXTURE2D_WIDTH", "2D texture width"),
        (23, "MAXIMUM_TEXTURE2D_HEIGHT", "2D texture height"),
        (24, "MAXIMUM_TEXTURE3D_WIDTH", "3D texture width"),
        (25, "MAXIMUM_TEXTURE3D_HEIGHT", "3D texture height"),
        (26, "MAXIMUM_TEXTURE3D_DEPTH", "3D texture depth"),
        (11, "MAX_PITCH", "memory pitch, at most", "bytes"),
        (14, "TEXTURE_ALIGNMENT", "texture alignment", "bytes"),
        (40, "ASYNC_ENGINE_COUNT", "copy engines"),
        (17, "KERNEL_EXEC_TIMEOUT", "run time limit on kernels", "yes/no"),
        (18, "INTEGRATED", "shares the host's memory", "yes/no"),
        (19, "CAN_MAP_HOST_MEMORY", "maps page-locked host memory", "yes/no"),
        (32, "ECC_ENABLED", "ECC", "yes/no"),
        (41, "UNIFIED_ADDRESSING", "unified addressing (UVA)", "yes/no"),
        (83, "MANAGED_MEMORY", "managed memory", "yes/no"),
        (90, "COMPUTE_PREEMPTION_SUPPORTED", "compute preemption", "yes/no"),
        (95, "COOPERATIVE_LAUNCH", "cooperative launch", "yes/no"),
        (116, "GPU_DIRECT_RDMA_SUPPORTED", "GPUDirect RDMA", "yes/no"),
        (115, "MEMORY_POOLS_SUPPORTED", "memory pools", "yes/no"),
        (20, "COMPUTE_MODE", "compute mode, 0 is default"),
    )
)
