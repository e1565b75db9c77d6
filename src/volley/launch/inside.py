"""Inside a launcher: notice that somebody started this process as one rank of a job, and become that rank.

``mpirun -n 2 volley pingpong`` starts volley twice.  The first rank keeps Python, and the engine is its child; the
others turn into the engine before they import anything of weight.  So only light modules are imported here.
"""

# pathlib is not among the light modules
# ruff: noqa: PTH118, PTH120, PTH123

from __future__ import annotations

import os
from itertools import pairwise

from volley import locate
from volley.run.launchers.numbers import whole

TYPE_CHECKING = False  # to import typing, or even collections.abc, takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SAMPLES_FORMAT = "cuda-samples"
"""Of ``--format``: the CUDA sample's sections, which are between the GPUs of a node."""
MEASURING = ("pingpong", "stream", "matrix", "jacobi", "transports")
"""The commands whose ranks measure; so do those of plain ``volley``."""
WITH_RANKS = (*MEASURING, "doctor")
"""The commands that start the engine in this job."""

_NO_ENGINE = {"--help", "-h", "--version", "--dry-run", "--install-completion", "--show-completion", "--from"}
_FIRST_SPECIAL_STEP = 4294967280
"""Slurm numbers its batch, extern and interactive steps from the top of 32 bits downwards (slurm.h: SLURM_BATCH_SCRIPT,
SLURM_EXTERN_CONT, SLURM_INTERACTIVE_STEP): in those, Slurm started a shell and no ranks."""

_VARIABLES = ("PMIX_", "PMI_", "PMI2_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "MPI_LOCAL", "HYDI_", "HYDRA_", "PRTE_")
_OMPI_JOB = ("OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "OMPI_MCA_num_procs", "OMPI_MCA_mpi_oversubscribe")
_STEP = ("SLURM_STEP_", "SLURM_STEPID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_LAUNCH_")


class Position:
    """This process's place in a job that somebody else started."""

    __slots__ = ("launcher", "rank", "size")

    def __init__(self, rank: int, size: int | None, launcher: str) -> None:
        self.rank = rank
        self.size = size
        """Ranks of the job; ``None`` where the launcher does not say."""
        self.launcher = launcher
        """``openmpi``, ``mpich``, ``srun``, ``jsrun``, or ``pmix`` and ``pmi`` for others that speak these."""


def position(environment: Mapping[str, str]) -> Position | None:
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
        rank = _number(environment, rank_name)
        if rank is not None and (also is None or also in environment):
            return Position(rank, _number(environment, size_name), launcher)
    step = _number(environment, "SLURM_STEP_ID")
    if step is not None:
        rank = _number(environment, "SLURM_PROCID")
        if rank is None or step >= _FIRST_SPECIAL_STEP:
            return None
        return Position(rank, _number(environment, "SLURM_STEP_NUM_TASKS"), "srun")
    for launcher, rank_name, size_name in (("pmix", "PMIX_RANK", ""), ("pmi", "PMI_RANK", "PMI_SIZE")):
        rank = _number(environment, rank_name)
        if rank is not None:
            return Position(rank, _number(environment, size_name), launcher)
    return None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    return whole(environment.get(name))


def option(arguments: Sequence[str], name: str) -> str | None:
    """Return the value of a long option, without a parser: ``--name VALUE`` or ``--name=VALUE``, the last one given."""
    found = None
    for number, argument in enumerate(arguments):
        if argument == name and number + 1 < len(arguments):
            found = arguments[number + 1]
        elif argument.startswith(name + "="):
            found = argument[len(name) + 1 :]
    return found


def overridden(arguments: Sequence[str]) -> bool:
    """True when ``--launcher`` asks for a job of our own, whoever started this process."""
    return option(arguments, "--launcher") not in (None, "auto")


def measures(arguments: Sequence[str]) -> bool:
    """True when the first rank will start the engine, so that the others must be there."""
    if any(argument in _NO_ENGINE or argument.startswith("--from=") for argument in arguments):
        return False
    if arguments[:1] == ["matrix"] and (as_sample(arguments) or option(arguments, "--section") is not None):
        return False  # between the GPUs of a node: the engine that has them all is no rank
    return not arguments or arguments[0].startswith("-") or arguments[0] in WITH_RANKS


def as_sample(arguments: Sequence[str]) -> bool:
    """True when words of a command ask for the CUDA sample's sections."""
    short = any(pair == ("-f", SAMPLES_FORMAT) for pair in pairwise(arguments))
    return short or f"-f{SAMPLES_FORMAT}" in arguments or option(arguments, "--format") == SAMPLES_FORMAT


def mismatch(launcher: str, family: str) -> bool:
    """True when a job's mpirun belongs to another MPI than the engine's.

    Open MPI's mpirun speaks PMIx and MPICH's hydra PMI-1: the ranks would not find each other, each a job of its own
    (Open MPI), or end at once with "unsupported PMI version PMIx" (MPICH).  Other launchers may speak either; with
    those the engine counts its ranks.
    """
    return (launcher, family) in (("mpich", "openmpi"), ("openmpi", "mpich"))


def follow(place: Position, arguments: Sequence[str]) -> None:
    """Turn this process into the engine of a rank that is not the first.

    Returns only when there is nothing to follow: a command that does not measure, a job of our own beside the foreign
    one, a launcher that does not fit.  The first rank says what there is to say.
    """
    if overridden(arguments) or not measures(arguments):
        return
    engine = locate.engine_path()
    if mismatch(place.launcher, str(facts(engine).get("mpi_family"))):
        return
    gpus = option(arguments, "--gpus")
    os.execv(engine, [engine, "--follower", *(["--gpus", gpus] if gpus else [])])  # noqa: S606


def facts(engine: str) -> dict[str, object]:
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
    settings = () if position(environment) else ("PMIX_MCA_", "PRTE_MCA_")
    return {
        name: value for name, value in environment.items() if not name.startswith(gone) or name.startswith(settings)
    }
