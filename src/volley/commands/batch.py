"""``volley batch``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from volley.batch import options as job
from volley.commands import matrix
from volley.commands.common import Command
from volley.errors import UserError
from volley.launch.inside import MEASURING
from volley.options import OVERVIEW_BUDGET_S, node, request
from volley.text import several

if TYPE_CHECKING:
    from volley.planning import Request


def batch(
    ctx: typer.Context,
    scheduler: job.Scheduler,
    nodes: job.Nodes = 1,
    ranks: job.Ranks = None,
    gpus_per_node: job.GpusPerNode = None,
    time: job.Time = job.DEFAULT_TIME,
    account: job.Account = None,
    queue: job.Queue = None,
    job_name: job.JobName = "volley",
    node_resource: job.NodeResource = None,
    directive: job.Directives = None,
    module: job.Modules = None,
    launcher: job.Launcher = "auto",
    start: job.Start = None,
    output: job.Output = None,
    command: job.Command = None,
) -> None:
    """Write the script of a batch job that measures: directives, modules, and the line that starts the ranks.

    What stands after the dashes is checked now, as volley itself would: a mistake does not wait in the queue.
    """
    words = command or []
    asked = read(ctx.find_root().command, words)
    order = job.order(ctx.params)
    from volley.batch import script  # noqa: PLC0415  start-up: errors and --help do without

    script.deliver(script.write(order, asked, words), order.output)


def read(group: Any, words: Sequence[str]) -> Request:
    """Read a command line that measures as ``volley`` itself would, and do nothing.

    Args:
        group: volley's commands, as Click has them.
        words: the command line without its first word.

    Raises:
        UserError: if it makes no sense, or is a command that does not measure.
    """
    parent = group.context_class(group, info_name="volley")
    if not words or words[0].startswith("-"):
        params = group.make_context("volley", list(words)).params
        _, left, _ = group.make_parser(parent).parse_args(list(words))
        if left:
            raise UserError(f"write {left[0]} before its options: volley {left[0]} …")
        return request("pingpong", {"budget": OVERVIEW_BUDGET_S, **params})
    name, command, rest = group.resolve_command(parent, list(words))
    if name not in MEASURING:
        raise UserError(f"volley {name} measures nothing: a job is for {several(MEASURING, 'or')}")
    context = command.make_context(name, rest, parent=parent)
    if name == "matrix" and node.asked(context.params, matrix.defaults(context)):
        name = "node"
    return request("probe" if name == "transports" else name, context.params)


COMMAND = Command(
    batch,
    examples=(
        "volley batch --scheduler slurm --nodes 2 --gpus-per-node 1 -- pingpong --transport all",
        "volley batch --scheduler lsf --account ABC123 --module cuda -o volley.lsf -- pingpong --transport aware",
        "volley batch --scheduler slurm --gpus-per-node 4 -- matrix --section all",
        "volley batch --scheduler age --account GROUP --node-resource rt_AF --module cuda/11.2/11.2.2 -- stream",
    ),
    context_settings={"allow_interspersed_args": False},
)
