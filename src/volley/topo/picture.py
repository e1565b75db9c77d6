"""A machine, and the path of a message through it, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from volley.report.svg import COPY, INK, MPI, MUTED, NVLINK, PCIE, WIRE, Drawing, Point, shortened, width_of
from volley.text import count, escape_controls
from volley.topo.layout import LABEL_SIZE, Layout, Rect, path_lines
from volley.topo.message_path import MessagePath
from volley.topo.page import nic_labels, node_labels, nvlink_label, pcie_label, peer_label, title
from volley.topo.topology import NvLinkBundle, PlacedGpu, Topology

_COLOURS = {"copy": COPY, "mpi": MPI, "nvlink": WIRE, "pcie": WIRE}


def picture(topology: Topology, path: MessagePath | None = None) -> str:
    layout = Layout(topology)
    heading, message = title(topology), f"{path.transport}: {path.words}" if path else ""
    drawing = Drawing(round(layout.width), 0, f"{heading}; {message}" if message else heading)
    large, usual = layout.size(17), layout.size(14)
    drawing.text((24, 30), shortened(heading, large, drawing.width - 48), large, anchor="start", bold=True)
    below = message or peer_label(topology)
    if below:
        drawing.text((24, 60), shortened(below, usual, drawing.width - 48), usual, MUTED, "start")
    _between_nodes(drawing, layout)
    _links(drawing, layout)
    _boxes(drawing, layout)
    if path:
        _path(drawing, layout, path)
    drawing.height = round(_foot(drawing, layout, path))
    return drawing.svg()


def _line(drawing: Drawing, points: Sequence[Point], colour: str) -> None:
    drawing.line(points, colour, 3, head="")


def _between_nodes(drawing: Drawing, layout: Layout) -> None:
    """Draw what joins the processors: a band between two, a bar above more."""
    boxes = list(layout.nodes.values())
    if layout.bus is not None:
        for box in boxes:
            _line(drawing, [(box.middle, layout.bus), (box.middle, box.y)], PCIE)
        drawing.line([(boxes[0].middle, layout.bus), (boxes[-1].middle, layout.bus)], PCIE, 5, head="")
    elif len(boxes) == 2:
        (left, right), (one, other) = boxes, layout.topology.nodes
        y = layout.memory(one.number).y
        # What crosses the band leaves through memory or below it.
        drawing.box((left.right, y + 10), (right.x - left.right, 62), "band")
        distance = (one.distances or {}).get(-1 if other.number is None else other.number)
        if distance:
            size, middle = layout.size(LABEL_SIZE), (left.right + right.x) / 2
            drawing.text((middle, y - 6 - size), "distance", size, MUTED)
            drawing.text((middle, y - 4), str(distance), size, MUTED)


def _links(drawing: Drawing, layout: Layout) -> None:
    for gpu in layout.topology.gpus:
        box, links = layout.gpus[gpu.number], layout.topology.to_host(gpu.number)
        if links:
            _line(drawing, [(box.middle, box.y), (box.middle, layout.nodes[gpu.node].bottom)], NVLINK)
            _bundle_label(drawing, layout, (box.middle, box.y - 23), links)
        else:
            _line(drawing, [(box.middle, box.y), (box.middle, layout.above[gpu.number].bottom)], PCIE)
    for address, box in layout.nics.items():
        _line(drawing, [(box.middle, box.y), (box.middle, layout.above[address].bottom)], PCIE)
    for path, box in layout.switches.items():
        _line(drawing, [(layout.uplink(path), box.y), (layout.uplink(path), layout.above[path].bottom)], PCIE)
    for lane in layout.lanes:
        _line(drawing, lane.points, NVLINK)
    for lane in layout.lanes:
        if lane.words:
            drawing.text(lane.at, lane.words, layout.size(LABEL_SIZE), MUTED)
    for links in layout.topology.nvlinks:
        if layout.fabric and links.end in {"switch", "hidden"}:
            box = layout.gpus[links.gpu]
            _line(drawing, [(box.middle, box.bottom), (box.middle, layout.fabric.y)], NVLINK)
            _bundle_label(drawing, layout, (box.middle, layout.fabric.y - 24), links)


def _bundle_label(drawing: Drawing, layout: Layout, at: Point, links: NvLinkBundle) -> None:
    """Write number and rate of NVLinks beside their line, one below the other."""
    size = layout.size(LABEL_SIZE)
    for number, words in enumerate(filter(None, [count(links.links, "link"), links.rate])):
        drawing.text((at[0] + 13, at[1] + (size + 2) * (number - 0.5)), words, size, MUTED, "start")


def _boxes(drawing: Drawing, layout: Layout) -> None:
    topology, usual, small = layout.topology, layout.size(13), layout.size(LABEL_SIZE)
    for node in topology.nodes:
        box, memory = layout.nodes[node.number], layout.memory(node.number)
        name, cpus, capacity = node_labels(node)
        drawing.box(box[:2], box[2:], "host")
        drawing.text((box.x + 12, box.y + 17), name, usual, INK, "start", bold=True)
        drawing.text((box.x + 12, box.y + 37), shortened(cpus, small, box.width - 24), small, MUTED, "start")
        drawing.box(memory[:2], memory[2:], "memory")
        words = f"CPU memory{f', {capacity}' if capacity else ''}"
        drawing.text((memory.x + 8, memory.y + 13), words, small, INK, "start")
    for path, box in layout.switches.items():
        size = layout.size(11)
        words = f"PCIe switch {escape_controls(path[-1]).removeprefix('0000:')}"
        drawing.box(box[:2], box[2:], "switch")
        words = shortened(words, size, layout.uplink(path) - box.x - 20)
        drawing.text((box.x + 10, box.y + 15), words, size, INK, "start")
    names = {gpu.name for gpu in topology.gpus}  # the one name of all is in the heading
    for gpu in topology.gpus:
        name = escape_controls(gpu.name).removeprefix("NVIDIA ").removeprefix("Tesla ")
        lines = [f"GPU {gpu.number}", name if len(names) > 1 else "", escape_controls(gpu.address)]
        _device(drawing, small, layout.gpus[gpu.number], "gpu", lines)
    for nic in topology.nics:
        _device(drawing, small, layout.nics[nic.address], "nic", nic_labels(nic))
    if fabric := layout.fabric:
        hidden = all(links.end != "switch" for links in topology.nvlinks)
        switches = f"{topology.nvswitches} × NVSwitch" if topology.nvswitches > 1 else "NVSwitch"
        name = "NVLink: the other ends are not shown" if hidden else switches
        drawing.box(fabric[:2], fabric[2:], "fabric", faded=hidden)
        drawing.text((fabric.x + 12, fabric.bottom - 15), name, usual, INK, "start", bold=True)


def _device(drawing: Drawing, size: int, box: Rect, kind: str, lines: Sequence[str]) -> None:
    """Draw a GPU or a network card; a line that is too wide is broken after a dash or a blank."""
    room, shown = box.width - 10, []
    for words in (words.removeprefix("0000:") for words in lines if words):
        fits = (place for place in range(len(words)) if words[place] in "- " and width_of(words[:place], size) < room)
        cut = max(fits, default=0) if width_of(words, size) > room else 0
        parts = [words[: cut + 1].rstrip(", "), words[cut + 1 :]] if cut else [words]
        shown += [shortened(part, size, room) for part in parts]
    drawing.box(box[:2], box[2:], kind, *shown[: int(box.height / (size + 5))], small=size)


def _path(drawing: Drawing, layout: Layout, path: MessagePath) -> None:
    lines, buffers = path_lines(layout, path)
    for buffer in buffers:
        drawing.box(buffer[:2], buffer[2:], "plain")
    for hop, points in zip(path.hops, lines, strict=True):
        drawing.line(points, _COLOURS[hop.kind], 4.5)
    for number, (hop, points) in enumerate(zip(path.hops, lines, strict=True), 1):
        if hop.kind == "nvlink":
            x, y = points[0][0], points[0][1] + 15
        elif hop.kind == "copy":  # above the GPU, the lower end
            x, y = max(points[0], points[-1], key=lambda point: point[1])
            y -= 29
        else:  # in the middle of the longest part that runs across
            (x, y), (end, _) = max(pairwise(points), key=lambda part: abs(part[1][0] - part[0][0]))
            x = (x + end) / 2
        drawing.badge((x, y), str(number), _COLOURS[hop.kind])


def _foot(drawing: Drawing, layout: Layout, path: MessagePath | None) -> float:
    """Write what each hop does and what the lines mean; return the height of the drawing."""
    topology, size, row = layout.topology, layout.size(13), layout.size(24)
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
