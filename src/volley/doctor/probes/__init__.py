"""The probes, in the order in which the layers depend on each other.

Each tries something and returns what happened; the checks judge it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from volley.command.options import JobOptions
from volley.doctor.probes import gpus, host, hosts, jobs, trials
from volley.doctor.remedies import send_by
from volley.launch.inside_launcher import note_joined, rank_info
from volley.machine import capture as machine
from volley.machine import cuda_driver, nvml, settings, sysfs
from volley.machine.capture import Attempt, isolated
from volley.machine.facts import Facts
from volley.machine.job_facts import TrialFacts
from volley.text import join_few


def attempts(limit_s: float, names: Sequence[str] = (), mpi: str = "") -> tuple[Attempt, ...]:
    """Return the probes in their order; the watchdog of their jobs ends these after half of the limit.

    ``names`` are the hosts to look at, if there are several; ``mpi`` is the value of ``--mpi``.
    """
    job, send = JobOptions(watchdog=limit_s / 2, mpi=mpi), send_by(mpi)
    between = Attempt("hosts", f"{send} --hosts {join_few(names)}", partial(hosts.hosts, names, job), times=2)
    return (
        Attempt("system", "os-release, uname", host.system),
        Attempt("surroundings", "df $TMPDIR; write and run there; getent hosts $(hostname)", host.surroundings),
        Attempt("driver", "cat /proc/driver/nvidia/version; open(/dev/nvidia*); dlopen(libcuda.so.1)", host.driver),
        sysfs.BUS,
        cuda_driver.CUDA,
        nvml.NVML,
        Attempt("pcie_load", "cuMemcpyHtoD while reading current_link_speed", gpus.pcie_load),
        Attempt("iommu", "ls /sys/class/iommu; ACS control of the bridges above each GPU", gpus.iommu),
        Attempt("limits", "write to /dev/shm; process_vm_readv between two processes", host.limits),
        Attempt("gdrcopy", "open(/dev/gdrdrv), gdr_open, gdr_map", gpus.gdrcopy),
        Attempt("ucx", "dlopen(libucp.so.0), uct_query_components", gpus.ucx),
        Attempt("stack", "volley-engine --about; ompi_info --parsable --all", partial(jobs.stack, mpi)),
        Attempt("mpi_host", f"{send} --transport host", partial(jobs.mpi_host, job)),
        Attempt("mpi_device", f"{send} --transport aware,staged/pinned", partial(jobs.mpi_device, job)),
        Attempt("launcher", "volley transports", partial(jobs.launcher, job)),
        Attempt("peers", f"{send} --transport peer,device", partial(jobs.peers, job), times=6),
        Attempt("nccl", f"NCCL_DEBUG=INFO {send} --transport nccl", partial(jobs.nccl, job)),
        sysfs.TOPOLOGY,
        Attempt(
            "settings",
            "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; cat /sys/fs/cgroup/cpu.max",
            settings.read,
        ),
        *([between] if len(names) > 1 else []),
    )


def capture(
    limit_s: float = machine.LIMIT_S,
    watch: Callable[[str], None] = lambda _: None,
    names: Sequence[str] = (),
    mpi: str = "",
) -> Facts:
    """Try everything; return what happened.  Arguments like those of ``machine.capture``."""
    inside = rank_info(os.environ) is not None
    facts = machine.capture(attempts(limit_s, () if inside else names, mpi), limit_s, watch, own_session=not inside)
    again = f"{send_by(mpi)} --transport {'aware' if facts.fails_on_gpus else 'host'}, with one change at a time"
    watch(again)
    repeat = partial(trials.on_this_host, facts, JobOptions(mpi=mpi), limit_s)
    tried = isolated(again, repeat, list[TrialFacts], 2 * limit_s)
    facts = msgspec.structs.replace(facts, trials=tried, mpi=mpi)
    facts = machine.without_home(facts, os.path.expanduser("~"))  # noqa: PTH111
    if inside and facts.launcher.value is not None:
        note_joined()
    return facts
