"""What is drawn: processors, GPUs, network cards and what joins them, as the facts tell it.  Pure functions."""

# B/s keeps its capital letter in names.
# ruff: noqa: N815

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from volley.doctor.facts import CudaDevice, Facts, NumaNode, NvLink, NvmlDevice, PciPlace
from volley.machine.line_rate import NOMINAL_BYTES_PER_S, pcie_bytes_per_s
from volley.machine.nvml import LINK_VERSIONS
from volley.text import count, digits


def short(value: float) -> str:
    """Return a number with one decimal, and that only if it is not 0: ``50``, ``478.1``."""
    return f"{value:.1f}".removesuffix(".0")


End = int | Literal["switch", "host", "hidden"]
"""What an NVLink leads to: the GPU of a number, NVSwitches, a processor, or something that was not shown."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A NUMA node with cores."""

    number: int | None
    """``None``: the firmware does not say where its devices hang."""
    package: int | None = None
    """Its socket."""
    cores: str = ""
    memory_bytes: int | None = None
    distances: dict[int, int] | None = None
    """To the other nodes, by number; 10: as near as its own memory (ACPI's SLIT)."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU, numbered as CUDA does."""

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
        return f"PCIe {self.pcie_generation}.0 x{self.pcie_width}, {digits(rate / 1e9)} GB/s"


@dataclass(frozen=True, kw_only=True)
class Nic:
    """A network card: all functions of one slot."""

    names: tuple[str, ...]
    """What its functions are called first: ``mlx5_0``, ``mlx5_1``."""
    other_names: tuple[str, ...]
    address: str
    """Of its first function."""
    node: int | None
    switches: tuple[str, ...] = ()
    rate_bits_per_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class NvLinks:
    """All NVLinks that lead from a GPU to one other end."""

    gpu: int
    end: End
    links: int
    version: str | None = None
    one_way_Bps: float | None = None
    """All of them together, line rate."""

    @property
    def rate(self) -> str:
        """``50 GB/s``, or nothing where it is not known."""
        return f"{short(self.one_way_Bps / 1e9)} GB/s" if self.one_way_Bps else ""

    @property
    def words(self) -> str:
        """``2 × NVLink 2.0, 50 GB/s``; ``18 × NVLink 4.0 through NVSwitch, 478.1 GB/s``."""
        kind = f"{self.links} × NVLink{f' {self.version}' if self.version else ''}"
        kind += " through NVSwitch" if self.end == "switch" else ""
        return f"{kind}, {self.rate}" if self.rate else kind


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Everything that a picture shows."""

    note: str
    nodes: tuple[Node, ...]
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    nvlinks: tuple[NvLinks, ...]
    """A pair's links stand here once, under the lower number."""
    nvswitches: int
    """NVSwitches on the PCI bus; a virtual machine may not see them."""
    peers: tuple[tuple[bool, ...], ...] | None
    """Row can access column's memory, in the order of ``gpus``; ``None``: CUDA did not say."""
    remarks: tuple[str, ...]

    @property
    def devices(self) -> tuple[Gpu | Nic, ...]:
        """GPUs and network cards."""
        return (*self.gpus, *self.nics)

    def gpu(self, number: int) -> Gpu | None:
        """Return the GPU of this number."""
        return next((gpu for gpu in self.gpus if gpu.number == number), None)

    def reaches(self, one: int, other: int) -> bool | None:
        """Tell whether one GPU can access the other's memory and back; ``None``: not known."""
        if self.peers is None:
            return None
        order = [gpu.number for gpu in self.gpus]
        row, column = order.index(one), order.index(other)
        return self.peers[row][column] and self.peers[column][row]

    def joined(self, one: int, other: int) -> NvLinks | None:
        """Return the NVLinks between two GPUs, or those of the first into what joins both; ``None``: there are none."""
        low, high = sorted((one, other))
        for each in self.nvlinks:
            if (each.gpu, each.end) == (low, high):
                return each
        ways = {(each.gpu, each.end): each for each in self.nvlinks}
        if (one, "switch") in ways and (other, "switch") in ways:
            return min(ways[one, "switch"], ways[other, "switch"], key=lambda each: each.links)
        if self.reaches(one, other) and (one, "hidden") in ways and (other, "hidden") in ways:
            return ways[one, "hidden"]
        return None

    def to_host(self, number: int) -> NvLinks | None:
        """Return the NVLinks between a GPU and its processor."""
        return next((each for each in self.nvlinks if (each.gpu, each.end) == (number, "host")), None)


def machine_of(facts: Facts) -> Machine:
    """Read the facts; what could not be captured is missing, and a remark says so where it matters."""
    nodes, places = _nodes_and_places(facts)
    shown = _gpus(facts, places, _settled(PciPlace(kind="gpu", address=""), nodes))
    gpus = tuple(_gpu(facts, number, cuda, nvml, place) for number, cuda, nvml, place in shown)
    cuda = facts.cuda.value
    whole = cuda is not None and len(cuda.devices) == len(gpus) == len(cuda.peers) and gpus
    nics = _nics([place for place in places.values() if place.kind == "nic"])
    everywhere = {gpu.node for gpu in gpus} | {nic.node for nic in nics}
    if not nodes or None in everywhere:
        nodes = (*nodes, Node(number=None))
    return Machine(
        note=facts.note,
        nodes=nodes,
        gpus=gpus,
        nics=nics,
        nvlinks=_nvlinks(gpus, [(number, nvml) for number, _, nvml, _ in shown], places),
        nvswitches=sum(place.kind == "nvswitch" for place in places.values()),
        peers=tuple(map(tuple, cuda.peers)) if cuda and whole else None,
        remarks=tuple(_remarks(facts, gpus, places)),
    )


def _remarks(facts: Facts, gpus: Sequence[Gpu], places: dict[str, PciPlace]) -> list[str]:
    found = []
    if not gpus:
        found.append("there is no GPU that CUDA, NVML or the PCI bus shows")
    elif facts.cuda.value is None or not facts.cuda.value.devices:
        found.append("CUDA shows no device: who reaches whose memory is not known")
    unseen = sum(place.kind == "gpu" for place in places.values()) - len({gpu.address for gpu in gpus})
    if gpus and unseen > 0:
        found.append(f"{count(unseen, 'GPU')} on the PCI bus not shown by CUDA")
    if facts.nvml.value is None and gpus:
        found.append(f"NVML said nothing, so NVLinks are missing ({facts.nvml.error or facts.nvml.skipped})")
    if facts.topology.value is None:
        lost = facts.topology.error or facts.topology.skipped
        found.append(f"cores and PCIe switches are missing ({lost})")
    return found


# ------------------------------------------------------------------------------------------ nodes and the PCI tree


def _nodes_and_places(facts: Facts) -> tuple[tuple[Node, ...], dict[str, PciPlace]]:
    """Return the NUMA nodes that have cores, and GPUs and cards by address, each with its node settled."""
    topology, bus = facts.topology.value, facts.bus.value
    if topology is not None:
        known, places = topology.nodes, topology.places
    else:
        cards = [PciPlace(kind="nic", address=name, names=[name]) for name in (bus.infiniband if bus else [])]
        known, places = [], cards
    listed = {place.address: place for place in places}
    for each in bus.gpus if bus else []:
        listed.setdefault(each.address, PciPlace(kind="gpu", address=each.address, numa_node=each.numa_node))
    numbers = sorted({place.numa_node for place in listed.values() if place.numa_node is not None})
    with_cores = [node for node in known if node.cores] or [NumaNode(number=number) for number in numbers]
    order = sorted(node.number for node in known)
    nodes = tuple(
        Node(
            number=node.number,
            package=node.package,
            cores=node.cores,
            memory_bytes=node.memory_bytes,
            distances=dict(zip(order, node.distances, strict=False)),
        )
        for node in with_cores
    )
    return nodes, _below_one_switch({address: _settled(place, nodes) for address, place in listed.items()})


def _settled(place: PciPlace, nodes: Sequence[Node]) -> PciPlace:
    """Put a device on a node that is drawn: as the firmware says, else by its cores, else the only one."""
    numbers = [node.number for node in nodes]
    near = [node.number for node in nodes if place.cores and node.cores == place.cores]
    only = numbers if len(numbers) == 1 else []
    found = place.numa_node if place.numa_node in numbers else next(iter([*near, *only]), None)
    return msgspec.structs.replace(place, numa_node=found)


def _below_one_switch(places: dict[str, PciPlace]) -> dict[str, PciPlace]:
    """Put all that hangs below one switch on one node: the first that is known."""
    nodes: dict[str, int] = {}
    for place in places.values():
        for switch in switches_above(place.bridges)[:1]:
            if place.numa_node is not None:
                nodes.setdefault(switch, place.numa_node)
    return {
        address: msgspec.structs.replace(place, numa_node=nodes.get(switch, place.numa_node))
        for address, place in places.items()
        for switch in (switches_above(place.bridges) or ("",))[:1]
    }


def switches_above(bridges: Sequence[str]) -> tuple[str, ...]:
    """Return the PCIe switches among the bridges above a device, from the root down.

    A root port comes first; each switch then has two bridges in the way, its upstream and a downstream port.  Source:
    PCI-SIG, PCI Express Base Specification, 1.3.3 (a switch appears as two or more logical PCI-to-PCI bridges).

    >>> switches_above(["0000:16:02.0", "0000:17:00.0", "0000:18:08.0"])
    ('0000:17:00.0',)
    """
    return tuple(bridges[1::2])


def _nics(places: Sequence[PciPlace]) -> tuple[Nic, ...]:
    """Put the functions of a card together: their addresses differ in what follows the point."""
    cards: dict[str, list[PciPlace]] = defaultdict(list)
    for place in places:
        cards[place.address.partition(".")[0]].append(place)
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


# ------------------------------------------------------------------------------------------------------- GPUs

_Shown = tuple[int, CudaDevice | None, NvmlDevice | None, PciPlace]


def _gpus(facts: Facts, places: dict[str, PciPlace], lone: PciPlace) -> list[_Shown]:
    """Return the GPUs under the numbers of CUDA; where it shows none, of NVML; else in the order of the bus.

    ``lone`` stands for the place of one that the bus does not show.
    """
    cuda = facts.cuda.value.devices if facts.cuda.value else []
    nvml = facts.nvml.value.devices if facts.nvml.value else []
    by_name = {name: each for each in nvml for name in (each.pci, each.uuid) if name}
    if cuda:
        return [
            (each.index, each, by_name.get(each.uuid) or by_name.get(each.pci), places.get(each.pci, lone))
            for each in cuda
        ]
    if nvml:
        return [(each.index, None, each, places.get(each.pci, lone)) for each in nvml]
    on_bus = [place for place in places.values() if place.kind == "gpu"]
    return [(number, None, None, place) for number, place in enumerate(on_bus)]


def _gpu(facts: Facts, number: int, cuda: CudaDevice | None, nvml: NvmlDevice | None, place: PciPlace) -> Gpu:
    address = cuda.pci if cuda else nvml.pci if nvml else place.address
    loaded = {link.pci: link for link in facts.pcie_load.value or []}.get(address)
    listed = {each.address: each for each in (facts.bus.value.gpus if facts.bus.value else [])}.get(address)
    generation = (loaded and loaded.generation) or (nvml and nvml.pcie_generation_max)
    width = (loaded and loaded.width) or (nvml and nvml.pcie_width)
    return Gpu(
        number=number,
        name=cuda.name if cuda else nvml.name if nvml else "",
        address=address,
        node=place.numa_node,
        switches=switches_above(place.bridges),
        pcie_generation=generation or (listed.generation_max if listed else None),
        pcie_width=width or (listed.width_max if listed else None),
    )


# ----------------------------------------------------------------------------------------------------- NVLinks


def _nvlinks(
    gpus: Sequence[Gpu], nvml: Sequence[tuple[int, NvmlDevice | None]], places: dict[str, PciPlace]
) -> tuple[NvLinks, ...]:
    """Gather the links that are up by what they lead to."""
    numbers = {gpu.address: gpu.number for gpu in gpus}
    found: dict[tuple[int, End], list[NvLink]] = defaultdict(list)
    for number, device in nvml:
        for link in device.links if device else []:
            end = _end(link, numbers, places)
            if link.active and not (isinstance(end, int) and end < number):
                found[number, end].append(link)
    return tuple(_bundle(gpu, end, links) for (gpu, end), links in found.items())


def _end(link: NvLink, numbers: dict[str, int], places: dict[str, PciPlace]) -> End:
    if link.remote in numbers:
        return numbers[link.remote]
    place = places.get(link.remote or "")
    if link.remote_kind == "switch" or (place and place.kind == "nvswitch"):
        return "switch"
    return "host" if link.remote_kind == "other" else "hidden"


def _bundle(gpu: int, end: End, links: Sequence[NvLink]) -> NvLinks:
    versions = {LINK_VERSIONS.get(link.version or 0) for link in links}
    version = versions.pop() if len(versions) == 1 else None
    rates = [link.line_rate_bytes_per_s or NOMINAL_BYTES_PER_S.get(version or "") for link in links]
    known = [rate for rate in rates if rate]
    total = sum(known) if len(known) == len(rates) else None
    return NvLinks(gpu=gpu, end=end, links=len(links), version=version, one_way_Bps=total)
