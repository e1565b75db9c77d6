"""How this process starts its job: in the place of a rank, through a launcher of its own choice, or alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volley.errors import UserError
from volley.launch import headstart, inside
from volley.machine.mpi_stack import Stack
from volley.planning import PAIR, in_a_hurry
from volley.run.launchers.allocation import Allocation
from volley.run.launchers.choose import choose, command
from volley.run.launchers.spec import LaunchSpec, cores, home

if TYPE_CHECKING:
    from volley.engine import TransportAbout
    from volley.planning import Request


@dataclass(frozen=True)
class Start:
    """How this process starts its job."""

    launcher: str
    tokens: tuple[str, ...]
    added: Mapping[str, str]
    """Variables added to the environment, for the record and for people."""
    environment: Mapping[str, str]
    """The whole environment."""
    joins: bool
    """A foreign launcher made this process a rank: the engine joins that job."""
    instead: str | None
    """How to start such a job when this way does not work; ``None`` where this is already the engine's own mpirun."""

    def facts(self, stack: Stack) -> dict[str, Any]:
        """Return what the run record says about the launch."""
        return {
            "launcher": self.launcher,
            "command": list(self.tokens),
            "environment": dict(self.added),
            "inside": self.joins,
            "stack": stack.facts(),
        }

    def line(self) -> str:
        """Return the command line as one would type it."""
        import shlex  # noqa: PLC0415  start-up: only --dry-run shows it

        return shlex.join([*(f"{name}={value}" for name, value in self.added.items()), *self.tokens])


def _gpu_words(request: Request) -> tuple[str, ...]:
    return ("--gpus", ",".join(map(str, request.gpus))) if request.gpus else ()


def _binding(request: Request) -> str:
    """Ranks that send messages have a core each; those that compute have as many as there are for them."""
    return "--bind-share" if request.benchmark == "jacobi" else "--bind"


def _instead(stack: Stack, ranks: int) -> str:
    mpiexec = str(stack.mpiexec) if stack.mpiexec else "the mpirun of that MPI"
    return f"start volley plainly, or with {mpiexec} -n {ranks} volley"


def join(request: Request, path: Path, stack: Stack, place: inside.Position) -> Start:
    """Be the first rank of somebody else's job: its binding is kept, and its environment."""
    if inside.mismatch(place.launcher, stack.built.mpi_family):
        raise UserError(
            f"the engine is linked to {stack.describe()}, and a launcher of another MPI started this job: its ranks "
            f"would not find each other; {_instead(stack, place.size or PAIR)}"
        )
    if request.launches > 1:
        raise UserError(
            f"--launches {request.launches}: a launcher started this job, and it is one launch; leave --launches out, "
            "or let volley start jobs of its own, outside of the launcher"
        )
    tokens = (str(path), "--plan", "-", *_gpu_words(request))
    return Start(place.launcher, tokens, {}, dict(os.environ), joins=True, instead=_instead(stack, place.size or PAIR))


def start_own(
    request: Request,
    path: Path,
    stack: Stack,
    ranks: int,
    *,
    granted: Allocation | None,
    on_gpus: Sequence[TransportAbout],
) -> Start:
    """Put together the command line of a job of our own."""
    launcher = choose(request.launcher, stack, granted)
    environment = inside.scrubbed(os.environ)
    job = LaunchSpec(
        engine=(str(path), "--plan", "-", _binding(request), *_gpu_words(request)),
        ranks=ranks,
        family=stack.built.mpi_family,
        mpiexec=stack.mpiexec,
        hosts=request.hosts,
        allocation=granted,
        cores=cores(),
        root=os.geteuid() == 0,
        home=home(environment),
        gpus=bool(on_gpus),
        device_buffers=any(each.mpi for each in on_gpus),
        mca=stack.mca,
        variables=stack.environment,
        extra=request.launcher_args,
        environment=environment,
    )
    line = command(launcher, job)
    environment.update(line.environment)
    own = line.tokens[0] == str(stack.mpiexec)
    instead = None if own else _instead(stack, ranks)
    return Start(line.launcher, line.tokens, line.environment, environment, joins=False, instead=instead)


def start_alone(request: Request) -> Start:
    """Start one process that is the whole job, without a launcher and without MPI."""
    tokens = headstart.alone(all_gpus=not request.gpus, hurried=in_a_hurry(request))
    return Start("none", tokens, {}, inside.scrubbed(os.environ), joins=False, instead=None)
