"""``volley pingpong``."""

from __future__ import annotations

import typer

from volley.commands.common import Command, measure
from volley.options import shared as opt
from volley.sizes import DEFAULT_SIZES


def pingpong(
    ctx: typer.Context,
    transport: opt.Transports = None,
    sizes: opt.Sizes = DEFAULT_SIZES,
    interval: opt.Interval = None,
    point_time: opt.PointTime = None,
    tail: opt.Tail = False,
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
    """Measure a message there and back between two ranks: latency, and bandwidth of one message at a time."""
    measure("pingpong", ctx)


COMMAND = Command(
    pingpong,
    examples=(
        "volley pingpong",
        "volley pingpong --transport host --sizes 8:1Mi:x4 --interval 0.5%",
        "volley pingpong --warmup 5 --iterations 50 --format olcf",
        "volley pingpong --hosts node1,node2 --launches 6 -o link.jsonl",
    ),
)
