"""The batch systems: one small class each, which says what a job script begins with.

A new batch system costs a class, its line in ``SCHEDULERS``, its name in ``options.SYSTEMS`` and a test of its exact
script.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from volley.batch.options import BatchOptions
from volley.errors import UserError


@dataclass(frozen=True)
class JobResources:
    """What a job asks its batch system for."""

    options: BatchOptions
    ranks: int
    launcher: str = "none"
    """What starts the ranks; LSF is asked for nodes where that is jsrun, and for slots where not."""

    @property
    def ranks_per_node(self) -> int:
        """Ranks of the fullest node."""
        return -(-self.ranks // self.options.nodes)

    @property
    def clock(self) -> str:
        """The time as HH:MM:SS."""
        seconds = self.options.time
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"

    @property
    def brings_gpus(self) -> bool:
        """True where GPUs are asked for, or nodes come with them."""
        return bool(self.options.gpus_per_node or self.options.node_resource or self.launcher == "jsrun")


class Scheduler(ABC):
    """A batch system: how directives begin, what they say, and how a script is submitted."""

    name: str
    prefix: str
    submit_with: str
    launcher = "auto"
    """What starts the ranks where nobody chooses: ``auto`` is the mpirun of the engine's own MPI."""
    to_submit_folder: str | None = None
    """The line that goes to the folder that the script was submitted from, where the batch system does not."""

    @abstractmethod
    def directives(self, resources: JobResources) -> list[str]:
        """Return the words of every directive, one string a line, without the prefix."""

    def submit(self, resources: JobResources, file: str) -> str:  # noqa: ARG002
        """Return the command that submits ``file``."""
        return f"{self.submit_with} {file}"


def _given(*options: tuple[str, object]) -> list[str]:
    """Join each option to its value; those without a value are left out."""
    return [f"{option}{value}" for option, value in options if value is not None]


class Slurm(Scheduler):
    """Slurm: sbatch(1)."""

    name, prefix, submit_with = "slurm", "#SBATCH", "sbatch"
    launcher = "srun"

    def directives(self, resources: JobResources) -> list[str]:
        options = resources.options
        return [
            f"--job-name={options.job_name}",
            f"--output={options.job_name}.%j.out",
            f"--nodes={options.nodes}",
            f"--ntasks={resources.ranks}",
            f"--ntasks-per-node={resources.ranks_per_node}",
            f"--time={resources.clock}",
            *_given(
                ("--gpus-per-node=", options.gpus_per_node),
                ("--account=", options.account),
                ("--partition=", options.queue),
            ),
        ]


class LSF(Scheduler):
    """IBM Spectrum LSF: bsub(1).  With jsrun (CSM) a job is made of whole nodes, ``-nnodes``, with all their GPUs."""

    name, prefix, submit_with = "lsf", "#BSUB", "bsub <"
    launcher = "jsrun"

    def directives(self, resources: JobResources) -> list[str]:
        options = resources.options
        whole_nodes = resources.launcher == "jsrun"
        if whole_nodes and options.gpus_per_node:
            raise UserError(
                "with jsrun a job has all GPUs of its nodes: leave --gpus-per-node out, or where there is no jsrun "
                "write --launcher openmpi (to measure between the GPUs of one node: --start volley)"
            )
        minutes = -(-options.time // 60)
        slots = [f"-n {resources.ranks}", f'-R "span[ptile={resources.ranks_per_node}]"']
        return [
            f"-J {options.job_name}",
            f"-o {options.job_name}.%J.out",
            *([f"-nnodes {options.nodes}"] if whole_nodes else slots),
            f"-W {minutes // 60:02d}:{minutes % 60:02d}",
            *([f'-gpu "num={options.gpus_per_node}"'] if options.gpus_per_node else []),
            *_given(("-P ", options.account), ("-q ", options.queue)),
        ]


class PBS(Scheduler):
    """OpenPBS and PBS Professional: qsub(1B); a chunk is a node's share, and chunks are scattered over nodes."""

    name, prefix, submit_with = "pbs", "#PBS", "qsub"
    to_submit_folder = 'cd "$PBS_O_WORKDIR" || exit'

    def directives(self, resources: JobResources) -> list[str]:
        options = resources.options
        chunk = [
            str(options.nodes),
            f"ncpus={resources.ranks_per_node}",
            f"mpiprocs={resources.ranks_per_node}",
        ]
        chunk += _given(("ngpus=", options.gpus_per_node))
        return [
            f"-N {options.job_name}",
            "-j oe",
            f"-l select={':'.join(chunk)}",
            "-l place=scatter",
            f"-l walltime={resources.clock}",
            *_given(("-A ", options.account), ("-q ", options.queue)),
        ]


class AGE(Scheduler):
    """Altair (Univa, Sun) Grid Engine: qsub(1).

    It has no nodes to ask for, only resources and parallel environments with names of the site's own. ABCI's
    ``-l rt_AF=2`` are two nodes with all that is in them, and its ``-g GROUP`` is read on qsub's command line only.
    """

    name, prefix, submit_with = "age", "#$", "qsub"

    def directives(self, resources: JobResources) -> list[str]:
        options = resources.options
        if options.node_resource and options.gpus_per_node:
            raise UserError(f"{options.node_resource} brings its GPUs with it: leave --gpus-per-node out")
        if options.gpus_per_node:
            raise UserError("Grid Engine's name for GPUs is the site's: write e.g. --directive '-l gpu=2' instead")
        return [
            f"-N {options.job_name}",
            "-S /bin/bash",
            "-cwd",
            "-j y",
            *([f"-l {options.node_resource}={options.nodes}"] if options.node_resource else []),
            f"-l h_rt={resources.clock}",
            *_given(("-q ", options.queue)),
        ]

    def submit(self, resources: JobResources, file: str) -> str:
        account = resources.options.account
        return f"{self.submit_with} {f'-g {account} ' if account else ''}{file}"


SCHEDULERS: dict[str, Scheduler] = {scheduler.name: scheduler for scheduler in (Slurm(), LSF(), PBS(), AGE())}


def beginning(scheduler: Scheduler, resources: JobResources) -> list[str]:
    """Return the first lines of a script: the shell, and a line for every directive, the user's last.

    Raises:
        UserError: if the batch system cannot be asked for this.
    """
    options = resources.options
    if scheduler.name == "age" and not options.node_resource and options.nodes > 1 and not options.directive:
        raise UserError(
            f"Grid Engine's name for {options.nodes} nodes is the site's: write e.g. --node-resource rt_AF, "
            f"or --directive '-pe mpi {resources.ranks}'"
        )
    words = (*scheduler.directives(resources), *options.directive)
    return ["#!/bin/bash", *(f"{scheduler.prefix} {line}" for line in words)]
