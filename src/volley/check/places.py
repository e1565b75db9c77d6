"""Names and places of the ranks of a run: what is known of them, as the arrays that are judged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from volley.check.evidence import Places
from volley.launch.cluster_map import ClusterMap
from volley.machine import paths
from volley.records.record_types import Rank

_DRIVER = re.compile(r"mlx\d|hfi\d|[a-z_]+")
"""What comes before the number of an RDMA device, or before its place: ``mlx5_0``, ``bnxt_re1``, ``rocep65s0``."""


@dataclass(frozen=True)
class Names:
    """The ranks of a run and where they are; on a single node each rank is a node, and a socket is a switch."""

    ranks: Sequence[Rank]
    map: ClusterMap
    nics: Mapping[str, str] = field(default_factory=dict)
    """The kind of the RDMA devices of hosts, as far as it is known."""
    kinds_known: bool = True

    @cached_property
    def one_node(self) -> bool:
        return len({rank.host for rank in self.ranks}) == 1

    def path(self, rank: Rank) -> tuple[str, ...]:
        if self.one_node:
            return (f"socket {rank.sockets[0]}",) if len(rank.sockets) == 1 else ()
        return self.map.path(rank.host)

    def switch(self, rank: int) -> str:
        """Return the name of its leaf switch; empty if unknown."""
        return next(iter(self.path(self.ranks[rank])), "")

    def node(self, rank: int) -> str:
        """Return the name of its node."""
        return f"rank {rank}" if self.one_node else self.map.node(self.ranks[rank].host)

    @cached_property
    def ranks_on(self) -> Counter[str]:
        """How many ranks each node has."""
        return Counter(self.node(rank.rank) for rank in self.ranks)

    def nodes(self, ranks: Iterable[int]) -> list[str]:
        return list(dict.fromkeys(map(self.node, ranks)))

    def kind(self, rank: Rank) -> str:
        """Return its kind of hardware: processor, GPU and NIC."""
        device = rank.device.name if rank.device else ""
        return " with ".join(filter(None, (rank.cpu, device, self.nics.get(rank.host, ""))))

    @cached_property
    def places(self) -> Places:
        paths = [self.path(rank) for rank in self.ranks]
        levels = max(map(len, paths), default=0) or 1
        columns = [numbers([path[level] if level < len(path) else "" for path in paths]) for level in range(levels)]
        kinds = numbers([self.kind(rank) for rank in self.ranks])
        nodes = numbers([self.node(rank.rank) for rank in self.ranks])
        return Places(np.array(nodes), np.array(columns).T, np.maximum(kinds, 0), self.kinds_known)


def numbers(names: Sequence[str]) -> list[int]:
    """Number the names in order of appearance; the empty name is -1."""
    known = {name: number for number, name in enumerate(dict.fromkeys(filter(None, names)))}
    return [known.get(name, -1) for name in names]


def nics_of(launch: Mapping[str, Any]) -> dict[str, str]:
    """Return the kind of the RDMA devices that carried the messages of each host, by the names that drivers give them.

    A host whose messages went another way has the kind of most hosts: a path that fell back is a fault and no kind.
    """
    kinds: dict[str, str] = {}
    for path in paths.of_plan(launch).paths:
        for end in path.ends:
            of_driver = {_DRIVER.match(each.name) for each in end.devices if each.rdma}
            kinds[end.host] = " ".join(sorted({found[0] for found in of_driver if found})) or kinds.get(end.host, "")
    usual = Counter(filter(None, kinds.values())).most_common(1)
    return {host: kind or usual[0][0] for host, kind in kinds.items()} if usual else {}


def one_rate(launch: Mapping[str, Any]) -> bool:
    """Return whether the RDMA devices that carried the messages of each host have one rate, as far as it is known: of
    two rates nobody knows whether hosts have cards of two generations, or links that are slower than they should be."""
    ends = (end for path in paths.of_plan(launch).paths for end in path.ends)
    rates = {max((each.rate_bits_per_s or 0 for each in end.devices if each.rdma), default=0) for end in ends}
    return len(rates - {0}) < 2
