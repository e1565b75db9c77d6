"""The machine in Linux sysfs: the tree of PCI devices, network cards, NUMA nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Literal

from volley.machine.capture import Attempt
from volley.machine.facts import BusFacts, NumaFacts, PciGpu, PciPlace, TopologyFacts
from volley.machine.line_rate import GIGATRANSFERS
from volley.units import parse_cpulist

ROOT = Path("/sys")
_NVIDIA = "0x10de"
_DISPLAY, _NETWORK, _OTHER_BRIDGE = "0x03", "0x02", "0x0680"
"""Base classes of display and network controllers, and the class of NVSwitches (PCI Code and ID Assignment
Specification)."""
_GENERATIONS = {f"{rate:.1f}": generation for generation, rate in GIGATRANSFERS.items()}
"""GT/s of a lane, as sysfs writes them, to the PCIe generation."""
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_MEMORY = re.compile(r"MemTotal:\s+(\d+) kB")

Kind = Literal["gpu", "nic", "nvswitch"]


def pci_address(text: str) -> str:
    """Return a PCI address as CUDA and Linux write it, with a domain of four digits: NVML's has eight.

    >>> pci_address("00000000:1B:00.0")
    '0000:1b:00.0'
    """
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def word(path: Path) -> str:
    """Return what a file of sysfs or procfs holds; nothing where it cannot be read, as the speed of an absent link."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """Return a number in a file; ``None`` for -1, with which the kernel says that it does not know."""
    text = word(path)
    return int(text) if text.isdecimal() else None


def names(folder: str) -> list[str]:
    return sorted(path.name for path in (ROOT / folder).glob("*"))


def pci_devices() -> list[Path]:
    return sorted((ROOT / "bus/pci/devices").glob("*"))


def kind_of(device: Path, *, is_network: bool = False) -> Kind | None:
    """Tell GPUs of NVIDIA, its NVSwitches and network cards from other PCI devices."""
    code, nvidia = word(device / "class"), word(device / "vendor") == _NVIDIA
    if nvidia and code.startswith(_DISPLAY):
        return "gpu"
    if nvidia and code.startswith(_OTHER_BRIDGE):
        return "nvswitch"
    return "nic" if is_network or code.startswith(_NETWORK) else None


def link(device: Path, which: Literal["current", "max"]) -> tuple[int | None, int | None]:
    """Return generation and lanes of a device's PCIe link: as it is now, or at most."""
    generation = _GENERATIONS.get(word(device / f"{which}_link_speed").partition(" ")[0])
    return generation, number(device / f"{which}_link_width") or None


def bus() -> BusFacts:
    gpus = [
        PciGpu(
            address=path.name,
            device_id=word(path / "device"),
            driver=(path / "driver").resolve().name if (path / "driver").exists() else None,
            generation_max=link(path, "max")[0],
            width_max=link(path, "max")[1],
            numa_node=number(path / "numa_node"),
        )
        for path in pci_devices()
        if kind_of(path) == "gpu"
    ]
    return BusFacts(gpus=gpus, infiniband=names("class/infiniband"))


def topology() -> TopologyFacts:
    """Find NUMA nodes, and where GPUs, network cards and NVSwitches hang.  Nothing is started, no driver is asked."""
    cards, rates = _network()
    places = [
        PciPlace(
            kind=kind,
            address=path.name,
            bridges=[part for part in path.resolve().parts[:-1] if _ADDRESS.fullmatch(part)],
            numa_node=number(path / "numa_node"),
            cores=word(path / "local_cpulist"),
            names=cards.get(path.name, []),
            rate_bits_per_s=rates.get(path.name),
        )
        for path in pci_devices()
        if (kind := kind_of(path, is_network=path.name in cards))
    ]
    nodes = [_numa_node(path) for path in (ROOT / "devices/system/node").glob("node[0-9]*")]
    return TopologyFacts(nodes=sorted(nodes, key=lambda node: node.number), places=places)


def _network() -> tuple[dict[str, list[str]], dict[str, float]]:
    cards: dict[str, list[str]] = defaultdict(list)
    rates: dict[str, float] = {}
    for path in (path for name in ("infiniband", "net") for path in sorted((ROOT / "class" / name).glob("*"))):
        # lo, bridges and tunnels have no device; a virtio device is a child of its PCI device.
        parts = reversed((path / "device").resolve().parts) if (path / "device").exists() else ()
        if address := next((part for part in parts if _ADDRESS.fullmatch(part)), None):
            cards[address].append(path.name)
            if found := _rate(path):
                rates.setdefault(address, found)
    return cards, rates


def _rate(path: Path) -> float | None:
    """Return the rate of a network device: ``100 Gb/sec (4X EDR)`` of an RDMA device, megabits per second of others."""
    rdma = word(path / "ports/1/rate").partition(" ")[0]
    if rdma.replace(".", "", 1).isdecimal():
        return float(rdma) * 1e9
    megabits = number(path / "speed")
    return None if megabits is None else megabits * 1e6


def _numa_node(path: Path) -> NumaFacts:
    cores = word(path / "cpulist")
    memory = _MEMORY.search(word(path / "meminfo"))
    first = re.match(r"\d+", cores)
    place = ROOT / f"devices/system/cpu/cpu{first[0]}/topology" if first else None
    threads = sum(map(len, parse_cpulist(word(place / "thread_siblings_list")))) if place else 0
    return NumaFacts(
        number=int(path.name.removeprefix("node")),
        cores=cores,
        threads_per_core=threads or None,
        package=number(place / "physical_package_id") if place else None,
        memory_bytes=int(memory[1]) * 1024 if memory else None,
        distances=[int(each) for each in word(path / "distance").split() if each.isdecimal()],
    )


BUS = Attempt("bus", "grep 0x10de /sys/bus/pci/devices/*/vendor", bus)
TOPOLOGY = Attempt("topology", "ls /sys/devices/system/node; readlink -f /sys/bus/pci/devices/*", topology)
