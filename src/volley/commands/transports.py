"""``volley transports``."""

from __future__ import annotations

import typer

from volley.commands.common import Command
from volley.options import request
from volley.options import shared as opt


def transports(
    ctx: typer.Context,
    ranks: opt.Ranks = None,
    hosts: opt.Hosts = None,
    gpus: opt.Gpus = None,
    share_gpu: opt.ShareGpu = False,
    launcher: opt.Launcher = "auto",
    launcher_arg: opt.LauncherArgs = None,
    watchdog: opt.Watchdog = 60.0,
    dry_run: opt.DryRun = False,
    output: opt.Output = None,
    format_name: opt.Format = "table",
) -> None:
    """List every transport, whether it works between these ranks, and why not."""
    asked = request("probe", ctx.params)
    from volley import session  # noqa: PLC0415  start-up: errors and --help do without

    raise typer.Exit(session.transports(asked))


COMMAND = Command(
    transports,
    examples=(
        "volley transports",
        "volley transports --hosts node1,node2 --format json",
    ),
)
