"""The checks as data, in the order in which the layers depend on each other.  docs/doctor.md is generated from this.

Each is a pure function from facts to a finding, and reads nothing but its argument.  It takes the value of a probe with
``found_by``, which ends the check where there is none.  Its docstring says what was tried to get its facts.
"""

from __future__ import annotations

from msgspec.structs import replace

from volley.doctor.checks import gpus, host, jobs, mpi
from volley.doctor.findings import (
    NO_GPU,
    STATUSES,
    Diagnosis,
    Finding,
    LayerCheck,
    Unjudged,
    not_applicable,
    not_tested,
)
from volley.machine.facts import Facts
from volley.text import join_words

_TOOLS, _DRIVER, _GPUS, _INTERCONNECT = "toolchain", "kernel and driver", "GPUs", "GPU interconnect"
_LIMITS, _LIBRARIES, _MPI, _LAUNCHER, _DATA = "limits", "libraries", "MPI", "launcher", "data between GPUs"

_CUDA = ("driver", "driver age")
"""Every answer of CUDA depends on these."""
_TWO_RANKS = (*_CUDA, "MPI, host memory")

CHECKS: tuple[LayerCheck, ...] = (
    LayerCheck("compiler", _TOOLS, host.compiler, "The distribution's compiler."),
    LayerCheck("cmake", _TOOLS, host.cmake, "`pip install cmake`."),
    LayerCheck("nvcc", _TOOLS, host.nvcc, "The CUDA toolkit's package."),
    LayerCheck(
        "driver", _DRIVER, host.driver, "Its package; `docker run --gpus all`; `nvidia-modprobe` for a missing node."
    ),
    LayerCheck("driver age", _DRIVER, host.driver_age, "A newer driver.", gpu=True),
    LayerCheck(
        "GPUs", _GPUS, gpus.devices, "Unset CUDA_VISIBLE_DEVICES; the fabric manager; a reboot.", gpu=True, needs=_CUDA
    ),
    LayerCheck("MIG", _GPUS, gpus.mig, "`nvidia-smi -i N -mig 0`.", gpu=True, needs=_CUDA),
    LayerCheck("compute mode", _GPUS, gpus.compute_mode, "`nvidia-smi -i N -c DEFAULT`.", gpu=True, needs=_CUDA),
    LayerCheck("GPU architectures", _GPUS, gpus.architectures, "`VOLLEY_CUDA_ARCHITECTURES=…`.", gpu=True, needs=_CUDA),
    LayerCheck("GPU clocks", _GPUS, gpus.clocks, "Cooling, power limits, power supply.", gpu=True, needs=_CUDA),
    LayerCheck(
        "peer access", _INTERCONNECT, gpus.peer_access, "Ranks on pairs that reach each other.", gpu=True, needs=_CUDA
    ),
    LayerCheck("NVLink", _INTERCONNECT, gpus.nvlink, "The driver's log; the fabric manager.", gpu=True, needs=_CUDA),
    LayerCheck("PCIe", _INTERCONNECT, gpus.pcie, "Another slot, or the firmware's settings.", gpu=True, needs=_CUDA),
    LayerCheck("IOMMU", _INTERCONNECT, gpus.iommu, "`iommu=pt`.", gpu=True),
    LayerCheck("ACS", _INTERCONNECT, gpus.acs, "`setpci` for these bridges.", gpu=True),
    LayerCheck("CPU clock", _LIMITS, host.cpu_clock, "`cpupower frequency-set -g performance`."),
    LayerCheck("CPU quota", _LIMITS, host.cpu_quota, "`--cpus` of a container; more cores for the job."),
    LayerCheck("shared memory", _LIMITS, host.shm, "`--shm-size`, or a remount."),
    LayerCheck("CMA", _LIMITS, host.cma, "`--cap-add=SYS_PTRACE` in a container; `sysctl kernel.yama.ptrace_scope=0`."),
    LayerCheck("locked memory", _LIMITS, host.memlock, "`memlock unlimited`."),
    LayerCheck("GDRCopy", _LIBRARIES, mpi.gdrcopy, "`modprobe gdrdrv`; `--device /dev/gdrdrv`.", gpu=True, needs=_CUDA),
    LayerCheck("UCX", _LIBRARIES, mpi.ucx, "A UCX with CUDA, from wheels."),
    LayerCheck("UCX transfer", _LIBRARIES, mpi.ucx_transfer, "A UCX with CUDA; its tools.", needs=_CUDA),
    LayerCheck("MPI library", _MPI, mpi.library, "The mpirun that belongs to the engine."),
    LayerCheck("MPI, host memory", _MPI, mpi.host, "A run without fabric components."),
    LayerCheck("MPI self-report", _MPI, mpi.self_report, "None: no other finding depends on it.", gpu=True),
    LayerCheck("MPI, GPU memory", _MPI, mpi.device, "`volley setup`.", gpu=True, needs=_TWO_RANKS),
    LayerCheck("MPI, GPU speed", _MPI, mpi.device_speed, "Transports compared by size.", gpu=True, needs=_TWO_RANKS),
    LayerCheck("launcher", _LAUNCHER, jobs.launcher, "The launcher's arguments for this MPI.", needs=_TWO_RANKS),
    LayerCheck(
        "GPU of each rank", _LAUNCHER, jobs.rank_gpus, "`--gpu-bind=none` under Slurm.", gpu=True, needs=_TWO_RANKS
    ),
    LayerCheck("binding", _LAUNCHER, jobs.binding, "The launcher's binding arguments.", needs=_TWO_RANKS),
    LayerCheck("CUDA IPC", _DATA, jobs.cuda_ipc, "One container for all ranks.", gpu=True, needs=_TWO_RANKS),
    LayerCheck("peer copies", _DATA, jobs.integrity, "IOMMU and ACS.", gpu=True, needs=_TWO_RANKS),
)


def diagnose(facts: Facts) -> Diagnosis:
    """Judge the facts; this function reads nothing else."""
    findings: list[Finding] = []
    broken: set[str] = set()
    with_gpu = facts.has_gpu
    for check in CHECKS:
        try:
            found = not_applicable(NO_GPU) if check.gpu and not with_gpu else check.judge(facts)
        except Unjudged as unjudged:
            found = unjudged.finding
        causes = [name for name in check.needs if name in broken]
        if causes and found.status in {"broken", "not tested"}:
            # The cause in place of its consequence: what stands on a broken layer has not been tested.
            found = replace(not_tested(f"fix first: {join_words(causes)}"), evidence=found.evidence)
        findings.append(replace(found, check=check.name, layer=check.layer))
        if found.status == "broken":
            broken.add(check.name)
    counts: dict[str, int] = {status: sum(each.status == status for each in findings) for status in STATUSES}
    return Diagnosis(
        volley=facts.volley, captured_at=facts.captured_at, note=facts.note, counts=counts, findings=findings
    )
