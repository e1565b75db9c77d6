"""``volley setup``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from volley.commands.common import Command
from volley.errors import UserError
from volley.setup import old_options as opt


def setup(
    ctx: typer.Context,
    route: opt.Route = "auto",
    prefix: opt.Prefix = None,
    prove: opt.Prove = True,
    source: opt.Sources = None,
    without: opt.Without = None,
    cuda: opt.Cuda = None,
    configure: opt.Configure = None,
    jobs: opt.Jobs = None,
    dry_run: opt.DryRun = False,
    root_script: opt.RootScript = False,
) -> None:
    """Get a CUDA-aware MPI in the cheapest way that works here, and prove it by a transfer.

    No root is needed. What was finished before is not done again; a step that broke off is started over. Each step has
    a log in PREFIX/.volley-setup/logs; the end of it is shown when the step fails.
    """
    if prefix == "":
        raise UserError("--prefix '' names no folder: write one, or leave --prefix out for this Python environment")
    if cuda == "":
        raise UserError("--cuda '' names no toolkit: write its folder, or leave --cuda out")
    from volley.setup import command  # noqa: PLC0415  start-up: errors and --help do without
    from volley.setup.options import SetupOptions  # noqa: PLC0415

    options = SetupOptions(
        route=route,
        prefix=Path(prefix) if prefix else None,
        prove=prove,
        source=tuple(source or ()),
        without=tuple(without or ()),
        cuda=cuda,
        configure=tuple(configure or ()),
        jobs=jobs,
        dry_run=dry_run,
        root_script=root_script,
    )
    raise typer.Exit(command.run(options, os.environ, sys.stdout))


COMMAND = Command(
    setup,
    examples=(
        "volley setup",
        "volley setup --prefix ~/mpi --route source --dry-run",
        "volley setup --prefix ~/mpi --source ucx=deb:ucx --source openmpi=deb:openmpi --without gdrcopy",
        "volley setup --root-script",
    ),
)
