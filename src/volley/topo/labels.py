"""The labels of picture and page.  This module escapes all text that comes from a machine."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from volley.grouping import grouped
from volley.text import count, escape_controls, join_words
from volley.topo.topology import Nic, NumaNode, Topology, short
from volley.units import parse_cpulist


def title(topology: Topology) -> str:
    names = Counter(sorted(escape_controls(gpu.name) or "GPU" for gpu in topology.gpus))
    gpus = join_words(f"{times} × {name}" for name, times in names.items())
    known = sum(node.number is not None for node in topology.nodes)
    return (gpus or "no GPU") + (f", {count(known, 'NUMA node')}" if known else "")


def node_labels(node: NumaNode) -> tuple[str, str, str]:
    """Return a node's name, its CPUs and the size of its memory."""
    socket = "" if node.package is None else f"socket {node.package}, "
    name = "NUMA node not known" if node.number is None else f"{socket}NUMA node {node.number}"
    cpus = f"CPUs {escape_controls(node.cores)}" if node.cores else "CPUs not known"
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
        return kind if kind == "PCIe" else f"PCIe; the GPUs' links are {kind.removeprefix('PCIe ')} one direction"
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
    return f"peer access: {join_words(reach)} only" if reach else "no GPU has peer access to another"
