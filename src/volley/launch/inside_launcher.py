"""Inside a launcher: detect that this process was started as one rank of a job, and join that job.

``mpirun -n 2 volley …`` starts volley twice.  Rank 0 stays in Python and starts the engine as its child process; the
other ranks parse the same command line and exec the engine.  Therefore only light modules are imported here.
"""

# pathlib is not among the light modules

from __future__ import annotations

import os

from volley.errors import UserError
from volley.launch.engine_path import engine_path
from volley.machine.mpi_choice import choose_mpi
from volley.units import parse_whole

TYPE_CHECKING = False  # start-up: to import typing, or even collections.abc, takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from volley.command.options import JobOptions

_FIRST_SPECIAL_STEP = 4294967280
"""Slurm numbers its batch, extern and interactive steps from the top of 32 bits downwards (slurm.h: SLURM_BATCH_SCRIPT,
SLURM_EXTERN_CONT, SLURM_INTERACTIVE_STEP): in these steps Slurm started a shell, not ranks."""

_VARIABLES = (
    *("PMIX_", "PMI_", "PMI2_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "MPI_LOCAL", "HYDI_", "PRTE_"),
    *("MV2_COMM_WORLD_", "PALS_", "FLUX_TASK_"),
)
_OMPI_JOB = ("OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "OMPI_MCA_num_procs", "OMPI_MCA_mpi_oversubscribe")
_STEP = ("SLURM_STEP_", "SLURM_STEPID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_LAUNCH_")
_RELEASE_S = 20.0
OF_RANKS = (*_VARIABLES, *_OMPI_JOB, *_STEP)
"""How the variables begin that launchers set for their ranks."""

_STARTS_RANKS = (
    r"(mpi|prte|orte|js|s|ap)(run|exec)|prted?$|orted$|hydra|pmi_proxy|mpispawn|slurmstepd|jsmd|flux|pals|pbs_|res$|sge_"
    r"|apinit|psid"
    r"|appinit|sinit"  # of a container of Apptainer: its launcher is outside
)
"""Names of launchers, their daemons and those of batch systems, one of which is above every rank."""


class RankInfo:
    """The rank of this process in a job that a foreign launcher started."""

    __slots__ = ("launcher", "rank", "size")

    def __init__(self, rank: int, size: int | None, launcher: str) -> None:
        self.rank = rank
        self.size = size
        """The number of ranks of the job; ``None`` if the launcher does not tell."""
        self.launcher = launcher
        """``openmpi``, ``mpich``, ``srun``, ``jsrun``, or ``pmix`` and ``pmi`` for others with these protocols."""


def rank_info(environment: Mapping[str, str]) -> RankInfo | None:
    """Return the rank of this process in a foreign job; ``None`` if no launcher started it as a rank.

    The most specific variables are read first.  A Slurm step comes before PMIX_RANK and PMI_RANK, because an
    interactive step may set them too, and its shell is not a rank.  SLURM_PROCID alone is no evidence: batch scripts
    have it too.
    """
    step = parse_whole(environment.get("SLURM_STEP_ID"))
    for launcher, rank_name, size_name, possible in (
        ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", True),
        ("openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", True),
        ("mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS" in environment),
        ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", step is not None),
        ("pmix", "PMIX_RANK", "", step is None),
        ("pmi", "PMI_RANK", "PMI_SIZE", step is None),  # Flux and PALS, among others
        ("pmi", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", step is None),
        ("pmi", "PALS_RANKID", "PMI_SIZE", step is None),
    ):
        rank = parse_whole(environment.get(rank_name))
        if possible and rank is not None:
            started = launcher != "srun" or (step or 0) < _FIRST_SPECIAL_STEP
            return RankInfo(rank, parse_whole(environment.get(size_name)), launcher) if started else None
    return None


def has_launcher() -> bool:
    """Return whether a launcher is above this process, or may be: the variables of a rank may be left over in a shell.

    In a container the launcher may be outside, where it cannot be seen; then the first process has the variables too.
    """
    import re  # noqa: PLC0415  start-up: only a rank asks

    above = first = os.getpid()
    while above > 0:
        try:
            # PID (NAME) STATE PPID …, proc(5)
            with open(f"/proc/{above}/stat", errors="replace", encoding="utf-8") as stat:  # noqa: PTH123  see above
                name, _, rest = stat.read().rpartition(") ")
        except OSError:
            return True  # /proc hides the processes of other users, as those of slurmstepd are
        if re.match(_STARTS_RANKS, name.partition("(")[2]):
            return True
        first, above = above, int(rest.split()[1])
    try:
        with open(f"/proc/{first}/environ", "rb") as environ:  # noqa: PTH123  see above
            words = environ.read().split(b"\0")
    except OSError:
        return False  # a process of another user
    return rank_info(dict(os.fsdecode(word).partition("=")[::2] for word in words)) is not None


def mismatch(launcher: str, family: str) -> bool:
    """True if the mpirun that started the job belongs to another MPI than the engine's.

    Open MPI's mpirun uses PMIx and MPICH's hydra uses PMI-1.  With the wrong one, each rank is a job of one rank
    (Open MPI), or ends at once with "unsupported PMI version PMIx" (MPICH).  Other launchers may support both; there
    the engine checks the number of ranks.
    """
    return (launcher, family) in (("mpich", "openmpi"), ("openmpi", "mpich"))


def exec_engine(place: RankInfo, mpi: str, arguments: Sequence[str]) -> None:
    """Replace this process, a rank other than 0, by the engine; ``mpi`` is the value of ``--mpi``.

    The function returns only if the launcher does not fit the engine; rank 0 reports that.
    """
    engine = engine_path()
    chosen = choose_mpi(mpi, os.environ, place.launcher)
    if mismatch(place.launcher, chosen.family):
        return
    os.execv(engine, [engine, "--mpi-library", chosen.library, "--follower", *arguments])  # noqa: S606


_joined = False


def note_joined() -> None:
    """Remember that a child of this process joined the foreign job as rank 0."""
    global _joined  # noqa: PLW0603  the state belongs to the whole process
    _joined = True


def release(launcher: str, mpi: str) -> None:
    """End the other ranks of a foreign job if rank 0 failed before it started an engine.

    The other ranks wait for rank 0 in MPI_Init; hydra and srun would let them wait for ever.  This function starts an
    engine with an empty plan as rank 0: all ranks then leave together, with exit code 2.  ``mpi`` is the value of
    ``--mpi``.
    """
    if _joined:
        return
    import subprocess  # noqa: PLC0415  start-up: only rank 0 may need it

    try:
        command = (engine_path(), "--mpi-library", choose_mpi(mpi, os.environ, launcher).library, "--plan", os.devnull)
        subprocess.run(
            command, close_fds=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=_RELEASE_S, check=False
        )
    except (UserError, OSError, subprocess.TimeoutExpired):
        return  # without an engine, the other ranks did not start one either


def rank_arguments(job: JobOptions, *, threads: bool) -> tuple[str, ...]:
    """Return the engine's arguments for the GPU of each rank, and for ``threads`` of a rank that call MPI."""
    chosen = ("--gpus", ",".join(map(str, job.gpus))) if job.gpus else ()
    late = ("--gpu-after-init",) if job.gpu_after_init else ()
    return (*chosen, *late, *(("--threads",) if threads else ()))


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what a surrounding job set for this process, so that volley can start its own job.

    Outside of a job of ranks such variables are the user's settings (HYDRA_LAUNCHER, OMPI_MCA_orte_default_hostfile,
    PMI_DEBUG), and stay; inside one they cannot be told from the launcher's.  The shell of a Slurm job may be a process
    of a step: then Slurm set the variables of the step and of its PMI.  Those of the allocation (SLURM_JOB_ID and
    others) stay: launchers need them.
    """
    gone: tuple[str, ...] = _STEP
    kept: tuple[str, ...] = ()
    if rank_info(environment):
        gone = OF_RANKS
    elif "SLURM_STEP_ID" in environment:
        gone, kept = ("PMIX_", "PMI_", "PMI2_", *_STEP), ("PMIX_MCA_", "PMI_DEBUG")
    return {name: value for name, value in environment.items() if not name.startswith(gone) or name.startswith(kept)}
