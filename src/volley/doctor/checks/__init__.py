"""The checks as data, in the order in which the layers depend on each other.  docs/doctor.md is generated from this.

Each is a pure function from facts to a finding, and reads nothing but its argument.  It takes the value of a probe with
``require``, which ends the check where there is none.  Its docstring says what was tried to get its facts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from volley.doctor.checks import gpus, host, hosts, limits, mpi, nccl
from volley.doctor.findings import Diagnosis, LayerCheck, good, not_tested
from volley.doctor.remedies import SEND, send_by
from volley.machine.facts import Facts
from volley.machine.finding import Status, counts
from volley.machine.mpi_words import LIMITS_MET, LOCKED_MEMORY, NO_CMA
from volley.text import join_words

_SHELL, _DRIVER = "shell and host", "kernel and driver"
_GPUS, _INTERCONNECT = "GPUs", "GPU interconnect"
_LIMITS, _LIBRARIES, _MPI, _LAUNCHER = "limits", "libraries", "MPI", "launcher"
_DATA, _HOSTS = "data between GPUs", "between hosts"

_CUDA = ("driver", "driver age")
"""Every answer of CUDA depends on these."""
_SEEN = (*_CUDA, "GPUs")
_JOBS = ("engine", "MPI, host memory")
_TWO_RANKS = (*_SEEN, *_JOBS)
_AWARE = (*_TWO_RANKS, "MPI, GPU memory")
_RDMA = ("MPI between hosts", "MPI, GPU memory")

_SHARED_MEMORY = re.compile(LIMITS_MET["df /dev/shm"].pattern + "|Bus error")
_MET = {"locked memory": LOCKED_MEMORY, "shared memory": _SHARED_MEMORY, "CMA": NO_CMA}
"""Checks that explain every job which says that it met what they found."""
STATUSES: tuple[Status, ...] = ("good", "warning", "broken", "not applicable", "not tested")
_FINE = ("good", "not applicable")

CHECKS: tuple[LayerCheck, ...] = (
    LayerCheck("temporary files", _SHELL, host.folder),
    LayerCheck("host name", _SHELL, host.host_name),
    LayerCheck("loopback", _SHELL, host.loopback),
    LayerCheck("job variables", _SHELL, host.job),
    LayerCheck("inherited settings", _SHELL, host.settings),
    LayerCheck("driver", _DRIVER, host.driver),
    LayerCheck("driver age", _DRIVER, host.driver_age, gpu=True),
    LayerCheck("GPUs", _GPUS, gpus.devices, gpu=True, needs=_CUDA),
    LayerCheck("MIG", _GPUS, gpus.mig, gpu=True, needs=_SEEN),
    LayerCheck("memory errors", _GPUS, gpus.memory_errors, gpu=True, needs=_SEEN),
    LayerCheck("driver's errors", _GPUS, gpus.xids, gpu=True, needs=("driver",)),
    LayerCheck("compute mode", _GPUS, gpus.compute_mode, gpu=True, needs=_SEEN),
    LayerCheck("GPU architectures", _GPUS, gpus.architectures, gpu=True, needs=_SEEN),
    LayerCheck("GPU clocks", _GPUS, gpus.clocks, gpu=True, needs=_SEEN),
    LayerCheck("peer access", _INTERCONNECT, gpus.peer_access, gpu=True, needs=_SEEN),
    LayerCheck("NVLink", _INTERCONNECT, gpus.nvlink, gpu=True, needs=_SEEN),
    LayerCheck("PCIe", _INTERCONNECT, gpus.pcie, gpu=True, needs=_SEEN),
    LayerCheck("IOMMU", _INTERCONNECT, gpus.iommu, gpu=True),
    LayerCheck("ACS", _INTERCONNECT, gpus.acs, gpu=True),
    LayerCheck("CPU clock", _LIMITS, limits.cpu_clock),
    LayerCheck("CPU quota", _LIMITS, limits.cpu_quota),
    LayerCheck("hard limits", _LIMITS, limits.low_limits),
    LayerCheck("shared memory", _LIMITS, limits.shm),
    LayerCheck("CMA", _LIMITS, limits.cma),
    LayerCheck("locked memory", _LIMITS, limits.memlock),
    LayerCheck("RDMA devices", _LIMITS, limits.rdma),
    LayerCheck("GDRCopy", _LIBRARIES, mpi.gdrcopy, gpu=True, needs=_SEEN),
    LayerCheck("UCX", _LIBRARIES, mpi.ucx),
    LayerCheck("engine", _MPI, mpi.engine),
    LayerCheck("MPI, host memory", _MPI, mpi.host, needs=("engine",)),
    LayerCheck("MPI library", _MPI, mpi.library, needs=_JOBS),
    LayerCheck("MPI, GPU memory", _MPI, mpi.device, gpu=True, needs=_TWO_RANKS),
    LayerCheck("MPI, GPU speed", _MPI, mpi.device_speed, gpu=True, needs=_AWARE),
    LayerCheck("launcher", _LAUNCHER, mpi.launcher, needs=_JOBS),
    LayerCheck("GPU of each rank", _LAUNCHER, mpi.rank_gpus, gpu=True, needs=_TWO_RANKS),
    LayerCheck("binding", _LAUNCHER, mpi.binding, needs=_JOBS),
    LayerCheck("CUDA IPC", _DATA, mpi.cuda_ipc, gpu=True, needs=_TWO_RANKS),
    LayerCheck("peer copies", _DATA, mpi.integrity, gpu=True, needs=_TWO_RANKS),
    LayerCheck("NCCL", _DATA, nccl.alone, gpu=True, needs=_TWO_RANKS),
    LayerCheck("hosts", _HOSTS, hosts.answers, hosts=True),
    LayerCheck("names", _HOSTS, hosts.names, hosts=True),
    LayerCheck("ports", _HOSTS, hosts.ports, hosts=True, tried_by="MPI between hosts"),
    LayerCheck("alike", _HOSTS, hosts.alike, hosts=True),
    LayerCheck("interfaces", _HOSTS, hosts.interfaces, hosts=True),
    LayerCheck("MPI between hosts", _HOSTS, hosts.between, hosts=True, needs=_JOBS),
    LayerCheck("NCCL between hosts", _HOSTS, nccl.between, gpu=True, hosts=True, needs=_RDMA[:1]),
    LayerCheck("GPUDirect RDMA", _HOSTS, hosts.gpudirect, gpu=True, hosts=True, needs=_RDMA),
)


def diagnose(facts: Facts) -> Diagnosis:
    """Judge the facts; this function reads nothing else."""
    checks = [check for check in CHECKS if check.applies(facts)]
    judged = {check.name: check.finding(facts) for check in checks}
    for check in checks:
        found, tried = judged[check.name], judged.get(check.tried_by)
        if found.status == "broken" and tried and tried.status == "good":
            judged[check.name] = good(f"{check.tried_by} works; doctor's own attempt did not: {found.said}")
    causes: dict[str, list[str]] = {}
    for check in checks:
        found, explained = judged[check.name], []
        if found.status not in _FINE:
            explained = [name for name, each in judged.items() if check.name in each.explains]
            met = (name for name, words in _MET.items() if name != check.name and words.search(found.evidence))
            explained += [name for name in met if judged[name].status == "warning" and found.status == "broken"]
        if found.status in {"broken", "not tested"}:
            explained += [name for name in check.needs if name in judged and judged[name].status == "broken"]
        causes[check.name] = list(dict.fromkeys(explained))
    roots = {name: _roots(name, causes) for name in causes}
    findings = []
    for check in checks:
        found = judged[check.name]
        if roots[check.name]:
            # The cause in place of its consequence: what stands on a broken layer has not been tested.
            found = replace(not_tested(f"fix first: {join_words(roots[check.name])}"), evidence=found.evidence)
        elif any(judged[name].status == "broken" and check.name in those for name, those in roots.items()):
            found = replace(found, status="broken")  # a cause is as bad as what follows from it
        remedy = found.remedy.replace(SEND, send_by(facts.mpi))
        findings.append(replace(found, check=check.name, layer=check.layer, remedy=remedy))
    return Diagnosis(
        volley=facts.volley,
        captured_at=facts.captured_at,
        note=facts.note,
        counts=counts(findings, STATUSES),
        findings=findings,
    )


def _roots(name: str, causes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the causes of a check's problem that have no cause of their own."""
    waiting = list(causes[name])
    for cause in waiting:  # grows meanwhile
        waiting += [each for each in causes[cause] if each not in (name, *waiting)]
    return [cause for cause in waiting if not causes[cause]]
