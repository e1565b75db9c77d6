"""What picture and page call things.  Everything that a machine said is made harmless here."""

from __future__ import annotations

from itertools import combinations

from volley.text import count, harmless, several
from volley.topo.machine import Machine, Nic, Node, short
from volley.topo.way import Way

_GIB = 1 << 30


def title(machine: Machine) -> str:
    """``6 × Tesla V100-SXM2-16GB, 2 NUMA nodes``."""
    names = sorted({harmless(gpu.name) or "GPU" for gpu in machine.gpus})
    gpus = [f"{sum((harmless(gpu.name) or 'GPU') == name for gpu in machine.gpus)} × {name}" for name in names]
    known = sum(node.number is not None for node in machine.nodes)
    return (several(gpus) or "no GPU") + (f", {count(known, 'NUMA node')}" if known else "")


def described(machine: Machine, way: Way | None) -> str:
    """The picture in one sentence, for those who hear it."""
    return f"{title(machine)}; {way.transport}: {way.words}" if way else title(machine)


def node_words(node: Node) -> tuple[str, str, str]:
    """Return a node's name, its cores and the size of its memory."""
    socket = "" if node.package is None else f"socket {node.package}, "
    name = "NUMA node not known" if node.number is None else f"{socket}NUMA node {node.number}"
    cores = f"cores {harmless(node.cores)}" if node.cores else "cores not known"
    return name, cores, f"{short(node.memory_bytes / _GIB)} GiB" if node.memory_bytes else ""


def card_words(nic: Nic) -> tuple[str, ...]:
    """Return the lines of a network card: its names, or its address, and its rate."""
    rate = f"{nic.rate_bits_per_s / 1e9:g} Gb/s" if nic.rate_bits_per_s else ""
    names = (harmless(", ".join(each)) for each in (nic.names or (nic.address,), nic.other_names))
    return tuple(filter(None, (*names, rate)))


def link_kinds(machine: Machine) -> str:
    """``NVLink 2.0``, or ``NVLink`` where the versions differ or are not known."""
    versions = {links.version for links in machine.nvlinks}
    version = versions.pop() if len(versions) == 1 else None
    return f"NVLink {harmless(version)}" if version else "NVLink"


def pcie_kinds(machine: Machine) -> str:
    """Name the GPUs' PCIe links: one kind for all, or each kind with its GPUs."""
    found: dict[str, list[str]] = {}
    for gpu in machine.gpus:
        if machine.to_host(gpu.number) is None:
            found.setdefault(gpu.pcie, []).append(str(gpu.number))
    if len(found) < 2:
        kind = next(iter(found), "PCIe")
        return kind if kind == "PCIe" else f"PCIe; the GPUs' links are {kind.removeprefix('PCIe ')} one direction"
    each = (f"GPU {several(numbers)} {kind.removeprefix('PCIe ')}" for kind, numbers in found.items())
    return f"PCIe; {'; '.join(each)}"


def peer_words(machine: Machine) -> str:
    """Say which GPUs can access each other's memory; nothing where it is not known or there are no two."""
    numbers = [gpu.number for gpu in machine.gpus]
    pairs = list(combinations(numbers, 2))
    if machine.peers is None or not pairs:
        return ""
    reach = [f"{one}–{other}" for one, other in pairs if machine.reaches(one, other)]
    if len(reach) == len(pairs):
        return "peer access between all GPUs"
    return f"peer access: {several(reach)} only" if reach else "no GPU has peer access to another"
