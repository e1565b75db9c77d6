"""``volley topo``."""

from __future__ import annotations

import typer

from volley.commands.common import Command
from volley.options.reading import gpu_numbers
from volley.topo import options as opt


def topo(
    transport: opt.Transport = None,
    gpus: opt.Gpus = None,
    source: opt.From = None,
    output: opt.Picture = None,
    json_format: opt.Json = False,
) -> None:
    """Draw this machine: GPUs, NVLinks, PCIe switches, NUMA nodes, cores and network cards.

    With a transport, the way of its message is drawn in colour. Without -o, a list and a matrix in words. Nothing is
    measured, no job is started.
    """
    from volley.topo.command import Drawing, run  # noqa: PLC0415  start-up: --help does without

    numbers = gpu_numbers(gpus) or None
    raise typer.Exit(run(Drawing(transport=transport, gpus=numbers, source=source, output=output, json=json_format)))


COMMAND = Command(
    topo,
    examples=(
        "volley topo",
        "volley topo --transport aware -o topo.svg",
        "volley topo --transport staged/pageable --gpus 0,3 -o staged.svg",
        "volley doctor --capture node1.json",
        "volley topo --from node1.json -o node1.svg",
    ),
)
