"""The checks as data, in the order in which the layers stand on each other.  docs/doctor.md is generated from this."""

from __future__ import annotations

from volley.doctor.checks import gpus, host, launcher, libraries, links, machine, mpi
from volley.doctor.facts import Facts
from volley.doctor.findings import STATUSES, Check, Diagnosis, Finding, Verdict
from volley.text import several

_TOOLS, _DRIVER, _GPUS, _WAYS = "toolchain", "kernel and driver", "GPUs", "ways between GPUs"
_LIMITS, _LIBRARIES, _MPI, _LAUNCHER, _DATA = "limits", "libraries", "MPI", "launcher", "data between GPUs"

_CUDA = ("driver", "driver age")
"""What every answer of CUDA stands on."""
_TWO_RANKS = (*_CUDA, "MPI, host memory")

CHECKS: tuple[Check, ...] = (
    Check(
        name="compiler",
        layer=_TOOLS,
        tries="Compiles a C++20 program and runs it.",
        remedy="The distribution's compiler.",
        judge=machine.compiler,
    ),
    Check(
        name="cmake",
        layer=_TOOLS,
        tries="Runs `cmake --version`; volley's build wants 3.25.",
        remedy="`pip install cmake`.",
        judge=machine.cmake,
    ),
    Check(
        name="nvcc",
        layer=_TOOLS,
        tries="Compiles a kernel, where nvcc is on PATH.",
        remedy="The CUDA toolkit's package.",
        judge=machine.nvcc,
    ),
    Check(
        name="driver",
        layer=_DRIVER,
        tries="Reads /proc/driver/nvidia/version, opens every /dev/nvidia*, loads libcuda.so.1.",
        remedy=(
            "The driver's package with the running kernel's headers; in a container, its start with `--gpus all`; "
            "`nvidia-modprobe` for a missing node."
        ),
        judge=machine.driver,
    ),
    Check(
        name="driver age",
        layer=_DRIVER,
        tries="Compares cuDriverGetVersion with the CUDA that the engine was built with.",
        remedy="A newer driver.",
        judge=machine.driver_age,
    ),
    Check(
        name="GPUs",
        layer=_GPUS,
        tries="Calls cuInit; holds the GPUs of /sys/bus/pci against those that CUDA shows.",
        remedy="By the error: unset CUDA_VISIBLE_DEVICES, start the fabric manager, reboot after an update.",
        judge=gpus.devices,
        needs=_CUDA,
    ),
    Check(
        name="MIG",
        layer=_GPUS,
        tries="Asks NVML whether a GPU is cut into instances.",
        remedy="`nvidia-smi -i N -mig 0`.",
        judge=gpus.mig,
        needs=_CUDA,
    ),
    Check(
        name="compute mode",
        layer=_GPUS,
        tries="Asks each GPU how many processes it takes.",
        remedy="`nvidia-smi -i N -c DEFAULT`.",
        judge=gpus.compute_mode,
        needs=_CUDA,
    ),
    Check(
        name="machine code",
        layer=_GPUS,
        tries="Compares compute capabilities with the machine code in the engine.",
        remedy="Volley built for them: `VOLLEY_CUDA_ARCHITECTURES=…`.",
        judge=gpus.machine_code,
        needs=_CUDA,
    ),
    Check(
        name="peer access",
        layer=_WAYS,
        tries="Calls cuDeviceCanAccessPeer for every ordered pair; NVML says why not.",
        remedy="Neighbouring ranks on pairs that reach each other.",
        judge=links.peer_access,
        needs=_CUDA,
    ),
    Check(
        name="NVLink",
        layer=_WAYS,
        tries="Asks NVML for the state of every link.",
        remedy="The driver's log; the fabric manager.",
        judge=links.nvlink,
        needs=_CUDA,
    ),
    Check(
        name="PCIe",
        layer=_WAYS,
        tries="Copies to each GPU and reads its link meanwhile: generation and width, now and possible.",
        remedy="Another slot, or the firmware's settings.",
        judge=links.pcie,
        needs=_CUDA,
    ),
    Check(
        name="IOMMU",
        layer=_WAYS,
        tries="Looks for IOMMUs and at the domain types of the GPUs' groups.",
        remedy="`iommu=pt`.",
        judge=links.iommu,
    ),
    Check(
        name="ACS",
        layer=_WAYS,
        tries="Reads the ACS control register of every bridge above a GPU (root only).",
        remedy="`setpci` for these bridges.",
        judge=links.acs,
    ),
    Check(
        name="shared memory",
        layer=_LIMITS,
        tries="Writes 1 MiB to /dev/shm.",
        remedy="`--shm-size`, or a remount.",
        judge=host.shm,
    ),
    Check(
        name="CMA",
        layer=_LIMITS,
        tries="Reads a sibling process's memory with process_vm_readv.",
        remedy="`--cap-add=SYS_PTRACE` in a container; `sysctl kernel.yama.ptrace_scope=0`.",
        judge=host.cma,
    ),
    Check(
        name="locked memory",
        layer=_LIMITS,
        tries="Reads RLIMIT_MEMLOCK, where there is an RDMA device.",
        remedy="`memlock unlimited`.",
        judge=host.memlock,
    ),
    Check(
        name="GDRCopy",
        layer=_LIBRARIES,
        tries="Opens /dev/gdrdrv, loads libgdrapi, maps GPU memory, writes through the mapping, reads back with CUDA.",
        remedy="GDRCopy's packages; `modprobe gdrdrv`; `--device /dev/gdrdrv`.",
        judge=libraries.gdrcopy,
        needs=_CUDA,
    ),
    Check(
        name="UCX",
        layer=_LIBRARIES,
        tries="Loads the UCX that the ranks get and lets every component look for devices.",
        remedy="A UCX with CUDA, from wheels.",
        judge=libraries.ucx,
    ),
    Check(
        name="UCX transfer",
        layer=_LIBRARIES,
        tries="`ucx_perftest` between two processes, of GPU memory where there is a GPU.",
        remedy="A UCX with CUDA; its tools.",
        judge=libraries.ucx_transfer,
        needs=_CUDA,
    ),
    Check(
        name="MPI library",
        layer=_MPI,
        tries="Asks a job which library it loaded; looks for another mpirun on PATH.",
        remedy="The mpirun that belongs to the engine.",
        judge=mpi.library,
    ),
    Check(
        name="MPI, host memory",
        layer=_MPI,
        tries="Verified messages between two ranks.",
        remedy="A run without fabric components.",
        judge=mpi.host,
    ),
    Check(
        name="MPI's own word",
        layer=_MPI,
        tries="Reports ompi_info and MPIX_Query_cuda_support beside what the transfer proved.",
        remedy="None: nobody believes it.",
        judge=mpi.flags,
    ),
    Check(
        name="MPI, GPU memory",
        layer=_MPI,
        tries="Verified messages of GPU memory, in a job of its own; UCX says the protocol.",
        remedy="The CUDA-aware stack from wheels, or `volley setup`.",
        judge=mpi.device,
        needs=_TWO_RANKS,
    ),
    Check(
        name="MPI, GPU speed",
        layer=_MPI,
        tries="The same messages by MPI and staged through the host, interleaved.",
        remedy="The ways compared by size.",
        judge=mpi.device_speed,
        needs=_TWO_RANKS,
    ),
    Check(
        name="launcher",
        layer=_LAUNCHER,
        tries="Starts a rank a GPU (two at least) and lets each say where it is.",
        remedy="The launcher's words for this MPI.",
        judge=launcher.launcher,
        needs=_TWO_RANKS,
    ),
    Check(
        name="GPU of each rank",
        layer=_LAUNCHER,
        tries="Compares the GPUs that the ranks use and see.",
        remedy="`--gpus-per-node` with `--gpu-bind=none` under Slurm.",
        judge=launcher.rank_gpus,
        needs=_TWO_RANKS,
    ),
    Check(
        name="binding",
        layer=_LAUNCHER,
        tries="Asks each rank which cores it may use.",
        remedy="The launcher's binding words.",
        judge=launcher.binding,
        needs=_TWO_RANKS,
    ),
    Check(
        name="CUDA IPC",
        layer=_DATA,
        tries="Two processes map each other's GPU memory (volley's `peer`).",
        remedy="One container for all ranks; no CUDA_VISIBLE_DEVICES.",
        judge=links.cuda_ipc,
        needs=_TWO_RANKS,
    ),
    Check(
        name="peer copies",
        layer=_DATA,
        tries="Copies between pairs of GPUs; the receiving GPU compares every byte.",
        remedy="IOMMU and ACS.",
        judge=links.integrity,
        needs=_TWO_RANKS,
    ),
)


_LACKING = {"broken", "not tested"}


def _after(check: Check, verdict: Verdict, earlier: list[Finding]) -> Verdict:
    """Name the cause in place of its consequence: what stands on a broken layer has not been tested."""
    broken = [each.check for each in earlier if each.check in check.needs and each.status == "broken"]
    if broken and verdict.status in _LACKING:
        return Verdict(status="not tested", said=f"first mend: {several(broken)}", evidence=verdict.evidence)
    return verdict


def diagnose(facts: Facts) -> Diagnosis:
    """Judge the facts; nothing but them is looked at."""
    findings: list[Finding] = []
    for check in CHECKS:
        verdict = _after(check, check.judge(facts), findings)
        findings.append(
            Finding(
                check=check.name,
                layer=check.layer,
                status=verdict.status,
                said=verdict.said,
                evidence=verdict.evidence,
                remedy=verdict.remedy,
            )
        )
    counts: dict[str, int] = {status: sum(each.status == status for each in findings) for status in STATUSES}
    return Diagnosis(
        volley=facts.volley, captured_at=facts.captured_at, note=facts.note, counts=counts, findings=findings
    )
