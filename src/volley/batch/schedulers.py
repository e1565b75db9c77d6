"""The batch systems: one small class each, which says what stands at the head of a job script.

A new batch system costs a class, its line in ``SCHEDULERS`` and a test of its exact script.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from volley.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a job asks its batch system for."""

    nodes: int = 1
    ranks: int = 2
    time_s: int = 900
    gpus_per_node: int | None = None
    account: str | None = None
    queue: str | None = None
    name: str = "volley"
    node_resource: str | None = None
    """The resource that stands for one node, where a batch system counts in those (``rt_AF``)."""
    launcher: str = "auto"
    """What starts the ranks; LSF is asked for nodes where that is jsrun, and for slots where not."""

    @property
    def ranks_per_node(self) -> int:
        """Ranks of the fullest node."""
        return -(-self.ranks // self.nodes)

    @property
    def clock(self) -> str:
        """The time as HH:MM:SS."""
        return f"{self.time_s // 3600:02d}:{self.time_s // 60 % 60:02d}:{self.time_s % 60:02d}"


class Scheduler(ABC):
    """A batch system: how directives begin, what they say, and how a script is handed in."""

    name: str
    prefix: str
    launcher = "auto"
    """What starts the ranks where nobody chooses: ``auto`` is the mpirun of the engine's own MPI."""
    to_submit_folder: str | None = None
    """The line that goes to the folder that the script was handed in from, where the batch system does not."""

    @abstractmethod
    def directives(self, asked: Resources) -> list[str]:
        """Return the words of every directive, one string a line, without the prefix."""

    @abstractmethod
    def submit(self, asked: Resources, file: str) -> list[str]:
        """Return the command that hands ``file`` in."""


def _given(*options: tuple[str, object]) -> list[str]:
    """Join each option to its value; those without a value are left out."""
    return [f"{option}{value}" for option, value in options if value is not None]


class Slurm(Scheduler):
    """Slurm: sbatch(1)."""

    name = "slurm"
    prefix = "#SBATCH"
    launcher = "srun"

    def directives(self, asked: Resources) -> list[str]:
        return [
            f"--job-name={asked.name}",
            f"--output={asked.name}.%j.out",
            f"--nodes={asked.nodes}",
            f"--ntasks={asked.ranks}",
            f"--ntasks-per-node={asked.ranks_per_node}",
            f"--time={asked.clock}",
            *_given(
                ("--gpus-per-node=", asked.gpus_per_node), ("--account=", asked.account), ("--partition=", asked.queue)
            ),
        ]

    def submit(self, asked: Resources, file: str) -> list[str]:  # noqa: ARG002
        return ["sbatch", file]


class LSF(Scheduler):
    """IBM Spectrum LSF: bsub(1).  With jsrun (CSM) a job is made of whole nodes, ``-nnodes``, with all their GPUs."""

    name = "lsf"
    prefix = "#BSUB"
    launcher = "jsrun"

    def directives(self, asked: Resources) -> list[str]:
        whole_nodes = asked.launcher == "jsrun"
        if whole_nodes and asked.gpus_per_node:
            raise UserError(
                "with jsrun a job has all GPUs of its nodes: leave --gpus-per-node out, or where there is no jsrun "
                "write --launcher openmpi (for a matrix between the GPUs of a node --start volley)"
            )
        minutes = -(-asked.time_s // 60)
        slots = [f"-n {asked.ranks}", f'-R "span[ptile={asked.ranks_per_node}]"']
        return [
            f"-J {asked.name}",
            f"-o {asked.name}.%J.out",
            *([f"-nnodes {asked.nodes}"] if whole_nodes else slots),
            f"-W {minutes // 60:02d}:{minutes % 60:02d}",
            *([f'-gpu "num={asked.gpus_per_node}"'] if asked.gpus_per_node else []),
            *_given(("-P ", asked.account), ("-q ", asked.queue)),
        ]

    def submit(self, asked: Resources, file: str) -> list[str]:  # noqa: ARG002
        return ["bsub", "<", file]


class PBS(Scheduler):
    """OpenPBS and PBS Professional: qsub(1B); a chunk is a node's share, and chunks are scattered over nodes."""

    name = "pbs"
    prefix = "#PBS"
    to_submit_folder = 'cd "$PBS_O_WORKDIR" || exit'

    def directives(self, asked: Resources) -> list[str]:
        chunk = [str(asked.nodes), f"ncpus={asked.ranks_per_node}", f"mpiprocs={asked.ranks_per_node}"]
        chunk += _given(("ngpus=", asked.gpus_per_node))
        return [
            f"-N {asked.name}",
            "-j oe",
            f"-l select={':'.join(chunk)}",
            "-l place=scatter",
            f"-l walltime={asked.clock}",
            *_given(("-A ", asked.account), ("-q ", asked.queue)),
        ]

    def submit(self, asked: Resources, file: str) -> list[str]:  # noqa: ARG002
        return ["qsub", file]


class AGE(Scheduler):
    """Altair (Univa, Sun) Grid Engine: qsub(1).

    It has no nodes to ask for, only resources and parallel environments with names of the site's own. ABCI's
    ``-l rt_AF=2`` are two nodes with all that is in them, and its ``-g GROUP`` is read on qsub's command line only.
    """

    name = "age"
    prefix = "#$"

    def directives(self, asked: Resources) -> list[str]:
        if asked.node_resource and asked.gpus_per_node:
            raise UserError(f"{asked.node_resource} brings its GPUs with it: leave --gpus-per-node out")
        if asked.gpus_per_node:
            raise UserError("Grid Engine's name for GPUs is the site's: write e.g. --directive '-l gpu=2' instead")
        return [
            f"-N {asked.name}",
            "-S /bin/bash",
            "-cwd",
            "-j y",
            *([f"-l {asked.node_resource}={asked.nodes}"] if asked.node_resource else []),
            f"-l h_rt={asked.clock}",
            *_given(("-q ", asked.queue)),
        ]

    def submit(self, asked: Resources, file: str) -> list[str]:
        return ["qsub", *(["-g", asked.account] if asked.account else []), file]


SCHEDULERS: dict[str, Scheduler] = {scheduler.name: scheduler for scheduler in (Slurm(), LSF(), PBS(), AGE())}


def head(scheduler: Scheduler, asked: Resources, more: Sequence[str]) -> list[str]:
    """Return the first lines of a script: the shell, and a line for every directive, the user's last."""
    if scheduler.name == "age" and not asked.node_resource and asked.nodes > 1 and not more:
        raise UserError(
            f"Grid Engine's name for {asked.nodes} nodes is the site's: write e.g. --node-resource rt_AF, "
            f"or --directive '-pe mpi {asked.ranks}'"
        )
    return ["#!/bin/bash", *(f"{scheduler.prefix} {words}" for words in (*scheduler.directives(asked), *more))]
