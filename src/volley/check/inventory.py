"""An inventory of a site: it is read, and the nodes of a check are compared with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from volley.check.findings import NAMED, Again, CheckFinding
from volley.check.limits import read
from volley.command.option_values import HostListError, expand
from volley.errors import UserError
from volley.machine.inventory import Inventory, Seen, wrong
from volley.text import count, join_few, join_words


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
