"""A machine, and the path of a message through it, as SVG.

Each NUMA node has a column.  Below its processor hang PCIe switches, below these GPUs and network cards, each under
its parent, so every PCIe link is a vertical line.  NVLinks between two GPUs run in lanes below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from volley.report.svg import COPY, INK, MPI, MUTED, NVLINK, PCIE, WIRE, Drawing, Point, shortened, width_of
from volley.text import count, escape_controls
from volley.topo.message_path import MessagePath
from volley.topo.topology import (
    Branch,
    NvLinkBundle,
    PlacedGpu,
    Topology,
    nic_labels,
    node_labels,
    nvlink_label,
    pcie_label,
    peer_label,
    title,
    tree,
)

MARGIN, GAP = 18.0, 10.0
DEVICE = 92.0
"""Width and height of GPUs and network cards.  Two sockets of four are as wide as GitHub shows pictures: 830 pixels."""
NODE_WIDTH, NODE_HEIGHT = 300.0, 136.0
NODE_GAP = 76.0
SWITCH_HEIGHT, RISER = 44.0, 46.0
SWITCH_WORDS = 200.0
"""Room for the words of a switch, left of its uplink."""
LANE, PORT = 30.0, 13.0
LABEL_SIZE = 12
LEAST_WIDTH = 860.0
SHOWN_WIDTH = 920.0
"""Of a wider picture, which is shown smaller, text is larger, up to ``LARGEST`` times."""
LARGEST = 1.5
TOP = 82.0
BUS = 40.0
"""Room above the nodes for what joins more than two of them."""
ASIDE = 8.0
"""How far the lines up and down stand off a link that both take."""
APART = 100.0
"""Two buffers in one memory stand at least so far from each other."""


class Rect(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def right(self) -> float:
        return self.x + self.width


def _width(branch: Branch) -> float:
    devices = (len(branch.gpus) + len(branch.nics)) * (DEVICE + GAP)
    inside = devices + sum(map(_width, branch.switches))
    return max(inside, SWITCH_WORDS + GAP) if branch.path else inside


class Lane(NamedTuple):
    """The line of the NVLinks between two GPUs."""

    links: NvLinkBundle
    points: tuple[Point, ...]
    """Down, across, up, from left to right."""
    words: str
    at: Point
    """Where its words stand free of other lanes; there are none where no place is wide enough."""


class Layout:
    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.nodes: dict[int | None, Rect] = {}
        self.switches: dict[tuple[str, ...], Rect] = {}
        self.gpus: dict[int, Rect] = {}
        self.nics: dict[str, Rect] = {}
        self.above: dict[tuple[str, ...] | int | str, Rect] = {}
        """What each switch, GPU and network card is attached to."""
        trees = {node.number: tree(topology, node) for node in topology.nodes}
        widths = {number: max(NODE_WIDTH, _width(branch) - GAP) for number, branch in trees.items()}
        whole = 2 * MARGIN + sum(widths.values()) + NODE_GAP * (len(widths) - 1)
        self.width = max(whole, LEAST_WIDTH)
        self.bus = TOP + 12 if len(trees) > 2 else None
        top = TOP + (BUS if self.bus else 0)
        self.bottom = top + NODE_HEIGHT
        """Of what is drawn; the legend comes below."""
        depth = max((len(each.switches) for each in topology.devices), default=0)
        device_row = self.bottom + RISER + depth * (SWITCH_HEIGHT + RISER)
        x = MARGIN + (self.width - whole) / 2
        for number, branch in trees.items():
            node = self.nodes[number] = Rect(x, top, widths[number], NODE_HEIGHT)
            self._put(branch, x + max(0.0, NODE_WIDTH - (_width(branch) - GAP)) / 2, device_row, node)
            x += widths[number] + NODE_GAP
        if topology.devices:
            self.bottom = device_row + DEVICE
        self.lanes = self._lanes()
        self.bottom = max((lane.points[1][1] for lane in self.lanes), default=self.bottom)
        self.fabric: Rect | None = None
        """What NVLinks lead to besides GPUs and processors."""
        if ends := [self.gpus[links.gpu] for links in topology.nvlinks if links.end in {"switch", "hidden"}]:
            left, right = min(box.x for box in ends), max(box.right for box in ends)
            self.fabric = Rect(left, self.bottom + 48, max(right - left, 300), 52)
            self.bottom = self.fabric.bottom

    def size(self, usual: int) -> int:
        """The size of text that is still to be read where the picture is shown smaller, as far as it fits its box."""
        return round(usual * min(max(1.0, self.width / SHOWN_WIDTH), LARGEST))

    def uplink(self, path: tuple[str, ...]) -> float:
        """Where a switch is joined to what is above: in its middle, or right of its words."""
        box = self.switches[path]
        return min(max(box.middle, box.x + SWITCH_WORDS), box.right - 24)

    def memory(self, node: int | None) -> Rect:
        box = self.nodes[node]
        return Rect(box.x + 12, box.y + 50, box.width - 24, 54)

    def _put(self, branch: Branch, x: float, device_row: float, above: Rect) -> None:
        for gpu in branch.gpus:
            self.gpus[gpu.number], self.above[gpu.number] = Rect(x, device_row, DEVICE, DEVICE), above
            x += DEVICE + GAP
        for each in branch.switches:
            box = self.switches[each.path] = Rect(x, above.bottom + RISER, _width(each) - GAP, SWITCH_HEIGHT)
            self.above[each.path] = above
            self._put(each, x, device_row, box)
            x += _width(each)
        for nic in branch.nics:
            self.nics[nic.address], self.above[nic.address] = Rect(x, device_row, DEVICE, DEVICE), above
            x += DEVICE + GAP

    def _lanes(self) -> list[Lane]:
        """Give each pair of joined GPUs a lane: short ones above, and none over another's words."""
        pairs = {(links.gpu, links.end): links for links in self.topology.nvlinks if isinstance(links.end, int)}
        ends = {links: self._ports(pair, list(pairs)) for pair, links in pairs.items()}
        rows: list[list[NvLinkBundle]] = []
        for links in sorted(ends, key=lambda links: (ends[links][1] - ends[links][0], ends[links][0])):
            left, right = ends[links]
            row = next((row for row in rows if all(ends[o][1] < left or right < ends[o][0] for o in row)), None)
            if row is None:
                row = []
                rows.append(row)
            row.append(links)
        found, size = [], self.size(LABEL_SIZE)
        for number, row in enumerate(rows):
            # Verticals that go further down cut this row's words.
            cuts = [x for deeper in rows[number + 1 :] for links in deeper for x in ends[links]]
            for links in row:
                left, right = ends[links]
                y = self.bottom + 34 + number * LANE
                marks = [left, *sorted(x for x in cuts if left < x < right), right]
                start, end = max(pairwise(marks), key=lambda part: part[1] - part[0])
                words = links.each if width_of(links.each, size) < end - start - 4 else ""
                points = ((left, self.bottom), (left, y), (right, y), (right, self.bottom))
                found.append(Lane(links, points, words, ((start + end) / 2, y - 3 - size / 2)))
        return found

    def _ports(self, pair: tuple[int, int], pairs: Sequence[tuple[int, int]]) -> tuple[float, float]:
        """Return where a pair's lane meets its two GPUs, left and right.

        At each GPU those to the left come first, the nearest of them leftmost, then those to the right, the farthest
        leftmost: so nested lanes do not cross.
        """
        found = []
        for at, towards in (pair, pair[::-1]):
            here = self.gpus[at].middle
            others = [one if at == other else other for one, other in pairs if at in (one, other)]
            others.sort(key=lambda o: (self.gpus[o].middle >= here, -self.gpus[o].middle))
            found.append(here + (others.index(towards) - (len(others) - 1) / 2) * PORT)
        return min(found), max(found)


# ---------------------------------------------------------------------------------------- the path of a message


Drawn = tuple[list[Sequence[Point]], list[Rect]]
"""The line of every hop, along the links that are drawn, and the buffers in host memory that hold the message."""


def path_lines(layout: Layout, path: MessagePath) -> Drawn:
    by_number = {gpu.number: gpu for gpu in layout.topology.gpus}
    ends = [by_number[number] for number in path.gpus]
    kind = path.hops[0].kind
    if kind == "nvlink":
        return [_over_nvlink(layout, *path.gpus)], []
    if kind == "pcie":  # up to the first common switch, else to the processor, and down again
        shared = _shared(ends)
        up, down = (_up(layout, gpu, shared) for gpu in ends)
        return [[*up, *_across(layout, ends[0].node, ends[1].node, up[-1][1]), *down[::-1]]], []
    return _through_host(layout, path, ends)


def _over_nvlink(layout: Layout, one: int, other: int) -> Sequence[Point]:
    start, end = layout.gpus[one], layout.gpus[other]
    for lane in layout.lanes:
        if {lane.links.gpu, lane.links.end} == {one, other}:
            return lane.points if start.x < end.x else lane.points[::-1]
    assert layout.fabric is not None
    y = layout.fabric.y + 15
    return (start.middle, start.bottom), (start.middle, y), (end.middle, y), (end.middle, end.bottom)


def _through_host(layout: Layout, path: MessagePath, ends: Sequence[PlacedGpu]) -> Drawn:
    """Go up into a buffer near each GPU, or into one segment near the first, and down again."""
    memories = [each.number for hop in path.hops for each in (hop.start, hop.end) if each.kind == "memory"]
    first, last, segment = memories[0], memories[-1], len(path.hops) == 2
    side = ASIDE
    if ends:  # where both take one uplink, their lines stand apart
        side = ASIDE if layout.gpus[path.gpus[0]].x < layout.gpus[path.gpus[1]].x else -ASIDE
        shared = len(_shared(ends))
        up, down = _up(layout, ends[0], (), shared, -side), _up(layout, ends[1], (), shared, side)
        left, right = up[-1][0], down[-1][0]
    else:
        left = right = layout.memory(first).middle
    if segment:
        left = right = (left + right) / 2 if ends[0].node == ends[1].node else left
    elif first == last and abs(left - right) < APART:
        middle = (left + right) / 2
        left, right = middle - side / ASIDE * APART / 2, middle + side / ASIDE * APART / 2
    source, target = _buffer(layout, first, left), _buffer(layout, last, right)
    lines: list[Sequence[Point]] = []
    buffers = [source] if segment else [source, target]
    if not segment:
        towards, y, side = 0.5 if source.x < target.x else -0.5, source.y + source.height / 2, 0
        start, end = (source.middle + towards * source.width, y), (target.middle - towards * target.width, y)
        lines.append([start, *_across(layout, first, last, y), end])
    if len(path.hops) > 1:
        into, out, edge = source.middle - side, target.middle + side, up[-1][1]
        across = _across(layout, last, ends[1].node, edge)
        copy_in = [*up, (into, edge), (into, source.bottom)]
        copy_out = [(out, target.bottom), (out, edge), *across, *down[::-1]]
        lines = [copy_in, *lines, copy_out]
    return lines, buffers


def _buffer(layout: Layout, node: int | None, x: float) -> Rect:
    """Place a host buffer, above where the line comes up if there is room."""
    memory = layout.memory(node)
    x = min(max(x, memory.x + 25), memory.right - 25)
    return Rect(x - 17, memory.bottom - 26, 34, 18)


def _up(layout: Layout, gpu: PlacedGpu, until: tuple[str, ...], shared: int = 0, aside: float = 0.0) -> list[Point]:
    """Go from a GPU up to a switch, or to its processor; above the ``shared`` upper switches ``aside`` of the links."""
    x = layout.gpus[gpu.number].middle
    points = [(x, layout.gpus[gpu.number].y)]
    if layout.topology.to_host(gpu.number) is None:
        for depth in range(len(gpu.switches), len(until), -1):
            path = gpu.switches[:depth]
            below_words = layout.switches[path].bottom - 11
            above = layout.uplink(path) + (aside if depth <= shared else 0)
            if abs(above - x) > ASIDE:  # a smaller jog would look like a mistake
                points += [(x, below_words), (above, below_words)]
                x = above
    end = layout.switches[until].bottom - 11 if until else layout.nodes[gpu.node].bottom - 14
    return [*points, (x, end)]


def _across(layout: Layout, one: int | None, other: int | None, y: float) -> list[Point]:
    """Go from one node's box to another's: straight to a neighbour, else over what joins all."""
    here, there = layout.nodes[one], layout.nodes[other]
    if layout.bus is None or one == other:
        return []
    towards = 0.5 if here.x < there.x else -0.5
    out = here.middle + towards * (here.width + NODE_GAP)
    back = there.middle - towards * (there.width + NODE_GAP)
    return [] if abs(out - back) < 1 else [(out, y), (out, layout.bus), (back, layout.bus), (back, y)]


def _shared(ends: Sequence[PlacedGpu]) -> tuple[str, ...]:
    one, other = ends
    pairs = zip(one.switches, other.switches, strict=False) if one.node == other.node else ()
    return tuple(each for each, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


# ------------------------------------------------------------------------------------------------------------- drawing


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
