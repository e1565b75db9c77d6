"""Where the GPUs and network cards of composed machines hang, and where their NVLinks lead."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
from parts import address

from volley.machine import facts as f
from volley.machine.hardware import NvLink

GIB = 1 << 30
End = tuple[str | None, str | None]
"""PCI address and kind of what an NVLink leads to."""


def node(
    number: int, package: int, cores: str, gib: int, distances: Sequence[int], threads: int | None = None
) -> f.NumaFacts:
    return f.NumaFacts(
        number=number,
        package=package,
        cores=cores,
        threads_per_core=threads,
        memory_bytes=gib * GIB,
        distances=list(distances),
    )


def under(node: f.NumaFacts, kind: str, at: str, bridges: Sequence[str] = (), **more: object) -> f.PciPlace:
    """A device that hangs on a node."""
    known = {"kind": kind, "address": at, "bridges": list(bridges), "numa_node": node.number, "cores": node.cores}
    return msgspec.convert({**known, **more}, f.PciPlace)


def relocated(facts: f.Facts, addresses: Sequence[str], first: int = 4) -> f.Facts:
    """Give the GPUs these PCI addresses, wherever the facts name them."""
    new = {address(index, first): at for index, at in enumerate(addresses)}
    document = msgspec.json.encode(facts).decode()
    document = re.sub("|".join(map(re.escape, new)), lambda found: new[found[0]], document)
    return msgspec.json.decode(document, type=f.Facts)


def placed(facts: f.Facts, nodes: Sequence[f.NumaFacts], places: Sequence[f.PciPlace]) -> f.Facts:
    """Add what hangs where, and let doctor's older facts of the bus agree."""
    assert facts.bus.value
    by_address = {place.address: place for place in places}
    gpus = [msgspec.structs.replace(gpu, numa_node=by_address[gpu.address].numa_node) for gpu in facts.bus.value.gpus]
    rdma = [name for place in places for name in place.names if name.startswith("mlx")]
    bus = msgspec.structs.replace(facts.bus.value, gpus=gpus, infiniband=sorted(rdma))
    found = f.TopologyFacts(nodes=list(nodes), places=sorted(places, key=lambda place: place.address))
    return msgspec.structs.replace(
        facts,
        bus=msgspec.structs.replace(facts.bus, value=bus),
        topology=f.Probe(call=f.TOPOLOGY_CALL, value=found),
    )


def linked(facts: f.Facts, ends: Callable[[int, int], End], *, version: str, rate: float | None = None) -> f.Facts:
    """Say where each NVLink leads: ``ends`` is asked with GPU and link."""
    assert facts.nvml.value
    gpus = []
    for gpu in facts.nvml.value.gpus:
        links = [_led(link, ends(gpu.index, link.link), version, rate) for link in gpu.nvlinks or ()]
        gpus.append(msgspec.structs.replace(gpu, nvlinks=links))
    nvml = msgspec.structs.replace(facts.nvml.value, gpus=gpus)
    return msgspec.structs.replace(facts, nvml=msgspec.structs.replace(facts.nvml, value=nvml))


def _led(link: NvLink, end: End, version: str, rate: float | None) -> NvLink:
    remote, kind = end
    changes = {"version": version, "remote_pci": remote, "remote": kind or "unknown", "line_rate_bytes_per_s": rate}
    return msgspec.structs.replace(link, **changes)


# ----------------------------------------------------------------------------------------------- the machines


def summit(facts: f.Facts) -> f.Facts:
    """Two sockets, each with three V100; two NVLinks 2.0 join every two of a socket's three GPUs and its processor."""
    gpus = [f"0004:{bus:02x}:00.0" for bus in (4, 5, 6)] + [f"0035:{bus:02x}:00.0" for bus in (3, 4, 5)]
    left, right = node(0, 0, "0-87", 256, (10, 40), 4), node(8, 8, "88-175", 256, (40, 10), 4)
    processors = {left.number: "0006:00:00.0", right.number: "0007:00:00.0"}
    places = [under((left, right)[index // 3], "gpu", at) for index, at in enumerate(gpus)]
    for socket, domain in ((left, "0003"), (right, "0033")):
        for port in (0, 1):
            number = port if socket is left else port + 2
            names, path = [f"mlx5_{number}", f"ib{number}"], [f"{domain}:00:00.0"]
            places.append(under(socket, "nic", f"{domain}:01:00.{port}", path, names=names, rate_bits_per_s=1e11))

    def end(gpu: int, link: int) -> End:
        peers = [other for other in range(6) if other // 3 == gpu // 3 and other != gpu]
        socket = (left, right)[gpu // 3]
        return (gpus[peers[link // 2]], "gpu") if link < 4 else (processors[socket.number], "other")

    return linked(placed(relocated(facts, gpus), (left, right), places), end, version="2.0")


def abci_v(facts: f.Facts) -> f.Facts:
    """Two sockets, each with a PCIe switch, two V100 and a network card; two NVLinks 2.0 join every two GPUs."""
    left, right = node(0, 0, "0-19,40-59", 192, (10, 21), 2), node(1, 1, "20-39,60-79", 192, (21, 10), 2)
    gpus = ["0000:15:00.0", "0000:16:00.0", "0000:3a:00.0", "0000:3b:00.0"]
    above = {left.number: ("0000:11:00.0", "0000:12:00.0"), right.number: ("0000:36:00.0", "0000:37:00.0")}

    def below(socket: f.NumaFacts, kind: str, at: str, port: int, **more: object) -> f.PciPlace:
        root_port, upstream = above[socket.number]
        downstream = f"{upstream[:5]}{int(upstream[5:7], 16) + 1:02x}:{port:02x}.0"
        return under(socket, kind, at, (root_port, upstream, downstream), **more)

    places = [below((left, right)[index // 2], "gpu", at, 4 * (index % 2)) for index, at in enumerate(gpus)]
    for number, (socket, at) in enumerate(((left, "0000:14:00.0"), (right, "0000:39:00.0"))):
        names = [f"mlx5_{number}", f"ib{number}"]
        places.append(below(socket, "nic", at, 8, names=names, rate_bits_per_s=1e11))

    def end(gpu: int, link: int) -> End:
        return gpus[[other for other in range(4) if other != gpu][link // 2]], "gpu"

    return linked(placed(relocated(facts, gpus), (left, right), places), end, version="2.0")


def abci_a(facts: f.Facts) -> f.Facts:
    """Two sockets, each with two PCIe switches of two A100 and a network card; all GPUs on six NVSwitches."""
    left, right = node(0, 0, "0-35,72-107", 256, (10, 20), 2), node(1, 1, "36-71,108-143", 256, (20, 10), 2)
    gpus, places = [], []
    for index, bus in enumerate((0x24, 0x4F, 0xA1, 0xC7)):
        socket = (left, right)[index // 2]
        above = (f"0000:{bus:02x}:00.0", f"0000:{bus + 1:02x}:00.0")
        for port in range(3):
            at, path = f"0000:{bus + 3 + port:02x}:00.0", (*above, f"0000:{bus + 2:02x}:{4 * port:02x}.0")
            if port < 2:
                gpus.append(at)
                places.append(under(socket, "gpu", at, path))
            else:
                names = [f"mlx5_{index}", f"ib{index}"]
                places.append(under(socket, "nic", at, path, names=names, rate_bits_per_s=2e11))
    places += [under(right, "nvswitch", f"0000:{0xE0 + number:02x}:00.0") for number in range(6)]

    def end(gpu: int, link: int) -> End:
        return f"0000:{0xE0 + link // 2:02x}:00.0", "switch"

    return linked(placed(relocated(facts, gpus), (left, right), places), end, version="3.0")


def t4x4(facts: f.Facts) -> f.Facts:
    """Twelve cores, four T4 and a virtual network card on the one PCI bus that the hypervisor shows."""
    only = node(0, 0, "0-11", 78, (10,))
    gpus = [under(only, "gpu", address(index), numa_node=None) for index in range(4)]
    return placed(facts, (only,), [*gpus, under(only, "nic", "0000:00:08.0", numa_node=None, names=["ens8"])])


def h200x4(facts: f.Facts) -> f.Facts:
    """Four H200 in a virtual machine: one bus, one NUMA node, and the other ends of 18 NVLinks 4.0 are switches."""
    only = node(0, 0, "0-63", 512, (10,))
    addresses = [f"0000:00:{number:02x}.0" for number in range(6, 10)]
    places = [under(only, "gpu", at, numa_node=None) for at in addresses]
    places.append(under(only, "nic", "0000:00:03.0", numa_node=None, names=["eth0"]))
    return linked(
        placed(relocated(facts, addresses), (only,), places),
        lambda *_: ("0000:00:0d.0", "switch"),
        version="4.0",
        rate=26.562e9,
    )
