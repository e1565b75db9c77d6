"""``volley jacobi``."""

from __future__ import annotations

import typer

from volley import solving
from volley.commands.common import Command, measure
from volley.options import shared as opt


def jacobi(
    ctx: typer.Context,
    topology: solving.Topology = None,
    domain: solving.Domain = solving.DEFAULT_DOMAIN,
    exchange: solving.Exchange = None,
    precision: solving.Precision = "double",
    iterations: solving.Iterations = solving.DEFAULTS.iterations,
    tolerance: solving.Tolerance = solving.DEFAULTS.tolerance,
    check_every: solving.CheckEvery = 1,
    overlap: solving.Overlap = True,
    threads: solving.Threads = None,
    launches: opt.Launches = 1,
    verify: solving.Verify = True,
    ranks: opt.Ranks = None,
    hosts: opt.Hosts = None,
    launcher: opt.Launcher = "auto",
    launcher_arg: opt.LauncherArgs = None,
    watchdog: opt.Watchdog = 60.0,
    dry_run: opt.DryRun = False,
    output: opt.Output = None,
    format_name: opt.Format = "table",
) -> None:
    """Solve Laplace's equation on a grid of processes: what the halos' transport means for an application.

    Each process has its own domain and exchanges halos with up to four neighbours; the new value of a point is the mean
    of its neighbours' (Jacobi). On the CPU all cores of a rank work.
    """
    measure("jacobi", ctx)


COMMAND = Command(
    jacobi,
    examples=(
        "volley jacobi --topology 2 2 --domain 4096 4096",
        "volley jacobi --domain 20480 20480 --precision float --check-every 100 --launches 6",
        "volley jacobi --topology 2 1 --format seed",
    ),
)
