"""The layout of a drawing: positions of all parts, top to bottom from processors to NVSwitches.

Each NUMA node has a column.  Below its processor hang PCIe switches, below these GPUs and network cards, each under
its parent, so every PCIe link is a vertical line.  NVLinks between two GPUs run in lanes below them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from volley.report.svg import Point, width_of
from volley.topo.topology import Nic, NumaNode, NvLinkBundle, PlacedGpu, Topology

MARGIN, GAP = 18.0, 10.0
DEVICE_SIZE = (92.0, 92.0)
"""Of GPUs and network cards.  Two sockets of four devices are as wide as GitHub shows pictures: 830 pixels."""
NODE_WIDTH, NODE_HEIGHT = 300.0, 136.0
NODE_GAP = 76.0
MEMORY_TOP, MEMORY_HEIGHT = 50.0, 54.0
SWITCH_HEIGHT, RISER = 44.0, 46.0
SWITCH_WORDS = 200.0
"""Room for the words of a switch, left of its uplink."""
LANE, PORT = 30.0, 13.0
LABEL_SIZE = 12
SHOWN_WIDTH = 920.0
"""Of a wider picture, which is shown smaller, text is larger, up to ``LARGEST`` times."""
LARGEST = 1.5
FABRIC_WIDTH, FABRIC_HEIGHT = 300.0, 52.0
TOP = 82.0
BUS = 40.0
"""Room above the nodes for what joins more than two of them."""


@dataclass(frozen=True)
class Rect:
    """A box on the drawing."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Its middle from left to right."""
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.height

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.width


@dataclass(frozen=True)
class Branch:
    """A PCIe switch, or a NUMA node's root complex, and what is attached to it."""

    path: tuple[str, ...]
    switches: Sequence[Branch]
    """By the lowest GPU below, then by address."""
    gpus: Sequence[PlacedGpu]
    nics: Sequence[Nic]

    @property
    def order(self) -> tuple[int, str]:
        """The lowest GPU below, and the address of this switch."""
        below = [gpu.number for gpu in self.gpus] + [each.order[0] for each in self.switches]
        return min(below, default=1 << 30), self.path[-1]

    @property
    def width(self) -> float:
        """The room that it takes, with a gap after it."""
        devices = (len(self.gpus) + len(self.nics)) * (DEVICE_SIZE[0] + GAP)
        inside = devices + sum(each.width for each in self.switches)
        return max(inside, SWITCH_WORDS + GAP) if self.path else inside


@dataclass(frozen=True)
class Lane:
    """The line of the NVLinks between two GPUs."""

    links: NvLinkBundle
    points: tuple[Point, Point, Point, Point]
    """Down, across, up, from left to right."""
    words: str
    at: Point
    """Where its words stand free of other lanes; there are none where no place is wide enough."""


@dataclass
class Layout:
    """All places on the drawing."""

    width: float
    bus: float | None
    """Height of what joins more than two nodes."""
    first_row: float
    """Height of the uppermost switches."""
    device_row: float
    """Height of GPUs and network cards."""
    bottom: float
    """Of what is drawn; the legend comes below."""
    nodes: dict[int | None, Rect] = field(default_factory=dict)
    switches: dict[tuple[str, ...], Rect] = field(default_factory=dict)
    gpus: dict[int, Rect] = field(default_factory=dict)
    nics: dict[str, Rect] = field(default_factory=dict)
    lanes: tuple[Lane, ...] = ()
    fabric: Rect | None = None
    """What NVLinks lead to besides GPUs and processors."""

    def size(self, usual: int) -> int:
        """The size of text that is still to be read where the picture is shown smaller, as far as it fits its box."""
        return round(usual * min(max(1.0, self.width / SHOWN_WIDTH), LARGEST))

    def uplink(self, path: tuple[str, ...]) -> float:
        """Where a switch is joined to what is above: in its middle, or right of its words."""
        box = self.switches[path]
        return min(max(box.middle, box.x + SWITCH_WORDS), box.right - 24)

    def memory(self, node: int | None) -> Rect:
        """The memory of a node, inside its box."""
        box = self.nodes[node]
        return Rect(box.x + 12, box.y + MEMORY_TOP, box.width - 24, MEMORY_HEIGHT)


def tree(topology: Topology, node: NumaNode) -> Branch:
    """Return what is attached to a NUMA node."""
    return _branch((), [each for each in topology.devices if each.node == node.number])


def _branch(path: tuple[str, ...], devices: Sequence[PlacedGpu | Nic]) -> Branch:
    """Put devices that are below one switch on it, or on the switches below it."""
    below: dict[tuple[str, ...], list[PlacedGpu | Nic]] = defaultdict(list)
    for device in devices:
        below[device.switches[: len(path) + 1]].append(device)
    here = below.pop(path, [])
    switches = sorted((_branch(*each) for each in below.items()), key=lambda each: each.order)
    gpus = [each for each in here if isinstance(each, PlacedGpu)]
    return Branch(path, switches, gpus, [each for each in here if isinstance(each, Nic)])


def layout_of(topology: Topology, least_width: float = 0.0) -> Layout:
    """Lay a topology out; the drawing is at least so wide."""
    trees = {node.number: tree(topology, node) for node in topology.nodes}
    widths = {number: max(NODE_WIDTH, branch.width - GAP) for number, branch in trees.items()}
    whole = 2 * MARGIN + sum(widths.values()) + NODE_GAP * (len(widths) - 1)
    bus = TOP + 12 if len(trees) > 2 else None
    top = TOP + (BUS if bus else 0)
    depth = max((len(each.switches) for each in topology.devices), default=0)
    first_row = top + NODE_HEIGHT + RISER
    device_row = first_row + depth * (SWITCH_HEIGHT + RISER)
    bottom = device_row + DEVICE_SIZE[1] if topology.devices else top + NODE_HEIGHT
    layout = Layout(max(whole, least_width), bus, first_row, device_row, bottom)
    x = MARGIN + max(0.0, (least_width - whole) / 2)
    for number, branch in trees.items():
        layout.nodes[number] = Rect(x, top, widths[number], NODE_HEIGHT)
        _put(layout, branch, x + max(0.0, NODE_WIDTH - (branch.width - GAP)) / 2)
        x += widths[number] + NODE_GAP
    layout.lanes = _lanes(topology, layout.gpus, layout.bottom, layout.size(LABEL_SIZE))
    layout.bottom = max((lane.points[1][1] for lane in layout.lanes), default=layout.bottom)
    if ends := [layout.gpus[links.gpu] for links in topology.nvlinks if links.end in {"switch", "hidden"}]:
        left, right = min(box.x for box in ends), max(box.right for box in ends)
        layout.fabric = Rect(left, layout.bottom + 48, max(right - left, FABRIC_WIDTH), FABRIC_HEIGHT)
        layout.bottom = layout.fabric.bottom
    return layout


def _put(layout: Layout, branch: Branch, x: float) -> None:
    """Put all that is attached to a branch side by side, and the branch's own box above it."""
    if branch.path:
        y = layout.first_row + (len(branch.path) - 1) * (SWITCH_HEIGHT + RISER)
        layout.switches[branch.path] = Rect(x, y, branch.width - GAP, SWITCH_HEIGHT)
    for gpu in branch.gpus:
        layout.gpus[gpu.number] = Rect(x, layout.device_row, *DEVICE_SIZE)
        x += DEVICE_SIZE[0] + GAP
    for each in branch.switches:
        _put(layout, each, x)
        x += each.width
    for nic in branch.nics:
        layout.nics[nic.address] = Rect(x, layout.device_row, *DEVICE_SIZE)
        x += DEVICE_SIZE[0] + GAP


# ----------------------------------------------------------------------------------------------------- NVLinks


def _lanes(topology: Topology, gpus: Mapping[int, Rect], top: float, size: int) -> tuple[Lane, ...]:
    """Give each pair of joined GPUs a lane: short ones above, and none over another's words."""
    pairs = [(links, (links.gpu, links.end)) for links in topology.nvlinks if isinstance(links.end, int)]
    ends = {links: _ports(pair, [other for _, other in pairs], gpus) for links, pair in pairs}
    rows: list[list[NvLinkBundle]] = []
    for links in sorted(ends, key=lambda links: (ends[links][1] - ends[links][0], ends[links][0])):
        left, right = ends[links]
        row = next((row for row in rows if all(ends[o][1] < left or right < ends[o][0] for o in row)), None)
        if row is None:
            row = []
            rows.append(row)
        row.append(links)
    found = []
    for number, row in enumerate(rows):
        # Verticals that go further down cut this row's words.
        cuts = [x for deeper in rows[number + 1 :] for links in deeper for x in ends[links]]
        for links in row:
            left, right = ends[links]
            y = top + 34 + number * LANE
            marks = [left, *sorted(x for x in cuts if left < x < right), right]
            start, end = max(pairwise(marks), key=lambda part: part[1] - part[0])
            words = links.each
            fits = width_of(words, size) < end - start - 4
            points = ((left, top), (left, y), (right, y), (right, top))
            found.append(Lane(links, points, words if fits else "", ((start + end) / 2, y - 3 - size / 2)))
    return tuple(found)


def _ports(pair: tuple[int, int], pairs: Sequence[tuple[int, int]], gpus: Mapping[int, Rect]) -> tuple[float, float]:
    """Return where a pair's lane meets its two GPUs, left and right.

    At each GPU those to the left come first, the nearest of them leftmost, then those to the right, the farthest
    leftmost: so nested lanes do not cross.
    """

    def port(at: int, towards: int) -> float:
        here = gpus[at].middle
        others = [one if at == other else other for one, other in pairs if at in (one, other)]
        order = sorted(others, key=lambda o: (gpus[o].middle >= here, -gpus[o].middle))
        return here + (order.index(towards) - (len(order) - 1) / 2) * PORT

    one, other = pair
    left, right = sorted((port(one, other), port(other, one)))
    return left, right
