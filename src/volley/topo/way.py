"""The way that a message takes from one GPU to another in a transport, as far as the hardware decides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from volley.errors import MachineError, UserError
from volley.text import several
from volley.topo.machine import Gpu, Machine

TRANSPORTS = {
    "host": "MPI, host memory",
    "staged": "copy, blocking or in chunks",
    "staged/pageable": "cudaMemcpy of the whole message",
    "staged/pinned": "copy of the whole message, pinned memory",
    "staged/pipelined": "copy in chunks, pinned memory",
    "staged/shared": "copy, one segment that both ranks map",
    "aware": "MPI on device pointers",
    "peer": "copy engine, CUDA IPC",
    "device": "a kernel stores into the peer's memory",
    "nccl": "ncclSend, ncclRecv",
}
"""What moves the bytes of each transport to where MPI or the other GPU has them."""


@dataclass(frozen=True)
class Spot:
    """A place of the message: a GPU's memory, or that of a NUMA node."""

    kind: Literal["gpu", "memory"]
    number: int | None

    @property
    def words(self) -> str:
        """``GPU 0`` or ``CPU memory``."""
        return f"GPU {self.number}" if self.kind == "gpu" else "CPU memory"


@dataclass(frozen=True)
class Step:
    """One movement of the bytes."""

    kind: Literal["copy", "mpi", "nvlink", "pcie"]
    """Between a GPU and its host; through MPI; from GPU to GPU over NVLink, or over PCIe."""
    start: Spot
    end: Spot
    by: str
    """What moves them."""
    over: str
    """What they cross."""

    @property
    def words(self) -> str:
        """``GPU 0 → CPU memory: cudaMemcpy of the whole message, over PCIe 3.0 x16, 15.75 GB/s``."""
        crossing = f", over {self.over}" if self.over else ""
        return f"{self.start.words} → {self.end.words}: {self.by}{crossing}"


@dataclass(frozen=True)
class Way:
    """All steps of a message, in order."""

    transport: str
    gpus: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def words(self) -> str:
        """``GPU 0 → CPU memory → CPU memory → GPU 1``."""
        spots = [self.steps[0].start, *(step.end for step in self.steps)]
        return " → ".join(spot.words for spot in spots)

    @property
    def remark(self) -> str:
        """What lines alone do not say."""
        if self.transport != "aware":
            return ""
        if len(self.steps) > 1:
            return "these two have no peer access: MPI has to go through the host"
        return "this is what the hardware allows; whether this machine's MPI takes it, volley doctor finds out"


def way_of(machine: Machine, transport: str, numbers: Sequence[int] | None) -> Way:
    """Return the way of a message.

    Args:
        machine: what it takes place on.
        transport: its name; ``staged`` stands for its whole family.
        numbers: the two GPUs, sender first; the first two where it is ``None``.

    Raises:
        UserError: if there is no such transport, or these are not two GPUs of the machine.
        MachineError: if the transport has no way here, or nobody knows one.
    """
    if transport not in TRANSPORTS:
        none = ": it moves nothing" if transport == "null" else ""
        raise UserError(f"--transport: {transport!r} has no way to draw{none}; name {several(TRANSPORTS, 'or')}")
    if transport == "host" and not machine.gpus and numbers is None:
        memory = Spot("memory", machine.nodes[0].number)
        return Way(transport, (), (_mpi(memory, memory),))
    one, other = _pair(machine, transport, numbers)
    pair = (one.number, other.number)
    if transport == "host":
        return Way(transport, pair, (_mpi(Spot("memory", one.node), Spot("memory", other.node)),))
    if transport.startswith("staged"):
        return Way(transport, pair, _staged(machine, transport, one, other, shared=transport == "staged/shared"))
    reached = machine.reaches(*pair)
    if reached is None:
        raise MachineError(
            f"{transport}: whether GPU {pair[0]} reaches the memory of GPU {pair[1]} is not known, because CUDA "
            "did not say; staged works without it"
        )
    if reached:
        return Way(transport, pair, (_direct(machine, transport, one, other),))
    if transport in {"peer", "device"}:
        raise MachineError(
            f"{transport} has no way from GPU {pair[0]} to GPU {pair[1]}: they have no peer access; "
            "staged and aware go through the host"
        )
    return Way(transport, pair, _staged(machine, transport, one, other, shared=transport == "nccl"))


def _pair(machine: Machine, transport: str, numbers: Sequence[int] | None) -> tuple[Gpu, Gpu]:
    known = [gpu.number for gpu in machine.gpus]
    if len(known) < 2:
        have = "no GPU" if not known else "one GPU"
        raise MachineError(f"{transport} needs two GPUs, and there is {have}; leave --transport out to draw the rest")
    chosen = known[:2] if numbers is None else numbers
    if len(chosen) != 2 or len(set(chosen)) != 2:
        raise UserError("--gpus: a message goes from one GPU to another: write two numbers, e.g. 0,1")
    found = [gpu for number in chosen for gpu in [machine.gpu(number)] if gpu]
    if len(found) != 2:
        missing = next(number for number in chosen if number not in known)
        raise UserError(f"--gpus: there is no GPU {missing}; this machine has {several(map(str, known))}")
    return found[0], found[1]


def _mpi(start: Spot, end: Spot) -> Step:
    return Step("mpi", start, end, "MPI_Send, MPI_Recv", "")


def _staged(machine: Machine, transport: str, one: Gpu, other: Gpu, *, shared: bool) -> tuple[Step, ...]:
    """Go through the host: each rank's memory near its GPU, or one segment near the first."""
    by = {"aware": "MPI's own copy", "nccl": "NCCL's kernel"}.get(transport, TRANSPORTS[transport])
    first = Spot("memory", one.node)
    second = first if shared else Spot("memory", other.node)
    out = Step("copy", Spot("gpu", one.number), first, by, _to_host(machine, one))
    back = Step("copy", second, Spot("gpu", other.number), by, _to_host(machine, other))
    between = "inside MPI" if transport == "aware" else "MPI_Send, MPI_Recv"
    return (out, back) if shared else (out, Step("mpi", first, second, between, ""), back)


def _to_host(machine: Machine, gpu: Gpu) -> str:
    links = machine.to_host(gpu.number)
    return links.words if links else gpu.pcie


def _direct(machine: Machine, transport: str, one: Gpu, other: Gpu) -> Step:
    start, end, by = Spot("gpu", one.number), Spot("gpu", other.number), TRANSPORTS[transport]
    links = machine.joined(one.number, other.number)
    if links:
        return Step("nvlink", start, end, by, links.words)
    return Step("pcie", start, end, by, one.pcie)
