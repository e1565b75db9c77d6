"""Plain ``volley``, and what stands before a command."""

from __future__ import annotations

from typing import Annotated

import typer

from volley.commands.common import Command
from volley.errors import EXIT_GOOD, UserError
from volley.options import OVERVIEW_BUDGET_S, request
from volley.options import shared as opt


def volley(
    ctx: typer.Context,
    budget: opt.Budget = OVERVIEW_BUDGET_S,
    hosts: opt.Hosts = None,
    launcher: opt.Launcher = "auto",
    output: opt.Output = None,
    format_name: opt.Format = "table",
    dry_run: opt.DryRun = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """How fast do processors and GPUs really talk to each other?

    Alone, volley measures what this machine can do within a minute, says what it cannot do and why, and sums up. The
    commands do one thing each. Started inside a launcher (mpirun -n 2 volley …) it becomes the ranks.
    """
    if version:
        from volley import __version__  # noqa: PLC0415  start-up: reads the distribution's metadata

        typer.echo(f"volley {__version__}")
        raise typer.Exit(EXIT_GOOD)
    if ctx.invoked_subcommand is None:
        asked = request("pingpong", ctx.params)
        from volley import session  # noqa: PLC0415  start-up: errors and --help do without

        raise typer.Exit(session.overview(asked))
    _refuse_misplaced(ctx)


def _refuse_misplaced(ctx: typer.Context) -> None:
    """An option before the command would be lost on it."""
    for param in ctx.command.params:
        if ctx.params.get(param.name or "") != param.get_default(ctx):
            given = max(param.opts, key=len)
            raise UserError(f"write {given} after the command: volley {ctx.invoked_subcommand} {given} …")


COMMAND = Command(
    volley,
    examples=(
        "volley",
        "volley pingpong --sizes 8,64k,1M --format csv",
        "srun -n 2 volley stream --direction bi",
    ),
)
