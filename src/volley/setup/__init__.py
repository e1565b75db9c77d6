"""Setting up a CUDA-aware MPI: from wheels or from source, and proven by a transfer."""

from __future__ import annotations

from volley.run.commandline import Command, later

COMMAND = Command(
    name="setup",
    help="""
    Get a CUDA-aware MPI in the cheapest way that works here, and prove it by a transfer.

    No root is needed. What was finished before is not done again; an interrupted step starts again. Each step has
    a log in PREFIX/.volley-setup/logs; the end of it is shown when the step fails.
    """,
    options=("volley.setup.options.SetupOptions",),
    run=later("volley.setup.command.run"),
    examples=(
        "volley setup",
        "volley setup --prefix ~/mpi --route source --dry-run",
        "volley setup --prefix ~/mpi --source ucx=deb:ucx --source openmpi=deb:openmpi --without gdrcopy",
        "volley setup --root-script",
    ),
)
