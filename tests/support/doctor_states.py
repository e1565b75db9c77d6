"""States of a machine, as changes to the facts of one that works, and the one finding of each (docs/doctor.md)."""

from pathlib import Path
from typing import Any

import msgspec

from machine_facts import changed, facts_of
from volley.doctor.checks import diagnose
from volley.machine.facts import Facts

_BASE = facts_of("h200x2-no-gdrcopy")
_TEXTS = (Path(__file__).parents[1] / "mpi_outputs.txt").read_text("utf-8").strip("\n").split("\n\n")
_SAID = {each.splitlines()[0][2:]: [line[2:] for line in each.splitlines()[2:]] for each in _TEXTS}
AROUND = {"host": "node1", "cpus": 8, "folder": "/scratch", "other_folder": "/tmp", "in_job": True}
_CLOCKS = [
    {**msgspec.to_builtins(gpu), "clocks_event_reasons": []}
    for gpu in (_BASE.nvml.value.gpus if _BASE.nvml.value else [])
]
GOOD = changed(
    _BASE,
    surroundings=AROUND,
    settings={"host": "node1"},
    trials=None,
    gdrcopy={"node": "ok", "module": "2.4", "library": "2.4", "mapped": True},
    nvml={"gpus": _CLOCKS},
    iommu={"units": [], "readable": True},
    system={"virtual": False},
    driver={"xids_unread": ""},
)
"""A machine without problems."""


def failed(output: str, **more: Any) -> dict[str, Any]:
    """A job that ended with one of the kept outputs."""
    ended = {"complete": False, "status": 1, "reason": "the job ended with status 1", "library": None}
    return {**ended, "text": _SAID[output], "points": [], "ranks": [], **more}


def all_jobs(output: str, **others: Any) -> dict[str, Any]:
    """No job works, for one reason."""
    job = failed(output)
    peers = [{"gpus": [0, 1], "job": {**msgspec.to_builtins(GOOD.mpi_host.value), **job}}]
    return {"mpi_host": job, "mpi_device": job, "launcher": job, "peers": peers, **others}


def _tried(*settings: str, works: bool = True) -> list[dict[str, Any]]:
    names = " ".join(each.partition("=")[0] for each in settings)
    return [{"change": f"unset {names}", "settings": list(settings), "works": works}]


def cuda(number: int = 2, *, reaches: bool = True, **attributes: int) -> dict[str, Any]:
    """CUDA's answer for the first GPUs, with attributes changed."""
    devices = [msgspec.to_builtins(device) for device in GOOD.cuda_devices[:number]]
    for device in devices:
        device["attributes"] |= attributes
    peers = [[one == other or reaches for other in range(number)] for one in range(number)]
    return {"devices": devices, "peers": peers}


def failed_cuda(status: int, name: str) -> dict[str, Any]:
    return {"status": status, "status_name": name, "failed_call": "cuInit", "devices": [], "peers": []}


def gpus(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"gpus": [{**gpu, **change} for gpu, change in zip(_CLOCKS, changes, strict=False)]}


_NO_GPU_JOBS = {"pcie_load": None, "peers": None, "mpi_device": None}
RANKS = msgspec.to_builtins(GOOD.launcher.value)["ranks"]
_NO_DEVICE = [{**each, "device": None} for each in RANKS]


NO_DRIVER = {
    "driver": {"version": None, "nodes": {}, "modules": [], "library": None},
    **dict.fromkeys(("cuda", "nvml", "gdrcopy"), None),
    **_NO_GPU_JOBS,
    "launcher": {"ranks": [], "transports": []},
    "ucx": {"components": [{"name": "tcp", "resources": 1}]},
}


def _held(driver: str) -> list[dict[str, Any]]:
    return [{**msgspec.to_builtins(gpu), "driver": driver} for gpu in GOOD.gpus_on_bus]


def no_cuda(status: int, name: str) -> dict[str, Any]:
    return {
        "cuda": failed_cuda(status, name),
        **_NO_GPU_JOBS,
        "gdrcopy": {"mapped": None},
        "launcher": {"ranks": _NO_DEVICE},
    }


SLOWER = {"points": [{"transport": "host", "size_bytes": 8, "status": "ok", "half_round_trip_s": 1.2e-5}]}
_WRONG = {"transport": "peer", "size_bytes": 4096, "status": "failed", "reason": "4096 of 4096 bytes differ"}
COPY = msgspec.to_builtins(GOOD.peers.value)[0] if GOOD.peers.value else {}
_UNAWARE = {
    "complete": False,
    "status": 139,
    "reason": "the job ended with status 139 (SIGSEGV)",
    "points": [],
    "text": [],
}
ALIKE = {"MPI": "Open MPI 5.0.11", "UCX": "1.20.1", "NVIDIA driver": "580.65.06"}
ALIKE |= {"limit of locked memory": "unlimited", "limit of open files": "65536"}


RDMA = {"bus": {"infiniband": ["mlx5_0"]}, "driver": {"modules": ["nvidia", "nvidia_uvm", "nvidia_peermem"]}}
MLX5 = {"name": "mlx5_0", "rdma": True, "rate_bits_per_s": 2e11}


def _path(**more: Any) -> dict[str, Any]:
    eth0 = {"name": "eth0", "rate_bits_per_s": 1e9, "sent": 1.0, "received": 1.0}
    ends = [{"rank": rank, "host": host, "devices": [eth0]} for rank, host in enumerate("ab")]
    sizes = {"transport": "host", "size_bytes": 1 << 22, "bytes_each_way": 1 << 23, "counted": 1.0}
    return {**sizes, "library": "Open MPI ob1", "protocol": "tcp", "ends": ends, **more}


def hosts(
    job: dict[str, Any] | None = None,
    *,
    docker: bool = False,
    b: dict[str, Any] | None = None,
    path: dict[str, Any] | None = None,
    device: dict[str, Any] | None = None,
) -> dict[str, Any]:
    known = {"a": ["192.0.2.1"], "b": ["192.0.2.2"]}
    both = {"docker0": "172.17.0.1/16"} if docker else {}
    one = {"name": "a", "port": 1, "names": known, "settings": ALIKE, "reached": {"b 192.0.2.2": "ok"}}
    two = {"name": "b", "port": 1, "names": known, "settings": ALIKE, "reached": {"a 192.0.2.1": "ok"}}
    one["interfaces"] = {"eth0": "192.0.2.1/24", **both}
    two["interfaces"] = {"eth0": "192.0.2.2/24", **both}
    whole = {**msgspec.to_builtins(GOOD.mpi_host.value), **(job or {})}
    trial = {"change": "OMPI_MCA_btl_tcp_if_exclude=127.0.0.0/8,docker0", "works": True} if docker else None
    sent = {**msgspec.to_builtins(GOOD.mpi_device.value), "protocols": [], **(device or {})}
    found = {"hosts": [one, {**two, **(b or {})}], "job": whole, "device_job": sent if whole["complete"] else None}
    return {**found, "paths": [_path(**(path or {}))], "trial": trial}


_LEFT_OVER = {
    "change": "unset $(env | grep -oE '^(PMIX_|OMPI_COMM_WORLD_)[A-Za-z0-9_]*')",
    "settings": ["PMIX_RANK=0", "PMIX_NAMESPACE=x@1", "OMPI_COMM_WORLD_RANK=0"],
    "works": True,
}
_IN_FILE = {
    "change": "mv ~/.openmpi/mca-params.conf ~/.openmpi/mca-params.conf.off",
    "settings": ["pml = ucx in ~/.openmpi/mca-params.conf"],
    "works": True,
}
_LIMIT = {"change": "ulimit -S -n 1024", "settings": ["ulimit -n 20"], "works": True}
_SHM_MPICH = "MPICH 4.0.2: 4 MiB of /dev/shm"
_BTL = "Open MPI 5.0.11: OMPI_MCA_btl=openib,self,vader"
_OTHER_HOST = "Open MPI 5.0.11: the variables of a job on another host"
_GONE = "volley-engine: error while loading shared libraries: libmpi.so.40: cannot open shared object file"
_OLD_LIBRARY = "/opt/old/lib/libstdc++.so.6: version `GLIBCXX_3.4.29' not found"
_NOEXEC = "[Errno 13] Permission denied: '/scratch/try'"

_LATE = "[1795891834.17] [n1:59 :0] ucp_ep.c:1545 UCX  ERROR   ep 0x7f: flush failed: Input/output error"
STATES: dict[str, dict[str, Any]] = {
    "TMPDIR without exec": {"surroundings": {"folder_run_error": _NOEXEC}},
    "TMPDIR is full": all_jobs(
        "Open MPI 5.0.11: TMPDIR is full",
        surroundings={"folder_error": "No space left on device"},
        trials=[{"change": "TMPDIR=/tmp", "works": True}],
    ),
    "variables of a job on another host": all_jobs(
        _OTHER_HOST,
        surroundings={"batch_system": "slurm", "job_hosts": ["gpu07"], "in_job": False},
        trials=_tried("SLURM_JOB_ID=7", "SLURM_NODELIST=gpu07"),
    ),
    "variables of a rank, without its launcher": {
        **dict.fromkeys(("mpi_host", "mpi_device", "peers")),
        "launcher": failed("Open MPI 5.0.11: the variables of a rank", inside=True),
        "trials": [_LEFT_OVER],
    },
    "a job of one CPU": {
        "surroundings": {"batch_system": "slurm", "job_hosts": ["node1"]},
        "mpi_host": SLOWER,
        "trials": _tried("SLURM_JOB_ID=7", "SLURM_TASKS_PER_NODE=1"),
    },
    "variables of a job that srun refuses": {
        "environment": {"SLURM_JOB_ID": "7", "SLURM_MEM_PER_CPU": "1", "SLURM_MEM_PER_NODE": "2"},
        "surroundings": {
            "batch_system": "slurm",
            "job_hosts": ["node1"],
            "step_error": "srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually "
            "exclusive.",
        },
    },
    "a job of PBS whose hosts cannot be read": {
        "environment": {"PBS_JOBID": "7"},
        "surroundings": {
            "batch_system": "pbs",
            "in_job": True,
            "step_error": "PBS_NODEFILE: cannot read /var/spool/pbs/aux/7: Permission denied",
        },
    },
    "a component in ~/.openmpi/mca-params.conf": all_jobs(
        "Open MPI 5.0.11: OMPI_MCA_pml=ucx without a network card", trials=[_IN_FILE]
    ),
    "a low limit of open files": all_jobs("Open MPI 5.0.11: ulimit -n 20", trials=[_LIMIT]),
    "a hard limit of open files": all_jobs(
        "Open MPI 5.0.11: ulimit -n 20", limits={"low": ["ulimit -Hn 20"]}, trials=[]
    ),
    "a control group with few processes": all_jobs(
        "Open MPI 5.0.11: 13 processes in a control group",
        limits={"low": ["/sys/fs/cgroup/job/pids.max 13, of which 3 are in use"]},
        trials=[],
    ),
    "a low limit of the size of files": all_jobs(
        "MPICH 4.0.2: ulimit -f 512",
        trials=[{"change": "ulimit -S -f unlimited", "settings": ["ulimit -f 512"], "works": True}],
        surroundings={"folder_error": "File too large"},
        limits={"shm_error": "File too large"},
        stack={"mpi_family": "mpich"},
    ),
    "a topology of hwloc in the shell": all_jobs(
        "Open MPI 5.0.11: HWLOC_COMPONENTS=stop", trials=_tried("HWLOC_SYNTHETIC=pu:1")
    ),
    "OMPI_MCA_btl of an older Open MPI": all_jobs(_BTL, trials=_tried("OMPI_MCA_btl=openib,self,vader")),
    "UCX_TLS leaves nothing": all_jobs(
        "MPICH 4.0.2: UCX_TLS=rc without a network card",
        trials=_tried("UCX_TLS=rc"),
    ),
    "inherited settings make MPI slow": {"mpi_host": SLOWER, "trials": _tried("OMPI_MCA_btl=self,tcp")},
    "the library of MPI is gone": all_jobs(
        "a loader", stack={"start_error": _GONE, "described": "/opt/mpi/lib/libmpi.so.40"}, trials=[]
    ),
    "another MPI's library is loaded": all_jobs(
        "a loader", stack={"start_error": _GONE}, trials=_tried("LD_LIBRARY_PATH=/opt/other/lib")
    ),
    "an old libstdc++ in front": all_jobs(
        "a loader", stack={"start_error": _OLD_LIBRARY}, trials=_tried("LD_LIBRARY_PATH=/opt/old/lib")
    ),
    "the host's name has no address": all_jobs(
        "Intel MPI 2021.18: I_MPI_HYDRA_IFACE=eth9", surroundings={"host_error": "Name or service not known"}
    ),
    "lo is down": all_jobs("Open MPI 5.0.11: no interface", surroundings={"loopback_error": "Network is unreachable"}),
    "a variable names an interface that is not there": {
        "environment": {"NCCL_SOCKET_IFNAME": "ib0", "UCX_NET_DEVICES": "mlx5_0:1,mlx5_9:1"},
        "surroundings": {"devices": ["lo", "eth0", "mlx5_0"]},
    },
    "MPI is told to copy messages twice": {"environment": {"OMPI_MCA_smsc": "^cma"}},
    "a parameter of Open MPI is misspelt": {
        "environment": {"OMPI_MCA_btl_tcp_if_incldue": "eth0"},
        "stack": {"misspelt": {"OMPI_MCA_btl_tcp_if_incldue": "OMPI_MCA_btl_tcp_if_include"}},
    },
    "a variable of NCCL is misspelt": {
        "environment": {"NCCL_IB_DISABLED": "1"},
        "stack": {"misspelt": {"NCCL_IB_DISABLED": "NCCL_IB_DISABLE"}},
    },
    "a variable of MPICH is misspelt": {
        "environment": {"MPIR_CVAR_NOLOCL": "1"},
        "stack": {"mpi_family": "mpich", "misspelt": {"MPIR_CVAR_NOLOCL": "MPIR_CVAR_NOLOCAL"}},
    },
    "UCX says that nothing used a variable": {"environment": {"UCX_TSL": "tcp"}, "mpi_host": {"unused": ["UCX_TSL"]}},
    "Open MPI knows no such value": {
        "environment": {"OMPI_MCA_mpi_preconnect_all": "x"},
        "mpi_host": {"invalid": ["mpi_preconnect_mpi=x"]},
    },
    "two hardware threads of one core": {"settings": {"host": RANKS[0]["host"], "siblings": [[0, 1]]}},
    "one CPU for two ranks": {"surroundings": {"cpus": 1}, "mpi_host": SLOWER, "trials": []},
    "/dev/shm is small, with MPICH": all_jobs(
        _SHM_MPICH,
        limits={"shm_bytes": 4 << 20, "shm_free_bytes": 4 << 20},
        stack={"mpi_family": "mpich"},
        trials=[{"change": "UCX_TLS=self,tcp", "works": True}],
    ),
    "/dev/shm is small, with Open MPI": {
        "limits": {"shm_bytes": 4 << 20, "shm_free_bytes": 4 << 20},
        "mpi_host": SLOWER,
        "trials": [{"change": "OMPI_MCA_btl=self,sm", "reason": "there is not enough space for /dev/shm/sm_segment"}],
    },
    "/dev/shm is not for all users": all_jobs(_SHM_MPICH, limits={"shm_error": "Permission denied"}),
    "/dev/shm is missing": all_jobs(_SHM_MPICH, limits={"shm_bytes": 0, "shm_error": "No such file or directory"}),
    "MPI fails for a reason of its own": all_jobs(
        "Open MPI 5.0.11: OMPI_MCA_btl_tcp_if_include=eth9", trials=_tried("UCX_TLS=all", works=False)
    ),
    "UCX without a transport for GPU memory": {"mpi_device": _UNAWARE, "trials": _tried("UCX_TLS=tcp,self")},
    "another component sends GPU memory": {
        "mpi_device": _UNAWARE,
        "trials": [{"change": "OMPI_MCA_pml=ucx", "works": True}],
    },
    "no NVIDIA driver": {
        **NO_DRIVER,
        "driver": {"version": None, "nodes": {}, "modules": [], "library": "no such file"},
    },
    "nouveau holds the GPUs": {**NO_DRIVER, "bus": {"gpus": _held("nouveau")}},
    "the GPUs are kept for virtual machines": {**NO_DRIVER, "bus": {"gpus": _held("vfio-pci")}},
    "CUDA_VISIBLE_DEVICES is empty": {
        "environment": {"CUDA_VISIBLE_DEVICES": ""},
        **no_cuda(100, "CUDA_ERROR_NO_DEVICE"),
    },
    "a stub in front of the driver's library": {
        "environment": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs"},
        **no_cuda(34, "CUDA_ERROR_STUB_LIBRARY"),
    },
    "an MPS that has ended": {
        "environment": {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"},
        **no_cuda(805, "CUDA_ERROR_MPS_CONNECTION_FAILED"),
    },
    "a limit of the address space": no_cuda(2, "CUDA_ERROR_OUT_OF_MEMORY"),
    "a divided GPU (MIG)": {
        "nvml": gpus({"mig": True}, {"mig": True}),
        "cuda": cuda(reaches=False),
        "peers": [{"gpus": [0, 1], "job": {**COPY["job"], "complete": False, "points": []}}],
    },
    "NVML and the driver are of two versions": {"nvml": "Driver/library version mismatch"},
    "a GPU that fell off the bus": {
        **dict.fromkeys(("peers", "pcie_load")),
        "cuda": cuda(1),
        "nvml": "GPU is lost",
        "launcher": {"ranks": [{**each, "device": None} for each in RANKS[:1]] + RANKS[1:]},
    },
    "other processes have the memory of a GPU": {
        "pcie_load": "CudaError: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)",
        "gdrcopy": {"mapped": None, "map_error": "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"},
        "mpi_device": {**_UNAWARE, "status": 1, "reason": "cudaMalloc: out of memory"},
        "peers": [{"gpus": [0, 1], "job": {**COPY["job"], **_UNAWARE}}],
    },
    "CUDA hangs": {**dict.fromkeys(("cuda", "nvml", "pcie_load", "launcher"), "no answer within 60 s"), "peers": None},
    "memory errors of a GPU": {"nvml": gpus({"ecc_uncorrected": 3}, {}), "mpi_device": _UNAWARE},
    "a memory error in the kernel's messages": {
        "driver": {"xids": [{"pci": GOOD.gpus[1].pci, "number": 48, "said": "Xid (PCI:0000:cb:00): 48, DBE"}]}
    },
    "a GPU that fell off the bus, in the kernel's messages": {
        "driver": {"xids": [{"pci": "0000:cb:00.0", "number": 79, "said": "Xid (PCI:0000:cb:00): 79, GPU has fallen"}]},
        "nvml": "GPU is lost",
    },
    "a job that fails when all data has crossed": {
        "mpi_host": {"complete": False, "status": 1, "reason": "the job ended with status 1", "text": [_LATE]}
    },
    "GPUs for one process each": {"cuda": cuda(COMPUTE_MODE=3), "mpi_device": _UNAWARE},
    "GPUs without peer access": {
        "cuda": cuda(reaches=False),
        "peers": [{"gpus": [0, 1], "job": {**COPY["job"], "points": []}}],
    },
    "an IOMMU that translates": {
        "iommu": {"units": ["dmar0"], "types": ["DMA-FQ"], "bridges": [{"address": "0000:16:00.0", "acs_control": 29}]},
        "peers": [{"gpus": [0, 1], "job": {**COPY["job"], "points": [_WRONG]}}],
    },
    "an MPI without CUDA": {
        "mpi_device": _UNAWARE,
        "ucx": {"components": [{"name": "tcp", "resources": 1}]},
        "stack": {"mpi_source": "system", "ompi_cuda": True, "ompi_pml": []},
        "hosts": hosts(device=_UNAWARE),
    },
    "GPU memory does not cross to the other host": {"hosts": hosts(device=_UNAWARE)},
    "a host that does not answer": {"hosts": hosts(failed(_OTHER_HOST), b={"error": "timeout"})},
    "a name with another address": {
        "hosts": hosts(
            failed(_OTHER_HOST),
            b={"names": {"a": ["127.0.1.1"], "b": ["192.0.2.2"]}, "reached": {"a 192.0.2.1": "refused"}},
        )
    },
    "a firewall between hosts": {
        "hosts": hosts(failed(_OTHER_HOST), b={"reached": {"a 192.0.2.1": "port 7: timed out"}})
    },
    "different versions of MPI": {
        "hosts": hosts(failed(_OTHER_HOST), b={"settings": {**ALIKE, "MPI": "Open MPI 4.1.4"}})
    },
    "fewer open files, less locked memory and another UCX": {
        "hosts": hosts(
            failed(_OTHER_HOST),
            b={"settings": {**ALIKE, "UCX": "", "limit of locked memory": "8 MiB", "limit of open files": "1024"}},
        )
    },
    "NCCL_SOCKET_IFNAME names nothing on the other host": {
        "environment": {"NCCL_SOCKET_IFNAME": "eth0"},
        "surroundings": {"devices": ["lo", "eth0"]},
        "hosts": hosts(b={"interfaces": {"lo": "127.0.0.1/8", "ens9": "192.0.2.2/24"}}),
    },
    "TCP between hosts with InfiniBand, because a variable asks for it": {
        "environment": {"OMPI_MCA_btl": "tcp,self"},
        **RDMA,
        "hosts": hosts(path={"idle": [MLX5]}),
    },
    "TCP between hosts with InfiniBand, because UCX finds no device": {
        **RDMA,
        "hosts": hosts(path={"idle": [MLX5], "reason": "Open MPI found no device that its UCX can use"}),
    },
    "TCP over the slower interface": {"hosts": hosts(path={"idle": [{"name": "eth1", "rate_bits_per_s": 1e11}]})},
    "TCP between hosts whose InfiniBand is down": {**RDMA, "hosts": hosts()},
    "docker0 on both hosts": {"hosts": hosts(failed(_OTHER_HOST), docker=True)},
}
"""Changes to the facts; doctor must find one problem of each: tests/screens/doctor/states.txt."""


def state(name: str) -> Facts:
    """The facts of a state."""
    return changed(GOOD, **STATES[name])


def blamed(facts: Facts) -> list[str]:
    """The checks that find a problem of their own."""
    return [each.check for each in diagnose(facts).findings if each.status in {"warning", "broken"}]
