"""The way of a message as lines on the sheet: along the links that are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, takewhile

from volley.report.svg import Point
from volley.topo.layout import NODE_GAP, Layout, Rect
from volley.topo.machine import Gpu, Machine
from volley.topo.way import Way

ASIDE = 8.0
"""How far the way up and the way down stand off a link that both take."""
BUFFER = (34.0, 18.0)
APART = 110.0
"""Two buffers in one memory stand at least so far from each other."""


@dataclass(frozen=True)
class Track:
    """A step: its line, and where its number stands."""

    points: tuple[Point, ...]
    number: Point


@dataclass(frozen=True)
class Routes:
    """All that is drawn of a way."""

    tracks: tuple[Track, ...]
    buffers: tuple[Rect, ...]
    """Host memory that the message is written to."""


def routes_of(machine: Machine, layout: Layout, way: Way) -> Routes:
    """Find the lines of every step."""
    step = way.steps[0]
    if step.kind == "nvlink":
        points = _over_nvlink(layout, *way.gpus)
        x, y = points[0]
        return Routes((Track(points, (x, y + 15)),), ())
    if step.kind == "pcie":
        points = _over_pcie(machine, layout, *way.gpus)
        return Routes((Track(points, _middle(points)),), ())
    return _through_host(machine, layout, way)


# ------------------------------------------------------------------------------------------------ GPU to GPU


def _over_nvlink(layout: Layout, one: int, other: int) -> tuple[Point, ...]:
    start, end = layout.gpus[one], layout.gpus[other]
    for lane in layout.lanes:
        if {lane.links.gpu, lane.links.end} == {one, other}:
            points = ((lane.left, lane.top), (lane.left, lane.y), (lane.right, lane.y), (lane.right, lane.top))
            return points if start.x < end.x else points[::-1]
    assert layout.fabric is not None
    y = layout.fabric.y + 15
    return ((start.middle, start.bottom), (start.middle, y), (end.middle, y), (end.middle, end.bottom))


def _over_pcie(machine: Machine, layout: Layout, one: int, other: int) -> tuple[Point, ...]:
    """Up to the first switch that both hang on, else to the processor, and down again."""
    first, second = (gpu for number in (one, other) if (gpu := machine.gpu(number)))
    shared = _shared(first, second)
    up = _up(machine, layout, first, shared, (0, 0))
    down = _up(machine, layout, second, shared, (0, 0))[::-1]
    if first.node == second.node:
        return (*up, *down)
    return (*up, *_across(layout, (first.node, up[-1]), (second.node, down[0])), *down)


def _up(machine: Machine, layout: Layout, gpu: Gpu, until: tuple[str, ...], aside: tuple[int, float]) -> list[Point]:
    """Go from a GPU up to a switch, or to its processor.

    ``aside``: above how many switches, and by how much, the way stands off the links that are drawn.
    """
    box, node = layout.gpus[gpu.number], layout.nodes[gpu.node]
    x = box.middle
    points = [(x, box.y)]
    if machine.to_host(gpu.number) is None:
        for depth in range(len(gpu.switches), len(until), -1):
            low = _low(layout.switches[gpu.switches[:depth]])
            above = layout.uplink(gpu.switches[:depth]) + (aside[1] if depth <= aside[0] else 0)
            if abs(above - x) > ASIDE:  # a smaller jog would look like a mistake
                points += [(x, low), (above, low)]
                x = above
    return [*points, (x, _low(layout.switches[until]) if until else node.bottom - 14)]


def _low(box: Rect) -> float:
    """Where a way runs through a switch, below its words."""
    return box.bottom - 11


def _across(layout: Layout, start: tuple[int | None, Point], end: tuple[int | None, Point]) -> list[Point]:
    """Go from one node's box to another's: straight to a neighbour, else over what joins all."""
    (from_node, (_, here)), (to_node, (_, there)) = start, end
    one, other = layout.nodes[from_node], layout.nodes[to_node]
    if layout.bus is None:
        return []
    towards = 1 if one.x < other.x else -1
    out = (one.right if towards > 0 else one.x) + towards * NODE_GAP / 2
    back = (other.x if towards > 0 else other.right) - towards * NODE_GAP / 2
    if abs(out - back) < 1:
        return []
    return [(out, here), (out, layout.bus), (back, layout.bus), (back, there)]


# ------------------------------------------------------------------------------------------- through the host


def _through_host(machine: Machine, layout: Layout, way: Way) -> Routes:
    memories = [spot for step in way.steps for spot in (step.start, step.end) if spot.kind == "memory"]
    first, second = memories[0].number, memories[-1].number
    ends = [gpu for number in way.gpus if (gpu := machine.gpu(number))]
    up = _ups(machine, layout, ends)
    wanted = [points[-1][0] for points in up] or [layout.memory(first).middle] * 2
    if len(way.steps) == 2:
        return _through_segment(layout, ends, up, wanted)
    places = _buffers(layout, (first, second), wanted)
    hop = _hop(layout, first, second, places)
    if len(way.steps) == 1:
        return Routes((hop,), places)
    out = _track(_into(up[0], places[0]))
    back = _track(_into(up[1], places[1])[::-1], late=True)
    return Routes((out, hop, back), places)


def _through_segment(layout: Layout, ends: list[Gpu], up: list[list[Point]], wanted: list[float]) -> Routes:
    """Copy into a segment of the first GPU's node, and out of it from there."""
    node, other = ends[0].node, ends[1].node
    left, right = wanted
    segment = _buffer(layout, node, (left + right) / 2 if node == other else left)
    side = ASIDE if left < right else -ASIDE
    x, y = segment.middle + side, up[0][-1][1]
    across = _across(layout, (node, (x, y)), (other, up[1][-1])) if node != other else []
    out = _track(_into(up[0], segment, -side))
    back = _track([(x, segment.bottom), (x, y), *across, *up[1][::-1]], late=True)
    return Routes((out, back), (segment,))


def _ups(machine: Machine, layout: Layout, ends: list[Gpu]) -> list[list[Point]]:
    """Return the ways from both GPUs up; where they share an uplink they stand apart."""
    found = []
    for gpu in ends:
        rightmost = layout.gpus[gpu.number].x == max(layout.gpus[each.number].x for each in ends)
        aside = (len(_shared(*ends)), ASIDE if rightmost else -ASIDE)
        found.append(_up(machine, layout, gpu, (), aside))
    return found


def _shared(one: Gpu, other: Gpu) -> tuple[str, ...]:
    """Return the switches that are above both."""
    if one.node != other.node:
        return ()
    pairs = zip(one.switches, other.switches, strict=False)
    return tuple(each for each, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _buffers(layout: Layout, nodes: tuple[int | None, int | None], wanted: list[float]) -> tuple[Rect, Rect]:
    """Place the host buffers, above where the ways come up if there is room."""
    left, right = wanted
    if nodes[0] == nodes[1] and abs(left - right) < APART:
        middle, sign = (left + right) / 2, 1 if left <= right else -1
        left, right = middle - sign * APART / 2, middle + sign * APART / 2
    return _buffer(layout, nodes[0], left), _buffer(layout, nodes[1], right)


def _buffer(layout: Layout, node: int | None, x: float) -> Rect:
    memory = layout.memory(node)
    width, height = BUFFER
    x = min(max(x, memory.x + 40), memory.right - 40)
    return Rect(x - width / 2, memory.bottom - height - 8, width, height)


def _into(up: list[Point], buffer: Rect, aside: float = 0.0) -> list[Point]:
    """Go on from the processor's edge into a buffer."""
    *before, (x, y) = up
    end = buffer.middle + aside
    return [*before, (x, y), (end, y), (end, buffer.bottom)]


def _hop(layout: Layout, first: int | None, second: int | None, places: tuple[Rect, Rect]) -> Track:
    """Carry the message from buffer to buffer."""
    source, target = places
    y = source.y + source.height / 2
    towards = 1 if source.x < target.x else -1
    start = (source.right if towards > 0 else source.x, y)
    end = (target.x if towards > 0 else target.right, target.y + target.height / 2)
    between = _across(layout, (first, start), (second, end)) if first != second else []
    points = (start, *between, end)
    return Track(points, _middle(points))


def _track(points: list[Point], *, late: bool = False) -> Track:
    """A copy to or from the host: its number stands above the GPU, which is at the end if ``late``."""
    x, y = points[-1 if late else 0]
    return Track(tuple(points), (x, y - 29))


def _middle(points: tuple[Point, ...]) -> Point:
    """The middle of the longest part that runs across."""
    parts = pairwise(points)
    (x, y), (end, _) = max(parts, key=lambda part: abs(part[1][0] - part[0][0]))
    return (x + end) / 2, y
