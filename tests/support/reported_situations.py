"""Situations that people reported in public, as changes to the facts of a machine that works, and what ends each.

Each has its source, and what was written down before doctor was asked: the first finding, words of its remedy, and
words that would mislead or harm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from doctor_states import (
    ALIKE,
    AROUND,
    COPY,
    GOOD,
    MLX5,
    NO_DRIVER,
    RANKS,
    RDMA,
    SLOWER,
    all_jobs,
    cuda,
    gpus,
    hosts,
    no_cuda,
)
from volley.machine.finding import Status


class Situation(NamedTuple):
    source: str
    changes: dict[str, Any]
    check: str
    status: Status
    remedy: str
    """A pattern."""
    never: str = "$^"
    """A pattern that the remedy must not have."""
    said: str = ""
    """A pattern: the line that says why is the right one."""


SYSTEM = msgspec.to_builtins(GOOD.system.value)
DOCKER, POD, APPTAINER, PODMAN = (
    {**SYSTEM, "container": name, "root": root}
    for name, root in (("docker", True), ("kubernetes", True), ("apptainer", False), ("podman", False))
)
WSL = {**SYSTEM, "kernel": "5.15.153.1-microsoft-standard-WSL2"}
SLURM = {
    "environment": {"SLURM_JOB_ID": "42"},
    "surroundings": {**AROUND, "batch_system": "slurm", "job_hosts": ["node1"]},
}
OPEN = {"/dev/nvidiactl": "ok", "/dev/nvidia-uvm": "ok"}
MODULE = {
    "open": "NVIDIA UNIX Open Kernel Module for x86_64  580.65.06",
    "": "NVIDIA UNIX x86_64 Kernel Module  580.65",
}
MISMATCH = "Driver/library version mismatch"


GOOD_JOB = msgspec.to_builtins(GOOD.mpi_host.value)


def _cards(number: str, driver: str | None = "nvidia") -> dict[str, Any]:
    """The bus, with GPUs of a device number."""
    return {"gpus": [{**msgspec.to_builtins(gpu), "device_id": number, "driver": driver} for gpu in GOOD.gpus_on_bus]}


def ended(*text: str, **more: Any) -> dict[str, Any]:
    """A job that ended with this text."""
    ended = {"complete": False, "status": 1, "reason": "the job ended with status 1", "library": None}
    return {**ended, "text": [*text], "points": [], "ranks": [], **more}


def all_ended(*text: str, **others: Any) -> dict[str, Any]:
    return all_jobs("a loader", **{**{name: ended(*text) for name in ("mpi_host", "mpi_device", "launcher")}, **others})


def pair(a: dict[str, Any], b: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Two hosts with changes to what each of them answered."""
    known = hosts(job)
    return {**known, "hosts": [{**each, **change} for each, change in zip(known["hosts"], (a, b), strict=True)]}


def engine(error: str) -> dict[str, Any]:
    return all_ended("x", stack={"start_error": error}, trials=[])


def _sent(**times_s: float) -> dict[str, Any]:
    """A job of GPU memory."""
    points = [
        {"transport": name.replace("_", "/"), "size_bytes": size, "status": "ok", "half_round_trip_s": time_s}
        for name, time_s in times_s.items()
        for size in (8, 1 << 20)
    ]
    return {"points": points}


def nccl(channel: str) -> dict[str, Any]:
    points = [{"transport": "nccl", "size_bytes": 1 << 20, "status": "ok", "half_round_trip_s": 1e-5}]
    transports = [{"transport": "nccl", "available": True}]
    job = {**msgspec.to_builtins(GOOD.mpi_host.value), "transports": transports, "points": points}
    return {"job": job, "version": "2.27.3", "channels": [channel]}


def xid(number: int) -> dict[str, Any]:
    return {"driver": {"xids": [{"pci": GOOD.gpus[1].pci, "number": number, "said": f"Xid {number}"}]}}


_NO_MODULE = {"version": None, "nodes": {}, "modules": [], "library": None, "headers": True}
_GPU_PLACES = [{"kind": "gpu", "address": gpu.pci, "numa_node": 0, "cores": "0-15"} for gpu in GOOD.cuda_devices]
_BOUND = {"ranks": [{**rank, "cores": [20 + number], "bound_by": "launcher"} for number, rank in enumerate(RANKS)]}
_LOST = "ib_mlx5_log.c:143  UCX  ERROR Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81)"
_LOCKED = (
    "ib_log.c:246  UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory. "
    "Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)"
)
_SLOTS = (
    *("-" * 70, "There are not enough slots available in the system to satisfy the 2"),
    *("slots that were requested by the application:", "  volley-engine", "-" * 70),
)
_HYDRA = (
    '[proxy:0:1@b] HYDU_sock_connect (utils/sock/sock.c:145): unable to connect from "b" to "a" (Connection refused)'
)
ALONE = "this job has 1 rank, the plan needs 2"

SITUATIONS: dict[str, Situation] = {
    "a container from before the host's driver was updated": Situation(
        "NVIDIA/nvidia-docker 365, nvidia-container-toolkit 394",
        {"system": DOCKER, "nvml": MISMATCH, **no_cuda(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")},
        *("GPUs", "broken", "^start this container again", "^(on the host: )?this disturbs"),
    ),
    "a container from before the update, where CUDA still works": Situation(
        "NVIDIA/nvidia-docker 737",
        {"system": DOCKER, "nvml": MISMATCH},
        *("GPUs", "broken", "^start this container again", "^(on the host: )?this disturbs"),
    ),
    "a compatibility library in front of the driver's": Situation(
        "NVIDIA/nvidia-docker 1256",
        {
            "environment": {"LD_LIBRARY_PATH": "/usr/local/cuda/compat:/opt/lib"},
            **no_cuda(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        },
        *("GPUs", "broken", "^unset LD_LIBRARY_PATH", "reboot"),
    ),
    "a fabric manager of another version": Situation(
        "NVIDIA/gpu-operator 544, Azure/azhpc-images 86, dstackai/dstack 2348",
        no_cuda(802, "CUDA_ERROR_SYSTEM_NOT_READY"),
        *("GPUs", "broken", "nvidia-fabricmanager; it must be of the driver's version"),
    ),
    "open kernel modules for a Volta": Situation(
        "README of NVIDIA/open-gpu-kernel-modules",
        {
            "bus": _cards("0x1db6", None),
            "driver": {"version": MODULE["open"], "nodes": OPEN},
            **no_cuda(100, "CUDA_ERROR_NO_DEVICE"),
        },
        *("driver", "broken", r"nvidia-driver-580\b(?!-open)", "nvidia-smi"),
    ),
    "proprietary kernel modules for a Blackwell": Situation(
        "README of NVIDIA/open-gpu-kernel-modules",
        {
            "bus": _cards("0x2901", None),
            "driver": {"version": MODULE[""], "nodes": OPEN},
            **no_cuda(100, "CUDA_ERROR_NO_DEVICE"),
        },
        *("driver", "broken", "nvidia-driver-580-open", "nvidia-smi"),
    ),
    "a module that is not loaded, maybe because of Secure Boot": Situation(
        "NVIDIA/gpu-driver-container 44",
        {**NO_DRIVER, "driver": _NO_MODULE},
        *("driver", "broken", "modprobe nvidia; .*Secure Boot"),
    ),
    "a module that Secure Boot refuses": Situation(
        "negativo17/nvidia-driver 108, acidanthera/bugtracker 2237",
        {**NO_DRIVER, "driver": {**_NO_MODULE, "unsigned": "[ 12.3] Loading of unsigned module is rejected"}},
        *("driver", "broken", "mokutil --import .*reboot", "modprobe|dkms auto"),
    ),
    "Linux's driver in WSL2": Situation(
        "CUDA on WSL User Guide; microsoft/WSL 9938",
        {
            "system": WSL,
            "bus": {"gpus": []},
            "nvml": "NVML Shared Library Not Found",
            **no_cuda(100, "CUDA_ERROR_NO_DEVICE"),
            "driver": {"version": None, "nodes": {}, "modules": [], "library": None},
        },
        *("driver", "broken", "driver of Windows", "apt-get|modprobe"),
    ),
    "device nodes of a group in rootless Podman": Situation(
        "containers/podman: rootless devices and supplementary groups",
        {
            "system": PODMAN,
            "driver": {"nodes": dict.fromkeys([*OPEN, "/dev/nvidia0"], "Permission denied")},
            **no_cuda(100, "CUDA_ERROR_NO_DEVICE"),
        },
        *("driver", "broken", "^on the host: sudo chmod", "--device"),
    ),
    "a limit of the address space that only root can raise": Situation(
        "h_vmem of Grid Engine; CUDA_ERROR_OUT_OF_MEMORY at cuInit",
        {"limits": {"low": ["ulimit -Hv 8388608"]}, **no_cuda(2, "CUDA_ERROR_OUT_OF_MEMORY")},
        *("GPUs", "broken", "limits.d/as.conf", "^ulimit -S"),
    ),
    "CUDA starts with an error of memory": Situation(
        "cuda.h, CUDA_ERROR_ECC_UNCORRECTABLE",
        no_cuda(214, "CUDA_ERROR_ECC_UNCORRECTABLE"),
        *("GPUs", "broken", "ROW_REMAPPER", "Xid 79"),
    ),
    "another process has the GPU for itself": Situation(
        "cuda.h, CUDA_ERROR_DEVICE_UNAVAILABLE",
        no_cuda(46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
        *("GPUs", "broken", "nvidia-smi .*process", "Xid 79"),
    ),
    "an engine for Turing and later on a Volta": Situation(
        "CUDA 13 Release Notes",
        {
            "bus": _cards("0x1db6"),
            "cuda": cuda(COMPUTE_CAPABILITY_MAJOR=7, COMPUTE_CAPABILITY_MINOR=0),
            "stack": {"cuda_built": "13.0", "cuda_architectures": ["75", "80", "90"]},
        },
        *("GPU architectures", "broken", "cuda-12/bin/nvcc VOLLEY_CUDA_ARCHITECTURES='70'"),
    ),
    "an engine of CUDA 12.4 on a Blackwell": Situation(
        "pytorch/pytorch 159207",
        {
            "cuda": cuda(COMPUTE_CAPABILITY_MAJOR=12, COMPUTE_CAPABILITY_MINOR=0),
            "stack": {"cuda_built": "12.4", "cuda_architectures": ["80", "90"]},
        },
        *("GPU architectures", "broken", "cuda-13/bin/nvcc VOLLEY_CUDA_ARCHITECTURES='120'"),
    ),
    "an engine from a newer system": Situation(
        "firemodels/fds 14371",
        engine("/lib64/libc.so.6: version `GLIBC_2.34' not found (required by /home/ada/volley-engine)"),
        *("engine", "broken", "build volley on the oldest system.*--force-reinstall", "environment module"),
    ),
    "an engine of x86 on arm64, in one home folder": Situation(
        "ssh to a GH200 node: Exec format error",
        {"system": {**SYSTEM, "architecture": "aarch64"}, **engine("cannot start volley-engine: Exec format error")},
        *("engine", "broken", "--force-reinstall", "environment module"),
    ),
    "a job of one core with two threads": Situation(
        "Slurm, --cpus-per-task=2 with hyper-threads",
        {**SLURM, "settings": {"host": RANKS[0]["host"], "siblings": [[0, 1]]}},
        *("binding", "warning", "^ask Slurm", "taskset"),
    ),
    "ranks far from their GPUs": Situation(
        "NVIDIA/nccl 1086, open-mpi/ompi 11949",
        {"launcher": _BOUND, "topology": {"nodes": [], "places": _GPU_PLACES}},
        *("binding", "warning", "taskset -c 0-15"),
    ),
    "a container of one core": Situation(
        "docker run --cpuset-cpus=0",
        {"system": DOCKER, "surroundings": {**AROUND, "cpus": 1}, "mpi_host": SLOWER, "trials": []},
        *("CPU quota", "warning", "--cpuset-cpus"),
    ),
    "a shell of one core in a container of two": Situation(
        "taskset -c 0 bash",
        {"system": DOCKER, "surroundings": {**AROUND, "cpus": 1, "free_cpus": [0, 1]}, "mpi_host": SLOWER},
        *("CPU quota", "warning", r"this shell.*: taskset -cp 0-1 \$\$$", "docker run"),
    ),
    "ranks on one core in a shell that is bound to it": Situation(
        "taskset -c 0,1 bash with hyper-threads",
        {
            "system": DOCKER,
            "surroundings": {**AROUND, "cpus": 2, "free_cpus": [0, 1, 2, 3]},
            "settings": {"host": RANKS[0]["host"], "siblings": [[0, 1]]},
        },
        *("binding", "warning", r"this shell.*: taskset -cp 0-3 \$\$$", "docker run"),
    ),
    "ptrace is forbidden for good": Situation(
        "Linux, admin-guide/LSM/Yama; openucx/ucx 3545",
        {"limits": {"cma_error": "Operation not permitted", "ptrace_scope": 3}},
        *("CMA", "warning", r"sysctl\.d.*reboot", "sudo sysctl"),
    ),
    "Apptainer where ptrace is allowed": Situation(
        "apptainer/singularity 6518, hpc/charliecloud 128",
        {"system": APPTAINER, "limits": {"cma_error": "Operation not permitted", "ptrace_scope": 0}},
        *("CMA", "warning", "^on the host: allow process_vm_readv", "ptrace_scope"),
    ),
    "a sandbox without process_vm_readv": Situation(
        "google/gvisor: unsupported system calls",
        {"system": DOCKER, "limits": {"cma_error": "Function not implemented", "seccomp": 2}},
        *("CMA", "warning", "^none: ", "SYS_PTRACE"),
    ),
    "ptrace in WSL2": Situation(
        "WSL2 is Linux with root: sysctl works there",
        {"system": WSL, "limits": {"cma_error": "Operation not permitted", "ptrace_scope": 2}},
        *("CMA", "warning", "^sudo sysctl", "Windows"),
    ),
    "a home folder on a full disk": Situation(
        "Disk quota exceeded: many support pages",
        {"surroundings": {**AROUND, "home_error": "Disk quota exceeded"}},
        *("temporary files", "warning", "df -h ~"),
    ),
    "ranks that need 40 s because the driver is loaded for each": Situation(
        "nvidia-smi(1), persistence mode", {"launcher": {"start_s": 40.0}}, *("launcher", "warning", "nvidia-smi -pm 1")
    ),
    "/dev/gdrdrv is for root only": Situation(
        "NVIDIA/gdrcopy 21",
        {"gdrcopy": {"node": "Permission denied", "mapped": None}},
        *("GDRCopy", "warning", "chmod 666 /dev/gdrdrv", "github"),
    ),
    "cards without peer access": Situation(
        "NVIDIA/nccl-tests 117, NVIDIA/nccl 1127",
        {
            "cuda": cuda(reaches=False),
            "nvml": {**gpus({}, {}), "peers": [{"first": "0", "second": "1", "read": "GPU not supported"}]},
            "peers": [{"gpus": [0, 1], "job": {**COPY["job"], "points": []}}],
        },
        *("peer access", "warning", "^none: "),
    ),
    "/dev/shm of a pod has its usual size": Situation(
        "NVIDIA/nccl 290, 342",
        {"system": POD, "limits": {"shm_bytes": 64 << 20, "shm_free_bytes": 64 << 20}},
        *("shared memory", "warning", "emptyDir"),
    ),
    "/dev/shm of a container is full": Situation(
        "64 MiB are enough for two ranks",
        {
            "system": DOCKER,
            "limits": {"shm_bytes": 64 << 20, "shm_free_bytes": 1 << 19, "shm_error": "No space left on device"},
        },
        *("shared memory", "warning", "^ls -lS /dev/shm", "docker run", "^only 512 KiB of 64 MiB is free"),
    ),
    "locked memory of 64 KiB": Situation(
        "openucx/ucx 8229, 6264; NVIDIA/nccl-tests 206",
        {**RDMA, **all_ended(_LOCKED, limits={"memlock_bytes": 65536}, trials=[])},
        *("locked memory", "broken", "ulimit -l unlimited"),
    ),
    "no /dev/infiniband in a container": Situation(
        "NVIDIA/nccl 451, MrBr-github/lshca 83",
        {**RDMA, "system": DOCKER, "limits": {"rdma_errors": {"mlx5_0": "/dev/infiniband/uverbs0: absent"}}},
        *("RDMA devices", "warning", "--device /dev/infiniband"),
    ),
    "no subnet manager": Situation(
        "openucx/ucx 5970, k8snetworkplumbingwg/sriov-network-device-plugin 269",
        {**RDMA, "limits": {"rdma_errors": {"mlx5_0": "port 2: INIT"}}},
        *("RDMA devices", "warning", "opensm"),
    ),
    "TCP from a container without /dev/infiniband": Situation(
        "openucx/ucx 6215",
        {**RDMA, "system": DOCKER, "hosts": hosts(path={"idle": [MLX5]})},
        *("MPI between hosts", "warning", "--device /dev/infiniband"),
    ),
    "TCP from a pod without an RDMA device": Situation(
        "NVIDIA/nccl 451",
        {**RDMA, "system": POD, "hosts": hosts(path={"idle": [MLX5]})},
        *("MPI between hosts", "warning", "specification of the pod", "--device"),
    ),
    "a GID of another network, by a variable": Situation(
        "NVIDIA/nccl 426, 769; openucx/ucx 6000",
        {**RDMA, "environment": {"UCX_IB_GID_INDEX": "0"}, "hosts": hosts(ended(_LOST))},
        *("MPI between hosts", "broken", "^unset UCX_IB_GID_INDEX"),
    ),
    "a GID of another network": Situation(
        "openucx/ucx 1878, 2501; NVIDIA/nccl 1131",
        {**RDMA, "hosts": hosts(ended(_LOST))},
        *("MPI between hosts", "broken", "show_gids", "unset"),
    ),
    "a security group that keeps EFA out": Situation(
        "ofiwg/libfabric, prov/efa: Unresponsive remote",
        {"hosts": hosts(ended("Libfabric EFA provider has encountered an unrecoverable error: Unresponsive remote"))},
        *("MPI between hosts", "broken", "security group"),
    ),
    "NCCL_SOCKET_IFNAME=lo between hosts": Situation(
        "NVIDIA/nccl 570; NCCL User Guide, NCCL_SOCKET_IFNAME",
        {
            "environment": {"NCCL_SOCKET_IFNAME": "lo"},
            "hosts": {
                **pair({"interfaces": {"lo": "127.0.0.1/8"}}, {"interfaces": {"lo": "127.0.0.1/8"}}, GOOD_JOB),
                "nccl": {**nccl(""), "job": {**GOOD_JOB, **ended("NCCL WARN socketProgress: Connection refused")}},
            },
        },
        *("NCCL between hosts", "broken", "^unset NCCL_SOCKET_IFNAME"),
    ),
    "a container with an address of its own": Situation(
        "open-mpi/ompi 2320, 10041",
        {"system": DOCKER, "hosts": hosts(ended("it hangs"), b={"reached": {"a 192.0.2.1": "port 7: timed out"}})},
        *("ports", "broken", "docker run --network host"),
    ),
    "few open files on one host, and other limits differ": Situation(
        "geerlingguy/top500-benchmark 45",
        {
            "hosts": pair(
                {},
                {"settings": {**ALIKE, "limit of locked memory": "64 KiB", "limit of open files": "64"}},
                ended("PMIX ERROR: PMIX_ERR_SYS_LIMITS_FILES in file x.c at line 7"),
            )
        },
        *("alike", "broken", "ulimit -n 65536", "ulimit -l"),
    ),
    "a login of 12 s on one host": Situation(
        "sshd's UseDNS, GSSAPI, slow servers of home folders: many support pages",
        {"hosts": pair({"answer_s": 0.2}, {"answer_s": 12.0}, GOOD_JOB)},
        *("hosts", "warning", "^on b: time id; ", "ssh"),
    ),
    "a launcher outside of the container": Situation(
        "apptainer/singularity 1590; open-mpi/ompi: PMIx inside and outside of containers",
        {"system": APPTAINER, "launcher": ended("x", launcher="openmpi", inside=True, reason=ALONE)},
        *("launcher", "broken", "must be of one MPI and version in this container and outside", "srun"),
    ),
    "a VPN on both hosts": Situation(
        "open-mpi/ompi 12232, 13155",
        {
            "hosts": pair(
                {
                    "interfaces": {"eth0": "192.0.2.1/24", "tun0": "10.8.0.6/24"},
                    "reached": {"b 192.0.2.2": "ok", "b 10.8.0.10": "port 1: timed out"},
                },
                {
                    "interfaces": {"eth0": "192.0.2.2/24", "tun0": "10.8.0.10/24"},
                    "reached": {"a 192.0.2.1": "ok", "a 10.8.0.6": "port 1: timed out"},
                },
                ended("it hangs"),
            )
        },
        *("interfaces", "broken", "if_exclude=127.0.0.0/8,tun0"),
    ),
    "a host's own name is 127.0.1.1, with MPICH": Situation(
        "pmodels/mpich 2263, 1595",
        {
            "stack": {"mpi_family": "mpich"},
            "hosts": pair({"names": {"a": ["127.0.1.1"], "b": ["192.0.2.2"]}}, {}, ended(_HYDRA)),
        },
        *("names", "broken", "^on a: echo '192.0.2.1 a' .*/etc/hosts"),
    ),
    "nvidia_peermem on the second host only": Situation(
        "NVIDIA/nccl 1939",
        {"hosts": pair({}, {"settings": {**ALIKE, "nvidia_peermem": "loaded"}}, ended("x"))},
        *("alike", "broken", "^on a: sudo modprobe nvidia_peermem", "none"),
    ),
    "the first host has no driver": Situation(
        "a login node among the hosts",
        {"hosts": pair({"settings": {**ALIKE, "NVIDIA driver": ""}}, {}, ended("x"))},
        *("alike", "broken", "^give a the NVIDIA driver of the other hosts, or leave it out: 580", "none"),
    ),
    "srun without PMIx": Situation(
        "open-mpi/ompi 4338, clusterinthecloud/ansible 24",
        {
            **SLURM,
            "launcher": ended(
                "srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files",
                "srun: error: cannot find mpi plugin for mpi/pmix",
                launcher="srun",
                reason=ALONE,
            ),
        },
        *("launcher", "broken", "--launcher openmpi", "--mpi=pmix"),
    ),
    "Intel MPI below srun": Situation(
        "aws/aws-parallelcluster 3980",
        {
            **SLURM,
            "stack": {"mpi_family": "mpich"},
            "mpi_host": {"library": "Intel(R) MPI Library 2021.18"},
            "launcher": ended(
                "MPI startup(): PMI server not found. Please set I_MPI_PMI_LIBRARY variable if it is not a singleton.",
                launcher="srun",
                reason=ALONE,
            ),
        },
        *("launcher", "broken", "I_MPI_PMI_LIBRARY="),
    ),
    "fewer slots than ranks in a job": Situation(
        "open-mpi/ompi 6020, 9496",
        {**SLURM, **all_ended(*_SLOTS, trials=[])},
        *("MPI, host memory", "broken", "^ask Slurm for two CPUs"),
    ),
    "NCCL without shared memory": Situation(
        "NVIDIA/nccl 342",
        {"environment": {"NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}, "nccl": nccl("NET/Socket/0")},
        *("NCCL", "warning", "^unset NCCL_SHM_DISABLE NCCL_P2P_DISABLE"),
    ),
    "NCCL_P2P_LEVEL=LOC": Situation(
        "NCCL User Guide, NCCL_P2P_LEVEL",
        {"environment": {"NCCL_P2P_LEVEL": "LOC"}, "nccl": nccl("SHM/direct/direct")},
        *("NCCL", "warning", "^unset NCCL_P2P_LEVEL"),
    ),
    "UCX_TLS without cuda_ipc": Situation(
        "openucx/ucx 5159",
        {"environment": {"UCX_TLS": "^cuda_ipc"}, "mpi_device": _sent(aware=4e-4, staged_pinned=1e-4)},
        *("MPI, GPU speed", "warning", "^unset UCX_TLS"),
    ),
    "an error of memory that ended one program": Situation(
        "NVIDIA, Xid Errors: 94", xid(94), "driver's errors", "warning", "nvidia-smi -i 1 -r"
    ),
    "an error of NVLink 5": Situation(
        "leptonai/gpud; NVIDIA, Xid Errors: 149", xid(149), "driver's errors", "warning", "nvidia-smi nvlink -e"
    ),
    "PCIe sends again and again on one GPU": Situation(
        "noonghunna/club-3090 895: risers",
        {"nvml": gpus({"pcie_replays": 2_500_000}, {"pcie_replays": 3})},
        *("PCIe", "warning", "^reseat the card"),
    ),
    "ECC corrects one GPU's memory all the time": Situation(
        "NVIDIA DCGM, policies of memory errors",
        {"nvml": gpus({"ecc": True, "ecc_corrected": 1_200_000}, {"ecc": True, "ecc_corrected": 2})},
        *("memory errors", "warning", "nvidia-smi -q -d ECC,ROW_REMAPPER -i 0", "nvlink"),
    ),
    "a GPU with half of its lanes in a virtual machine": Situation(
        "NVIDIA/NVSentinel: cloud instances",
        {"system": {**SYSTEM, "virtual": True}, "nvml": gpus({"pcie_width": 8, "pcie_width_max": 16}, {})},
        *("PCIe", "broken", "^take another instance", "^reseat"),
    ),
    "a row is to be remapped on the host of a pod": Situation(
        "leptonai/gpud 80",
        {"system": POD, "nvml": gpus({"row_remapping": "pending"}, {})},
        *("memory errors", "warning", "^on the host: this disturbs"),
    ),
}

FINE: dict[str, dict[str, Any]] = {
    "errors of programs": {
        "driver": {"xids": [{"pci": GOOD.gpus[1].pci, "number": number, "said": "x"} for number in (13, 31, 43, 45)]}
    },
    "a second port without a cable": {**RDMA, "limits": {"rdma_errors": {"mlx5_1": "port 1: DOWN"}}},
    "a few replays": {"nvml": gpus({"pcie_replays": 400_000}, {"pcie_replays": 0})},
    "a host's own name is 127.0.1.1, and MPI works": {
        "stack": {"mpi_family": "mpich"},
        "hosts": pair(
            {"names": {"a": ["127.0.1.1"], "b": ["192.0.2.2"]}}, {}, msgspec.to_builtins(GOOD.mpi_host.value)
        ),
    },
}
"""What looks like one of these, and is no problem."""
