"""The machine for a terminal: what hangs where, as a list, and how each pair is joined, as a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley.text import harmless
from volley.topo.layout import Branch, tree
from volley.topo.machine import Gpu, Machine, Nic
from volley.topo.way import Way
from volley.topo.words import card_words, node_words, peer_words, title

_MEANINGS = {
    "NVLink": "NVLinks straight between the two, and how many",
    "NVSwitch": "NVLinks of both into NVSwitches",
    "switch": "a PCIe switch above both",
    "node": "the processor of one NUMA node",
    "nodes": "from one NUMA node to another",
    "*": "no peer access: CUDA copies through host memory",
}


def page(machine: Machine, way: Way | None = None) -> str:
    """Return all of it."""
    lines = [title(machine), *_nodes(machine)]
    if len(machine.devices) > 1:
        lines += ["", *_matrix(machine)]
    if peers := peer_words(machine):
        lines += ["", peers]
    if way:
        lines += ["", f"{way.transport}: {way.words}"]
        lines += [f"  {number}  {step.words}" for number, step in enumerate(way.steps, 1)]
        lines += [f"  {way.remark}"] if way.remark else []
    lines += ["", *map(harmless, machine.remarks)] if machine.remarks else []
    return "\n".join(lines) + "\n"


def _nodes(machine: Machine) -> Iterator[str]:
    for node in machine.nodes:
        name, cores, size = node_words(node)
        yield f"  {name}: {', '.join(filter(None, [cores, size and f'{size} of memory']))}"
        yield from _branch(machine, tree(machine, node), "    ")


def _branch(machine: Machine, branch: Branch, indent: str) -> Iterator[str]:
    for gpu in branch.gpus:
        links = "; ".join(_bundle(machine, gpu))
        words = [f"GPU {gpu.number}", harmless(gpu.name), harmless(gpu.address), gpu.pcie, links]
        yield indent + "  ".join(filter(None, words))
    for each in branch.switches:
        yield f"{indent}PCIe switch {harmless(each.path[-1])}"
        yield from _branch(machine, each, indent + "  ")
    for nic in branch.nics:
        yield f"{indent}NIC  {'  '.join(dict.fromkeys([*card_words(nic), harmless(nic.address)]))}"


def _bundle(machine: Machine, gpu: Gpu) -> Iterator[str]:
    """Yield the links that do not lead to a single GPU: those stand in the matrix."""
    for links in machine.nvlinks:
        if links.gpu == gpu.number and links.end == "host":
            yield f"{links.words} to the processor"
        elif links.gpu == gpu.number and not isinstance(links.end, int):
            yield links.words


# ------------------------------------------------------------------------------------------------------ matrix


def _matrix(machine: Machine) -> Iterator[str]:
    """Yield a row a device and, below, what the cells mean."""
    devices = machine.devices
    names = [f"GPU {each.number}" if isinstance(each, Gpu) else _first_name(each) for each in devices]
    rows = [[_cell(machine, one, other) for other in devices] for one in devices]
    first = max(map(len, names))
    widths = [max(len(name), *(len(row[at]) for row in rows)) for at, name in enumerate(names)]
    yield _row("", names, first, widths)
    for name, row in zip(names, rows, strict=True):
        yield _row(name, row, first, widths)
    used = " ".join(cell for row in rows for cell in row).replace("*", " * ").split()
    yield ""
    yield from (f"  {word:8}  {meaning}" for word, meaning in _MEANINGS.items() if word in used)


def _row(name: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> str:
    padded = (f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"  {name:{first}}  {'  '.join(padded)}".rstrip()


def _first_name(nic: Nic) -> str:
    return card_words(nic)[0].partition(",")[0]


def _cell(machine: Machine, one: Gpu | Nic, other: Gpu | Nic) -> str:
    """Say how two devices are joined, by the best that joins them."""
    if one is other:
        return "-"
    star = ""
    if isinstance(one, Gpu) and isinstance(other, Gpu):
        links = machine.joined(one.number, other.number)
        if links:
            return f"NVLink {links.links}" if links.end != "switch" else "NVSwitch"
        star = "*" if machine.reaches(one.number, other.number) is False else ""
    if one.node != other.node:
        return f"nodes{star}"
    shared = one.switches[:1] and one.switches[:1] == other.switches[:1]
    return f"switch{star}" if shared else f"node{star}"
