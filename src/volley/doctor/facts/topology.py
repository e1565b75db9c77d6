"""How processors, GPUs and network cards hang together."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from volley.doctor.facts.base import Fact


class NumaNode(Fact, frozen=True, kw_only=True):
    """A NUMA node, from /sys/devices/system/node."""

    number: int
    cores: Annotated[str, Meta(description="its cores as Linux writes them, `0-19,40-59`; empty: memory alone.")] = ""
    package: Annotated[int | None, Meta(description="the socket of its first core.")] = None
    memory_bytes: int | None = None
    distances: Annotated[list[int], Meta(description="to every node, in the order of their numbers; 10: itself.")] = []


class PciPlace(Fact, frozen=True, kw_only=True):
    """Where a GPU, a network card or an NVSwitch hangs in the PCI tree."""

    kind: Literal["gpu", "nic", "nvswitch"]
    address: str
    root: Annotated[str, Meta(description="the host bridge, `pci0000:16`.")] = ""
    bridges: Annotated[list[str], Meta(description="the PCI bridges above it, from the root down.")] = []
    numa_node: Annotated[int | None, Meta(description="null: the firmware does not say.")] = None
    cores: Annotated[str, Meta(description="the cores near it (local_cpulist).")] = ""
    names: Annotated[list[str], Meta(description="of a network card: RDMA and network devices.")] = []
    rate_bits_per_s: Annotated[float | None, Meta(description="of a network card's first port.")] = None


class Topology(Fact, frozen=True, kw_only=True):
    """How processors, GPUs and network cards hang together, from sysfs."""

    nodes: list[NumaNode] = []
    places: list[PciPlace] = []
