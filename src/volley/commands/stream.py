"""``volley stream``."""

from __future__ import annotations

import typer

from volley.commands.common import Command, measure
from volley.options import shared as opt
from volley.sizes import DEFAULT_STREAM_SIZES


def stream(
    ctx: typer.Context,
    transport: opt.Transports = None,
    sizes: opt.Sizes = DEFAULT_STREAM_SIZES,
    direction: opt.Direction = "uni",
    window: opt.Window = 64,
    interval: opt.Interval = None,
    point_time: opt.PointTime = None,
    warmup: opt.Warmup = None,
    iterations: opt.Iterations = None,
    launches: opt.Launches = 1,
    budget: opt.Budget = None,
    verify: opt.Verify = True,
    fresh_buffers: opt.FreshBuffers = False,
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
    """Measure a flood of messages with many in flight: the bandwidth of a link, one way or both."""
    measure("stream", ctx)


COMMAND = Command(
    stream,
    examples=(
        "volley stream",
        "volley stream --direction bi --sizes 1M,64M",
        "volley stream --window 1 --sizes 8:1Gi:x4 --format json",
    ),
)
