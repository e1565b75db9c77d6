"""A machine, and the way of a message through it, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley.report.svg import COPY, INK, MPI, MUTED, WIRE, Drawing, Point, shortened
from volley.text import count, harmless
from volley.topo.layout import LABEL_SIZE, Layout, Rect, layout_of
from volley.topo.machine import Gpu, Machine, Nic, Node
from volley.topo.routes import Routes, routes_of
from volley.topo.way import Way
from volley.topo.words import card_words, described, link_kinds, node_words, pcie_kinds, peer_words, title

_NVLINK, _PCIE = "#8fb996", "#a8b3bd"
_COLOURS = {"copy": COPY, "mpi": MPI, "nvlink": WIRE, "pcie": WIRE}
_ROW = 24.0
_LEAST_WIDTH = 860.0
_BAND = 62.0
"""Height of the band between two processors: what crosses it leaves through memory or below it."""


def picture(machine: Machine, way: Way | None = None) -> str:
    """Draw it."""
    layout = layout_of(machine, _LEAST_WIDTH)
    drawing = Drawing(round(layout.width), 0, described(machine, way))
    drawing.text((24, 30), shortened(title(machine), 17, drawing.width - 48), 17, anchor="start", bold=True)
    below = f"{way.transport}: {way.words}" if way else peer_words(machine)
    if below:
        drawing.text((24, 56), shortened(below, 14, drawing.width - 48), 14, MUTED, "start")
    _links(drawing, machine, layout)
    _boxes(drawing, machine, layout)
    if way:
        _way(drawing, way, routes_of(machine, layout, way))
    drawing.height = round(_foot(drawing, machine, layout, way))
    return drawing.svg()


# -------------------------------------------------------------------------------------------------- the machine


def _links(drawing: Drawing, machine: Machine, layout: Layout) -> None:
    _between_nodes(drawing, machine, layout)
    for gpu in machine.gpus:
        box, links = layout.gpus[gpu.number], machine.to_host(gpu.number)
        if links is None:
            _riser(drawing, layout, box, gpu)
        else:
            drawing.line([(box.middle, box.y), (box.middle, layout.nodes[gpu.node].bottom)], _NVLINK, 3, head="")
            _beside(drawing, (box.middle + 14, box.y - 23), [count(links.links, "link"), links.rate])
    for nic in machine.nics:
        _riser(drawing, layout, layout.nics[nic.address], nic)
    for path, box in layout.switches.items():
        above = layout.switches.get(path[:-1])
        top = above or next(node for number, node in layout.nodes.items() if _holds(node, box))
        x = layout.uplink(path)
        drawing.line([(x, box.y), (x, top.bottom)], _PCIE, 3, head="")
    for lane in layout.lanes:
        points = [(lane.left, lane.top), (lane.left, lane.y), (lane.right, lane.y), (lane.right, lane.top)]
        drawing.line(points, _NVLINK, 3, head="")
    for lane in layout.lanes:
        if lane.words:
            drawing.text(lane.at, lane.words, LABEL_SIZE, MUTED)
    for links in machine.nvlinks:
        if layout.fabric and links.end in {"switch", "hidden"}:
            box = layout.gpus[links.gpu]
            drawing.line([(box.middle, box.bottom), (box.middle, layout.fabric.y)], _NVLINK, 3, head="")
            at = (box.middle + 14, layout.fabric.y - 20)
            _beside(drawing, at, [count(links.links, "link"), links.rate])


def _riser(drawing: Drawing, layout: Layout, box: Rect, device: Gpu | Nic) -> None:
    """Draw the PCIe link from a device to the switch or processor above it."""
    above = layout.switches[device.switches] if device.switches else layout.nodes[device.node]
    drawing.line([(box.middle, box.y), (box.middle, above.bottom)], _PCIE, 3, head="")


def _holds(node: Rect, box: Rect) -> bool:
    return node.x <= box.middle <= node.right


def _beside(drawing: Drawing, at: Point, lines: Sequence[str]) -> None:
    for number, words in enumerate(filter(None, lines)):
        drawing.text((at[0], at[1] + 14 * (number - 0.5)), words, LABEL_SIZE, MUTED, "start")


def _between_nodes(drawing: Drawing, machine: Machine, layout: Layout) -> None:
    """Draw what joins the processors: a band between two, a bar above more."""
    boxes = list(layout.nodes.values())
    if layout.bus is not None:
        ends = boxes[0].middle, boxes[-1].middle
        for box in boxes:
            drawing.line([(box.middle, layout.bus), (box.middle, box.y)], _PCIE, 3, head="")
        drawing.line([(ends[0], layout.bus), (ends[1], layout.bus)], _PCIE, 5, head="")
    elif len(boxes) == 2:
        left, right = boxes
        memory = layout.memory(machine.nodes[0].number)
        band = (left.right, memory.y + 10), (right.x - left.right, _BAND)
        drawing.box(*band, "band")
        one, other = machine.nodes
        distance = (one.distances or {}).get(-1 if other.number is None else other.number)
        if distance:
            drawing.text(((left.right + right.x) / 2, memory.y - 8), f"distance {distance}", LABEL_SIZE, MUTED)


def _boxes(drawing: Drawing, machine: Machine, layout: Layout) -> None:
    for node in machine.nodes:
        _node(drawing, node, layout)
    for path, box in layout.switches.items():
        drawing.box((box.x, box.y), (box.width, box.height), "switch")
        words = shortened(f"PCIe switch {harmless(path[-1])}", 12, layout.uplink(path) - box.x - 24)
        drawing.text((box.x + 10, box.y + 14), words, 12, INK, "start")
    for gpu in machine.gpus:
        box = layout.gpus[gpu.number]
        name = harmless(gpu.name).removeprefix("NVIDIA ").removeprefix("Tesla ")
        lines = [shortened(words, 12, box.width - 10) for words in (name, harmless(gpu.address)) if words]
        drawing.box((box.x, box.y), (box.width, box.height), "gpu", f"GPU {gpu.number}", *lines, small=12)
    for nic in machine.nics:
        box = layout.nics[nic.address]
        lines = [shortened(words, 12, box.width - 10) for words in card_words(nic)]
        drawing.box((box.x, box.y), (box.width, box.height), "nic", *lines, small=12)
    _fabric(drawing, machine, layout)


def _node(drawing: Drawing, node: Node, layout: Layout) -> None:
    box, memory = layout.nodes[node.number], layout.memory(node.number)
    name, cores, size = node_words(node)
    drawing.box((box.x, box.y), (box.width, box.height), "host")
    drawing.text((box.x + 12, box.y + 17), name, 13, INK, "start", bold=True)
    drawing.text((box.x + 12, box.y + 36), shortened(cores, 12, box.width - 24), 12, MUTED, "start")
    drawing.box((memory.x, memory.y), (memory.width, memory.height), "memory")
    drawing.text((memory.x + 8, memory.y + 13), f"CPU memory{f', {size}' if size else ''}", 12, INK, "start")


def _fabric(drawing: Drawing, machine: Machine, layout: Layout) -> None:
    box = layout.fabric
    if box is None:
        return
    hidden = all(links.end != "switch" for links in machine.nvlinks)
    name = "NVLink: the other ends are not shown" if hidden else "NVSwitch"
    if machine.nvswitches > 1 and not hidden:
        name = f"{machine.nvswitches} × NVSwitch"
    drawing.box((box.x, box.y), (box.width, box.height), "fabric", faded=hidden)
    drawing.text((box.x + 12, box.bottom - 15), name, 13, INK, "start", bold=True)


# ------------------------------------------------------------------------------------------------- way and legend


def _way(drawing: Drawing, way: Way, routes: Routes) -> None:
    for buffer in routes.buffers:
        drawing.box((buffer.x, buffer.y), (buffer.width, buffer.height), "plain")
    for step, track in zip(way.steps, routes.tracks, strict=True):
        drawing.line(track.points, _COLOURS[step.kind], 4.5)
    for number, (step, track) in enumerate(zip(way.steps, routes.tracks, strict=True), 1):
        drawing.badge(track.number, str(number), _COLOURS[step.kind])


def _foot(drawing: Drawing, machine: Machine, layout: Layout, way: Way | None) -> float:
    """Write what the lines mean and what each step does; return the height of the drawing."""
    y = layout.bottom + 38
    for number, step in enumerate(way.steps if way else (), 1):
        drawing.badge((36, y), str(number), _COLOURS[step.kind])
        drawing.text((56, y), _fitting(drawing, step.words), 13, anchor="start")
        y += _ROW
    for colour, words in _legend(machine):
        drawing.line([(26, y), (46, y)], colour, 4, head="")
        drawing.text((56, y), _fitting(drawing, words), 13, MUTED, "start")
        y += _ROW
    for remark in filter(None, [*([peer_words(machine), way.remark] if way else []), *machine.remarks]):
        drawing.text((26, y), _fitting(drawing, harmless(remark)), 13, MUTED, "start")
        y += _ROW
    return y


def _fitting(drawing: Drawing, words: str) -> str:
    return shortened(words, 13, drawing.width - 80)


def _legend(machine: Machine) -> Iterator[tuple[str, str]]:
    if machine.nvlinks:
        yield _NVLINK, f"{link_kinds(machine)}; rates are line rates, one direction"
    if any(not isinstance(each, Gpu) or machine.to_host(each.number) is None for each in machine.devices):
        yield _PCIE, pcie_kinds(machine)
