"""Situations of kinds that the other two files do not have, as messages of programs: ``tests/unseen_situations.txt``.

Most of them have no row of their own in doctor: the line that says why, and the kind of the failure or the part that
failed, lead to the remedy.  Each answer was written down before doctor was asked.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from doctor_states import AROUND, NO_DRIVER, hosts
from further_situations import _both
from reported_situations import (
    ALONE,
    DOCKER,
    GOOD_JOB,
    POD,
    SLURM,
    SYSTEM,
    Situation,
    all_ended,
    ended,
    engine,
    nccl,
    pair,
)

_FILE = Path(__file__).parents[1] / "unseen_situations.txt"
_MERGED = {"system": SYSTEM, "surroundings": AROUND}


def _changes(where: str, text: list[str], facts: dict[str, Any]) -> dict[str, Any]:
    """Changes to the facts of a good machine: ``where`` a job failed with a text."""
    a, b, reason = (facts.pop(key, {}) for key in ("a", "b", "reason"))
    job = ended(*text, **({"reason": reason} if reason else {}))
    failed = {"nccl": {**nccl(""), "job": {**GOOD_JOB, **job}}}
    alone = {"bus": {"gpus": []}, **NO_DRIVER, "mpi_host": job, "launcher": ended("x"), "trials": []}
    changes: dict[str, dict[str, Any]] = {
        "MPI": all_ended(*text, trials=[]),
        "MPI, no GPU": alone,
        "MPI, GPU memory": {"mpi_device": job, "trials": []},
        "engine": engine("\n".join(text)),
        "srun": {"launcher": ended(*text, launcher="srun", reason=ALONE)},
        "launcher jsrun": {"launcher": ended(*text, launcher="jsrun", reason=ALONE)},
        "launcher inside": {"launcher": ended(*text, launcher="mpich", inside=True, reason=ALONE)},
        "host b": {"hosts": pair({}, {"error": "\n".join(text)}, ended("x"))},
        "NCCL": failed,
        "NCCL between hosts": {"hosts": {**pair(a, b, GOOD_JOB), **failed, "paths": []}},
        "NCCL channel NET/Socket/0": {"hosts": {**pair(a, b, GOOD_JOB), "nccl": nccl("NET/Socket/0"), "paths": []}},
        "MPI between hosts": {"hosts": pair(a, b, job)},
        "MPI between hosts, GPU memory": {"hosts": hosts(device=job)},
    }
    more = {name: {**_MERGED[name], **each} if name in _MERGED else each for name, each in facts.items()}
    return {**changes[where], **more}


def _situation(block: str) -> tuple[str, Situation]:
    title, *lines = block.splitlines()
    name, source = re.fullmatch(r"# (.*?) \((.*)\)", title).groups()  # type: ignore[union-attr]
    fields = dict(line.split(": ", 1) for line in lines if not line.startswith("  "))
    text = [line[2:] for line in lines if line.startswith("  ")]
    changes = _changes(fields["in"], text, json.loads(fields.get("facts", "{}")))
    never, said = fields.get("never", "$^"), fields.get("said", "")
    status: Any = fields.get("status", "broken")
    return name, Situation(source, changes, fields["finding"], status, fields["remedy"], never, said)


def situations(text: str) -> dict[str, Situation]:
    return dict(map(_situation, text.strip().split("\n\n")))


UNSEEN = situations(_FILE.read_text("utf-8"))

_BOTH = ({"eth0": "192.0.2.1/24", "docker0": "172.17.0.1/16"}, {"eth0": "192.0.2.2/24", "docker0": "172.17.0.1/16"})
UNSEEN_FINE: dict[str, dict[str, Any]] = {
    "docker0 on both hosts, and UCX and MPI work": {"hosts": pair(*_both(*_BOTH), GOOD_JOB)},
    "variables of a binding, and srun works": {
        **SLURM,
        "environment": {"SLURM_JOB_ID": "42", "SLURM_CPU_BIND": "quiet,mask_cpu:0x1"},
    },
    "NCCL_TOPO_FILE, and NCCL works": {"environment": {"NCCL_TOPO_FILE": "/opt/x.xml"}},
    "an agent in place of ssh, and MPI works": {
        "system": POD,
        "environment": {"OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh"},
        "hosts": hosts(),
    },
    "MPICH for GPUs on a login node, and it works": {
        "bus": {"gpus": []},
        **NO_DRIVER,
        "stack": {"mpi_family": "mpich"},
    },
    "locked memory of 64 KiB without RDMA": {"system": DOCKER, "limits": {"memlock_bytes": 65536}},
}
"""What looks like one of these, and is no problem."""
