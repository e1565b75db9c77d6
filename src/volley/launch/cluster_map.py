"""The map of a cluster: the switches of each node, from the leaf up.

It is read from what the user names, or within a job of Slurm from Slurm itself.  What is not known is unknown: nothing
is guessed from names or addresses.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from volley.command.option_values import HostListError, expand
from volley.errors import UserError
from volley.text import count, shortened

HOW = (
    "topology.conf, topology.yaml or the output of scontrol show topology, or lines with the name of a node and of its "
    "switches, the leaf first"
)
SCONTROL_S = 10.0


@dataclass(frozen=True)
class ClusterMap:
    """Which switches are above each node."""

    path_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The switches of each node, from the leaf up; all are as long."""
    one_switch: bool = False
    """All nodes are on one switch."""
    nodes: frozenset[str] = frozenset()
    """Names of nodes as the batch system knows them."""

    @property
    def known(self) -> bool:
        return self.one_switch or bool(self.path_of)

    @property
    def words(self) -> str:
        """Say what is known."""
        if self.one_switch:
            return "all nodes are on one switch"
        leaves = len({path[0] for path in self.path_of.values()})
        levels = max(map(len, self.path_of.values()), default=0)
        return f"{count(len(self.path_of), 'node')} on {leaves} leaf switches, {count(levels, 'level')}"

    def node(self, host: str) -> str:
        """Return the name of a host as the map or the batch system knows it: often without the domain."""
        short = host.partition(".")[0]
        return short if host not in self.path_of and (short in self.path_of or short in self.nodes) else host

    def path(self, host: str) -> tuple[str, ...]:
        """Return the switches of a host, from the leaf up; empty if unknown."""
        return ("the switch",) if self.one_switch else self.path_of.get(self.node(host), ())


def of_file(path: Path) -> ClusterMap:
    """Read a map from a file.

    Raises:
        UserError: if it cannot be read, is wrong, or says nothing of any node.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        found = ClusterMap() if "\0" in text else parsed(text)
    except OSError as error:
        raise UserError(f"--switches {path}: {error.strerror}") from None
    except HostListError as error:
        raise UserError(f"--switches {path}: {error}") from None
    if not found.path_of:
        raise UserError(f"--switches {path} names no node and its switch; it may be: {HOW}")
    return found


def of_slurm(nodes: Iterable[str]) -> ClusterMap:
    """Ask Slurm, which knows the switches of its nodes or not."""
    names = frozenset(nodes)
    try:
        words = ["scontrol", "show", "topology"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=SCONTROL_S, check=False)
        found = parsed(done.stdout)
    except (OSError, subprocess.TimeoutExpired, HostListError):
        return ClusterMap(nodes=names)
    return ClusterMap({node: path for node, path in found.path_of.items() if node in names}, nodes=names)


_Pair = tuple[int, str, str, str]
"""The number of a line, the name of a switch or block, ``nodes`` or ``switches``, and the list of them."""


def parsed(text: str) -> ClusterMap:
    """Read any of the formats.

    Raises:
        HostListError: if a line is wrong, which the message names: it has no list of nodes, a switch has no name or is
            above itself, or a node is on two leaves.
    """
    pairs = list(_of_words(text)) or list(_of_yaml(text))
    if not pairs:
        return _padded(_of_lines(text))
    nodes: list[tuple[int, str, str]] = []
    parent: dict[str, str] = {}
    for line, name, key, value in pairs:
        if not name:
            raise HostListError(f"line {line}: a switch has no name")
        names = _names(line, value.strip("\"'")) if value.strip("\"'") and value != "(null)" else ()
        if key == "nodes":
            nodes += [(line, node, name) for node in names]
        for child in names if key == "switches" else ():
            parent[child] = name
            if child in _above(child, parent):
                raise HostListError(f"line {line}: the switch {shortened(child)} is above itself")
    # Slurm lists the nodes of a switch of a higher level, too: only the lowest one is the leaf.
    higher = {name for _, name, key, _ in pairs if key == "switches"}
    leaf_of: dict[str, str] = {}
    for line, node, leaf in nodes:
        if leaf not in higher and leaf_of.setdefault(node, leaf) != leaf:
            raise HostListError(f"line {line}: the node {shortened(node)} is on {shortened(leaf_of[node])}, too")
    return _padded({node: (leaf, *_above(leaf, parent)) for node, leaf in leaf_of.items()})


def _names(line: int, text: str) -> tuple[str, ...]:
    try:
        return expand(text)
    except HostListError as error:
        raise HostListError(f"line {line}: {error}") from None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines without comments and their numbers; one that ends with a backslash goes on."""
    number = 1
    for line in text.replace("\\\n", "\0").split("\n"):
        yield number, line.replace("\0", " ").partition("#")[0]
        number += 1 + line.count("\0")


def _of_words(text: str) -> Iterator[_Pair]:
    """Yield the switches or blocks of topology.conf or scontrol."""
    highest: dict[str, str] = {}
    for number, line in _lines(text):
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        named = {key.lower(): value for key, value in words.items()}
        name = named.get("switchname", named.get("blockname"))
        if name is not None:
            yield from ((number, name, key, named[key]) for key in ("nodes", "switches") if key in named)
        elif "aggregatedblock" in named:  # it has the names of all its blocks, and smaller ones come first
            blocks = _names(number, named["aggregatedblock"])
            name = f"{blocks[0]}-{blocks[-1]}"
            children = {highest.get(block, block): 0 for block in blocks}
            yield from ((number, name, "switches", child) for child in children)
            highest |= dict.fromkeys(blocks, name)


def _of_yaml(text: str) -> Iterator[_Pair]:
    """Yield the same of topology.yaml: of the topology that is the default, else of the first one."""
    topologies = re.split(r"(?m)^-\s*topology:", text)[1:]
    default = [each for each in topologies if re.search(r"(?m)^\s*cluster_default:\s*true", each)]
    chosen, name = (*default, *topologies, "")[0], None
    before = text.count("\n", 0, text.find(chosen))
    for number, line in _lines(chosen):
        key, _, value = line.strip().removeprefix("- ").partition(":")
        if key in ("switch", "block"):  # what has no dash is the kind of the topology
            name = value.strip().strip("\"'") if line.lstrip().startswith("-") or value.strip() else name
        elif name is not None and key in ("nodes", "children"):
            yield before + number, name, "nodes" if key == "nodes" else "switches", value.strip()


def _of_lines(text: str) -> dict[str, tuple[str, ...]]:
    """Return the nodes and their switches of lines such as ``cn[01-16] leaf1 pod1``."""
    found: dict[str, tuple[str, ...]] = {}
    for number, line in _lines(text):
        words = line.split()
        if words and (len(words) == 1 or "=" in line or ":" in line):
            raise HostListError(
                f"line {number}: {shortened(line.strip())!r} is no node with its switches; it may be: {HOW}"
            )
        for node in _names(number, words[0]) if words else ():
            if found.setdefault(node, tuple(words[1:])) != tuple(words[1:]):
                raise HostListError(f"line {number}: the node {shortened(node)} is on {shortened(found[node][0])}, too")
    return found


def _above(switch: str, parent: Mapping[str, str]) -> list[str]:
    """Return the switches above a switch, up to the first that stands there again."""
    found: list[str] = []
    while (switch := parent.get(switch, "")) and switch not in found:
        found.append(switch)
    return found


def _padded(path_of: dict[str, tuple[str, ...]]) -> ClusterMap:
    """Give all nodes paths of one length: above a leaf that is nearer to the root it stands again."""
    longest = max(map(len, path_of.values()), default=0)
    return ClusterMap({node: (*path[:1] * (longest - len(path)), *path) for node, path in path_of.items()})
