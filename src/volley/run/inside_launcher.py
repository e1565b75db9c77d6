"""Inside a launcher: notice that somebody started this process as one rank of a job, and become that rank.

``mpirun -n 2 volley …`` starts volley twice.  The first rank keeps Python, and the engine is its child; the
others read the same command line and turn into the engine.  So only light modules are imported here.
"""

# pathlib is not among the light modules
# ruff: noqa: PTH118, PTH120, PTH123

from __future__ import annotations

import os

from volley.run.engine_path import engine_path
from volley.units import parse_whole

TYPE_CHECKING = False  # start-up: to import typing, or even collections.abc, takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FIRST_SPECIAL_STEP = 4294967280
"""Slurm numbers its batch, extern and interactive steps from the top of 32 bits downwards (slurm.h: SLURM_BATCH_SCRIPT,
SLURM_EXTERN_CONT, SLURM_INTERACTIVE_STEP): in those, Slurm started a shell and no ranks."""

_VARIABLES = ("PMIX_", "PMI_", "PMI2_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "MPI_LOCAL", "HYDI_", "HYDRA_", "PRTE_")
_OMPI_JOB = ("OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "OMPI_MCA_num_procs", "OMPI_MCA_mpi_oversubscribe")
_STEP = ("SLURM_STEP_", "SLURM_STEPID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_LAUNCH_")


class RankInfo:
    """This process's place in a job that somebody else started."""

    __slots__ = ("launcher", "rank", "size")

    def __init__(self, rank: int, size: int | None, launcher: str) -> None:
        self.rank = rank
        self.size = size
        """Ranks of the job; ``None`` where the launcher does not say."""
        self.launcher = launcher
        """``openmpi``, ``mpich``, ``srun``, ``jsrun``, or ``pmix`` and ``pmi`` for others that speak these."""


def rank_info(environment: Mapping[str, str]) -> RankInfo | None:
    """Return this process's place in a foreign job; ``None`` where nobody started ranks.

    The variables are read from the most telling to the least.  A step of Slurm comes before PMIX_RANK and PMI_RANK,
    because an interactive step may carry those too, and its shell is no rank.  SLURM_PROCID alone says nothing: batch
    scripts have it.
    """
    for launcher, rank_name, size_name, also in (
        ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", None),
        ("openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", None),
        ("mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ):
        rank = parse_whole(environment.get(rank_name))
        if rank is not None and (also is None or also in environment):
            return RankInfo(rank, parse_whole(environment.get(size_name)), launcher)
    step = parse_whole(environment.get("SLURM_STEP_ID"))
    if step is not None:
        rank = parse_whole(environment.get("SLURM_PROCID"))
        if rank is None or step >= _FIRST_SPECIAL_STEP:
            return None
        return RankInfo(rank, parse_whole(environment.get("SLURM_STEP_NUM_TASKS")), "srun")
    for launcher, rank_name, size_name in (("pmix", "PMIX_RANK", ""), ("pmi", "PMI_RANK", "PMI_SIZE")):
        rank = parse_whole(environment.get(rank_name))
        if rank is not None:
            return RankInfo(rank, parse_whole(environment.get(size_name)), launcher)
    return None


def mismatch(launcher: str, family: str) -> bool:
    """True when a job's mpirun belongs to another MPI than the engine's.

    Open MPI's mpirun speaks PMIx and MPICH's hydra PMI-1: the ranks would not find each other, each a job of its own
    (Open MPI), or end at once with "unsupported PMI version PMIx" (MPICH).  Other launchers may speak either; with
    those the engine counts its ranks.
    """
    return (launcher, family) in (("mpich", "openmpi"), ("openmpi", "mpich"))


def exec_engine(place: RankInfo, gpus: Sequence[int]) -> None:
    """Turn this process into the engine of a rank that is not the first.

    Returns only where the launcher does not fit the engine: the first rank says so.

    Args:
        place: of this process.
        gpus: of the ranks, in their order; empty: one a rank.
    """
    engine = engine_path()
    if mismatch(place.launcher, str(_build_facts(engine).get("mpi_family"))):
        return
    words = ["--gpus", ",".join(map(str, gpus))] if gpus else []
    os.execv(engine, [engine, "--follower", *words])  # noqa: S606


def _build_facts(engine: str) -> dict[str, object]:
    """Return the build facts beside an engine; empty where there are none that can be read."""
    import json  # noqa: PLC0415  start-up: most processes find out that they are no rank

    try:
        with open(os.path.join(os.path.dirname(engine), "build.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what makes a process a rank of somebody's job, to start a job of our own in it.

    What the allocation is (SLURM_JOB_ID and its like) stays: launchers need it.
    """
    gone = (*_VARIABLES, *_OMPI_JOB, *_STEP)
    # Outside of any job these are the user's own; inside one nobody can tell them from the launcher's.
    settings = () if rank_info(environment) else ("PMIX_MCA_", "PRTE_MCA_")
    return {
        name: value for name, value in environment.items() if not name.startswith(gone) or name.startswith(settings)
    }
