"""Setting up a CUDA-aware MPI, verified by a transfer; and a shell for one's own programs."""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

SETUP = Command(
    name="setup",
    help="""
    Install a CUDA-aware MPI by the fastest route that works on this machine, and test it with a transfer.

    It needs no root. Finished steps are not repeated; an interrupted step starts again. Each step has a log in
    PREFIX/.volley-setup/logs; if a step fails, volley shows the end of its log.
    """,
    options="volley.setup.options.SetupOptions",
    run=Lazy("volley.setup.command.run"),
    examples=(
        "volley setup",
        "volley setup --prefix ~/mpi --route source --dry-run",
        "volley setup --prefix ~/mpi --source ucx=deb:ucx --source openmpi=deb:openmpi --without gdrcopy",
        "volley setup --root-script",
    ),
)

ENV = Command(
    name="env",
    help="""
    Print what a shell needs to compile and start your own programs with the MPI that volley uses.

    After eval "$(volley env)", mpicc, mpirun and nvcc are on PATH, and the Open MPI of PyPI is CUDA-aware. A PATH
    where they are found already stays as it is. The lines are for bash, zsh and other POSIX shells, and change only
    this shell.
    """,
    options="volley.setup.shell.EnvOptions",
    run=Lazy("volley.setup.shell.run"),
    examples=(
        'eval "$(volley env)"',
        "volley env --mpi /opt/mpich",
    ),
)
COMMANDS = (SETUP, ENV)
