"""The path of a message from one GPU to another, for each transport, derived from the hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from volley.errors import MachineError, UserError
from volley.machine.transports import ROUTES, TRANSPORTS, family_of
from volley.text import join_words
from volley.topo.topology import PlacedGpu, Topology


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
            f"{transport}: whether GPU {pair[0]} reaches the memory of GPU {pair[1]} is not known, because CUDA "
            "did not say; staged works without it"
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
