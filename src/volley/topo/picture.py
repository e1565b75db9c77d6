"""A machine, and the path of a message through it, as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from volley.report.svg import COPY, INK, MPI, MUTED, NVLINK, PCIE, WIRE, Drawing, Point, shortened, width_of
from volley.text import count, escape_controls
from volley.topo.labels import nic_labels, node_labels, nvlink_label, pcie_label, peer_label, title
from volley.topo.layout import LABEL_SIZE, Layout, Rect, layout_of
from volley.topo.message_path import MessagePath
from volley.topo.path_lines import lines_of
from volley.topo.topology import NvLinkBundle, PlacedGpu, Topology

_COLOURS = {"copy": COPY, "mpi": MPI, "nvlink": WIRE, "pcie": WIRE}
_LEAST_WIDTH = 860.0
_BAND = 62.0
"""Height of the band between two processors: what crosses it leaves through memory or below it."""


def picture(topology: Topology, path: MessagePath | None = None) -> str:
    """Draw it."""
    layout = layout_of(topology, _LEAST_WIDTH)
    heading, message = title(topology), f"{path.transport}: {path.words}" if path else ""
    drawing = Drawing(round(layout.width), 0, f"{heading}; {message}" if message else heading)
    large, usual = layout.size(17), layout.size(14)
    drawing.text((24, 30), shortened(heading, large, drawing.width - 48), large, anchor="start", bold=True)
    below = message or peer_label(topology)
    if below:
        drawing.text((24, 60), shortened(below, usual, drawing.width - 48), usual, MUTED, "start")
    _between_nodes(drawing, topology, layout)
    _links(drawing, topology, layout)
    _boxes(drawing, topology, layout)
    if path:
        lines, buffers = lines_of(topology, layout, path)
        for buffer in buffers:
            drawing.box((buffer.x, buffer.y), (buffer.width, buffer.height), "plain")
        hops = list(zip(path.hops, lines, strict=True))
        for hop, line in hops:
            drawing.line(line.points, _COLOURS[hop.kind], 4.5)
        for number, (hop, line) in enumerate(hops, 1):
            drawing.badge(line.number, str(number), _COLOURS[hop.kind])
    drawing.height = round(_foot(drawing, topology, layout, path))
    return drawing.svg()


def _upright(drawing: Drawing, x: float, low: float, high: float, colour: str) -> None:
    drawing.line([(x, low), (x, high)], colour, 3, head="")


def _between_nodes(drawing: Drawing, topology: Topology, layout: Layout) -> None:
    """Draw what joins the processors: a band between two, a bar above more."""
    boxes = list(layout.nodes.values())
    if layout.bus is not None:
        for box in boxes:
            _upright(drawing, box.middle, layout.bus, box.y, PCIE)
        drawing.line([(boxes[0].middle, layout.bus), (boxes[-1].middle, layout.bus)], PCIE, 5, head="")
    elif len(boxes) == 2:
        (left, right), (one, other) = boxes, topology.nodes
        memory = layout.memory(one.number)
        drawing.box((left.right, memory.y + 10), (right.x - left.right, _BAND), "band")
        distance = (one.distances or {}).get(-1 if other.number is None else other.number)
        if distance:
            size, middle = layout.size(LABEL_SIZE), (left.right + right.x) / 2
            drawing.text((middle, memory.y - 6 - size), "distance", size, MUTED)
            drawing.text((middle, memory.y - 4), str(distance), size, MUTED)


def _links(drawing: Drawing, topology: Topology, layout: Layout) -> None:
    """Draw every link: to processors and switches above, in lanes below, into NVSwitches."""
    for gpu in topology.gpus:
        box, links = layout.gpus[gpu.number], topology.to_host(gpu.number)
        above = layout.switches[gpu.switches] if gpu.switches and not links else layout.nodes[gpu.node]
        _upright(drawing, box.middle, box.y, above.bottom, NVLINK if links else PCIE)
        if links:
            _bundle_label(drawing, layout, (box.middle, box.y - 23), links)
    for nic in topology.nics:
        box = layout.nics[nic.address]
        above = layout.switches[nic.switches] if nic.switches else layout.nodes[nic.node]
        _upright(drawing, box.middle, box.y, above.bottom, PCIE)
    for path, box in layout.switches.items():
        holders = [layout.switches[path[:-1]]] if path[:-1] else list(layout.nodes.values())
        above = next(each for each in holders if each.x <= box.middle <= each.right)
        _upright(drawing, layout.uplink(path), box.y, above.bottom, PCIE)
    for lane in layout.lanes:
        drawing.line(lane.points, NVLINK, 3, head="")
    for lane in layout.lanes:
        if lane.words:
            drawing.text(lane.at, lane.words, layout.size(LABEL_SIZE), MUTED)
    for links in topology.nvlinks:
        if layout.fabric and links.end in {"switch", "hidden"}:
            box = layout.gpus[links.gpu]
            _upright(drawing, box.middle, box.bottom, layout.fabric.y, NVLINK)
            _bundle_label(drawing, layout, (box.middle, layout.fabric.y - 24), links)


def _bundle_label(drawing: Drawing, layout: Layout, at: Point, links: NvLinkBundle) -> None:
    """Write number and rate of NVLinks beside their line, one below the other."""
    size = layout.size(LABEL_SIZE)
    for number, words in enumerate(filter(None, [count(links.links, "link"), links.rate])):
        drawing.text((at[0] + 13, at[1] + (size + 2) * (number - 0.5)), words, size, MUTED, "start")


def _boxes(drawing: Drawing, topology: Topology, layout: Layout) -> None:
    usual, small = layout.size(13), layout.size(12)
    for node in topology.nodes:
        box, memory = layout.nodes[node.number], layout.memory(node.number)
        name, cpus, capacity = node_labels(node)
        drawing.box((box.x, box.y), (box.width, box.height), "host")
        drawing.text((box.x + 12, box.y + 17), name, usual, INK, "start", bold=True)
        drawing.text((box.x + 12, box.y + 37), shortened(cpus, small, box.width - 24), small, MUTED, "start")
        drawing.box((memory.x, memory.y), (memory.width, memory.height), "memory")
        words = f"CPU memory{f', {capacity}' if capacity else ''}"
        drawing.text((memory.x + 8, memory.y + 13), words, small, INK, "start")
    for path, box in layout.switches.items():
        drawing.box((box.x, box.y), (box.width, box.height), "switch")
        size = layout.size(11)
        words = f"PCIe switch {escape_controls(path[-1]).removeprefix('0000:')}"
        words = shortened(words, size, layout.uplink(path) - box.x - 20)
        drawing.text((box.x + 10, box.y + 15), words, size, INK, "start")
    names = {gpu.name for gpu in topology.gpus}
    for gpu in topology.gpus:
        name = escape_controls(gpu.name).removeprefix("NVIDIA ").removeprefix("Tesla ")
        lines = [f"GPU {gpu.number}", name if len(names) > 1 else "", escape_controls(gpu.address)]
        _device(drawing, layout, layout.gpus[gpu.number], "gpu", lines)
    for nic in topology.nics:
        _device(drawing, layout, layout.nics[nic.address], "nic", nic_labels(nic))
    fabric = layout.fabric
    if fabric:
        hidden = all(links.end != "switch" for links in topology.nvlinks)
        switches = f"{topology.nvswitches} × NVSwitch" if topology.nvswitches > 1 else "NVSwitch"
        name = "NVLink: the other ends are not shown" if hidden else switches
        drawing.box((fabric.x, fabric.y), (fabric.width, fabric.height), "fabric", faded=hidden)
        drawing.text((fabric.x + 12, fabric.bottom - 15), name, layout.size(13), INK, "start", bold=True)


def _device(drawing: Drawing, layout: Layout, box: Rect, kind: str, lines: Sequence[str]) -> None:
    """Draw a GPU, whose name is in the heading if all have the same, or a network card."""
    size, room = layout.size(LABEL_SIZE), box.width - 10
    shown = [part for words in lines if words for part in _wrapped(words.removeprefix("0000:"), size, room)]
    drawing.box((box.x, box.y), (box.width, box.height), kind, *shown[: int(box.height / (size + 5))], small=size)


def _wrapped(words: str, size: int, room: float) -> list[str]:
    """Break a text into two lines after a dash or a blank, if it is too wide."""
    cut = max(
        (place for place in range(len(words)) if words[place] in "- " and width_of(words[:place], size) < room),
        default=0,
    )
    parts = [words[: cut + 1].rstrip(", "), words[cut + 1 :]] if cut and width_of(words, size) > room else [words]
    return [shortened(part, size, room) for part in parts]


def _foot(drawing: Drawing, topology: Topology, layout: Layout, path: MessagePath | None) -> float:
    """Write what each hop does and what the lines mean; return the height of the drawing."""
    size, row = layout.size(13), layout.size(24)
    y = layout.bottom + 38
    room = drawing.width - 80
    for number, hop in enumerate(path.hops if path else (), 1):
        drawing.badge((36, y), str(number), _COLOURS[hop.kind])
        drawing.text((56, y), shortened(hop.words, size, room), size, anchor="start")
        y += row
    legend = [(NVLINK, f"{nvlink_label(topology)}; rates are line rates, one direction")] if topology.nvlinks else []
    if any(not isinstance(each, PlacedGpu) or topology.to_host(each.number) is None for each in topology.devices):
        legend.append((PCIE, pcie_label(topology)))
    for colour, words in legend:
        drawing.line([(26, y), (46, y)], colour, 4, head="")
        drawing.text((56, y), shortened(words, size, room), size, MUTED, "start")
        y += row
    for note in filter(None, [*([peer_label(topology), path.note] if path else []), *topology.notes]):
        drawing.text((26, y), shortened(escape_controls(note), size, room), size, MUTED, "start")
        y += row
    return y
