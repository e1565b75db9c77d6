"""The description of the ranks that a launcher must start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from volley.run.launchers.allocation import Allocation

_CPUS = Path("/sys/devices/system/cpu")


def home(environment: Mapping[str, str]) -> str | None:
    """Return the user's home folder if ``HOME`` is not set, e.g. in a cron job; ``/`` if it is unknown."""
    if environment.get("HOME"):
        return None
    import pwd  # noqa: PLC0415  start-up: rarely needed

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"


@dataclass(frozen=True)
class LaunchSpec:
    """The ranks of one job, independent of the launcher."""

    engine: tuple[str, ...]
    """The program of every rank, with its arguments."""
    ranks: int
    family: str = "openmpi"
    """The MPI that the engine was linked to: ``openmpi``, ``mpich`` or ``other``."""
    mpiexec: Path | None = None
    """That MPI's own mpirun."""
    hosts: tuple[str, ...] = ()
    """The hosts of the ranks; empty: this host, or those of the allocation."""
    allocation: Allocation | None = None
    cores: int = 1
    """Cores of this machine that ranks may use."""
    root: bool = False
    home: str | None = None
    """The user's home folder, if the environment does not name it."""
    gpus: bool = False
    """The job uses GPUs."""
    device_buffers: bool = False
    """The job passes buffers in GPU memory to MPI."""
    mca: Mapping[str, str] = field(default_factory=dict)
    """Open MPI parameters that the software stack needs."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that the software stack needs in every rank, but not in the launcher."""
    extra: tuple[str, ...] = ()
    """Additional arguments of the launcher from the user."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment of the launcher."""

    @property
    def allocated(self) -> tuple[str, ...]:
        """Hosts of the allocation that get ranks, for launchers that do not ask the batch system; empty if unknown."""
        return tuple(self.allocation.hosts)[: self.nodes] if self.allocation else ()

    @property
    def nodes(self) -> int:
        """The number of nodes of the ranks."""
        if self.hosts:
            return len(set(self.hosts))
        return min(self.ranks, self.allocation.nodes) if self.allocation else 1

    @property
    def ranks_per_node(self) -> int:
        """The largest number of ranks on a node."""
        return -(-self.ranks // self.nodes)

    @property
    def oversubscribed(self) -> bool:
        """True if there are more ranks than slots, as launchers count them: hosts from ``--hosts`` have enough slots
        unless a batch system defines their number."""
        if not self.hosts:
            return self.ranks > (self.allocation.slots if self.allocation else self.cores)
        granted = self.allocation.hosts if self.allocation else {}
        return all(host in granted for host in self.hosts) and self.ranks > sum(
            granted[host] for host in set(self.hosts)
        )


def cores() -> int:
    """Count the cores (not hardware threads) on which this process may run, as Open MPI counts its slots.

    Source: Linux, ``/sys/devices/system/cpu/cpuN/topology/thread_siblings_list``, the same for all threads of a core.
    """
    allowed = os.sched_getaffinity(0)
    siblings = set()
    for cpu in allowed:
        try:
            siblings.add((_CPUS / f"cpu{cpu}/topology/thread_siblings_list").read_text(encoding="ascii").strip())
        except OSError:
            siblings.add(str(cpu))
    return max(len(siblings), 1)
