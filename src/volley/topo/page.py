"""The machine in words: the labels of the picture, and the page of a terminal, with a list and a matrix of the links.

This module escapes all text that comes from a machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from volley.text import count, escape_controls, grouped, join_words
from volley.topo.topology import Branch, MessagePath, Nic, NumaNode, PlacedGpu, Topology, short, tree
from volley.units import parse_cpulist


def title(topology: Topology) -> str:
    names = Counter(sorted(escape_controls(gpu.name) or "GPU" for gpu in topology.gpus))
    gpus = join_words(f"{times} × {name}" for name, times in names.items())
    known = sum(node.number is not None for node in topology.nodes)
    return (gpus or "no GPU") + (f", {count(known, 'NUMA node')}" if known else "")


def node_labels(node: NumaNode) -> tuple[str, str, str]:
    """Return a node's name, its CPUs and the size of its memory."""
    socket = "" if node.package is None else f"socket {node.package}, "
    name = "NUMA node unknown" if node.number is None else f"{socket}NUMA node {node.number}"
    cpus = f"CPUs {escape_controls(node.cores)}" if node.cores else "CPUs unknown"
    number, threads = sum(map(len, parse_cpulist(node.cores))), node.threads_per_core or 0
    if threads and number % threads == 0:
        cpus += f", {count(number // threads, 'core')}{f' × {threads}' if threads > 1 else ''}"
    return name, cpus, f"{short(node.memory_bytes / (1 << 30))} GiB" if node.memory_bytes else ""


def nic_labels(nic: Nic) -> tuple[str, ...]:
    """Return the lines of a network card: its names, or its address, and its rate."""
    rate = f"{nic.rate_bits_per_s / 1e9:g} Gb/s" if nic.rate_bits_per_s else ""
    names = (escape_controls(", ".join(each)) for each in (nic.names or (nic.address,), nic.other_names))
    return tuple(filter(None, (*names, rate)))


def nvlink_label(topology: Topology) -> str:
    """``NVLink 2.0``, or ``NVLink`` if the versions differ or are unknown."""
    versions = {links.version for links in topology.nvlinks}
    version = versions.pop() if len(versions) == 1 else None
    return f"NVLink {escape_controls(version)}" if version else "NVLink"


def pcie_label(topology: Topology) -> str:
    """Name the GPUs' PCIe links: one kind for all, or each kind with its GPUs."""
    found = grouped((gpu for gpu in topology.gpus if topology.to_host(gpu.number) is None), lambda gpu: gpu.pcie)
    if len(found) < 2:
        kind = next(iter(found), "PCIe")
        return kind if kind == "PCIe" else f"PCIe; the GPUs' links are {kind.removeprefix('PCIe ')} in one direction"
    each = (
        f"GPU {join_words(str(gpu.number) for gpu in gpus)} {kind.removeprefix('PCIe ')}"
        for kind, gpus in found.items()
    )
    return f"PCIe; {'; '.join(each)}"


def peer_label(topology: Topology) -> str:
    """Say which GPUs can access each other's memory; an empty text if that is unknown or there are no two GPUs."""
    pairs = list(combinations([gpu.number for gpu in topology.gpus], 2))
    if topology.peers is None or not pairs:
        return ""
    reach = [f"{one}–{other}" for one, other in pairs if topology.reaches(one, other)]
    if len(reach) == len(pairs):
        return "peer access between all GPUs"
    return f"peer access only between GPUs {join_words(reach)}" if reach else "no peer access between GPUs"


# --------------------------------------------------------------------------------------------------- the page

_MEANINGS = {
    "NVLink": "direct NVLinks between the two, and how many",
    "NVSwitch": "NVLinks of both into NVSwitches",
    "switch": "a PCIe switch above both",
    "node": "the processor of one NUMA node",
    "nodes": "from one NUMA node to another",
    "*": "no peer access: CUDA copies through host memory",
}


def page(topology: Topology, path: MessagePath | None = None) -> str:
    lines = [title(topology)]
    for node in topology.nodes:
        name, cpus, size = node_labels(node)
        lines.append(f"  {name}: {', '.join(filter(None, [cpus, size and f'{size} of memory']))}")
        lines += _branch(topology, tree(topology, node), "    ")
    if len(topology.devices) > 1:
        lines += ["", *_matrix(topology)]
    if peers := peer_label(topology):
        lines += ["", peers]
    if path:
        lines += ["", f"{path.transport}: {path.words}"]
        lines += [f"  {number}  {hop.words}" for number, hop in enumerate(path.hops, 1)]
        lines += [f"  {path.note}"] if path.note else []
    lines += ["", *map(escape_controls, topology.notes)] if topology.notes else []
    return "\n".join(lines) + "\n"


def _branch(topology: Topology, branch: Branch, indent: str) -> Iterator[str]:
    for gpu in branch.gpus:
        # Links that lead to a single GPU stand in the matrix.
        links = [each for each in topology.nvlinks if each.gpu == gpu.number and not isinstance(each.end, int)]
        bundles = "; ".join(each.words + (" to the processor" if each.end == "host" else "") for each in links)
        words = [f"GPU {gpu.number}", escape_controls(gpu.name), escape_controls(gpu.address), gpu.pcie, bundles]
        yield indent + "  ".join(filter(None, words))
    for each in branch.switches:
        yield f"{indent}PCIe switch {escape_controls(each.path[-1])}"
        yield from _branch(topology, each, indent + "  ")
    for nic in branch.nics:
        yield f"{indent}NIC  {'  '.join(dict.fromkeys([*nic_labels(nic), escape_controls(nic.address)]))}"


def _matrix(topology: Topology) -> Iterator[str]:
    devices = topology.devices
    names = [
        f"GPU {each.number}" if isinstance(each, PlacedGpu) else nic_labels(each)[0].partition(",")[0]
        for each in devices
    ]
    rows = [[_cell(topology, one, other) for other in devices] for one in devices]
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


def _cell(topology: Topology, one: PlacedGpu | Nic, other: PlacedGpu | Nic) -> str:
    if one is other:
        return "-"
    star = ""
    if isinstance(one, PlacedGpu) and isinstance(other, PlacedGpu):
        links = topology.joined(one.number, other.number)
        if links:
            return f"NVLink {links.links}" if links.end != "switch" else "NVSwitch"
        star = "*" if topology.reaches(one.number, other.number) is False else ""
    if one.node != other.node:
        return f"nodes{star}"
    shared = one.switches[:1] and one.switches[:1] == other.switches[:1]
    return f"switch{star}" if shared else f"node{star}"
