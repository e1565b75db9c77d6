"""``volley topo``: the machine as a picture.  Facts become a topology, a topology a layout, a layout a drawing."""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMAND = Command(
    name="topo",
    help=(
        "Draw this machine: GPUs, NVLinks, PCIe switches, NUMA nodes, cores and network cards.\n\n"
        "With a transport, the path of its message is drawn in colour. Without -o, the machine is printed as a list "
        "and a matrix. No job is started."
    ),
    options="volley.topo.options.TopoOptions",
    run=Lazy("volley.topo.command.run"),
    examples=(
        "volley topo",
        "volley topo --transport aware -o topo.svg",
        "volley topo --transport staged/pageable --gpus 0,3 -o staged.svg",
        "volley doctor --capture node1.json",
        "volley topo --from node1.json -o node1.svg",
        "volley topo --from last --transport host -o hosts.svg",
    ),
)
