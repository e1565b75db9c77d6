"""Capturing: every probe in its order, each in a process of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from volley import engine
from volley.doctor import facts as f
from volley.doctor.isolate import isolated
from volley.doctor.probes import cuda, gdrcopy, gpus, jobs, limits, system, topology, ucx
from volley.launch import inside

LIMIT_S = 60.0
"""How long a probe may take, unless asked."""

_STEERING = (
    *("OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_", "UCX_", "MPICH_", "MPIR_CVAR_", "FI_", "I_MPI_", "MV2_", "NCCL_", "CUDA_"),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "LD_PRELOAD", "LD_LIBRARY_PATH", "MPI_HOME"),
    *("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE", "SLURM_JOB_NUM_NODES", "SLURM_GPU"),
    *("LSB_JOBID", "PBS_JOBID", "VOLLEY_ENGINE"),
)
"""Variables that steer MPI, UCX, CUDA, NCCL or a launcher, by the beginning of their names; no other is captured."""
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|JWT|URI|initial_wdir", re.IGNORECASE)
"""Of those, names that may hold what nobody else should read."""


@dataclass(frozen=True)
class Attempt:
    """A probe: where its answer belongs, what a person would call it, and what does it."""

    name: str
    call: str
    work: Callable[[], Any]
    times: float = 1.0
    """How many limits it may take: some run several jobs."""


def attempts(limit_s: float) -> tuple[Attempt, ...]:
    """Return the probes in their order; a job of theirs gets half of the limit before its watchdog bites."""
    watchdog_s = limit_s / 2
    return (
        Attempt("system", "os-release, uname", system.system),
        Attempt("toolchain", "c++ -std=c++20 try.cpp && ./try; cmake --version; nvcc -c try.cu", system.toolchain),
        Attempt("driver", "cat /proc/driver/nvidia/version; open(/dev/nvidia*); dlopen(libcuda.so.1)", system.driver),
        Attempt("bus", "grep 0x10de /sys/bus/pci/devices/*/vendor", gpus.bus),
        Attempt("cuda", "cuInit, cuDeviceGetCount, cuDeviceCanAccessPeer", cuda.cuda),
        Attempt("nvml", "nvmlInit, nvmlDeviceGetNvLinkState, nvmlDeviceGetP2PStatus", gpus.nvml),
        Attempt("pcie_load", "cuMemcpyHtoD while reading current_link_speed", gpus.pcie_load),
        Attempt("iommu", "ls /sys/class/iommu; ACS control of the bridges above each GPU", gpus.iommu),
        Attempt("limits", "write to /dev/shm; process_vm_readv between two processes", limits.limits),
        Attempt("gdrcopy", "open(/dev/gdrdrv), gdr_open, gdr_map", gdrcopy.gdrcopy),
        Attempt("ucx", "dlopen(libucp.so.0), uct_query_components", ucx.ucx),
        Attempt("ucx_transfer", "ucx_perftest -t tag_lat between two processes", ucx.ucx_transfer),
        Attempt("stack", "volley-engine --about; ompi_info --parsable --all", jobs.stack),
        Attempt("mpi_host", "volley pingpong --transport host", partial(jobs.mpi_host, watchdog_s)),
        Attempt("mpi_device", "volley pingpong --transport aware,staged/pinned", partial(jobs.mpi_device, watchdog_s)),
        Attempt("launcher", "volley transports", partial(jobs.launcher, watchdog_s)),
        Attempt("peers", "volley pingpong --transport peer,device", partial(jobs.peers, watchdog_s), times=6),
        Attempt("topology", f.TOPOLOGY_CALL, topology.topology),
    )


def capture(
    limit_s: float = LIMIT_S, watch: Callable[[str], None] = lambda _: None, only: Collection[str] | None = None
) -> f.Facts:
    """Try everything; return what happened.

    Args:
        limit_s: seconds that a probe may take before it is ended.
        watch: told the call of each probe before it begins.
        only: the names of the probes to run, where not all are needed.
    """
    from volley import __version__  # noqa: PLC0415  reads the distribution's metadata

    inside_job = inside.position(os.environ) is not None
    found: dict[str, Any] = {}
    for attempt in attempts(limit_s):
        if only is not None and attempt.name not in only:
            found[attempt.name] = f.Probe(call=attempt.call, skipped="it was not asked for")
            continue
        watch(attempt.call)
        kind = _value_type(attempt.name)
        limit = limit_s * attempt.times
        found[attempt.name] = isolated(attempt.call, attempt.work, kind, limit, own_session=not inside_job)
    if inside_job and found["launcher"].value is not None:
        engine.note_joined()
    return without_home(
        f.Facts(
            facts=f.FACTS_VERSION,
            volley=__version__,
            captured_at=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            environment=dict(steering(os.environ)),
            **found,
        ),
        str(Path.home()),
    )


def _value_type(name: str) -> Any:
    """Return ``T`` of the document's ``Probe[T]`` under this name."""
    field = next(each for each in msgspec.structs.fields(f.Facts) if each.name == name)
    return field.type.__args__[0]


def steering(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that may be captured."""
    for name, value in sorted(environment.items()):
        if name.startswith(_STEERING) and not _SECRET.search(name):
            yield name, value


def without_home(facts: f.Facts, home: str) -> f.Facts:
    """Write ``~`` for the user's home: whose account it was is nobody's business."""
    if len(home) < 2:
        return facts
    document = msgspec.json.encode(facts)
    inside = msgspec.json.encode(home)[1:-1]
    return msgspec.json.decode(document.replace(inside, b"~"), type=f.Facts)
