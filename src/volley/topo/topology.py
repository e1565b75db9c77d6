"""The topology of a machine: processors, GPUs, network cards, their links, and its words; all computed from facts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Literal

import msgspec

from volley.machine.facts import Facts, NumaFacts, PciPlace
from volley.machine.hardware import Gpu, NvLink
from volley.machine.line_rate import nvlink_bytes_per_s, pcie_bytes_per_s
from volley.text import count, escape_controls, grouped, join_words
from volley.units import format_sig, parse_cpulist

LinkEnd = int | Literal["switch", "host", "hidden"]
"""What an NVLink leads to: the GPU of a number, NVSwitches, a processor, or something that was not shown."""


def short(value: float) -> str:
    """Return a number with one decimal, and that only if it is not 0: ``50``, ``478.1``."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, kw_only=True)
class NumaNode:
    number: int | None
    """``None``: the firmware does not say where its devices hang."""
    package: int | None = None
    cores: str = ""
    """Its CPUs as Linux numbers them: ``0-19,40-59``."""
    threads_per_core: int | None = None
    memory_bytes: int | None = None
    distances: Mapping[int, int] | None = None
    """To the other nodes, by number; 10: as near as its own memory (ACPI's SLIT)."""


@dataclass(frozen=True, kw_only=True)
class PlacedGpu:
    """A GPU, numbered as CUDA does, and where it is attached."""

    number: int
    name: str
    address: str
    node: int | None
    switches: tuple[str, ...] = ()
    """PCIe switches above it, from the processor down, by the address of their upstream port."""
    pcie_generation: int | None = None
    pcie_width: int | None = None

    @property
    def pcie(self) -> str:
        """Its PCIe link: ``PCIe 5.0 x16, 63.02 GB/s``; just ``PCIe`` where more is not known."""
        rate = pcie_bytes_per_s(self.pcie_generation or 0, self.pcie_width or 0)
        if rate is None:
            return "PCIe"
        return f"PCIe {self.pcie_generation}.0 x{self.pcie_width}, {format_sig(rate / 1e9)} GB/s"


@dataclass(frozen=True, kw_only=True)
class Nic:
    """A network card: all functions of one slot."""

    names: tuple[str, ...]
    other_names: tuple[str, ...]
    address: str
    node: int | None
    switches: tuple[str, ...] = ()
    rate_bits_per_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class NvLinkBundle:
    """All NVLinks that lead from a GPU to one other end."""

    gpu: int
    end: LinkEnd
    links: int
    version: str | None = None
    one_way_Bps: float | None = None
    """All of them together, line rate."""

    @property
    def rate(self) -> str:
        return f"{short(self.one_way_Bps / 1e9)} GB/s" if self.one_way_Bps else ""

    @property
    def each(self) -> str:
        if not self.one_way_Bps:
            return count(self.links, "link")
        return f"{self.links} × {short(self.one_way_Bps / self.links / 1e9)} GB/s"

    @property
    def words(self) -> str:
        """``2 × NVLink 2.0, 50 GB/s``; ``18 × NVLink 4.0 through NVSwitch, 478.1 GB/s``."""
        kind = f"{self.links} × NVLink{f' {self.version}' if self.version else ''}"
        kind += " through NVSwitch" if self.end == "switch" else ""
        return f"{kind}, {self.rate}" if self.rate else kind


@dataclass(frozen=True, kw_only=True)
class Topology:
    note: str
    nodes: tuple[NumaNode, ...]
    gpus: tuple[PlacedGpu, ...]
    nics: tuple[Nic, ...]
    nvlinks: tuple[NvLinkBundle, ...]
    """A pair's links stand here once, under the lower number."""
    nvswitches: int
    """NVSwitches on the PCI bus; a virtual machine may not see them."""
    peers: tuple[tuple[bool, ...], ...] | None
    """Row can access column's memory, in the order of ``gpus``; ``None``: CUDA did not say."""
    notes: tuple[str, ...]

    @property
    def devices(self) -> tuple[PlacedGpu | Nic, ...]:
        return (*self.gpus, *self.nics)

    def reaches(self, one: int, other: int) -> bool | None:
        """Return whether two GPUs can access each other's memory; ``None``: not known."""
        if self.peers is None:
            return None
        order = [gpu.number for gpu in self.gpus]
        row, column = order.index(one), order.index(other)
        return self.peers[row][column] and self.peers[column][row]

    def joined(self, one: int, other: int) -> NvLinkBundle | None:
        """Return the NVLinks between two GPUs, or those of the first into what joins both; ``None``: there are none."""
        bundles = {(each.gpu, each.end): each for each in self.nvlinks}
        direct = bundles.get((min(one, other), max(one, other)))
        if direct:
            return direct
        if (one, "switch") in bundles and (other, "switch") in bundles:
            return min(bundles[one, "switch"], bundles[other, "switch"], key=lambda each: each.links)
        if self.reaches(one, other) and (one, "hidden") in bundles and (other, "hidden") in bundles:
            return bundles[one, "hidden"]
        return None

    def to_host(self, number: int) -> NvLinkBundle | None:
        """Return the NVLinks between a GPU and its processor."""
        return next((each for each in self.nvlinks if (each.gpu, each.end) == (number, "host")), None)


def topology_of(facts: Facts) -> Topology:
    nodes, places = _nodes_and_places(facts)
    # A GPU that the bus does not show is on the only node, if there is one.
    nowhere = PciPlace(kind="gpu", address="", numa_node=nodes[0].number if len(nodes) == 1 else None)
    found = _gpus(facts, places, nowhere)
    gpus = tuple(gpu for gpu, _ in found)
    nics = _nics([place for place in places.values() if place.kind == "nic"])
    if not nodes or None in [*(gpu.node for gpu in gpus), *(nic.node for nic in nics)]:
        nodes = (*nodes, NumaNode(number=None))
    peers = facts.cuda.value.peers if facts.cuda.value else []
    return Topology(
        note=facts.note,
        nodes=nodes,
        gpus=gpus,
        nics=nics,
        nvlinks=nvlinks(found, places),
        nvswitches=sum(place.kind == "nvswitch" for place in places.values()),
        peers=tuple(map(tuple, peers)) or None,
        notes=tuple(_notes(facts, gpus, places)),
    )


def _notes(facts: Facts, gpus: Sequence[PlacedGpu], places: Mapping[str, PciPlace]) -> Iterator[str]:
    if not gpus:
        yield "neither CUDA, NVML nor the PCI bus shows a GPU"
    elif not facts.cuda_devices:
        yield "CUDA shows no device: peer access is unknown"
    unseen = sum(place.kind == "gpu" for place in places.values()) - len({gpu.address for gpu in gpus})
    if gpus and unseen > 0:
        yield f"{count(unseen, 'GPU')} on the PCI bus not shown by CUDA"
    if facts.nvml.value is None and gpus:
        yield f"NVML does not answer, so NVLinks are missing ({facts.nvml.error or facts.nvml.skipped})"
    if facts.topology.value is None:
        yield f"CPUs and PCIe switches are missing ({facts.topology.error or facts.topology.skipped})"


# ------------------------------------------------------------------------------------------ nodes and the PCI tree


def _nodes_and_places(facts: Facts) -> tuple[tuple[NumaNode, ...], dict[str, PciPlace]]:
    """Return the NUMA nodes that have cores, and GPUs and cards by address, each on one of these nodes if possible."""
    topology = facts.topology.value
    known = topology.nodes if topology else []
    cards = (PciPlace(kind="nic", address=name, names=[name]) for name in facts.rdma_devices)
    places = {place.address: place for place in (topology.places if topology else cards)}
    for each in facts.gpus_on_bus:
        places.setdefault(each.address, PciPlace(kind="gpu", address=each.address, numa_node=each.numa_node))
    of_places = sorted({place.numa_node for place in places.values() if place.numa_node is not None})
    order = sorted(node.number for node in known)
    nodes = tuple(
        NumaNode(**{**msgspec.structs.asdict(node), "distances": dict(zip(order, node.distances, strict=False))})
        for node in [node for node in known if node.cores] or [NumaFacts(number=number) for number in of_places]
    )
    # Each device is on a node as the firmware says, else by the cores near it, else on the only one.
    numbers = [node.number for node in nodes]
    by_cores = {node.cores: node.number for node in reversed(nodes) if node.cores}
    only = numbers[0] if len(numbers) == 1 else None
    below: dict[str, int] = {}
    for address, place in places.items():
        node = place.numa_node if place.numa_node in numbers else by_cores.get(place.cores, only)
        places[address] = msgspec.structs.replace(place, numa_node=node)
        if place.bridges[1:] and node is not None:
            below.setdefault(place.bridges[1], node)
    # All below one switch is on one node: the first that is known.
    tops = {address: "".join(place.bridges[1:2]) for address, place in places.items()}
    return nodes, {
        address: msgspec.structs.replace(place, numa_node=below.get(tops[address], place.numa_node))
        for address, place in places.items()
    }


def switches_above(bridges: Sequence[str]) -> tuple[str, ...]:
    """Return the PCIe switches among the bridges above a device, from the root down.

    A root port comes first; each switch then has two bridges on the path, its upstream and a downstream port.  Source:
    PCI-SIG, PCI Express Base Specification, 1.3.3 (a switch appears as two or more logical PCI-to-PCI bridges).

    >>> switches_above(["0000:16:02.0", "0000:17:00.0", "0000:18:08.0"])
    ('0000:17:00.0',)
    """
    return tuple(bridges[1::2])


def _nics(places: Sequence[PciPlace]) -> tuple[Nic, ...]:
    """Put the functions of a card together: their addresses differ in what follows the point."""
    cards = grouped(places, lambda place: place.address.partition(".")[0])
    return tuple(
        Nic(
            names=tuple(name for place in card for name in place.names[:1]),
            other_names=tuple(name for place in card for name in place.names[1:]),
            address=card[0].address,
            node=card[0].numa_node,
            switches=switches_above(card[0].bridges),
            rate_bits_per_s=card[0].rate_bits_per_s,
        )
        for card in cards.values()
    )


def _gpus(facts: Facts, places: Mapping[str, PciPlace], nowhere: PciPlace) -> list[tuple[PlacedGpu, Sequence[NvLink]]]:
    """Return the GPUs and their NVLinks, under the numbers of CUDA; else of NVML, else in the order of the bus.

    Generation and width of PCIe are those under load, else what NVML has at most, else what the device can do.
    ``nowhere`` stands for the place of a GPU that the bus does not show.
    """
    nvml = facts.gpus
    by_name = {name: each for each in nvml for name in (each.pci, each.uuid) if name}
    known: list[tuple[int, str, str, Gpu | None]] = [
        (each.index, each.name, each.pci, by_name.get(each.uuid) or by_name.get(each.pci))
        for each in facts.cuda_devices
    ]
    known = known or [(each.index, each.name or "", each.pci or "", each) for each in nvml]
    on_bus = [place.address for place in places.values() if place.kind == "gpu"]
    known = known or [(number, "", address, None) for number, address in enumerate(on_bus)]
    loaded = {link.pci: link for link in facts.pcie_load.value or []}
    listed = {gpu.address: gpu for gpu in facts.gpus_on_bus}
    found: list[tuple[PlacedGpu, Sequence[NvLink]]] = []
    for number, name, address, device in known:
        place, link, pci = places.get(address, nowhere), loaded.get(address), listed.get(address)
        generation = (link and link.generation) or (device and device.pcie_generation_max)
        width = (link and link.width) or (device and device.pcie_width)
        gpu = PlacedGpu(
            number=number,
            name=name,
            address=address,
            node=place.numa_node,
            switches=switches_above(place.bridges),
            pcie_generation=generation or (pci.generation_max if pci else None),
            pcie_width=width or (pci.width_max if pci else None),
        )
        found.append((gpu, (device and device.nvlinks) or ()))
    return found


def nvlinks(
    found: Sequence[tuple[PlacedGpu, Sequence[NvLink]]], places: Mapping[str, PciPlace] = MappingProxyType({})
) -> tuple[NvLinkBundle, ...]:
    """Gather the links that are up by what they lead to; those between two GPUs once, at the lower number."""
    numbers = {gpu.address: gpu.number for gpu, _ in found}
    gathered: dict[tuple[int, LinkEnd], list[NvLink]] = defaultdict(list)
    for gpu, links in found:
        for link in links:
            end = _end(link, numbers, places)
            if not (isinstance(end, int) and end < gpu.number):
                gathered[gpu.number, end].append(link)
    bundles = []
    for (number, end), links in gathered.items():
        versions = {link.version for link in links}
        rates = [nvlink_bytes_per_s(link) or 0.0 for link in links]
        version = versions.pop() if len(versions) == 1 else None
        total = sum(rates) if all(rates) else None
        bundles.append(NvLinkBundle(gpu=number, end=end, links=len(links), version=version, one_way_Bps=total))
    return tuple(bundles)


def _end(link: NvLink, numbers: Mapping[str, int], places: Mapping[str, PciPlace]) -> LinkEnd:
    remote = link.remote_pci or ""
    if remote in numbers:
        return numbers[remote]
    place = places.get(remote)
    if link.remote == "switch" or (place and place.kind == "nvswitch"):
        return "switch"
    return "host" if link.remote == "other" else "hidden"


@dataclass(frozen=True)
class Branch:
    """A PCIe switch, or a NUMA node's root complex, and what is attached to it."""

    path: tuple[str, ...]
    switches: Sequence[Branch]
    gpus: Sequence[PlacedGpu]
    nics: Sequence[Nic]


def tree(topology: Topology, node: NumaNode) -> Branch:
    return _branch((), [each for each in topology.devices if each.node == node.number])


def _branch(path: tuple[str, ...], devices: Sequence[PlacedGpu | Nic]) -> Branch:
    """Put devices that are below one switch on it, or on the switches below it."""
    below: dict[tuple[str, ...], list[PlacedGpu | Nic]] = defaultdict(list)
    for device in devices:
        below[device.switches[: len(path) + 1]].append(device)
    here = below.pop(path, [])
    gpus = [each for each in here if isinstance(each, PlacedGpu)]
    nics = [each for each in here if isinstance(each, Nic)]
    return Branch(path, [_branch(*each) for each in below.items()], gpus, nics)


# ------------------------------------------------------------------------------------------------------ in words
# All text that comes from a machine is escaped here.


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
        f"GPU{'s' * (len(gpus) > 1)} {join_words(str(gpu.number) for gpu in gpus)} {kind.removeprefix('PCIe ')}"
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
