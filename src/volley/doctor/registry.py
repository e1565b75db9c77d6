"""The checks as data, in the order in which the layers stand on each other.  docs/doctor.md is generated from this."""

from __future__ import annotations

from msgspec.structs import replace

from volley.doctor.checks import gpus, host, jobs, mpi
from volley.doctor.checks.common import NO_GPU, has_gpu
from volley.doctor.findings import STATUSES, Diagnosis, Finding, LayerCheck, not_applicable, not_tested
from volley.machine.facts import Facts
from volley.text import join_words

_TOOLS, _DRIVER, _GPUS, _INTERCONNECT = "toolchain", "kernel and driver", "GPUs", "GPU interconnect"
_LIMITS, _LIBRARIES, _MPI, _LAUNCHER, _DATA = "limits", "libraries", "MPI", "launcher", "data between GPUs"

_CUDA = ("driver", "driver age")
"""What every answer of CUDA stands on."""
_TWO_RANKS = (*_CUDA, "MPI, host memory")

CHECKS: tuple[LayerCheck, ...] = (
    LayerCheck(
        *("compiler", _TOOLS, host.compiler),
        tries="Compiles a C++20 program and runs it.",
        remedy="The distribution's compiler.",
    ),
    LayerCheck(
        *("cmake", _TOOLS, host.cmake),
        tries="Runs `cmake --version`; volley's build wants 3.25.",
        remedy="`pip install cmake`.",
    ),
    LayerCheck(
        *("nvcc", _TOOLS, host.nvcc),
        tries="Compiles a kernel, where nvcc is on PATH.",
        remedy="The CUDA toolkit's package.",
    ),
    LayerCheck(
        *("driver", _DRIVER, host.driver),
        tries="Reads /proc/driver/nvidia/version, opens every /dev/nvidia*, loads libcuda.so.1.",
        remedy=(
            "The driver's package with the running kernel's headers; in a container, its start with `--gpus all`; "
            "`nvidia-modprobe` for a missing node."
        ),
    ),
    LayerCheck(
        *("driver age", _DRIVER, host.driver_age),
        tries="Compares cuDriverGetVersion with the CUDA that the engine was built with.",
        remedy="A newer driver.",
        gpu=True,
    ),
    LayerCheck(
        *("GPUs", _GPUS, gpus.devices),
        tries="Calls cuInit; compares the GPUs of /sys/bus/pci with those that CUDA shows.",
        remedy="By the error: unset CUDA_VISIBLE_DEVICES, start the fabric manager, reboot after an update.",
        gpu=True,
        needs=_CUDA,
    ),
    LayerCheck(
        *("MIG", _GPUS, gpus.mig),
        tries="Asks NVML whether a GPU is divided into instances.",
        remedy="`nvidia-smi -i N -mig 0`.",
        gpu=True,
        needs=_CUDA,
    ),
    LayerCheck(
        *("compute mode", _GPUS, gpus.compute_mode),
        tries="Asks each GPU how many processes it takes.",
        remedy="`nvidia-smi -i N -c DEFAULT`.",
        gpu=True,
        needs=_CUDA,
    ),
    LayerCheck(
        *("GPU architectures", _GPUS, gpus.architectures),
        tries="Compares compute capabilities with the architectures that the engine was compiled for.",
        remedy="Volley built for them: `VOLLEY_CUDA_ARCHITECTURES=…`.",
        gpu=True,
        needs=_CUDA,
    ),
    LayerCheck(
        *("peer access", _INTERCONNECT, gpus.peer_access),
        tries="Calls cuDeviceCanAccessPeer for every ordered pair; NVML says why not.",
        remedy="Neighbouring ranks on pairs that reach each other.",
        gpu=True,
        needs=_CUDA,
    ),
    LayerCheck(
        *("NVLink", _INTERCONNECT, gpus.nvlink),
        tries="Asks NVML for the state of every link.",
        remedy="The driver's log; the fabric manager.",
        gpu=True,
        needs=_CUDA,
    ),
    LayerCheck(
        *("PCIe", _INTERCONNECT, gpus.pcie),
        tries="Copies to each GPU and reads its link meanwhile: generation and width, now and possible.",
        remedy="Another slot, or the firmware's settings.",
        gpu=True,
        needs=_CUDA,
    ),
    LayerCheck(
        *("IOMMU", _INTERCONNECT, gpus.iommu),
        tries="Looks for IOMMUs and at the domain types of the GPUs' groups.",
        remedy="`iommu=pt`.",
        gpu=True,
    ),
    LayerCheck(
        *("ACS", _INTERCONNECT, gpus.acs),
        tries="Reads the ACS control register of every bridge above a GPU (root only).",
        remedy="`setpci` for these bridges.",
    ),
    LayerCheck(
        *("shared memory", _LIMITS, host.shm),
        tries="Writes 1 MiB to /dev/shm.",
        remedy="`--shm-size`, or a remount.",
    ),
    LayerCheck(
        *("CMA", _LIMITS, host.cma),
        tries="Reads a sibling process's memory with process_vm_readv.",
        remedy="`--cap-add=SYS_PTRACE` in a container; `sysctl kernel.yama.ptrace_scope=0`.",
    ),
    LayerCheck(
        *("locked memory", _LIMITS, host.memlock),
        tries="Reads RLIMIT_MEMLOCK, where there is an RDMA device.",
        remedy="`memlock unlimited`.",
    ),
    LayerCheck(
        *("GDRCopy", _LIBRARIES, mpi.gdrcopy),
        tries="Opens /dev/gdrdrv, loads libgdrapi, maps GPU memory, writes through the mapping, reads back with CUDA.",
        remedy="GDRCopy's packages; `modprobe gdrdrv`; `--device /dev/gdrdrv`.",
        gpu=True,
        needs=_CUDA,
    ),
    LayerCheck(
        *("UCX", _LIBRARIES, mpi.ucx),
        tries="Loads the UCX that the ranks get and lets every component look for devices.",
        remedy="A UCX with CUDA, from wheels.",
    ),
    LayerCheck(
        *("UCX transfer", _LIBRARIES, mpi.ucx_transfer),
        tries="`ucx_perftest` between two processes, of GPU memory where there is a GPU.",
        remedy="A UCX with CUDA; its tools.",
        needs=_CUDA,
    ),
    LayerCheck(
        *("MPI library", _MPI, mpi.library),
        tries="Asks a job which library it loaded; looks for another mpirun on PATH.",
        remedy="The mpirun that belongs to the engine.",
    ),
    LayerCheck(
        *("MPI, host memory", _MPI, mpi.host),
        tries="Verified messages between two ranks.",
        remedy="A run without fabric components.",
    ),
    LayerCheck(
        *("MPI self-report", _MPI, mpi.self_report),
        tries="Reports ompi_info and MPIX_Query_cuda_support beside what the transfer proved.",
        remedy="None: no other finding relies on it.",
        gpu=True,
    ),
    LayerCheck(
        *("MPI, GPU memory", _MPI, mpi.device),
        tries="Verified messages of GPU memory, in a job of its own; UCX says the protocol.",
        remedy="The CUDA-aware stack from wheels, or `volley setup`.",
        gpu=True,
        needs=_TWO_RANKS,
    ),
    LayerCheck(
        *("MPI, GPU speed", _MPI, mpi.device_speed),
        tries="The same messages by MPI and staged through the host, interleaved.",
        remedy="The transports compared by size.",
        gpu=True,
        needs=_TWO_RANKS,
    ),
    LayerCheck(
        *("launcher", _LAUNCHER, jobs.launcher),
        tries="Starts a rank a GPU (two at least) and lets each say where it is.",
        remedy="The launcher's words for this MPI.",
        needs=_TWO_RANKS,
    ),
    LayerCheck(
        *("GPU of each rank", _LAUNCHER, jobs.rank_gpus),
        tries="Compares the GPUs that the ranks use and see.",
        remedy="`--gpus-per-node` with `--gpu-bind=none` under Slurm.",
        gpu=True,
        needs=_TWO_RANKS,
    ),
    LayerCheck(
        *("binding", _LAUNCHER, jobs.binding),
        tries="Asks each rank which cores it may use.",
        remedy="The launcher's binding words.",
        needs=_TWO_RANKS,
    ),
    LayerCheck(
        *("CUDA IPC", _DATA, jobs.cuda_ipc),
        tries="Two processes map each other's GPU memory (volley's `peer`).",
        remedy="One container for all ranks; no CUDA_VISIBLE_DEVICES.",
        gpu=True,
        needs=_TWO_RANKS,
    ),
    LayerCheck(
        *("peer copies", _DATA, jobs.integrity),
        tries="Copies between pairs of GPUs; the receiving GPU compares every byte.",
        remedy="IOMMU and ACS.",
        gpu=True,
        needs=_TWO_RANKS,
    ),
)


def diagnose(facts: Facts) -> Diagnosis:
    """Judge the facts; nothing but them is read."""
    findings: list[Finding] = []
    broken: set[str] = set()
    with_gpu = has_gpu(facts)
    for check in CHECKS:
        found = not_applicable(NO_GPU) if check.gpu and not with_gpu else check.judge(facts)
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
