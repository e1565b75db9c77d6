"""What must be there on a node, and what of it is not: pure functions for every tool that judges."""

from __future__ import annotations

from collections.abc import Iterator

from volley.document import Frozen, NonNegative
from volley.machine import sysfs
from volley.text import count, join_few

NAMED = 8
"""A sentence names at most this many parts of a list."""
GIB = 2**30


class Inventory(Frozen, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must be there; what is not named may be anything."""

    nodes: str = ""
    """A list of nodes, as Slurm writes it."""
    cpu: str = ""
    gpus: NonNegative | None = None
    """GPUs of a node."""
    gpu: str = ""
    nvlinks: NonNegative | None = None
    """Active links of each GPU, at least."""
    nics: tuple[str, ...] = ()
    """RDMA devices or network interfaces of a node."""
    memory_bytes: NonNegative | None = None
    """Of each node, at least."""


class Seen(Frozen, frozen=True, kw_only=True):
    """What a check saw of a node; ``None``: it did not look."""

    node: str
    cpu: str
    """Empty, like the name of a GPU, where it is not known."""
    gpus: list[str] | None = None
    nvlinks: list[int] | None = None
    nics: list[str] | None = None
    memory_bytes: int | None = None


def wrong(asked: Inventory, seen: Seen) -> Iterator[tuple[str, list[str] | None]]:
    """Yield the name of each thing that was asked for, and what is wrong with it; ``None``: it was not seen."""
    if asked.cpu:
        said = [f"its processor is {seen.cpu}, not {asked.cpu}"]
        yield "processor", said * (seen.cpu != asked.cpu) if seen.cpu else None
    gpus, links, nics, memory = seen.gpus, seen.nvlinks, seen.nics, seen.memory_bytes
    if asked.gpus is not None:
        said = [f"it has {count(len(gpus or ()), 'GPU')}, the inventory says {asked.gpus}"]
        name = "GPUs" if asked.gpus or gpus is None else "no GPU"
        yield name, None if gpus is None else said * (len(gpus) != asked.gpus)
    if asked.gpu:
        others = sorted({gpu for gpu in gpus or () if gpu != asked.gpu})
        said = [f"kind of GPU: {join_few(others, NAMED)}, not {asked.gpu}"] if others else []
        none = [f"no GPU, the inventory says {asked.gpu}"]
        yield "kind of GPU", None if gpus is None or "" in gpus else said if gpus else none
    if asked.nvlinks is not None:
        few = [(gpu, number) for gpu, number in enumerate(links or ()) if number < asked.nvlinks]
        said = [f"GPU {gpu}: {number} of {count(asked.nvlinks, 'NVLink')} active" for gpu, number in few]
        none = [f"no GPU with {count(asked.nvlinks, 'NVLink')}"] * (asked.nvlinks > 0)
        yield "NVLinks", None if links is None else said if links else none
    if asked.nics:
        lost = [nic for nic in asked.nics if nic not in (nics or ())]
        yield "NICs", None if nics is None else [f"no NIC {join_few(lost, NAMED)}"][: len(lost)]
    if asked.memory_bytes is not None:
        said = [f"{(memory or 0) / GIB:.0f} of {asked.memory_bytes / GIB:.0f} GiB of memory"]
        yield "memory", None if memory is None else said * (memory < asked.memory_bytes)


def nics_here() -> list[str]:
    """Return the RDMA devices and network interfaces of this machine."""
    return [*sysfs.names("class/infiniband"), *sysfs.names("class/net")]
