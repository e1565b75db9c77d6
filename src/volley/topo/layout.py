"""Where everything stands: a machine laid out on a sheet, top to bottom from processors to NVSwitches.

Each NUMA node has a column.  Below its processor hang PCIe switches, below these GPUs and network cards, each under
its parent, so every PCIe link is a vertical line.  NVLinks between two GPUs run in lanes below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from volley.report.svg import Point, width_of
from volley.text import count
from volley.topo.machine import Gpu, Machine, Nic, Node, NvLinks

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
FABRIC_HEIGHT = 52.0
TOP = 82.0
BUS = 40.0
"""Room above the nodes for what joins more than two of them."""


@dataclass(frozen=True)
class Rect:
    """A box on the sheet."""

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
    gpus: list[Gpu] = field(default_factory=list)
    nics: list[Nic] = field(default_factory=list)

    def first(self) -> tuple[int, str]:
        """Sort by the lowest GPU below, then by address."""
        below = [gpu.number for gpu in self.gpus] + [each.first()[0] for each in self.switches]
        return min(below, default=1 << 30), self.path[-1] if self.path else ""


@dataclass(frozen=True)
class Lane:
    """The way of the NVLinks between two GPUs: down, across, up."""

    links: NvLinks
    left: float
    right: float
    top: float
    y: float
    words: str
    at: Point
    """Where its words stand free of other lanes; there are none where no place is wide enough."""


@dataclass(frozen=True)
class Layout:
    """All places on the sheet."""

    width: float
    bottom: float
    """Of what is drawn; the legend comes below."""
    nodes: dict[int | None, Rect]
    switches: dict[tuple[str, ...], Rect]
    gpus: dict[int, Rect]
    nics: dict[str, Rect]
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


def tree(machine: Machine, node: Node) -> Branch:
    """Return what hangs on a NUMA node."""
    root = Branch()
    for device in (each for each in machine.devices if each.node == node.number):
        branch = root
        for depth in range(len(device.switches)):
            path = device.switches[: depth + 1]
            below = next((each for each in branch.switches if each.path == path), None)
            if below is None:
                below = Branch(path)
                branch.switches.append(below)
            branch = below
        if isinstance(device, Gpu):
            branch.gpus.append(device)
        else:
            branch.nics.append(device)
    _sort(root)
    return root


def _sort(branch: Branch) -> None:
    branch.switches.sort(key=Branch.first)
    for each in branch.switches:
        _sort(each)


class _Pen:
    """Puts boxes side by side, from left to right."""

    def __init__(self, device_row: float, first_row: float) -> None:
        self.x = MARGIN
        self.device_row, self.first_row = device_row, first_row
        self.switches: dict[tuple[str, ...], Rect] = {}
        self.gpus: dict[int, Rect] = {}
        self.nics: dict[str, Rect] = {}

    def branch(self, branch: Branch) -> None:
        """Put all that hangs on a branch, and the branch's own box above it."""
        start = self.x
        for gpu in branch.gpus:
            self.gpus[gpu.number] = self._device(*GPU_SIZE)
        for each in branch.switches:
            self.branch(each)
        for nic in branch.nics:
            self.nics[nic.address] = self._device(*NIC_SIZE)
        if branch.path:
            y = self.first_row + (len(branch.path) - 1) * (SWITCH_HEIGHT + RISER)
            self.x = max(self.x, start + GPU_SIZE[0] + GAP)
            self.switches[branch.path] = Rect(start, y, self.x - GAP - start, SWITCH_HEIGHT)

    def _device(self, width: float, height: float) -> Rect:
        box = Rect(self.x, self.device_row, width, height)
        self.x += width + GAP
        return box

    def shift(self, by: float, branch: Branch) -> None:
        """Move a branch to the right, to stand in the middle below its node."""
        for gpu in branch.gpus:
            self.gpus[gpu.number] = _moved(self.gpus[gpu.number], by)
        for nic in branch.nics:
            self.nics[nic.address] = _moved(self.nics[nic.address], by)
        for each in branch.switches:
            self.switches[each.path] = _moved(self.switches[each.path], by)
            self.shift(by, each)


def _moved(box: Rect, by: float) -> Rect:
    return Rect(box.x + by, box.y, box.width, box.height)


def layout_of(machine: Machine, least_width: float = 0.0) -> Layout:
    """Lay a machine out; the sheet is at least so wide."""
    trees = {node.number: tree(machine, node) for node in machine.nodes}
    bus = TOP + 12 if len(trees) > 2 else None
    top = TOP + (BUS if bus else 0)
    depth = max((len(each.switches) for each in machine.devices), default=0)
    first_row = top + NODE_HEIGHT + RISER
    pen = _Pen(first_row + depth * (SWITCH_HEIGHT + RISER), first_row)
    nodes: dict[int | None, Rect] = {}
    whole = _width(trees)
    pen.x = MARGIN + max(0.0, (least_width - whole) / 2)
    for number, branch in trees.items():
        start = pen.x
        pen.branch(branch)
        spare = NODE_WIDTH - (pen.x - GAP - start)
        if spare > 0:
            pen.shift(spare / 2, branch)
        nodes[number] = Rect(start, top, max(NODE_WIDTH, pen.x - GAP - start), NODE_HEIGHT)
        pen.x = nodes[number].right + NODE_GAP
    below = pen.device_row + GPU_SIZE[1] if machine.devices else top + NODE_HEIGHT
    lanes = _lanes(machine, pen.gpus, below)
    low = max((lane.y for lane in lanes), default=below)
    fabric = _fabric(machine, pen.gpus, low)
    return Layout(
        width=max(whole, least_width),
        bottom=fabric.bottom if fabric else low,
        nodes=nodes,
        switches=pen.switches,
        gpus=pen.gpus,
        nics=pen.nics,
        lanes=lanes,
        fabric=fabric,
        bus=bus,
    )


def _width(trees: dict[int | None, Branch]) -> float:
    pen = _Pen(0, 0)
    for branch in trees.values():
        start = pen.x
        pen.branch(branch)
        pen.x = start + max(NODE_WIDTH, pen.x - GAP - start) + NODE_GAP
    return pen.x - NODE_GAP + MARGIN


# ----------------------------------------------------------------------------------------------------- NVLinks


def _lanes(machine: Machine, gpus: dict[int, Rect], top: float) -> tuple[Lane, ...]:
    """Give each pair of joined GPUs a lane: short ones above, and none over another's words."""
    pairs = [each for each in machine.nvlinks if isinstance(each.end, int)]
    ends = {each: _ports(each, pairs, gpus) for each in pairs}
    rows: list[list[NvLinks]] = []
    for each in sorted(pairs, key=lambda each: (ends[each][1] - ends[each][0], ends[each][0])):
        left, right = ends[each]
        row = next((row for row in rows if all(ends[o][1] < left or right < ends[o][0] for o in row)), None)
        if row is None:
            row = []
            rows.append(row)
        row.append(each)
    found = []
    for number, row in enumerate(rows):
        # Verticals that go further down cut this row's words.
        cuts = [x for deeper in rows[number + 1 :] for each in deeper for x in ends[each]]
        for each in row:
            left, right = ends[each]
            y = top + 34 + number * LANE
            start, end = _free(left, right, cuts)
            words = ", ".join(filter(None, [count(each.links, "link"), each.rate]))
            fits = width_of(words, LABEL_SIZE) < end - start - 4
            found.append(Lane(each, left, right, top, y, words if fits else "", ((start + end) / 2, y - 9)))
    return tuple(found)


def _ports(each: NvLinks, pairs: Sequence[NvLinks], gpus: dict[int, Rect]) -> tuple[float, float]:
    """Return where a pair's lane meets its two GPUs, left and right.

    At each GPU those to the left come first, the nearest of them leftmost, then those to the right, the farthest
    leftmost: so nested lanes do not cross.
    """

    def port(at: int, towards: int) -> float:
        here = gpus[at].middle
        others = [other for pair in pairs for other in _other(pair, at)]
        left = sorted((o for o in others if gpus[o].middle < here), key=lambda o: -gpus[o].middle)
        right = sorted((o for o in others if gpus[o].middle >= here), key=lambda o: -gpus[o].middle)
        order = [*left, *right]
        return here + (order.index(towards) - (len(order) - 1) / 2) * PORT

    assert isinstance(each.end, int)
    left, right = sorted((port(each.gpu, each.end), port(each.end, each.gpu)))
    return left, right


def _other(pair: NvLinks, at: int) -> list[int]:
    """Return the other end where a pair has one end at this GPU."""
    assert isinstance(pair.end, int)
    return [pair.end] if pair.gpu == at else [pair.gpu] if pair.end == at else []


def _free(left: float, right: float, cuts: Sequence[float]) -> tuple[float, float]:
    """Return the widest part of a lane that nothing cuts."""
    marks = [left, *sorted(x for x in cuts if left < x < right), right]
    return max(pairwise(marks), key=lambda part: part[1] - part[0])


def _fabric(machine: Machine, gpus: dict[int, Rect], low: float) -> Rect | None:
    ends = [gpus[each.gpu] for each in machine.nvlinks if each.end in {"switch", "hidden"}]
    if not ends:
        return None
    left, right = min(box.x for box in ends), max(box.right for box in ends)
    return Rect(left, low + 48, max(right - left, 300.0), FABRIC_HEIGHT)
