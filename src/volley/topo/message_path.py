"""The path that a message takes through a machine, over each of volley's transports."""

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
    if transport not in TRANSPORTS:
        null = ": it moves nothing" if transport == "null" else ""
        raise UserError(f"--transport: {transport!r} has no path to draw{null}; name {join_words(TRANSPORTS, 'or')}")
    family, by = family_of(transport), TRANSPORTS[transport]
    if family not in ROUTES and not topology.gpus and numbers is None:
        memory = Location("memory", topology.nodes[0].number)
        return MessagePath(transport, (), (Hop("mpi", memory, memory, by),))
    one, other = _pair(topology, transport, numbers)
    pair, ends = (one.number, other.number), (Location("gpu", one.number), Location("gpu", other.number))
    near_each = (Location("memory", one.node), Location("memory", other.node))
    reached = topology.reaches(*pair)
    if family not in ROUTES:
        return MessagePath(transport, pair, (Hop("mpi", *near_each, by),))
    if family != "staged" and reached is None:
        raise MachineError(
            f"{transport}: whether GPU {pair[0]} can access the memory of GPU {pair[1]} is unknown, because CUDA "
            "did not report it; staged needs no peer access"
        )
    if family != "staged" and reached:
        links = topology.joined(*pair)
        return MessagePath(
            transport, pair, (Hop("nvlink", *ends, by, links.words) if links else Hop("pcie", *ends, by, one.pcie),)
        )
    if family != "staged" and transport not in {"aware", "nccl"}:
        raise MachineError(
            f"{transport} has no path from GPU {pair[0]} to GPU {pair[1]}: they have no peer access; "
            "staged and aware go through the host"
        )
    # Through the host: each rank's memory near its GPU, or one segment near the first.
    by = {"aware": "MPI's own copy", "nccl": "NCCL's kernel"}.get(family, by)
    over = [links.words if (links := topology.to_host(gpu.number)) else gpu.pcie for gpu in (one, other)]
    shared = transport in {"staged/shared", "nccl"}
    inside = "inside MPI" if family == "aware" else TRANSPORTS["host"]
    between = () if shared else (Hop("mpi", *near_each, inside),)
    out = Hop("copy", ends[0], near_each[0], by, over[0])
    back = Hop("copy", near_each[not shared], ends[1], by, over[1])
    return MessagePath(transport, pair, (out, *between, back))


def _pair(topology: Topology, transport: str, numbers: Sequence[int] | None) -> tuple[PlacedGpu, PlacedGpu]:
    known = {gpu.number: gpu for gpu in topology.gpus}
    if len(known) < 2:
        have = "one GPU" if known else "no GPU"
        raise MachineError(f"{transport} needs two GPUs, and there is {have}; leave --transport out to draw the rest")
    chosen = [*known][:2] if numbers is None else numbers
    if len(chosen) != 2 or len(set(chosen)) != 2:
        raise UserError("--gpus needs two different GPUs, e.g. --gpus 0,1")
    if missing := [number for number in chosen if number not in known]:
        raise UserError(f"--gpus: there is no GPU {missing[0]}; this machine has {join_words(map(str, known))}")
    return known[chosen[0]], known[chosen[1]]
