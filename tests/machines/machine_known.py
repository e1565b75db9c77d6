"""Machines that others have described in public."""

from __future__ import annotations

from typing import Any

import machine_topology as topology
from machine_base import GIB, devices, every, machine
from parts import (
    WORKING_GDRCOPY,
    bus,
    copies,
    crashed_job,
    cuda,
    device_job,
    driver,
    gdrcopy,
    host_job,
    launch,
    limits,
    nvml,
    pcie,
    point,
    rank,
    skipped,
    stack,
    system,
    toolchain,
    ucx,
    ucx_transfer,
)

from volley.machine import facts as f


def t4x4() -> f.Facts:
    library = "Open MPI v4.1.6, package: Open MPI Distribution, ident: 4.1.6"

    def reaches(one: int, other: int) -> bool:
        return one // 2 == other // 2

    gpus = cuda(
        "Tesla T4",
        4,
        (7, 5),
        15642329088,
        version=12040,
        reaches=reaches,
        MULTIPROCESSOR_COUNT=40,
        CLOCK_RATE=1590000,
        MEMORY_CLOCK_RATE=5001000,
        GLOBAL_MEMORY_BUS_WIDTH=256,
        L2_CACHE_SIZE=4194304,
        MAXIMUM_TEXTURE1D_WIDTH=131072,
        MAXIMUM_TEXTURE2D_WIDTH=131072,
        MAXIMUM_TEXTURE2D_HEIGHT=65536,
        MAXIMUM_TEXTURE3D_WIDTH=16384,
        MAXIMUM_TEXTURE3D_HEIGHT=16384,
        MAXIMUM_TEXTURE3D_DEPTH=16384,
        MAXIMUM_TEXTURE1D_LAYERED_WIDTH=32768,
        MAXIMUM_TEXTURE1D_LAYERED_LAYERS=2048,
        MAXIMUM_TEXTURE2D_LAYERED_WIDTH=32768,
        MAXIMUM_TEXTURE2D_LAYERED_HEIGHT=32768,
        MAXIMUM_TEXTURE2D_LAYERED_LAYERS=2048,
        TOTAL_CONSTANT_MEMORY=65536,
        MAX_SHARED_MEMORY_PER_BLOCK=49152,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR=65536,
        MAX_REGISTERS_PER_BLOCK=65536,
        WARP_SIZE=32,
        MAX_THREADS_PER_MULTIPROCESSOR=1024,
        MAX_THREADS_PER_BLOCK=1024,
        MAX_BLOCK_DIM_X=1024,
        MAX_BLOCK_DIM_Y=1024,
        MAX_BLOCK_DIM_Z=64,
        MAX_GRID_DIM_X=2147483647,
        MAX_GRID_DIM_Y=65535,
        MAX_GRID_DIM_Z=65535,
        MAX_PITCH=2147483647,
        TEXTURE_ALIGNMENT=512,
        ASYNC_ENGINE_COUNT=3,
        KERNEL_EXEC_TIMEOUT=0,
        INTEGRATED=0,
        CAN_MAP_HOST_MEMORY=1,
        SURFACE_ALIGNMENT=512,
        ECC_ENABLED=1,
        UNIFIED_ADDRESSING=1,
        MANAGED_MEMORY=1,
        COMPUTE_PREEMPTION_SUPPORTED=1,
        COOPERATIVE_LAUNCH=1,
        COOPERATIVE_MULTI_DEVICE_LAUNCH=1,
    )
    found = devices(gpus)
    # The program's mean communication time of an iteration (0.1287 s and 0.2865 s in 1000 iterations, two halos of
    # 4096 doubles each) stands for the half round trip.
    jacobi = [point("aware", 32768, 2.865e-4), point("staged/pinned", 32768, 1.287e-4)]
    facts = machine(
        "composed from a public tutorial's 4 × T4 cloud node: deviceQuery, peer table, ompi_info, and the "
        "communication times of its Jacobi program, normal and CUDA-aware; limits, UCX version and bus speed are "
        "assumed",
        system=system("ubuntu22", kernel="6.5.0-1016-gcp", virtual=True),
        toolchain=toolchain(
            "g++ (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0",
            "cmake version 3.22.1",
            "Cuda compilation tools, release 12.4, V12.4.131",
        ),
        driver=driver("550.54.14", 4),
        bus=bus(4),
        cuda=gpus,
        nvml=nvml("Tesla T4", 4, reaches=reaches, driver_version="550.54.14"),
        pcie_load=pcie(4, 3),
        gdrcopy=gdrcopy(**WORKING_GDRCOPY),
        ucx=ucx("1.17.0", "cuda_cpy", "cuda_ipc", "gdr_copy"),
        ucx_transfer=ucx_transfer(),
        stack=stack("4.1.6", ompi_cuda=True, cuda_built="12.4", ompi_info="/usr/local/bin/ompi_info"),
        mpi_host=host_job(library, 3.3e-7, 9e-6, cuda_query=True),
        mpi_device=device_job(library, found, jacobi, cuda_query=True),
        launcher=launch(library, [rank(number, gpu) for number, gpu in enumerate(found)]),
        peers=copies(library, found, reaches, every(4)),
    )
    return topology.t4x4(facts)


def summit() -> f.Facts:
    library = "IBM Spectrum MPI v10.3.1, package: IBM Spectrum MPI"
    gpus = cuda("Tesla V100-SXM2-16GB", 6, (7, 0), 16 * GIB, version=11000, reaches=lambda a, b: a // 3 == b // 3)
    found = devices(gpus)
    points = [point("aware", 8, 2.3285e-5), point("aware", 1048576, 4.3602e-5)]
    points += [point("staged/pinned", 8, 3.1405e-5), point("staged/pinned", 1048576, 2.11197e-4)]
    with_jsrun: dict[str, Any] = {"launcher": "jsrun", "cuda_query": True}
    facts = machine(
        "composed from the OLCF ping-pong tutorial: a node of Summit, 6 × V100 on two POWER9, jsrun "
        "--smpiargs=-gpu, its half round trips; peer access "
        "within a socket only, PCI addresses, PCIe, network cards and all versions are assumed",
        system=system("rhel8", kernel="4.18.0-193.ppc64le", architecture="ppc64le"),
        toolchain=toolchain("g++ (GCC) 11.2.0", "cmake version 3.27.7", "Cuda compilation tools, release 11.0"),
        environment={"LSB_JOBID": "1"},
        driver=driver("450.80.02", 6, "ppc64le"),
        bus=bus(6, infiniband=["mlx5_0", "mlx5_1"]),
        limits=limits(memlock_bytes=None, ptrace_scope=None),
        cuda=gpus,
        nvml=nvml("Tesla V100-SXM2-16GB", 6, links=6, reaches=lambda a, b: a // 3 == b // 3),
        pcie_load=pcie(6, 3),
        gdrcopy=gdrcopy(**WORKING_GDRCOPY),
        ucx=skipped("there is no UCX: libucs.so.0: cannot open shared object file", "dlopen(libucs.so.0)"),
        ucx_transfer=skipped("there is no ucx_perftest"),
        stack=stack(
            "10.3.1",
            cuda_built="11.0",
            cuda_architectures=["70"],
            mpi_family="other",
            mpi_built="Spectrum MPI 10.3.1",
            mpiexec=None,
            ompi_pml=[],
        ),
        mpi_host=host_job(library, 8.66e-7, 6.878e-6, **with_jsrun),
        mpi_device=device_job(library, found, points, **with_jsrun),
        launcher=launch(library, [rank(number, gpu) for number, gpu in enumerate(found)], **with_jsrun),
        peers=copies(library, found, lambda a, b: a // 3 == b // 3, [(i, (i + 1) % 6) for i in range(6)]),
    )
    return topology.summit(facts)


def abci_v() -> f.Facts:
    library = "Open MPI v4.0.5, package: Open MPI Distribution, ident: 4.0.5"
    gpus = cuda("Tesla V100-SXM2-16GB", 4, (7, 0), 16 * GIB, version=11020)
    found = devices(gpus)
    facts = machine(
        "composed from a public benchmark's compute node (V): 4 × V100 with 96.9 GB/s both ways between every "
        "pair, CentOS 7.5, gcc 7.4, CUDA 11.2; the MPI, which knows no CUDA, cores, PCIe and network cards are assumed",
        system=system("centos7", kernel="3.10.0-862.el7"),
        toolchain=f.Probe(
            call="c++ -std=c++20 try.cpp && ./try; cmake --version; nvcc -std=c++20 -c try.cu",
            value=f.ToolchainFacts(
                compiler=f.Program(
                    name="C++ compiler",
                    path="/usr/bin/c++",
                    version="g++ (GCC) 7.4.0",
                    error="c++: error: unrecognized command line option '-std=c++20'",
                ),
                cmake=f.Program(name="cmake"),
                nvcc=f.Program(name="nvcc", path="/apps/cuda/11.2.2/bin/nvcc", version="release 11.2, V11.2.152"),
            ),
        ),
        driver=driver("460.32.03", 4),
        bus=bus(4, infiniband=["mlx5_0"]),
        limits=limits(memlock_bytes=65536, ptrace_scope=None),
        cuda=gpus,
        nvml=nvml("Tesla V100-SXM2-16GB", 4, links=6),
        pcie_load=pcie(4, 3),
        gdrcopy=gdrcopy(node="absent", library="2.0"),
        ucx=ucx("1.9.0"),
        ucx_transfer=ucx_transfer(status=1, said="Unsupported memory type cuda"),
        stack=stack("4.0.5", cuda_built="11.2", cuda_architectures=["70"], ompi_cuda=False),
        mpi_host=host_job(library, 5e-7, 1.1e-5, cuda_query=False),
        mpi_device=crashed_job(found, library),
        launcher=launch(library, [rank(number, gpu) for number, gpu in enumerate(found)]),
        peers=copies(library, found, lambda *_: True, every(4)),
    )
    return topology.abci_v(facts)


def abci_a() -> f.Facts:
    library = "Open MPI v4.0.5, package: Open MPI Distribution, ident: 4.0.5"
    gpus = cuda("NVIDIA A100-SXM4-40GB", 8, (8, 0), 40 * GIB, version=11020)
    found = devices(gpus)
    points = [point("aware", 8, 4.1e-6), point("aware", 1048576, 1.4e-5)]
    points += [point("staged/pinned", 8, 1.5e-5), point("staged/pinned", 1048576, 1.9e-4)]
    facts = machine(
        "composed from a public benchmark's compute node (A): 8 × A100 behind NVSwitch, every pair at 410 to 520 "
        "GB/s both ways, RHEL 8.2, CUDA 11.2; a CUDA-aware MPI with GDRCopy and its times, cores, PCIe and network "
        "cards are assumed",
        system=system("rhel8", kernel="4.18.0-193.el8"),
        toolchain=toolchain("g++ (GCC) 11.2.0", "cmake version 3.26.1", "release 11.2, V11.2.152"),
        driver=driver("460.32.03", 8),
        bus=bus(8, generation=4, infiniband=["mlx5_0", "mlx5_1"]),
        cuda=gpus,
        nvml=nvml("NVIDIA A100-SXM4-40GB", 8, links=12, generation=4, mig=False),
        pcie_load=pcie(8, 4),
        gdrcopy=gdrcopy(**WORKING_GDRCOPY),
        ucx=ucx("1.11.2", "ib", "cuda_cpy", "cuda_ipc", "gdr_copy"),
        ucx_transfer=ucx_transfer(),
        stack=stack("4.0.5", cuda_built="11.2", cuda_architectures=["80"], ompi_cuda=True),
        mpi_host=host_job(library, 4e-7, 9e-6, cuda_query=True),
        mpi_device=device_job(library, found, points, cuda_query=True),
        launcher=launch(library, [rank(number, gpu) for number, gpu in enumerate(found)]),
        peers=copies(library, found, lambda *_: True, [(i, (i + 1) % 8) for i in range(8)]),
    )
    return topology.abci_a(facts)
