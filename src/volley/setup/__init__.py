"""Setting up a CUDA-aware MPI: from wheels or from source, and verified by a transfer."""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMAND = Command(
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
