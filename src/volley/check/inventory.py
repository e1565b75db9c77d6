"""An inventory: what must be there on each node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from volley.check.findings import NAMED, CheckFinding
from volley.check.limits import read
from volley.command.option_values import HostListError, expand
from volley.document import Frozen, NonNegative
from volley.errors import UserError
from volley.text import count, join_few

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
    gpus: list[str] | None = None
    nvlinks: list[int] | None = None
    nics: list[str] | None = None
    memory_bytes: int | None = None


def read_inventory(path: Path) -> Inventory:
    """Return what must be there.

    Raises:
        UserError: if the file cannot be read, or is no inventory.
    """
    found = read(path, Inventory, "--inventory", "an inventory")
    try:
        expand(found.nodes or "a")
    except HostListError as error:
        raise UserError(f"--inventory {path}: nodes: {error}") from None
    return found


def _wrong(asked: Inventory, seen: Seen) -> Iterator[tuple[str, list[str] | None]]:
    """Yield the name of each thing that was asked for, and what is wrong with it; ``None``: it was not seen."""
    if asked.cpu:
        yield "processor", [f"its processor is {seen.cpu}, not {asked.cpu}"] * (seen.cpu != asked.cpu)
    gpus, links, nics, memory = seen.gpus, seen.nvlinks, seen.nics, seen.memory_bytes
    if asked.gpus is not None:
        wrong = gpus is not None and len(gpus) != asked.gpus
        yield "GPUs", None if gpus is None else [f"{count(len(gpus), 'GPU')} of {asked.gpus}"] * wrong
    if asked.gpu:
        others = sorted({gpu for gpu in gpus or () if gpu != asked.gpu})
        said = [f"GPUs are {join_few(others, NAMED)}, not {asked.gpu}"] if others else []
        yield "kind of GPU", None if gpus is None else said
    if asked.nvlinks is not None:
        few = [(gpu, number) for gpu, number in enumerate(links or ()) if number < asked.nvlinks]
        said = [f"GPU {gpu}: {number} of {count(asked.nvlinks, 'NVLink')} active" for gpu, number in few]
        yield "NVLinks", None if links is None else said
    if asked.nics:
        lost = [nic for nic in asked.nics if nic not in (nics or ())]
        yield "NICs", None if nics is None else [f"no NIC {join_few(lost, NAMED)}"][: len(lost)]
    if asked.memory_bytes is not None:
        said = [f"{(memory or 0) / GIB:.0f} of {asked.memory_bytes / GIB:.0f} GiB of memory"]
        yield "memory", None if memory is None else said * (memory < asked.memory_bytes)


def by_inventory(asked: Inventory, seen: Sequence[Seen]) -> Iterator[CheckFinding]:
    """Name what is not there; what the records do not contain is undecided."""
    finding = partial(CheckFinding, layer="inventory", yardstick="inventory")
    nodes = expand(asked.nodes) if asked.nodes else ()
    there = {each.node for each in seen}
    absent = [node for node in nodes if node not in there]
    if absent:
        yield finding(verdict="FAIL", part=join_few(absent, NAMED), why="no rank ran there", nodes=tuple(absent))
    good = {count(len(nodes), "node"): True} if nodes else {}
    unseen, failed = dict[str, bool](), bool(absent)
    for each in seen:
        for name, wrong in _wrong(asked, each):
            (unseen if wrong is None else good)[name] = True
            for why in wrong or ():
                failed = True
                yield finding(verdict="FAIL", part=f"node {each.node}", why=why, nodes=(each.node,), drain=True)
    if unseen:
        why = f"the records of this check do not contain: {join_few([*unseen], NAMED)}"
        yield finding(verdict="UNDECIDED", why=why, decides="volley check --inventory FILE on each node")
    elif not failed:
        what = join_few([*good], NAMED)
        yield finding(verdict="PASS" if what else "NOT JUDGED", why=f"all is there: {what}" if what else "it is empty")


def nics_here() -> list[str]:
    """Return the RDMA devices and network interfaces of this machine."""
    found: list[str] = []
    for folder in ("/sys/class/infiniband", "/sys/class/net"):
        with suppress(OSError):
            found += sorted(path.name for path in Path(folder).iterdir())
    return found
