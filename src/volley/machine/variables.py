"""The variables of MPI, UCX, CUDA, NCCL and launchers: which are captured, passed on to ranks and named in reports.

volley sets none of them that changes the performance of what it measures.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

_OF_LIBRARIES = (
    *("UCX_", "MPICH_", "MPIR_CVAR_", "FI_", "I_MPI_", "MV2_", "NCCL_", "NVSHMEM_", "CUDA_"),
    *("NVIDIA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_LIBRARY_PATH"),
)
"""Variables of libraries in the ranks, by the beginning of their names."""
_OF_OPEN_MPI = ("OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_")
_CAPTURED = (
    *(*_OF_OPEN_MPI, *_OF_LIBRARIES, "NVIDIA_DRIVER_CAPABILITIES", "MPI_HOME"),
    *("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE", "SLURM_JOB_NUM_NODES", "SLURM_GPU"),
    *("LSB_JOBID", "PBS_JOBID", "VOLLEY_ENGINE"),
)
"""No other variable is captured.  The engine records those of libraries and launchers
(engine/src/group/job.cpp)."""
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|JWT|URI|initial_wdir", re.IGNORECASE)
"""Variables with these words in their names may hold secrets and are not captured."""

_OF_ONE_NODE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""A batch system sets these on each node to the GPUs that it granted there."""

_MEANINGS = {
    "NCCL_NVLS_ENABLE=0": "NCCL without NVLink SHARP",
    "NCCL_P2P_DISABLE=1": "NCCL without direct access between GPUs",
    "NCCL_SHM_DISABLE=1": "NCCL without shared memory",
    "NVSHMEM_DISABLE_NVLS=1": "NVSHMEM without NVLink SHARP",
    "NVSHMEM_REMOTE_TRANSPORT=none": "NVSHMEM without a network",
    "NVSHMEM_DISABLE_LOCAL_ONLY_PROXY=1": "NVSHMEM without its proxy thread",
}
_CONCERNS = (
    (re.compile(r"NCCL_"), "nccl"),
    (re.compile(r"NVSHMEM_"), "nvshmem"),
    (re.compile(r"UCX_|MPICH_|MPIR_CVAR_|FI_|I_MPI_|MV2_|OMPI_MCA_(pml|btl|mtl|osc|coll|smsc)(_|$)"), "MPI"),
)
"""Variables that may change the performance, and the library whose transports they concern."""
_TALK = re.compile(
    r"LOG|DEBUG|VERBOSE|INFO|WARN|COLOR|VERSION|HOME|INTERFACE_HOSTNAME"
    "|I_MPI_(ROOT|HYDRA_|BIND_WIN_|INTERNAL_|PIN_MAPPING|RETURN_)"
)
"""Parts of the names of variables that change only what a library prints, or where it is found; and those with which
hydra tells ranks what it has decided."""


def captured(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(environment.items()):
        if name.startswith(_CAPTURED) and not SECRET.search(name):
            yield name, value


def to_pass_on(environment: Mapping[str, str], *, allocated: bool) -> Iterator[str]:
    """Yield the variables that ranks on other hosts need and that Open MPI's mpirun does not pass on unasked.

    It passes on its own; the others only to daemons that inherit them, which ssh does not start.
    """
    for name in sorted(environment):
        if name.startswith(_OF_LIBRARIES) and not (allocated and name in _OF_ONE_NODE):
            yield name


def tuned(environment: Mapping[str, str], libraries: Collection[str]) -> list[str]:
    """Return the settings that may change the performance of the transports of these libraries, with their meaning."""
    settings = []
    for name, value in sorted(environment.items()):
        if _TALK.search(name) or not any(pattern.match(name) and of in libraries for pattern, of in _CONCERNS):
            continue
        setting = f"{name}={value}"
        settings.append(f"{_MEANINGS[setting]}: {setting}" if setting in _MEANINGS else setting)
    return settings
