"""An inventory of a site: it is read, and the nodes of a check are compared with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from volley.check.findings import NAMED, Again, CheckFinding
from volley.check.limits import read
from volley.command.option_values import HostListError, expand
from volley.document import Frozen, NonNegative
from volley.errors import UserError
from volley.machine import sysfs
from volley.text import count, join_few, join_words

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


def nics_here() -> list[str]:
    """Return the RDMA devices and network interfaces of this machine."""
    return [*sysfs.names("class/infiniband"), *sysfs.names("class/net")]


def read_inventory(path: Path) -> Inventory:
    """Return what must be there.

    Raises:
        UserError: if the file cannot be read, or is no inventory.
    """
    fields = join_words(each.name for each in msgspec.structs.fields(Inventory) if each.name != "gpus")
    found = read(path, Inventory, "--inventory", "an inventory", f'write e.g. {{"gpus": 8}}; other keys: {fields}')
    try:
        expand(found.nodes or "a")
    except HostListError as error:
        raise UserError(f"--inventory {path}: nodes: {error}") from None
    if found.gpus == 0 and (found.gpu or found.nvlinks):
        named = "gpu" if found.gpu else "nvlinks"
        raise UserError(f'--inventory {path}: "gpus": 0 means that there is none: leave out that or "{named}"')
    return found


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


def by_inventory(
    asked: Inventory, seen: Sequence[Seen], again: Again, *, alone: bool = False
) -> Iterator[CheckFinding]:
    """Name what is not there; what the records do not contain is undecided.

    ``alone``: one node was checked, which must be one of the nodes of the file.
    """
    finding = partial(CheckFinding, layer="inventory", evidence="inventory")
    nodes = expand(asked.nodes) if asked.nodes else ()
    there = {each.node for each in seen}
    absent, why = [node for node in nodes if node not in there], "no rank ran there"
    if alone:
        absent = [node for node in there if nodes and not {node, node.partition(".")[0]} & {*nodes}]
        why = f"it is none of {asked.nodes}"
    if absent:
        yield finding(status="FAIL", part=join_few(absent, NAMED), said=why, nodes=tuple(absent))
    good = {"name" if alone else count(len(nodes), "node"): True} if nodes else {}
    unseen, failed = dict[str, bool](), bool(absent)
    for each in seen:
        for name, said in wrong(asked, each):
            (unseen if said is None else good)[name] = True
            for why in said or ():
                failed = True
                yield finding(status="FAIL", part=f"node {each.node}", said=why, nodes=(each.node,), drain=True)
    if unseen:
        why = f"the records of this check do not contain: {join_few([*unseen], NAMED)}"
        on_each = again(without=("--hosts", "--ranks", "--switches", "--one-switch", "--expect"))
        yield finding(status="UNDECIDED", said=why, remedy=f"on each node: {on_each}")
    elif not failed:
        what = join_few([*good], NAMED)
        why = f"all is as it must be: {what}" if what else "the file asks for nothing"
        yield finding(status="PASS" if what else "NOT JUDGED", said=why)
