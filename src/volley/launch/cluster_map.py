"""The map of a cluster: the switches of each node, from the leaf up.

It is read from what the user names, or within a job of Slurm from Slurm itself.  What is not known is unknown: nothing
is guessed from names or addresses.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from volley.command.option_values import HostListError, expand
from volley.errors import UserError
from volley.text import count

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
        UserError: if it cannot be read, or says nothing of any node.
    """
    try:
        found = parsed(path.read_text(encoding="utf-8", errors="replace"))
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


def parsed(text: str) -> ClusterMap:
    """Read any of the formats.

    Raises:
        HostListError: if a list of nodes is none.
    """
    nodes: dict[str, list[str]] = {}
    children: dict[str, list[str]] = {}
    pairs = list(_of_words(text)) or list(_of_yaml(text))
    for name, key, value in pairs:
        if value.strip("\"'") and value != "(null)":
            (nodes if key == "nodes" else children).setdefault(name, []).extend(expand(value.strip("\"'")))
    parent = {child: name for name, its in children.items() for child in its}
    # Slurm lists the nodes of a switch of a higher level, too: only the lowest one is the leaf.
    leaf_of = {node: name for name, its in nodes.items() if name not in children for node in its}
    if not pairs:
        return _padded(dict(_of_lines(text)))
    return _padded({node: (leaf, *_above(leaf, parent)) for node, leaf in leaf_of.items()})


def _of_words(text: str) -> Iterable[tuple[str, str, str]]:
    """Yield the name of a switch or block, ``nodes`` or ``switches``, and the list, of topology.conf or scontrol."""
    highest: dict[str, str] = {}
    for line in text.replace("\\\n", " ").splitlines():
        words = dict(word.split("=", 1) for word in line.partition("#")[0].split() if "=" in word)
        named = {key.lower(): value for key, value in words.items()}
        name = named.get("switchname") or named.get("blockname")
        if name:
            yield from ((name, key, named[key]) for key in ("nodes", "switches") if key in named)
        elif "aggregatedblock" in named:  # it has the names of all its blocks, and smaller ones come first
            blocks = expand(named["aggregatedblock"])
            name = f"{blocks[0]}-{blocks[-1]}"
            yield from ((name, "switches", child) for child in {highest.get(block, block): 0 for block in blocks})
            highest |= dict.fromkeys(blocks, name)


def _of_yaml(text: str) -> Iterable[tuple[str, str, str]]:
    """Yield the same of topology.yaml: of the topology that is the default, else of the first one."""
    topologies = re.split(r"(?m)^-\s*topology:", text)[1:]
    default = [each for each in topologies if re.search(r"(?m)^\s*cluster_default:\s*true", each)]
    name = ""
    for line in (*default, *topologies, "")[0].splitlines():
        key, _, value = line.partition("#")[0].strip().removeprefix("- ").partition(":")
        if key in ("switch", "block"):
            name = value.strip().strip("\"'")
        elif name and key in ("nodes", "children"):
            yield name, "nodes" if key == "nodes" else "switches", value.strip()


def _of_lines(text: str) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Yield the nodes and their switches of lines such as ``cn[01-16] leaf1 pod1``."""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) > 1 and "=" not in line and ":" not in line:
            yield from ((node, tuple(words[1:])) for node in expand(words[0]))


def _above(switch: str, parent: Mapping[str, str]) -> list[str]:
    """Return the switches above a switch; a loop ends."""
    found: list[str] = []
    while (switch := parent.get(switch, "")) and switch not in found:
        found.append(switch)
    return found


def _padded(path_of: dict[str, tuple[str, ...]]) -> ClusterMap:
    """Give all nodes paths of one length: above a leaf that is nearer to the root it stands again."""
    longest = max(map(len, path_of.values()), default=0)
    return ClusterMap({node: (*path[:1] * (longest - len(path)), *path) for node, path in path_of.items()})
