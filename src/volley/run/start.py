"""How this process starts its job: as a rank of a foreign job, through a launcher of its own choice, or alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volley.errors import UserError
from volley.machine.mpi_stack import Stack
from volley.run import inside_launcher
from volley.run.engine import TransportAbout
from volley.run.inside_launcher import RankInfo
from volley.run.jobs import PAIR
from volley.run.launchers import spec as launched
from volley.run.launchers.allocation import Allocation
from volley.run.launchers.choose import choose, command
from volley.run.options import JobOptions


@dataclass(frozen=True)
class Start:
    """How this process starts its job."""

    launcher: str
    tokens: tuple[str, ...]
    added: Mapping[str, str]
    """Variables added to the environment, for the record and for people."""
    environment: Mapping[str, str]
    """The whole environment."""
    inside_launcher: bool = False
    """A foreign launcher made this process a rank: the engine joins that job."""
    hint: str | None = None
    """How to start such a job when this way does not work; ``None`` where this is already the engine's own mpirun."""

    def facts(self, stack: Stack) -> dict[str, Any]:
        """Return what the run record says about the launch."""
        return {
            "launcher": self.launcher,
            "command": list(self.tokens),
            "environment": dict(self.added),
            "inside": self.inside_launcher,
            "stack": stack.facts(),
        }

    def line(self) -> str:
        """Return the command line as one would type it."""
        import shlex  # noqa: PLC0415  start-up: only --dry-run shows it

        return shlex.join([*(f"{name}={value}" for name, value in self.added.items()), *self.tokens])


def _gpu_words(job: JobOptions) -> tuple[str, ...]:
    return ("--gpus", ",".join(map(str, job.gpus))) if job.gpus else ()


def _hint(stack: Stack, ranks: int) -> str:
    mpiexec = str(stack.mpiexec) if stack.mpiexec else "the mpirun of that MPI"
    return f"start volley plainly, or with {mpiexec} -n {ranks} volley"


def join_launcher(job: JobOptions, path: Path, stack: Stack, place: RankInfo) -> Start:
    """Be the first rank of somebody else's job: its binding is kept, and its environment.

    Raises:
        UserError: if that job is of another MPI, or several launches are asked for.
    """
    hint = _hint(stack, place.size or PAIR)
    if inside_launcher.mismatch(place.launcher, stack.built.mpi_family):
        raise UserError(
            f"the engine is linked to {stack.describe()}, and a launcher of another MPI started this job: its ranks "
            f"would not find each other; {hint}"
        )
    if job.launches > 1:
        raise UserError(
            f"--launches {job.launches}: a launcher started this job, and it is one launch; leave --launches out, "
            "or let volley start jobs of its own, outside of the launcher"
        )
    tokens = (str(path), "--plan", "-", *_gpu_words(job))
    return Start(place.launcher, tokens, {}, dict(os.environ), inside_launcher=True, hint=hint)


def start_launcher(
    job: JobOptions,
    path: Path,
    stack: Stack,
    ranks: int,
    *,
    granted: Allocation | None,
    on_gpus: Sequence[TransportAbout],
    share_cores: bool,
) -> Start:
    """Put together the command line of a job of our own.

    Args:
        job: the options.
        path: of the engine.
        stack: what the engine runs on.
        ranks: of this job.
        granted: by a batch system.
        on_gpus: the job's transports on GPU memory.
        share_cores: each rank gets its share of the cores, not one.

    Raises:
        UserError: if the launcher that was asked for cannot start it.
        MachineError: if there is no launcher.
    """
    launcher = choose(job.launcher, stack, granted)
    environment = inside_launcher.scrubbed(os.environ)
    wanted = launched.LaunchSpec(
        engine=(str(path), "--plan", "-", "--bind-share" if share_cores else "--bind", *_gpu_words(job)),
        ranks=ranks,
        family=stack.built.mpi_family,
        mpiexec=stack.mpiexec,
        hosts=job.hosts,
        allocation=granted,
        cores=launched.cores(),
        root=os.geteuid() == 0,
        home=launched.home(environment),
        gpus=bool(on_gpus),
        device_buffers=any(each.mpi for each in on_gpus),
        mca=stack.mca,
        variables=stack.environment,
        extra=job.launcher_arg,
        environment=environment,
    )
    line = command(launcher, wanted)
    environment.update(line.environment)
    own = line.tokens[0] == str(stack.mpiexec)
    return Start(line.launcher, line.tokens, line.environment, environment, hint=None if own else _hint(stack, ranks))


def start_alone(path: Path) -> Start:
    """Start one process that is the whole job, without a launcher and without MPI."""
    return Start("none", (str(path), "--plan", "-"), {}, inside_launcher.scrubbed(os.environ))
