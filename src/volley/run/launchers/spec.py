"""What a launcher is asked to start, whichever it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from volley.run.launchers.allocation import Allocation

_CPUS = Path("/sys/devices/system/cpu")


def home(environment: Mapping[str, str]) -> str | None:
    """Return the user's home folder where ``HOME`` does not name it, as in a job of cron; ``/`` where nobody does."""
    if environment.get("HOME"):
        return None
    import pwd  # noqa: PLC0415  start-up: hardly ever

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"


@dataclass(frozen=True)
class LaunchSpec:
    """What a launcher must know to start the ranks of one job."""

    engine: tuple[str, ...]
    """The program of every rank, with its arguments."""
    ranks: int
    family: str = "openmpi"
    """The MPI that the engine was linked to: ``openmpi``, ``mpich`` or ``other``."""
    mpiexec: Path | None = None
    """That MPI's own mpirun."""
    hosts: tuple[str, ...] = ()
    """Hosts to spread the ranks over; empty: this machine, or the allocation's."""
    allocation: Allocation | None = None
    cores: int = 1
    """Cores of this machine that ranks may use."""
    root: bool = False
    home: str | None = None
    """The user's home folder, where the environment does not name it."""
    gpus: bool = False
    """GPUs are used, through MPI or beside it."""
    device_buffers: bool = False
    """Buffers in GPU memory are handed to MPI."""
    mca: Mapping[str, str] = field(default_factory=dict)
    """Open MPI parameters that the software stack needs."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that the software stack needs in every rank, and in no launcher."""
    extra: tuple[str, ...] = ()
    """The user's own arguments of the launcher."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment that the launcher will be started in."""

    @property
    def allocated(self) -> tuple[str, ...]:
        """Hosts of the allocation that get ranks, for launchers that do not ask the batch system; empty if unknown."""
        return tuple(self.allocation.hosts)[: self.nodes] if self.allocation else ()

    @property
    def nodes(self) -> int:
        """Nodes that the ranks spread over."""
        if self.hosts:
            return len(set(self.hosts))
        return min(self.ranks, self.allocation.nodes) if self.allocation else 1

    @property
    def ranks_per_node(self) -> int:
        """Ranks of the fullest node."""
        return -(-self.ranks // self.nodes)

    @property
    def oversubscribed(self) -> bool:
        """More ranks than slots, as launchers count them: named hosts have as many as are asked for, unless a batch
        system says how many there are."""
        if not self.hosts:
            return self.ranks > (self.allocation.slots if self.allocation else self.cores)
        granted = self.allocation.hosts if self.allocation else {}
        return all(host in granted for host in self.hosts) and self.ranks > sum(
            granted[host] for host in set(self.hosts)
        )


def cores() -> int:
    """Count the cores (not hardware threads) that this process may run on, as Open MPI counts its slots.

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
