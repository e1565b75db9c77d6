"""The batch systems as data: the first lines of a job script, and the command that submits it.

A new batch system costs an entry here and a test of its exact script.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scheduler:
    """A batch system.  ``script.JobResources.fill`` has the fields of its lines."""

    prefix: str
    """How a directive begins."""
    submit: str
    directives: tuple[str, ...]
    """A line is omitted if its option has no value."""
    launcher: str = "auto"
    """The default launcher: ``auto`` is the mpirun of the engine's own MPI."""
    to_submit_folder: str | None = None
    """The line that goes to the folder that the script was submitted from, where the batch system does not."""


SCHEDULERS = {
    # sbatch(1)
    "slurm": Scheduler(
        "#SBATCH",
        "sbatch {file}",
        (
            "--job-name={job_name}",
            "--output={job_name}.%j.out",
            "--nodes={nodes}",
            "--ntasks={ranks}",
            "--ntasks-per-node={ranks_per_node}",
            "--time={clock}",
            "--gpus-per-node={gpus_per_node}",
            "--exclusive{alone}",
            "--account={account}",
            "--partition={queue}",
        ),
        launcher="srun",
    ),
    # bsub(1) of IBM Spectrum LSF.  With jsrun (CSM) a job has whole nodes with all their GPUs (-nnodes), else slots.
    "lsf": Scheduler(
        "#BSUB",
        "bsub < {file}",
        (
            "-J {job_name}",
            "-o {job_name}.%J.out",
            "-nnodes {whole_nodes}",
            "-n {slots}",
            '-R "span[ptile={slots_per_node}]"',
            "-x{alone}",
            "-W {clock_minutes}",
            '-gpu "num={gpus_per_node}"',
            "-P {account}",
            "-q {queue}",
        ),
        launcher="jsrun",
    ),
    # qsub(1B) of OpenPBS and PBS Professional.  A chunk is one node's share; chunks are scattered over nodes.
    "pbs": Scheduler(
        "#PBS",
        "qsub {file}",
        (
            "-N {job_name}",
            "-j oe",
            "-l select={nodes}:ncpus={ranks_per_node}:mpiprocs={ranks_per_node}{chunk_gpus}",
            "-l place=scatter{excl}",
            "-l walltime={clock}",
            "-A {account}",
            "-q {queue}",
        ),
        to_submit_folder='cd "$PBS_O_WORKDIR"',
    ),
    # qsub(1) of Altair (Univa, Sun) Grid Engine.  It knows no nodes, only resources and parallel environments that the
    # site names.  ABCI's -l rt_AF=2 are two whole nodes; qsub reads ABCI's -g GROUP on its command line only.
    "age": Scheduler(
        "#$",
        "qsub {group}{file}",
        (
            "-N {job_name}",
            "-S /bin/bash",
            "-cwd",
            "-j y",
            "-l {node_resource}={nodes}",
            "-l h_rt={clock}",
            "-q {queue}",
        ),
    ),
}
