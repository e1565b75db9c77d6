"""Where processors, GPUs and network cards hang: NUMA nodes and the PCI tree, as sysfs shows them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from volley.doctor.facts import NumaNode, PciPlace, Topology

_SYS = Path("/sys")
_NVIDIA = "0x10de"
_DISPLAY, _NETWORK, _OTHER_BRIDGE = "0x03", "0x02", "0x0680"
"""Base classes of display and network controllers, and the class of NVSwitches (PCI Code and ID Assignment
Specification)."""
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_MEMORY = re.compile(r"MemTotal:\s+(\d+) kB")

Kind = Literal["gpu", "nic", "nvswitch"]


def topology() -> Topology:
    """Read sysfs; nothing is started and no driver is asked."""
    names, rates = _network()
    places = []
    for path in sorted((_SYS / "bus/pci/devices").glob("*")):
        kind = _kind(path, path.name in names)
        if kind:
            places.append(_place(kind, path, names.get(path.name, []), rates.get(path.name)))
    return Topology(nodes=_nodes(), places=places)


def _kind(path: Path, is_network: bool) -> Kind | None:
    code, nvidia = _word(path / "class"), _word(path / "vendor") == _NVIDIA
    if nvidia and code.startswith(_DISPLAY):
        return "gpu"
    if nvidia and code.startswith(_OTHER_BRIDGE):
        return "nvswitch"
    return "nic" if is_network or code.startswith(_NETWORK) else None


def _place(kind: Kind, path: Path, names: list[str], rate: float | None) -> PciPlace:
    parts = path.resolve().parts
    node = _word(path / "numa_node")
    return PciPlace(
        kind=kind,
        address=path.name,
        root=next((part for part in parts if part.startswith("pci")), ""),
        bridges=[part for part in parts[:-1] if _ADDRESS.fullmatch(part)],
        numa_node=int(node) if node.isdecimal() else None,  # -1: the firmware does not say
        cores=_word(path / "local_cpulist"),
        names=names,
        rate_bits_per_s=rate,
    )


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # also what a network device that is down answers to its speed
        return ""


# ----------------------------------------------------------------------------------------------- network cards


def _network() -> tuple[dict[str, list[str]], dict[str, float]]:
    """Return the RDMA and network devices of each PCI device, and the rate of its first port in bits per second."""
    names: dict[str, list[str]] = defaultdict(list)
    rates: dict[str, float] = {}
    for folder, rate in (("class/infiniband", _rdma_rate), ("class/net", _ethernet_rate)):
        for path in sorted((_SYS / folder).glob("*")):
            address = _above(path / "device")
            if address is not None:
                names[address].append(path.name)
                if found := rate(path):
                    rates.setdefault(address, found)
    return names, rates


def _above(device: Path) -> str | None:
    """Return the PCI device that this is or hangs on: virtio's devices are its children."""
    if not device.exists():
        return None  # lo, bridges and tunnels have no device
    return next((part for part in reversed(device.resolve().parts) if _ADDRESS.fullmatch(part)), None)


def _rdma_rate(path: Path) -> float | None:
    """Read ``100 Gb/sec (4X EDR)``."""
    number = _word(path / "ports/1/rate").partition(" ")[0]
    return float(number) * 1e9 if number.replace(".", "", 1).isdecimal() else None


def _ethernet_rate(path: Path) -> float | None:
    """Read megabits per second; -1 where nobody knows."""
    number = _word(path / "speed")
    return int(number) * 1e6 if number.isdecimal() else None


# -------------------------------------------------------------------------------------------------- NUMA nodes


def _nodes() -> list[NumaNode]:
    found = (_SYS / "devices/system/node").glob("node[0-9]*")
    return [_node(path) for path in sorted(found, key=lambda path: int(path.name.removeprefix("node")))]


def _node(path: Path) -> NumaNode:
    cores = _word(path / "cpulist")
    memory = _MEMORY.search(_word(path / "meminfo"))
    return NumaNode(
        number=int(path.name.removeprefix("node")),
        cores=cores,
        package=_package(re.findall(r"\d+", cores)),
        memory_bytes=int(memory[1]) * 1024 if memory else None,
        distances=[int(word) for word in _word(path / "distance").split() if word.isdecimal()],
    )


def _package(cores: Iterable[str]) -> int | None:
    """Return the socket of the first core."""
    for core in cores:
        word = _word(_SYS / f"devices/system/cpu/cpu{core}/topology/physical_package_id")
        return int(word) if word.isdecimal() else None
    return None
