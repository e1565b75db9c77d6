"""The path of a message as lines on the drawing: along the links that are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, takewhile

from volley.report.svg import Point
from volley.topo.layout import NODE_GAP, Layout, Rect
from volley.topo.message_path import MessagePath
from volley.topo.topology import PlacedGpu, Topology

ASIDE = 8.0
"""How far the lines up and down stand off a link that both take."""
BUFFER = (34.0, 18.0)
APART = 100.0
"""Two buffers in one memory stand at least so far from each other."""


@dataclass(frozen=True)
class HopLine:
    """A hop: its line, and where its number stands."""

    points: tuple[Point, ...]
    number: Point


Drawn = tuple[list[HopLine], list[Rect]]
"""The line of every hop, and the buffers in host memory that hold the message."""


def lines_of(topology: Topology, layout: Layout, path: MessagePath) -> Drawn:
    """Find what is drawn of a path."""
    kind = path.hops[0].kind
    if kind == "nvlink":
        points = _over_nvlink(layout, *path.gpus)
        x, y = points[0]
        return [HopLine(points, (x, y + 15))], []
    ends = [gpu for number in path.gpus if (gpu := topology.gpu(number))]
    if kind == "pcie":
        first, second = ends
        shared = _shared(first, second)  # up to the first common switch, else to the processor, and down again
        up, down = _up(topology, layout, first, shared), _up(topology, layout, second, shared)[::-1]
        points = (*up, *_across(layout, (first.node, up[-1]), (second.node, down[0])), *down)
        return [HopLine(points, _middle(points))], []
    return _through_host(topology, layout, path, ends)


# ------------------------------------------------------------------------------------------------ GPU to GPU


def _over_nvlink(layout: Layout, one: int, other: int) -> tuple[Point, ...]:
    start, end = layout.gpus[one], layout.gpus[other]
    for lane in layout.lanes:
        if {lane.links.gpu, lane.links.end} == {one, other}:
            return lane.points if start.x < end.x else lane.points[::-1]
    assert layout.fabric is not None
    y = layout.fabric.y + 15
    return (start.middle, start.bottom), (start.middle, y), (end.middle, y), (end.middle, end.bottom)


def _up(
    topology: Topology, layout: Layout, gpu: PlacedGpu, until: tuple[str, ...] = (), aside: tuple[int, float] = (0, 0)
) -> list[Point]:
    """Go from a GPU up to a switch, or to its processor.

    ``aside``: above how many switches, and by how much, the line stands off the links that are drawn.
    """
    x = layout.gpus[gpu.number].middle
    points = [(x, layout.gpus[gpu.number].y)]
    if topology.to_host(gpu.number) is None:
        for depth in range(len(gpu.switches), len(until), -1):
            path = gpu.switches[:depth]
            below_words = layout.switches[path].bottom - 11
            above = layout.uplink(path) + (aside[1] if depth <= aside[0] else 0)
            if abs(above - x) > ASIDE:  # a smaller jog would look like a mistake
                points += [(x, below_words), (above, below_words)]
                x = above
    end = layout.switches[until].bottom - 11 if until else layout.nodes[gpu.node].bottom - 14
    return [*points, (x, end)]


def _across(layout: Layout, start: tuple[int | None, Point], end: tuple[int | None, Point]) -> list[Point]:
    """Go from one node's box to another's: straight to a neighbour, else over what joins all."""
    (from_node, (_, here)), (to_node, (_, there)) = start, end
    one, other = layout.nodes[from_node], layout.nodes[to_node]
    if layout.bus is None or one == other:
        return []
    towards = 1 if one.x < other.x else -1
    out = (one.right if towards > 0 else one.x) + towards * NODE_GAP / 2
    back = (other.x if towards > 0 else other.right) - towards * NODE_GAP / 2
    if abs(out - back) < 1:
        return []
    return [(out, here), (out, layout.bus), (back, layout.bus), (back, there)]


def _shared(one: PlacedGpu, other: PlacedGpu) -> tuple[str, ...]:
    if one.node != other.node:
        return ()
    pairs = zip(one.switches, other.switches, strict=False)
    return tuple(each for each, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _middle(points: tuple[Point, ...]) -> Point:
    """The middle of the longest part that runs across."""
    (x, y), (end, _) = max(pairwise(points), key=lambda part: abs(part[1][0] - part[0][0]))
    return (x + end) / 2, y


def _through_host(topology: Topology, layout: Layout, path: MessagePath, ends: list[PlacedGpu]) -> Drawn:
    memories = [each.number for hop in path.hops for each in (hop.start, hop.end) if each.kind == "memory"]
    first, second = memories[0], memories[-1]
    up = []
    for gpu in ends:  # where they share an uplink, their lines stand apart
        rightmost = layout.gpus[gpu.number].x == max(layout.gpus[each.number].x for each in ends)
        aside = (len(_shared(*ends)), ASIDE if rightmost else -ASIDE)
        up.append(_up(topology, layout, gpu, aside=aside))
    left, right = [points[-1][0] for points in up] or [layout.memory(first).middle] * 2
    if len(path.hops) == 2:
        return _through_segment(layout, ends, up)
    if first == second and abs(left - right) < APART:
        middle, sign = (left + right) / 2, 1 if left <= right else -1
        left, right = middle - sign * APART / 2, middle + sign * APART / 2
    source, target = _buffer(layout, first, left), _buffer(layout, second, right)
    towards = 1 if source.x < target.x else -1
    start = (source.right if towards > 0 else source.x, source.y + source.height / 2)
    end = (target.x if towards > 0 else target.right, target.y + target.height / 2)
    points = (start, *_across(layout, (first, start), (second, end)), end)
    between = HopLine(points, _middle(points))
    if len(path.hops) == 1:
        return [between], [source, target]
    out = _copy_line(_into(up[0], source))
    back = _copy_line(_into(up[1], target)[::-1], late=True)
    return [out, between, back], [source, target]


def _through_segment(layout: Layout, ends: list[PlacedGpu], up: list[list[Point]]) -> Drawn:
    """Copy into a segment of the first GPU's node, and out of it from there."""
    node, other = ends[0].node, ends[1].node
    left, right = (points[-1][0] for points in up)
    segment = _buffer(layout, node, (left + right) / 2 if node == other else left)
    side = ASIDE if left < right else -ASIDE
    x, y = segment.middle + side, up[0][-1][1]
    out = _copy_line(_into(up[0], segment, -side))
    across = _across(layout, (node, (x, y)), (other, up[1][-1]))
    back = _copy_line([(x, segment.bottom), (x, y), *across, *up[1][::-1]], late=True)
    return [out, back], [segment]


def _buffer(layout: Layout, node: int | None, x: float) -> Rect:
    """Place a host buffer, above where the line comes up if there is room."""
    memory = layout.memory(node)
    width, height = BUFFER
    x = min(max(x, memory.x + width / 2 + 8), memory.right - width / 2 - 8)
    return Rect(x - width / 2, memory.bottom - height - 8, width, height)


def _into(up: list[Point], buffer: Rect, aside: float = 0.0) -> list[Point]:
    """Go on from the processor's edge into a buffer."""
    _, y = up[-1]
    end = buffer.middle + aside
    return [*up, (end, y), (end, buffer.bottom)]


def _copy_line(points: list[Point], *, late: bool = False) -> HopLine:
    """A copy to or from the host: its number stands above the GPU, which is at the end if ``late``."""
    x, y = points[-1 if late else 0]
    return HopLine(tuple(points), (x, y - 29))
