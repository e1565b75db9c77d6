"""``volley matrix``."""

from __future__ import annotations

import os
from typing import Any

import typer

from volley.commands.common import Command, measure
from volley.options import matrix as own
from volley.options import node
from volley.options import shared as opt


def matrix(
    ctx: typer.Context,
    section: node.Sections = None,
    transport: own.Transports = None,
    latency: own.LatencySizes = "8",
    bandwidth: own.BandwidthSizes = "1Mi",
    mode: own.Mode = "isolated",
    direction: opt.Direction = "uni",
    window: opt.Window = 64,
    interval: opt.Interval = None,
    point_time: own.PointTime = None,
    warmup: opt.Warmup = None,
    iterations: opt.Iterations = None,
    repeats: own.Repeats = own.REPEATS,
    retest: own.Retest = True,
    budget: opt.Budget = None,
    verify: opt.Verify = True,
    ranks: own.Ranks = None,
    hosts: opt.Hosts = None,
    gpus: opt.Gpus = None,
    share_gpu: opt.ShareGpu = False,
    launcher: opt.Launcher = "auto",
    launcher_arg: opt.LauncherArgs = None,
    watchdog: opt.Watchdog = 60.0,
    dry_run: opt.DryRun = False,
    samples: own.Samples = False,
    output: opt.Output = None,
    format_name: opt.Format = "table",
) -> None:
    """Measure every pair of GPUs of this node, or of ranks, and name the pairs that are slower than their like.

    On a machine with GPUs one process has all of them: bandwidth and latency with peer access off and on, by copy
    engines and by kernels, and between host and GPU. An option about ranks (a transport, their number, hosts), a
    launcher with several ranks, or a machine without GPUs makes it a matrix between ranks. Ranks are alike as far as
    they are on one socket, on one node, or on two; a pair that stands out is measured again beside like pairs before
    it is blamed.
    """
    measure("node" if node.wanted(ctx.params, defaults(ctx), os.environ) else "matrix", ctx)


def defaults(ctx: typer.Context) -> dict[str, Any]:
    """What the options are where they are not given."""
    return {param.name: param.get_default(ctx) for param in ctx.command.params if param.name}


COMMAND = Command(
    matrix,
    examples=(
        "volley matrix",
        "volley matrix --format cuda-samples",
        "volley matrix --gpus 0,1 --section uni,bi,load",
        "volley matrix --ranks 8",
        "volley matrix --hosts node1,node2,node3 --transport host --mode loaded",
        "srun -n 16 volley matrix --bandwidth 1M,64M --latency none --format csv",
    ),
)
