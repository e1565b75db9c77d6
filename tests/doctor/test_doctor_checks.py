"""Single verdicts that no machine of tests/machines shows: two H200s with facts changed."""

from typing import Any

import msgspec

from doctor_states import AROUND, MLX5, RDMA, cuda, failed_cuda, hosts
from machine_facts import changed, facts_of
from screens import SCREENS, check_screen
from volley.doctor.checks import diagnose
from volley.doctor.findings import DoctorFinding
from volley.machine.facts import Facts

BASE = facts_of("h200x2-no-gdrcopy")


def finding(check: str, facts: Facts = BASE, **changes: Any) -> DoctorFinding:
    """What is said of these facts with changes."""
    found = {each.check: each for each in diagnose(changed(facts, **changes)).findings}
    return found[check]


def rank(number: int, cores: list[int], by: str, device: Any = None) -> dict[str, Any]:
    known = {"host": "node1", "node": 0, "cores": cores, "bound_by": by, "device": device}
    return {"rank": number, "local_rank": number, **known}


KNOWN = msgspec.to_builtins(BASE.cuda_devices[0])
CTL, UVM, GPU = "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"
NO_DRIVER = {"version": None, "modules": [], "nodes": {}, "headers": False, "library": "no such file"}
OTHER_JOBS = {CTL: "ok", UVM: "ok", GPU: "ok", "/dev/nvidia1": "Operation not permitted"}
ALL_SHUT = {CTL: "ok", UVM: "ok", GPU: "Operation not permitted"}
FOUR = {"gpus": [{"address": f"0000:00:{4 + number:02x}.0", "device_id": "0x0"} for number in range(4)]}
DOCKER = {"os_id": "debian", "root": True, "container": "docker"}
METAL = {"os_id": "rocky", "os_like": ["rhel"], "virtual": False}
SLURM = {"SLURM_JOB_ID": "42"}
LINK = {"link": 0}
DOWN = [
    {"index": 0, "uuid": "GPU-0", "nvlinks": [LINK], "nvlinks_inactive": 1},
    {"index": 1, "uuid": "GPU-1", "nvlinks": [LINK, LINK]},
]
UNREAD = {"index": 0, "uuid": "GPU-0", "unread": {"nvlinks": "GPU is lost"}}


def links(name: str, *each: tuple[int, int]) -> list[dict[str, Any]]:
    """GPUs of a product with so many active and inactive links."""
    return [
        {"index": n, "uuid": f"GPU-{n}", "name": name, "nvlinks": [LINK] * up, "nvlinks_inactive": down}
        for n, (up, down) in enumerate(each)
    ]


UNMAPPED = {"node": "ok", "module": "2.4", "library": "2.4", "mapped": False, "map_error": "gdr_map failed with 22"}
CRASHED = {"complete": False, "status": 139, "reason": "SIGSEGV", "points": []}

HANGS = {"complete": False, "reason": "it hangs", "points": []}
BY_RDMA = [{"rank": number, "host": host, "devices": [MLX5]} for number, host in enumerate("ab")]


def pcie(generation: int | None) -> list[dict[str, Any]]:
    return [{"pci": gpu.address, "generation": generation, "width": generation and 16} for gpu in BASE.gpus_on_bus]


SLOW = {"host": "h", "clock_driver": "acpi-cpufreq", "governors": {"performance": "0-3", "powersave": "4-7"}}
CLOCKS = {"index": 0, "uuid": "GPU-0", "clocks_event_reasons": []}
DEVICE = msgspec.to_builtins(BASE.launcher.value.ranks[0].device) if BASE.launcher.value else None
ON_ONE_GPU = [rank(number, [number], "engine", DEVICE) for number in range(2)]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("driver", {"driver": {"nodes": {CTL: "ok", GPU: "ok"}}, "cuda": failed_cuda(999, "UNKNOWN")}),
    ("driver", {"driver": {"nodes": {}}, "cuda": failed_cuda(100, "NO_DEVICE")}),
    ("driver", {"driver": {"nodes": {CTL: "ok", UVM: "ok", GPU: "denied"}}}),
    ("driver", {"driver": {"library": "gone"}, "system": DOCKER}),
    ("driver", {"driver": NO_DRIVER, "cuda": None, "system": DOCKER}),
    ("driver", {"driver": NO_DRIVER, "cuda": None, "system": {"os_id": "gentoo", "os_like": []}}),
    ("driver", {"driver": NO_DRIVER}),
    ("driver", {"driver": {"nodes": OTHER_JOBS}}),
    ("driver", {"driver": {"nodes": ALL_SHUT}, "environment": SLURM}),
    ("driver", {"driver": {"nodes": ALL_SHUT}, "system": DOCKER}),
    ("GPUs", {"driver": {"nodes": OTHER_JOBS}, "environment": SLURM, "cuda": cuda(1)}),
    ("GPUs", {"environment": {**SLURM, "SLURM_GPUS_ON_NODE": "1", "CUDA_VISIBLE_DEVICES": "0"}, "cuda": cuda(1)}),
    ("GPUs", {"environment": {**SLURM, "SLURM_GPUS_ON_NODE": "2", "CUDA_VISIBLE_DEVICES": "0"}, "cuda": cuda(1)}),
    (
        "driver",
        {
            "driver": {**NO_DRIVER, "library": None},
            "cuda": None,
            "bus": {"gpus": [{"address": "0000:3b:00.0", "device_id": "0x2335"}]},
        },
    ),
    ("engine", {"stack": {"engine_version": "0.0.9"}}),
    ("driver age", {"stack": {"cuda_built": None}}),
    ("GPUs", {"cuda": failed_cuda(803, "DRIVER_MISMATCH")}),
    ("GPUs", {"cuda": failed_cuda(802, "SYSTEM_NOT_READY")}),
    ("GPUs", {"bus": FOUR, "system": DOCKER}),
    ("GPUs", {"bus": FOUR}),
    ("GPUs", {"cuda": "it crashed: SIGSEGV"}),
    ("compute mode", {"cuda": {"devices": [{**KNOWN, "attributes": {}}], "peers": []}}),
    ("compute mode", {"cuda": cuda(COMPUTE_MODE=2)}),
    ("compute mode", {"cuda": cuda(COMPUTE_MODE=3)}),
    ("GPU architectures", {"stack": {"cuda_built": None}}),
    ("NVLink", {"nvml": {"gpus": DOWN}}),
    ("NVLink", {"nvml": {"gpus": links("NVIDIA H200", (18, 0), (17, 1))}}),
    ("NVLink", {"nvml": {"gpus": links("NVIDIA H200", (14, 4), (14, 4))}}),
    ("NVLink", {"nvml": {"gpus": links("NVIDIA H200", (0, 18))}}),
    ("NVLink", {"nvml": {"gpus": links("NVIDIA A100 80GB PCIe", (0, 12), (0, 12))}}),
    ("NVLink", {"nvml": {"gpus": links("NVIDIA H100 NVL", (12, 6), (12, 6))}}),
    ("NVLink", {"nvml": {"gpus": links("NVIDIA H100 NVL", (12, 6), (8, 10))}}),
    ("NVLink", {"nvml": {"gpus": links("NVIDIA GH200 480GB", (0, 18))}}),
    ("NVLink", {"nvml": {"gpus": links("NVIDIA H200", (16, 2))}}),
    ("NVLink", {"nvml": {"gpus": [UNREAD]}}),
    ("NVLink", {"nvml": None}),
    ("PCIe", {"pcie_load": pcie(None)}),
    ("PCIe", {"pcie_load": pcie(4)}),
    ("PCIe", {"pcie_load": [*pcie(5)[:1], *pcie(None)[1:]]}),
    ("memory errors", {"nvml": {"gpus": [{**UNREAD, "ecc": True, "unread": {"ecc_uncorrected": "GPU is lost"}}]}}),
    ("memory errors", {"nvml": {"gpus": [{**UNREAD, "unread": {"ecc": "Not Supported"}}]}}),
    ("IOMMU", {"iommu": {"units": ["dmar0"]}}),
    ("IOMMU", {"iommu": {"units": ["dmar0"], "parameters": ["iommu=pt"]}}),
    ("IOMMU", {"iommu": {"units": ["dmar0"], "parameters": ["amd_iommu=on"]}}),
    ("IOMMU", {"iommu": {"units": ["dmar0"], "types": ["identity"]}}),
    ("ACS", {"iommu": {"readable": False}, "system": METAL}),
    ("ACS", {"iommu": {"bridges": [{"address": "0000:16:00.0", "acs_control": 0x11}]}, "system": METAL}),
    ("MIG", {"nvml": {"gpus": [{**UNREAD, "unread": {"mig": "GPU is lost"}}]}}),
    ("shared memory", {"limits": {"shm_free_bytes": 0}}),
    ("shared memory", {"limits": {"shm_bytes": 4 << 20}, "mpi_host": CRASHED}),
    ("shared memory", {"limits": {"shm_error": "no space"}}),
    ("CMA", {"limits": {"cma_error": "not permitted", "ptrace_scope": 1}}),
    ("CMA", {"limits": {"cma_error": "not implemented"}}),
    *(
        ("locked memory", {"bus": {"infiniband": ["mlx5_0"]}, "limits": {"memlock_bytes": 8 << 20}, "system": who})
        for who in ({}, {"root": True})
    ),
    (
        "locked memory",
        {**RDMA, "limits": {"memlock_bytes": 64 << 30}, "hosts": hosts(path={"ends": BY_RDMA, "library": "UCX"})},
    ),
    *(
        ("RDMA devices", {"bus": {"infiniband": [name]}, "limits": {"rdma_errors": {name: "port 2: INIT"}}})
        for name in ("mlx5_0", "hfi1_0")
    ),
    *(
        ("loopback", {"surroundings": {**AROUND, "loopback_error": error}})
        for error in ("Network is unreachable", "timed out", "Operation not permitted", "Too many open files")
    ),
    ("driver's errors", {"driver": {"xids_unread": ""}}),
    *(
        ("ports", {"hosts": hosts(HANGS, b={"reached": {"a 192.0.2.1": f"port 7: {said}"}})})
        for said in ("timed out", *(f"it opens, but data does not cross: {end}" for end in ("timed out", "reset")))
    ),
    ("hard limits", {"limits": {"low": ["ulimit -Hn 1000"]}}),
    ("GDRCopy", {"gdrcopy": UNMAPPED}),
    ("MPI library", {"stack": {"other_mpirun": "/usr/bin/mpirun"}}),
    (
        "launcher",
        {"launcher": {"launcher": "srun", "complete": False, "reason": "this job has 1 rank, the plan needs 2"}},
    ),
    ("binding", {"launcher": {"ranks": [rank(number, [0, 1, 2, 3], "nobody") for number in range(2)]}}),
    (
        "binding",
        {"launcher": {"ranks": [rank(number, [2 * number, 2 * number + 1], "launcher") for number in range(2)]}},
    ),
    *(
        (
            "binding",
            {
                "launcher": {"ranks": [{**rank(0, [0], "launcher", DEVICE), "host": host}]},
                "topology": {"places": [{"kind": "gpu", "address": DEVICE and DEVICE["pci"], "cores": "32-63"}]},
                "settings": {"host": "node1"},
            },
        )
        for host in ("node1", "another")  # of which this topology says nothing
    ),
    *(
        ("MPI, GPU memory", {"mpi_device": CRASHED, "stack": stack})
        for stack in ({"prepared": False}, {"mpi_source": "system", "ompi_cuda": True}, {"mpi_source": "system"})
    ),
    ("MPI, GPU memory", {"mpi_device": {**CRASHED, "status": 137, "reason": "the launcher was killed by SIGKILL"}}),
    ("MPI, GPU memory", {"mpi_device": {**CRASHED, "status": 1, "reason": "rank 1 did not open its GPU"}}),
    *(
        ("UCX", {"ucx": None, "mpi_device": None, "requirement": requirement})
        for requirement in ("/src/my volley", "~/volley", "volley-bench @ git+https://example.org/v@main")
    ),
    *(("CPU clock", {"settings": each}) for each in (SLOW, {**SLOW, "clock_driver": "intel_pstate"}, {"host": "h"})),
    *(("CPU quota", {"settings": {"host": "h", "quota_cpus": each}}) for each in (None, 2.0, 1.5, 0.25)),
    ("CPU quota", {"settings": {"host": "h", "quota_cpus": 1.5}, "system": DOCKER}),
    ("CPU quota", {"settings": {"host": "h", "unread": {"quota_cpus": "Permission denied"}}}),
    *(
        ("GPU clocks", {"nvml": {"gpus": [CLOCKS, {**CLOCKS, "index": 1, "clocks_event_reasons": each}]}})
        for each in (None, [], ["idle"], ["idle", "hardware power brake"])
    ),
    # a distribution whose own driver is older than the engine needs
    ("driver age", {"system": {"os_id": "debian", "os_like": []}, "cuda": {"driver_version": 12020}}),
    # two ranks on the only GPU whose device node they may open
    ("GPU of each rank", {"cuda": cuda(1), "driver": {"nodes": OTHER_JOBS}, "launcher": {"ranks": ON_ONE_GPU}}),
]
"""Checks, and what of the facts is changed."""


def test_verdicts_are_those_that_were_looked_at() -> None:
    """Of each case the finding of its check; and how each distribution installs a driver."""
    found = [(check, finding(check, **changes)) for check, changes in CASES]
    without = {"driver": NO_DRIVER, "cuda": None}
    for name in ("mig", "no-driver", "abci-a", "abci-v", "acs-on"):  # Ubuntu, Debian, RHEL 8, CentOS 7, SLES 15
        for more in ({}, {"system": {"root": True}}):
            found.append(
                (f"{name}, {'root' if more else 'user'}", finding("driver", facts_of(name), **without, **more))
            )
    parts = [f"{name}: {each.status}: {each.said}\n  {each.remedy}".rstrip() + "\n" for name, each in found]
    check_screen(SCREENS / "doctor/verdicts.txt", "".join(parts))
