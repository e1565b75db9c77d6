"""The allocation that a batch system granted: hosts, slots for ranks, ranks and GPUs.

Everything is read from variables and files of the batch system; invalid values are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any

from volley.command.option_values import expand
from volley.errors import UserError
from volley.files import read_bounded
from volley.machine.nvidia_driver import visible_gpus
from volley.units import parse_whole

_MAX_BYTES = 1 << 25
"""A list of 65,536 hosts with the longest names is half as large."""


@dataclass(frozen=True)
class Allocation:
    """The nodes that a batch system granted to this job."""

    kind: str
    """``slurm``, ``lsf``, ``pbs`` or ``age``."""
    nodes: int
    slots: int
    """Ranks that the batch system expects; mpirun refuses more unless told to."""
    hosts: Mapping[str, int] = field(default_factory=dict)
    """Slots by host, in the batch system's order; empty if unknown."""
    ranks: int | None = None
    """The number of ranks given at submission (sbatch -n); ``None`` if only slots are known."""
    gpus_per_node: int | None = None
    """GPUs granted on this node; ``None`` if unknown."""
    cpus_per_node: int | None = None
    """CPUs (hardware threads) granted on the node with the fewest; ``None`` if unknown."""
    unread: str | None = None
    """Why the batch system's list of hosts cannot be read."""

    @property
    def is_this_host(self) -> bool:
        """True if its only node is this host, by its name: salloc may leave volley on another one."""
        from volley.launch.this_host import is_this_host  # noqa: PLC0415  start-up: only in a job

        return self.nodes == 1 and any(is_this_host(host, look_up=False) for host in self.hosts)

    def facts(self) -> dict[str, Any]:
        """Return the allocation as JSON for the plan's ``launch``."""
        return {
            "scheduler": self.kind,
            "nodes": self.nodes,
            "slots": self.slots,
            "hosts": dict(self.hosts),
            "gpus_per_node": self.gpus_per_node,
            "cpus_per_node": self.cpus_per_node,
        }


def allocation(environment: Mapping[str, str]) -> Allocation | None:
    """Return the allocation in which this process runs; ``None`` outside a batch system."""
    return next(filter(None, (read(environment) for read in (_slurm, _lsf, _pbs, _age))), None)


def _slurm(environment: Mapping[str, str]) -> Allocation | None:
    """``SLURM_TASKS_PER_NODE`` reads ``2(x3),1``: three nodes with two tasks and one with one (sbatch(1)); and so does
    ``SLURM_JOB_CPUS_PER_NODE``."""
    if "SLURM_JOB_ID" not in environment:
        return None
    tasks = _repeated(environment.get("SLURM_TASKS_PER_NODE", "1"))
    hosts: dict[str, int] = {}  # unknown where the two variables do not fit together
    with suppress(ValueError):
        names, slots_of = expand(environment.get("SLURM_JOB_NODELIST", "")), (repeat(*each) for each in tasks)
        hosts = dict(zip(names, chain(*slots_of), strict=True))
    cpus = _repeated(environment.get("SLURM_JOB_CPUS_PER_NODE", ""))
    slots = max(sum(number * times for number, times in tasks), 1)
    nodes = parse_whole(environment.get("SLURM_JOB_NUM_NODES")) or 1
    named = environment.get("SLURM_JOB_GPUS")
    gpus = parse_whole(environment.get("SLURM_GPUS_ON_NODE")) or (len(named.split(",")) if named else None)
    return Allocation(
        *("slurm", nodes, slots, hosts),
        ranks=parse_whole(environment.get("SLURM_NTASKS")),
        gpus_per_node=gpus or visible_gpus(environment),
        cpus_per_node=min((number for number, _ in cpus), default=parse_whole(environment.get("SLURM_CPUS_ON_NODE"))),
    )


def _repeated(text: str) -> list[tuple[int, int]]:
    """Read ``2(x3),1`` as (2, 3), (1, 1)."""
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [(parse_whole(number) or 0, parse_whole(times or "1") or 0) for number, times in groups]


def _lsf(environment: Mapping[str, str]) -> Allocation | None:
    """``LSB_MCPU_HOSTS`` reads ``batch2 1 a04n05 42``: hosts and their slots.

    On machines with jsrun (CSM) the first host only runs the job script.
    """
    if "LSB_JOBID" not in environment:
        return None
    words = environment.get("LSB_MCPU_HOSTS", "").split()
    pairs = list(zip(words[::2], words[1::2], strict=False))
    if len(pairs) > 1 and "CSM_ALLOCATION_ID" in environment:
        pairs = pairs[1:]
    return _from_hosts("lsf", pairs, visible_gpus(environment))


def _pbs(environment: Mapping[str, str]) -> Allocation | None:
    """``PBS_NODEFILE`` names a file with one line a slot; Torque's ``PBS_GPUFILE`` one with one line a GPU.

    ``NCPUS`` are the CPUs granted on this node, also where they are for one MPI process (pbs(1)).
    """
    if "PBS_JOBID" not in environment:
        return None
    hosts, unread = _lines(environment, "PBS_NODEFILE")
    gpus = len(_lines(environment, "PBS_GPUFILE")[0]) // max(len(set(hosts)), 1)
    found = _from_hosts("pbs", [(host, "1") for host in hosts], gpus or visible_gpus(environment))
    return replace(found, cpus_per_node=parse_whole(environment.get("NCPUS")), unread=unread)


def _age(environment: Mapping[str, str]) -> Allocation | None:
    """Altair (Univa, Sun) Grid Engine: ``PE_HOSTFILE`` names a file with lines ``HOST SLOTS QUEUE PROCESSORS``.

    A job without a parallel environment has no such file, and ``NSLOTS`` slots on this host.  ``SGE_HGR_gpu`` holds the
    granted ids of a resource map named ``gpu``, with spaces between (sge_resource_map(5)).
    """
    if "JOB_ID" not in environment or not {"SGE_ROOT", "PE_HOSTFILE"} & set(environment):
        return None
    lines, unread = _lines(environment, "PE_HOSTFILE")
    gpus = len(environment.get("SGE_HGR_gpu", "").split()) or visible_gpus(environment)
    found = _from_hosts("age", [(row[0], row[1]) for row in map(str.split, lines) if len(row) > 1], gpus)
    slots = found.slots if found.hosts else parse_whole(environment.get("NSLOTS")) or 1
    return replace(found, slots=slots, unread=unread)


def _from_hosts(kind: str, pairs: Iterable[tuple[str, str]], gpus: int | None) -> Allocation:
    """Add up the slots of each host; invalid numbers are ignored, and names that are unsafe on a command line."""
    hosts: dict[str, int] = {}
    for host, slots in pairs:
        if host.isprintable() and not host.startswith("-") and "," not in host and parse_whole(slots) is not None:
            hosts[host] = hosts.get(host, 0) + int(slots)
    return Allocation(kind, max(len(hosts), 1), max(sum(hosts.values()), 1), hosts, gpus_per_node=gpus)


def _lines(environment: Mapping[str, str], name: str) -> tuple[list[str], str | None]:
    """Return the non-empty lines of the file that a variable names, and why it cannot be read."""
    try:
        text = read_bounded(environment[name], _MAX_BYTES).decode("utf-8", "replace") if name in environment else ""
    except UserError as error:
        return [], f"{name}: {error}"
    return [line.strip() for line in text.splitlines() if line.strip()], None
