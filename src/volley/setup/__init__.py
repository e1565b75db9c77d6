"""Setting up a CUDA-aware MPI: from wheels or from source, and proven by a transfer."""

from __future__ import annotations

import os
import sys

from volley.run.commandline import Command
from volley.setup.options import SetupOptions


def _run(options: SetupOptions) -> int:
    from volley.setup.command import run  # noqa: PLC0415  start-up: errors and --help do without

    return run(options, os.environ, sys.stdout)


COMMAND = Command(
    name="setup",
    help="""
    Get a CUDA-aware MPI in the cheapest way that works here, and prove it by a transfer.

    No root is needed. What was finished before is not done again; an interrupted step starts again. Each step has
    a log in PREFIX/.volley-setup/logs; the end of it is shown when the step fails.
    """,
    options=(SetupOptions,),
    run=_run,
    examples=(
        "volley setup",
        "volley setup --prefix ~/mpi --route source --dry-run",
        "volley setup --prefix ~/mpi --source ucx=deb:ucx --source openmpi=deb:openmpi --without gdrcopy",
        "volley setup --root-script",
    ),
)
