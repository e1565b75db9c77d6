"""The probes, in the order in which the layers depend on each other.

Each tries something and returns what happened; the checks judge it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from volley.doctor.probes import gpus, host, hosts, jobs, libraries
from volley.doctor.remedies import SEND
from volley.launch.engine import note_joined
from volley.launch.inside_launcher import rank_info
from volley.machine import capture as machine
from volley.machine.capture import Attempt
from volley.machine.facts import SURROUNDINGS_CALL, Facts, TrialFacts
from volley.machine.isolate import isolated


def attempts(limit_s: float, names: Sequence[str] = ()) -> tuple[Attempt, ...]:
    """Return the probes in their order; the watchdog of their jobs ends these after half of the limit.

    ``names`` are the hosts to look at, if there are several.
    """
    watchdog_s = limit_s / 2
    between = Attempt("hosts", f"{SEND} --hosts {','.join(names)}", partial(hosts.hosts, names, watchdog_s), times=2)
    return (
        Attempt("system", "os-release, uname", host.system),
        Attempt("surroundings", SURROUNDINGS_CALL, host.surroundings),
        Attempt(
            "toolchain", "c++ -std=c++20 try.cpp && ./try; cmake --version; nvcc -std=c++20 -c try.cu", host.toolchain
        ),
        Attempt("driver", "cat /proc/driver/nvidia/version; open(/dev/nvidia*); dlopen(libcuda.so.1)", host.driver),
        machine.BUS,
        machine.CUDA,
        machine.NVML,
        Attempt("pcie_load", "cuMemcpyHtoD while reading current_link_speed", gpus.pcie_load),
        Attempt("iommu", "ls /sys/class/iommu; ACS control of the bridges above each GPU", gpus.iommu),
        Attempt("limits", "write to /dev/shm; process_vm_readv between two processes", host.limits),
        Attempt("gdrcopy", "open(/dev/gdrdrv), gdr_open, gdr_map", libraries.gdrcopy),
        Attempt("ucx", "dlopen(libucp.so.0), uct_query_components", libraries.ucx),
        Attempt("ucx_transfer", "ucx_perftest -t tag_lat between two processes", libraries.ucx_transfer),
        Attempt("stack", "volley-engine --about; ompi_info --parsable --all", jobs.stack),
        Attempt("mpi_host", f"{SEND} --transport host", partial(jobs.mpi_host, watchdog_s)),
        Attempt("mpi_device", f"{SEND} --transport aware,staged/pinned", partial(jobs.mpi_device, watchdog_s)),
        Attempt("launcher", "volley transports", partial(jobs.launcher, watchdog_s)),
        Attempt("peers", f"{SEND} --transport peer,device", partial(jobs.peers, watchdog_s), times=6),
        machine.TOPOLOGY,
        machine.SETTINGS,
        *([between] if len(names) > 1 else []),
    )


def capture(
    limit_s: float = machine.LIMIT_S, watch: Callable[[str], None] = lambda _: None, names: Sequence[str] = ()
) -> Facts:
    """Try everything; return what happened.  Arguments like those of ``machine.capture``."""
    inside = rank_info(os.environ) is not None
    facts = machine.capture(attempts(limit_s, () if inside else names), limit_s, watch, own_session=not inside)
    again = f"{SEND} --transport host, with one change at a time"
    watch(again)
    tried = isolated(again, partial(jobs.trials, facts.mpi_host, limit_s), list[TrialFacts], 2 * limit_s)
    facts = machine.without_home(msgspec.structs.replace(facts, trials=tried), os.path.expanduser("~"))  # noqa: PTH111
    if inside and facts.launcher.value is not None:
        note_joined()
    return facts
