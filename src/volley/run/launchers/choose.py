"""Choose the launcher of a job and assemble its command line."""

from __future__ import annotations

from pathlib import Path

from volley.errors import MachineError, UserError
from volley.machine.mpi_stack import Stack
from volley.run.launchers.allocation import Allocation
from volley.run.launchers.launchers import LAUNCHERS, NAMES, Launcher
from volley.run.launchers.spec import LaunchSpec


def choose(asked: str, stack: Stack, allocation: Allocation | None) -> Launcher:
    """Choose a launcher; ``asked`` is a name, or ``auto``.

    ``auto`` means: jsrun in an LSF allocation that has it (there it is the only way to start ranks on the nodes); else
    the mpirun of the engine's own MPI, which can use an allocation; else srun in a Slurm allocation.

    Raises:
        UserError: if the named launcher cannot start this engine.
        MachineError: if there is no launcher.
    """
    family = stack.built.mpi_family
    if asked != "auto":
        if asked not in LAUNCHERS:
            raise UserError(f"unknown launcher {asked!r}; the launchers are {', '.join(NAMES)}")
        launcher = LAUNCHERS[asked]
        if launcher.mpi_family and family not in (launcher.mpi_family, "other"):
            raise UserError(
                f"the engine is linked to {stack.describe()}, and {launcher.title} would start every rank as a "
                f"separate job of one rank; use --launcher {family}, or leave it out"
            )
        return launcher
    kind = allocation.kind if allocation else None
    if kind == LAUNCHERS["jsrun"].batch_system and _on_path("jsrun"):
        return LAUNCHERS["jsrun"]
    if family in LAUNCHERS and stack.mpiexec:
        return LAUNCHERS[family]
    if kind == LAUNCHERS["srun"].batch_system and _on_path("srun"):
        return LAUNCHERS["srun"]
    raise MachineError(
        f"no launcher for {stack.describe()}: its mpirun was not found, and there is no allocation with srun or jsrun; "
        "start volley inside a launcher, e.g. mpirun -n 2 volley"
    )


def command(launcher: Launcher, spec: LaunchSpec) -> tuple[str, ...]:
    """Return the command line: the launcher's program, its arguments, the user's arguments, the engine.

    Raises:
        MachineError: if the launcher's program is not on PATH.
    """
    return (program(launcher, spec.mpiexec, spec.family), *launcher.arguments(spec), *spec.extra, *spec.engine)


def _on_path(name: str) -> str | None:
    from shutil import which  # noqa: PLC0415  start-up: most launches know their mpirun by its path

    return which(name)


def program(launcher: Launcher, mpiexec: Path | None, family: str) -> str:
    """Return the launcher's program: the path of the engine's own mpirun, or the program on PATH.

    Raises:
        MachineError: if the program is not on PATH.
    """
    if launcher.name == family and mpiexec:
        return str(mpiexec)
    found = _on_path(launcher.program)
    if found is None:
        raise MachineError(
            f"{launcher.program} is not on PATH; leave --launcher out, or load the environment module that provides it"
        )
    return str(Path(found).absolute())
