"""The topology of a machine: processors, GPUs, network cards and their links, computed from facts by pure functions."""

# B/s keeps its capital letter in names.
# ruff: noqa: N815

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import msgspec

from volley.errors import MachineError, UserError
from volley.machine.facts import Facts, NumaFacts, PciPlace
from volley.machine.hardware import Gpu, NvLink
from volley.machine.line_rate import nvlink_bytes_per_s, pcie_bytes_per_s
from volley.machine.transports import ROUTES, TRANSPORTS, family_of
from volley.text import count, grouped, join_words
from volley.units import format_sig

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

    def gpu(self, number: int) -> PlacedGpu | None:
        return next((gpu for gpu in self.gpus if gpu.number == number), None)

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
    """Read the facts; what could not be captured is missing, and a note says so where it matters."""
    nodes, places = _nodes_and_places(facts)
    found = _gpus(facts, places, _on_a_node(PciPlace(kind="gpu", address=""), nodes))
    gpus = tuple(gpu for gpu, _ in found)
    cuda = facts.cuda.value
    nics = _nics([place for place in places.values() if place.kind == "nic"])
    if not nodes or None in [*(gpu.node for gpu in gpus), *(nic.node for nic in nics)]:
        nodes = (*nodes, NumaNode(number=None))
    return Topology(
        note=facts.note,
        nodes=nodes,
        gpus=gpus,
        nics=nics,
        nvlinks=nvlinks(found, places),
        nvswitches=sum(place.kind == "nvswitch" for place in places.values()),
        peers=tuple(map(tuple, cuda.peers)) if cuda and cuda.peers else None,
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
    topology, bus = facts.topology.value, facts.bus.value
    known = topology.nodes if topology else []
    cards = [] if topology or not bus else [PciPlace(kind="nic", address=name, names=[name]) for name in bus.infiniband]
    places = {place.address: place for place in (topology.places if topology else cards)}
    for each in bus.gpus if bus else []:
        places.setdefault(each.address, PciPlace(kind="gpu", address=each.address, numa_node=each.numa_node))
    numbers = sorted({place.numa_node for place in places.values() if place.numa_node is not None})
    order = sorted(node.number for node in known)
    nodes = tuple(
        NumaNode(
            number=node.number,
            package=node.package,
            cores=node.cores,
            threads_per_core=node.threads_per_core,
            memory_bytes=node.memory_bytes,
            distances=dict(zip(order, node.distances, strict=False)),
        )
        for node in [node for node in known if node.cores] or [NumaFacts(number=number) for number in numbers]
    )
    return nodes, _below_one_switch({address: _on_a_node(place, nodes) for address, place in places.items()})


def _on_a_node(place: PciPlace, nodes: Sequence[NumaNode]) -> PciPlace:
    """Put a device on a node that is drawn: as the firmware says, else by its cores, else the only one."""
    numbers = [node.number for node in nodes]
    near = [node.number for node in nodes if place.cores and node.cores == place.cores]
    only = numbers if len(numbers) == 1 else []
    found = place.numa_node if place.numa_node in numbers else next(iter([*near, *only]), None)
    return msgspec.structs.replace(place, numa_node=found)


def _below_one_switch(places: Mapping[str, PciPlace]) -> dict[str, PciPlace]:
    """Put all that is attached below one switch on one node: the first that is known."""
    tops = {address: (switches_above(place.bridges) or ("",))[0] for address, place in places.items()}
    nodes: dict[str, int] = {}
    for address, place in places.items():
        if tops[address] and place.numa_node is not None:
            nodes.setdefault(tops[address], place.numa_node)
    return {
        address: msgspec.structs.replace(place, numa_node=nodes.get(tops[address], place.numa_node))
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
    cuda = facts.cuda_devices
    nvml = facts.nvml.value.gpus if facts.nvml.value else []
    on_bus = [place for place in places.values() if place.kind == "gpu"]
    by_name = {name: each for each in nvml for name in (each.pci, each.uuid) if name}
    known: list[tuple[int, str, str, Gpu | None]]
    if cuda:
        known = [(each.index, each.name, each.pci, by_name.get(each.uuid) or by_name.get(each.pci)) for each in cuda]
    elif nvml:
        known = [(each.index, each.name or "", each.pci or "", each) for each in nvml]
    else:
        known = [(number, "", place.address, None) for number, place in enumerate(on_bus)]
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
        found.append((gpu, (device.nvlinks if device else None) or ()))
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
        rates = [nvlink_bytes_per_s(link) for link in links]
        known = [rate for rate in rates if rate]
        bundles.append(
            NvLinkBundle(
                gpu=number,
                end=end,
                links=len(links),
                version=versions.pop() if len(versions) == 1 else None,
                one_way_Bps=sum(known) if len(known) == len(rates) else None,
            )
        )
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


# ----------------------------------------------------------------------------------------------- the path of a message


@dataclass(frozen=True)
class Location:
    """A place of the message: a GPU's memory, or that of a NUMA node."""

    kind: Literal["gpu", "memory"]
    number: int | None

    @property
    def words(self) -> str:
        return f"GPU {self.number}" if self.kind == "gpu" else "CPU memory"


@dataclass(frozen=True)
class Hop:
    kind: Literal["copy", "mpi", "nvlink", "pcie"]
    """Between a GPU and its host; through MPI; from GPU to GPU over NVLink, or over PCIe."""
    start: Location
    end: Location
    by: str
    over: str = ""

    @property
    def words(self) -> str:
        crossing = f", over {self.over}" if self.over else ""
        return f"{self.start.words} → {self.end.words}: {self.by}{crossing}"


@dataclass(frozen=True)
class MessagePath:
    transport: str
    gpus: tuple[int, ...]
    hops: tuple[Hop, ...]

    @property
    def words(self) -> str:
        locations = [self.hops[0].start, *(hop.end for hop in self.hops)]
        return " → ".join(each.words for each in locations)

    @property
    def note(self) -> str:
        """What lines alone do not say."""
        if family_of(self.transport) != "aware":
            return ""
        if len(self.hops) > 1:
            return "these GPUs have no peer access: MPI must copy through the host"
        return "the hardware allows this path; volley doctor tests whether MPI uses it"


def path_of(topology: Topology, transport: str, numbers: Sequence[int] | None) -> MessagePath:
    """Return the path of a message."""
    if transport not in TRANSPORTS:
        null = ": it moves nothing" if transport == "null" else ""
        raise UserError(f"--transport: {transport!r} has no path to draw{null}; name {join_words(TRANSPORTS, 'or')}")
    family = family_of(transport)
    in_host_memory = family not in ROUTES
    if in_host_memory and not topology.gpus and numbers is None:
        memory = Location("memory", topology.nodes[0].number)
        return MessagePath(transport, (), (Hop("mpi", memory, memory, TRANSPORTS[transport]),))
    one, other = _pair(topology, transport, numbers)
    pair = (one.number, other.number)
    if in_host_memory:
        near_each = (Location("memory", one.node), Location("memory", other.node))
        return MessagePath(transport, pair, (Hop("mpi", *near_each, TRANSPORTS[transport]),))
    if family == "staged":
        return MessagePath(transport, pair, _staged(topology, transport, one, other))
    reached = topology.reaches(*pair)
    if reached is None:
        raise MachineError(
            f"{transport}: whether GPU {pair[0]} can access the memory of GPU {pair[1]} is unknown, because CUDA "
            "did not report it; staged needs no peer access"
        )
    if not reached and transport not in {"aware", "nccl"}:
        raise MachineError(
            f"{transport} has no path from GPU {pair[0]} to GPU {pair[1]}: they have no peer access; "
            "staged and aware go through the host"
        )
    if not reached:
        return MessagePath(transport, pair, _staged(topology, transport, one, other))
    links = topology.joined(*pair)
    start, end, by = Location("gpu", one.number), Location("gpu", other.number), TRANSPORTS[transport]
    direct = Hop("nvlink", start, end, by, links.words) if links else Hop("pcie", start, end, by, one.pcie)
    return MessagePath(transport, pair, (direct,))


def _pair(topology: Topology, transport: str, numbers: Sequence[int] | None) -> tuple[PlacedGpu, PlacedGpu]:
    known = [gpu.number for gpu in topology.gpus]
    if len(known) < 2:
        have = "one GPU" if known else "no GPU"
        raise MachineError(f"{transport} needs two GPUs, and there is {have}; leave --transport out to draw the rest")
    chosen = known[:2] if numbers is None else numbers
    if len(chosen) != 2 or len(set(chosen)) != 2:
        raise UserError("--gpus needs two different GPUs, e.g. --gpus 0,1")
    one, other = (topology.gpu(number) for number in chosen)
    if one is None or other is None:
        missing = next(number for number in chosen if number not in known)
        raise UserError(f"--gpus: there is no GPU {missing}; this machine has {join_words(map(str, known))}")
    return one, other


def _staged(topology: Topology, transport: str, one: PlacedGpu, other: PlacedGpu) -> tuple[Hop, ...]:
    """Go through the host: each rank's memory near its GPU, or one segment near the first."""
    shared = transport in {"staged/shared", "nccl"}
    by = {"aware": "MPI's own copy", "nccl": "NCCL's kernel"}.get(family_of(transport), TRANSPORTS[transport])
    first = Location("memory", one.node)
    second = first if shared else Location("memory", other.node)
    over = [links.words if (links := topology.to_host(gpu.number)) else gpu.pcie for gpu in (one, other)]
    out = Hop("copy", Location("gpu", one.number), first, by, over[0])
    back = Hop("copy", second, Location("gpu", other.number), by, over[1])
    if shared:
        return out, back
    inside = "inside MPI" if family_of(transport) == "aware" else TRANSPORTS["host"]
    return out, Hop("mpi", first, second, inside), back
