"""Where everything stands: a topology laid out on a drawing, top to bottom from processors to NVSwitches.

Each NUMA node has a column.  Below its processor hang PCIe switches, below these GPUs and network cards, each under
its parent, so every PCIe link is a vertical line.  NVLinks between two GPUs run in lanes below them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from volley.report.svg import Point, width_of
from volley.text import count
from volley.topo.topology import Nic, NumaNode, NvLinkBundle, PlacedGpu, Topology

MARGIN, GAP = 26.0, 14.0
GPU_SIZE, NIC_SIZE = (134.0, 70.0), (114.0, 70.0)
NODE_WIDTH, NODE_HEIGHT = 282.0, 132.0
NODE_GAP = 96.0
MEMORY_TOP, MEMORY_HEIGHT = 50.0, 54.0
SWITCH_HEIGHT, RISER = 44.0, 46.0
SWITCH_WORDS = 200.0
"""Room for the words of a switch, left of its uplink."""
LANE, PORT = 30.0, 13.0
LABEL_SIZE = 11
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


@dataclass
class Branch:
    """A PCIe switch, or a NUMA node's root complex, and what hangs on it."""

    path: tuple[str, ...] = ()
    switches: list[Branch] = field(default_factory=list)
    gpus: list[PlacedGpu] = field(default_factory=list)
    nics: list[Nic] = field(default_factory=list)

    def order(self) -> tuple[int, str]:
        """Sort by the lowest GPU below, then by address."""
        below = [gpu.number for gpu in self.gpus] + [each.order()[0] for each in self.switches]
        return min(below, default=1 << 30), self.path[-1] if self.path else ""

    def sort(self) -> None:
        """Sort the switches below, at every depth."""
        self.switches.sort(key=Branch.order)
        for each in self.switches:
            each.sort()

    def width(self) -> float:
        """Return the room that it takes, with a gap after it."""
        devices = len(self.gpus) * (GPU_SIZE[0] + GAP) + len(self.nics) * (NIC_SIZE[0] + GAP)
        inside = devices + sum(each.width() for each in self.switches)
        return max(inside, GPU_SIZE[0] + GAP) if self.path else inside


@dataclass(frozen=True)
class Lane:
    """The line of the NVLinks between two GPUs."""

    links: NvLinkBundle
    points: tuple[Point, Point, Point, Point]
    """Down, across, up, from left to right."""
    words: str
    at: Point
    """Where its words stand free of other lanes; there are none where no place is wide enough."""


@dataclass(frozen=True)
class Layout:
    """All places on the drawing."""

    width: float
    bottom: float
    """Of what is drawn; the legend comes below."""
    nodes: Mapping[int | None, Rect]
    switches: Mapping[tuple[str, ...], Rect]
    gpus: Mapping[int, Rect]
    nics: Mapping[str, Rect]
    lanes: tuple[Lane, ...]
    fabric: Rect | None
    """What NVLinks lead to besides GPUs and processors."""
    bus: float | None
    """Height of what joins more than two nodes."""

    def uplink(self, path: tuple[str, ...]) -> float:
        """Where a switch is joined to what is above: in its middle, or right of its words."""
        box = self.switches[path]
        return min(max(box.middle, box.x + SWITCH_WORDS), box.right - 24)

    def memory(self, node: int | None) -> Rect:
        """The memory of a node, inside its box."""
        box = self.nodes[node]
        return Rect(box.x + 12, box.y + MEMORY_TOP, box.width - 24, MEMORY_HEIGHT)


def tree(topology: Topology, node: NumaNode) -> Branch:
    """Return what hangs on a NUMA node."""
    root = Branch()
    for device in (each for each in topology.devices if each.node == node.number):
        branch = root
        for depth in range(len(device.switches)):
            path = device.switches[: depth + 1]
            below = next((each for each in branch.switches if each.path == path), None)
            if below is None:
                below = Branch(path)
                branch.switches.append(below)
            branch = below
        if isinstance(device, PlacedGpu):
            branch.gpus.append(device)
        else:
            branch.nics.append(device)
    root.sort()
    return root


class _Shelf:
    """Puts boxes side by side, from left to right."""

    def __init__(self, device_row: float, first_row: float) -> None:
        self.device_row, self.first_row = device_row, first_row
        self.switches: dict[tuple[str, ...], Rect] = {}
        self.gpus: dict[int, Rect] = {}
        self.nics: dict[str, Rect] = {}

    def put(self, branch: Branch, x: float) -> None:
        """Put all that hangs on a branch, and the branch's own box above it."""
        if branch.path:
            y = self.first_row + (len(branch.path) - 1) * (SWITCH_HEIGHT + RISER)
            self.switches[branch.path] = Rect(x, y, branch.width() - GAP, SWITCH_HEIGHT)
        for gpu in branch.gpus:
            self.gpus[gpu.number] = Rect(x, self.device_row, *GPU_SIZE)
            x += GPU_SIZE[0] + GAP
        for each in branch.switches:
            self.put(each, x)
            x += each.width()
        for nic in branch.nics:
            self.nics[nic.address] = Rect(x, self.device_row, *NIC_SIZE)
            x += NIC_SIZE[0] + GAP


def layout_of(topology: Topology, least_width: float = 0.0) -> Layout:
    """Lay a topology out; the drawing is at least so wide."""
    trees = {node.number: tree(topology, node) for node in topology.nodes}
    widths = {number: max(NODE_WIDTH, branch.width() - GAP) for number, branch in trees.items()}
    whole = 2 * MARGIN + sum(widths.values()) + NODE_GAP * (len(widths) - 1)
    bus = TOP + 12 if len(trees) > 2 else None
    top = TOP + (BUS if bus else 0)
    depth = max((len(each.switches) for each in topology.devices), default=0)
    first_row = top + NODE_HEIGHT + RISER
    shelf = _Shelf(first_row + depth * (SWITCH_HEIGHT + RISER), first_row)
    nodes: dict[int | None, Rect] = {}
    x = MARGIN + max(0.0, (least_width - whole) / 2)
    for number, branch in trees.items():
        nodes[number] = Rect(x, top, widths[number], NODE_HEIGHT)
        shelf.put(branch, x + max(0.0, NODE_WIDTH - (branch.width() - GAP)) / 2)
        x += widths[number] + NODE_GAP
    below = shelf.device_row + GPU_SIZE[1] if topology.devices else top + NODE_HEIGHT
    lanes = _lanes(topology, shelf.gpus, below)
    bottom = max((lane.points[1][1] for lane in lanes), default=below)
    fabric = _fabric(topology, shelf.gpus, bottom)
    return Layout(
        width=max(whole, least_width),
        bottom=fabric.bottom if fabric else bottom,
        nodes=nodes,
        switches=shelf.switches,
        gpus=shelf.gpus,
        nics=shelf.nics,
        lanes=lanes,
        fabric=fabric,
        bus=bus,
    )


# ----------------------------------------------------------------------------------------------------- NVLinks


def _lanes(topology: Topology, gpus: Mapping[int, Rect], top: float) -> tuple[Lane, ...]:
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
            words = ", ".join(filter(None, [count(links.links, "link"), links.rate]))
            fits = width_of(words, LABEL_SIZE) < end - start - 4
            points = ((left, top), (left, y), (right, y), (right, top))
            found.append(Lane(links, points, words if fits else "", ((start + end) / 2, y - 9)))
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


def _fabric(topology: Topology, gpus: Mapping[int, Rect], above: float) -> Rect | None:
    ends = [gpus[links.gpu] for links in topology.nvlinks if links.end in {"switch", "hidden"}]
    if not ends:
        return None
    left, right = min(box.x for box in ends), max(box.right for box in ends)
    return Rect(left, above + 48, max(right - left, FABRIC_WIDTH), FABRIC_HEIGHT)
