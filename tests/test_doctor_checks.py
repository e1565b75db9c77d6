"""Single verdicts that no machine of tests/machines shows: two H200s with facts changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from machine_facts import changed, facts_of
from volley.doctor.checks import diagnose
from volley.doctor.findings import Finding
from volley.machine.facts import Facts

BASE = facts_of("h200x2-no-gdrcopy")


def finding(check: str, facts: Facts = BASE, **changes: Any) -> Finding:
    """What is said of these facts with changes."""
    found = {each.check: each for each in diagnose(changed(facts, **changes)).findings}
    return found[check]


def cuda(number: int = 2, *, reaches: bool = True, **attributes: int) -> dict[str, Any]:
    """CUDA's answer for the first GPUs, with attributes changed."""
    devices = [msgspec.to_builtins(device) for device in BASE.cuda_devices[:number]]
    for device in devices:
        device["attributes"] |= attributes
    peers = [[one == other or reaches for other in range(number)] for one in range(number)]
    return {"devices": devices, "peers": peers}


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


def failed_cuda(status: int, name: str) -> dict[str, Any]:
    return {"status": status, "status_name": name, "failed_call": "cuInit", "devices": [], "peers": []}


def pcie(generation: int | None) -> list[dict[str, Any]]:
    return [{"pci": gpu.address, "generation": generation, "width": generation and 16} for gpu in BASE.gpus_on_bus]


@pytest.mark.parametrize(
    ("check", "changes", "status", "said", "remedy"),
    [
        (
            "driver",
            {"driver": {"nodes": {CTL: "ok", GPU: "ok"}}, "cuda": failed_cuda(999, "UNKNOWN")},
            *("broken", "uvm is missing", "nvidia-modprobe"),
        ),
        ("driver", {"driver": {"nodes": {}}, "cuda": failed_cuda(100, "NO_DEVICE")}, "broken", "uvm", "modprobe"),
        (
            "GPUs",
            {"cuda": failed_cuda(100, "NO_DEVICE"), "environment": {"CUDA_VISIBLE_DEVICES": ""}},
            *("broken", "CUDA_VISIBLE_DEVICES='' hides every GPU", "unset CUDA_VISIBLE_DEVICES"),
        ),
        ("driver", {"driver": {"nodes": {CTL: "ok", UVM: "ok", GPU: "denied"}}}, "broken", GPU, f"chmod 666 {GPU}"),
        ("driver", {"driver": {"library": "gone"}, "system": DOCKER}, "broken", "library", "compute,util"),
        ("driver", {"driver": NO_DRIVER, "cuda": None, "system": DOCKER}, "broken", "2 NVIDIA GPUs", "run --gpus all"),
        (
            "driver",
            {"driver": NO_DRIVER, "cuda": None, "system": {"os_id": "gentoo", "os_like": []}},
            "broken",
            "",
            "http",
        ),
        ("driver", {"driver": NO_DRIVER}, "good", "shows no NVIDIA driver", ""),
        ("driver", {"driver": {"nodes": OTHER_JOBS}}, "good", "580", ""),
        ("driver", {"driver": {"nodes": ALL_SHUT}, "environment": SLURM}, "broken", "nvidia0", "srun --gpus"),
        ("driver", {"driver": {"nodes": ALL_SHUT}, "system": DOCKER}, "broken", "", "docker run --gpus all"),
        (
            "GPUs",
            {"driver": {"nodes": OTHER_JOBS}, "environment": SLURM, "cuda": cuda(1)},
            *("good", "1 of 2 GPUs: all GPUs of this job", ""),
        ),
        (
            "driver",
            {
                "driver": {**NO_DRIVER, "library": None},
                "cuda": None,
                "bus": {"gpus": [{"address": "0000:3b:00.0", "device_id": "0x2335"}]},
            },
            *("broken", "its kernel module is not loaded", "install linux-headers-$(uname -r); sudo dkms auto"),
        ),
        ("engine", {"stack": {"engine_version": "0.0.9"}}, "warning", "to volley 0.0.9", "pip install"),
        ("driver age", {"stack": {"cuda_built": None}}, "not tested", "built without CUDA", ""),
        ("GPUs", {"cuda": failed_cuda(803, "DRIVER_MISMATCH")}, "broken", "MISMATCH (803)", "reboot"),
        ("GPUs", {"cuda": failed_cuda(802, "SYSTEM_NOT_READY")}, "broken", "NOT_READY", "nvidia-fabricmanager"),
        ("GPUs", {"bus": FOUR, "system": DOCKER}, "warning", "2 of 4", "--gpus all"),
        ("GPUs", {"bus": FOUR}, "warning", "2 of 4", "dmesg"),
        ("GPUs", {"cuda": "it crashed: SIGSEGV"}, "broken", "SIGSEGV", "driver"),
        (
            "compute mode",
            {"cuda": {"devices": [{**KNOWN, "attributes": {}}], "peers": []}},
            "not tested",
            "not report",
            "",
        ),
        ("compute mode", {"cuda": cuda(COMPUTE_MODE=2)}, "broken", "0,1", "-c DEFAULT"),
        ("compute mode", {"cuda": cuda(COMPUTE_MODE=3)}, "warning", "one process", "-c"),
        ("GPU architectures", {"cuda": cuda(COMPUTE_CAPABILITY_MAJOR=7)}, "broken", "7.0", "ARCHITECTURES='70'"),
        (
            "GPU architectures",
            {"cuda": cuda(COMPUTE_CAPABILITY_MAJOR=8, COMPUTE_CAPABILITY_MINOR=9)},
            *("good", "8.9", ""),
        ),
        ("GPU architectures", {"stack": {"cuda_built": None}}, "broken", "without CUDA", "VOLLEY_CUDA=ON"),
        ("peer access", {"cuda": cuda(reaches=False)}, "warning", "no GPU can access another", "topo -p2p"),
        ("NVLink", {"nvml": {"gpus": DOWN}}, "warning", "GPU 0: 1 of 2 down", "xid"),
        ("NVLink", {"nvml": {"gpus": links("NVIDIA H200", (18, 0), (17, 1))}}, "warning", "GPU 1: 1 of 18", "xid"),
        ("NVLink", {"nvml": {"gpus": links("NVIDIA H200", (14, 4), (14, 4))}}, "warning", "GPU 0: 4 of 18", "xid"),
        ("NVLink", {"nvml": {"gpus": links("NVIDIA H200", (0, 18))}}, "good", "no link is connected", ""),
        ("NVLink", {"nvml": {"gpus": links("NVIDIA A100 80GB PCIe", (0, 12), (0, 12))}}, "good", "no link", ""),
        ("NVLink", {"nvml": {"gpus": links("NVIDIA H100 NVL", (12, 6), (12, 6))}}, "good", "12 links per GPU", ""),
        ("NVLink", {"nvml": {"gpus": links("NVIDIA H100 NVL", (12, 6), (8, 10))}}, "warning", "GPU 1: 4 of 18", "xid"),
        ("NVLink", {"nvml": {"gpus": links("NVIDIA GH200 480GB", (0, 18))}}, "good", "no link", ""),
        ("NVLink", {"nvml": {"gpus": [UNREAD]}}, "not tested", "GPU is lost", ""),
        ("NVLink", {"nvml": None}, "not tested", "no", ""),
        ("PCIe", {"pcie_load": pcie(None)}, "not tested", "virtual machine", ""),
        ("PCIe", {"pcie_load": pcie(4)}, "warning", "0000:00:04.0 at PCIe 4.0 ×16 of 5.0 ×16", "slot"),
        ("IOMMU", {"iommu": {"units": ["dmar0"]}}, "not tested", "does not report", ""),
        ("IOMMU", {"iommu": {"units": ["dmar0"], "parameters": ["iommu=pt"]}}, "not tested", "iommu=pt", ""),
        ("IOMMU", {"iommu": {"units": ["dmar0"], "parameters": ["amd_iommu=on"]}}, "warning", "amd_iommu", "iommu=pt"),
        ("IOMMU", {"iommu": {"units": ["dmar0"], "types": ["identity"]}}, "good", "does not translate", ""),
        ("ACS", {"iommu": {"readable": False}, "system": METAL}, "not tested", "root", "sudo volley"),
        (
            "ACS",
            {"iommu": {"bridges": [{"address": "0000:16:00.0", "acs_control": 0x11}]}, "system": METAL},
            *("good", "off on 1 bridge", ""),
        ),
        ("MIG", {"nvml": {"gpus": [{**UNREAD, "unread": {"mig": "GPU is lost"}}]}}, "not tested", "GPU is lost", ""),
        ("shared memory", {"limits": {"shm_bytes": 4 << 20}}, "warning", "4 MiB: two ranks", "remount"),
        ("shared memory", {"limits": {"shm_free_bytes": 0}}, "warning", "full", "rm /dev/shm"),
        ("shared memory", {"limits": {"shm_bytes": 4 << 20}, "mpi_host": CRASHED}, "broken", "4 MiB", "remount"),
        ("shared memory", {"limits": {"shm_error": "no space"}}, "broken", "cannot write", "remount"),
        ("CMA", {"limits": {"cma_error": "not permitted", "ptrace_scope": 1}}, "warning", "", "ptrace_scope=0"),
        ("CMA", {"limits": {"cma_error": "not implemented"}}, "warning", "copied twice", "ask the administrator"),
        (
            "locked memory",
            {"bus": {"infiniband": ["mlx5_0"]}, "limits": {"memlock_bytes": 8 << 20}},
            *("warning", "8 MiB", "limits.d"),
        ),
        ("GDRCopy", {"gdrcopy": UNMAPPED}, "broken", "it cannot map GPU memory", "modprobe gdrdrv"),
        ("UCX transfer", {"ucx_transfer": {"memory": "host", "status": 0}}, "good", "host memory", ""),
        ("MPI library", {"stack": {"other_mpirun": "/usr/bin/mpirun"}}, "warning", "another MPI", "mpirun -n 2"),
        (
            "MPI self-report",
            {"stack": {"ompi_cuda": None}, "mpi_device": None, "mpi_host": {"cuda_query": None}},
            *("not applicable", "neither", ""),
        ),
        (
            "MPI self-report",
            {"stack": {"ompi_cuda": True}, "mpi_device": CRASHED},
            *("not tested", "fix first: MPI, GPU memory", ""),
        ),
        (
            "launcher",
            {"launcher": {"launcher": "srun", "complete": False, "reason": "this job has 1 rank, the plan needs 2"}},
            *("broken", "this job has 1 rank", "srun --mpi=pmix -n 2"),
        ),
        (
            "binding",
            {"launcher": {"ranks": [rank(number, [0, 1, 2, 3], "nobody") for number in range(2)]}},
            *("warning", "no rank is bound", "start no more ranks"),
        ),
        (
            "binding",
            {"launcher": {"ranks": [rank(number, [2 * number, 2 * number + 1], "launcher") for number in range(2)]}},
            *("good", "cores 0-1 and 2-3, bound by the launcher", ""),
        ),
    ],
)
def test_verdicts(check: str, changes: dict[str, Any], status: str, said: str, remedy: str) -> None:
    found = finding(check, **changes)
    assert found.status == status, found
    assert said in found.said
    assert remedy in found.remedy
    assert bool(remedy) == bool(found.remedy)


@pytest.mark.parametrize(
    ("stack", "remedy"),
    [
        ({"prepared": False}, "pip install '/path/to/volley[cuda13]'"),
        ({"mpi_source": "system", "ompi_cuda": True}, "OMPI_MCA_pml=ucx"),
        ({"mpi_source": "system"}, "volley setup"),
    ],
)
def test_the_remedy_of_an_mpi_that_is_not_aware_fits_the_stack(stack: dict[str, Any], remedy: str) -> None:
    found = finding("MPI, GPU memory", mpi_device=CRASHED, stack=stack)
    assert found.status == "broken"
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("requirement", "again"),
    [
        ("/src/my volley", "pip install '/src/my volley[cuda13]'"),
        ("~/volley", "pip install ~/'volley[cuda13]'"),
        (
            "volley-bench @ git+https://example.org/v@main",
            "pip install 'volley-bench[cuda13] @ git+https://example.org/v@main'",
        ),
    ],
)
def test_the_copy_that_captured_the_facts_is_installed_again(requirement: str, again: str) -> None:
    assert finding("UCX", ucx=None, mpi_device=None, requirement=requirement).remedy == again


def test_two_ranks_on_the_only_gpu_are_good() -> None:
    assert BASE.launcher.value
    device = msgspec.to_builtins(BASE.launcher.value.ranks[0].device)
    ranks = [rank(number, [number], "engine", device) for number in range(2)]
    bus = {"gpus": msgspec.to_builtins(BASE.gpus_on_bus[:1])}
    assert finding("GPU of each rank", cuda=cuda(1), bus=bus, launcher={"ranks": ranks}).status == "good"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mig", "sudo apt-get install linux-headers-$(uname -r) nvidia-driver-"),  # Ubuntu
        ("no-driver", "sudo apt-get install linux-headers-$(uname -r) nvidia-driver"),  # Debian
        ("abci-a", "sudo dnf install kernel-devel-$(uname -r) nvidia-open"),  # RHEL 8
        ("abci-v", "sudo yum install kernel-devel-$(uname -r) nvidia-driver-latest-dkms"),  # CentOS 7
        ("acs-on", "sudo zypper install kernel-default-devel nvidia-open"),  # SLES 15
    ],
)
def test_a_driver_is_installed_as_the_distribution_does(name: str, words: str) -> None:
    without = {"driver": NO_DRIVER, "cuda": None}
    assert finding("driver", facts_of(name), **without).remedy.startswith(words)
    as_root = finding("driver", facts_of(name), **without, system={"root": True})
    assert as_root.remedy.startswith(words.removeprefix("sudo "))


# ------------------------------------------------------------------------ how fast the CPUs and GPUs run


def test_powersave_is_a_warning_where_it_is_the_lowest_clock() -> None:
    slow = {"host": "h", "clock_driver": "acpi-cpufreq", "governors": {"performance": "0-3", "powersave": "4-7"}}
    found = finding("CPU clock", settings=slow)
    assert found.status == "warning"
    assert found.said == "the CPU clock of h is held at its lowest (CPU 4-7, governor powersave)"
    assert "cpupower frequency-set -g performance" in found.remedy
    found = finding("CPU clock", settings={**slow, "clock_driver": "intel_pstate"})
    assert found.status == "good"
    assert found.said == "performance on CPU 0-3 and powersave on CPU 4-7 (intel_pstate)"
    assert finding("CPU clock", settings={"host": "h"}).status == "not applicable"


@pytest.mark.parametrize(("cpus", "status"), [(None, "good"), (2.0, "good"), (1.5, "warning"), (0.25, "warning")])
def test_a_quota_below_two_cpus_is_a_warning(cpus: float | None, status: str) -> None:
    settings = {"host": "h", "quota_cpus": cpus}
    found = finding("CPU quota", settings=settings)
    assert found.status == status
    if status == "warning":
        assert "CPUQuota" in found.remedy
        assert finding("CPU quota", settings=settings, system=DOCKER).remedy == "docker run --cpus=2"


def test_a_quota_that_cannot_be_read_is_not_tested() -> None:
    found = finding("CPU quota", settings={"host": "h", "unread": {"quota_cpus": "Permission denied"}})
    assert (found.status, found.said) == ("not tested", "the CPU quota cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("reasons", "status"),
    [(None, "not tested"), ([], "good"), (["idle"], "good"), (["idle", "hardware power brake"], "warning")],
)
def test_clocks_that_power_or_heat_holds_down_are_a_warning(reasons: list[str] | None, status: str) -> None:
    gpus = [{"index": 0, "uuid": "GPU-0", "clocks_event_reasons": []}]
    gpus += [{"index": 1, "uuid": "GPU-1", "clocks_event_reasons": reasons}]
    found = finding("GPU clocks", nvml={"gpus": gpus})
    assert found.status == status
    if status == "warning":
        assert found.said == "clocks are limited (GPU 1: hardware power brake)"
