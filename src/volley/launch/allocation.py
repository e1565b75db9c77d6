"""What a batch system has given to this shell: nodes, and slots for ranks on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Allocation:
    """Nodes of a batch system's job."""

    kind: str
    """``slurm``, ``lsf`` or ``pbs``."""
    nodes: int
    slots: int
    """Ranks that the batch system expects; mpirun refuses more unless told to."""


def allocation(environment: Mapping[str, str]) -> Allocation | None:
    """Return the allocation that this process runs in; ``None`` on a machine of one's own."""
    for read in (_slurm, _lsf, _pbs):
        found = read(environment)
        if found is not None:
            return found
    return None


def _slurm(environment: Mapping[str, str]) -> Allocation | None:
    """``SLURM_TASKS_PER_NODE`` reads ``2(x3),1``: three nodes with two tasks and one with one (sbatch(1))."""
    if "SLURM_JOB_ID" not in environment:
        return None
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", environment.get("SLURM_TASKS_PER_NODE", "1"))
    slots = sum(int(tasks) * int(times or 1) for tasks, times in groups)
    nodes = environment.get("SLURM_JOB_NUM_NODES", "1")
    return Allocation("slurm", int(nodes) if nodes.isdecimal() else 1, max(slots, 1))


def _lsf(environment: Mapping[str, str]) -> Allocation | None:
    """``LSB_MCPU_HOSTS`` reads ``batch2 1 a04n05 42``: hosts and their slots.

    On machines with jsrun (CSM) the first host only runs the job script.
    """
    if "LSB_JOBID" not in environment:
        return None
    words = environment.get("LSB_MCPU_HOSTS", "").split()
    slots = [int(word) for word in words[1::2] if word.isdecimal()]
    if len(slots) > 1 and "CSM_ALLOCATION_ID" in environment:
        slots = slots[1:]
    return Allocation("lsf", max(len(slots), 1), max(sum(slots), 1))


def _pbs(environment: Mapping[str, str]) -> Allocation | None:
    """``PBS_NODEFILE`` names a file with one line a slot."""
    if "PBS_JOBID" not in environment:
        return None
    try:
        lines = Path(environment.get("PBS_NODEFILE", "")).read_text(encoding="utf-8").split()
    except OSError:
        lines = []
    return Allocation("pbs", max(len(set(lines)), 1), max(len(lines), 1))
