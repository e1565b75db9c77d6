"""The path of messages: library and protocol as the library says, and the devices whose counters saw the bytes.

The engine's benchmark ``path`` sends a few messages in a launch of its own and reads the counters of all network
devices of both hosts, and of the links of both GPUs, before and after them; there the libraries say what they chose.
The counters decide, the words explain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from volley.document import part_of
from volley.text import count, join_few, join_words
from volley.units import format_sig, format_size

LARGEST_TRIED = 1 << 22
"""A longer message takes the path of one of this size."""

BY_PEER_ACCESS = ("peer", "device")
"""The transports in which a GPU itself writes into the memory of another: over which link, its counters say."""
LIKE_HOST = "staged/"
"""How transports begin whose bytes travel between the ranks as those of ``host``."""
HEADERS_BYTES = {False: 66, True: 24}
"""Of each packet that an interface counts: Ethernet 14, IPv4 20, TCP with timestamps 32 (RFC 791, 9293, 7323); of an
RDMA device, whose counters leave out the rest: LRH 8, BTH 12, ICRC 4 (InfiniBand Architecture Specification,
PortXmitData)."""
SMALLEST_COUNTED = 1 << 12
"""Below this the library's own headers are a large part of a message: packets are counted there, and no bytes."""
SMALLEST_OVER_PCIE = 1 << 16
"""Below this a GPU's PCIe counts mostly commands: 5 KiB for a message of 4 KiB on an H200."""
PEER_ACCESS = "peer access"
_DIRECT = re.compile(rf"cuda_ipc|\bP2P/|{PEER_ACCESS}")
"""In the words of UCX and NCCL, and of CUDA's own transports: one GPU reads or writes the memory of the other."""
_LEAST_SHARE = {True: 0.05, False: 0.25}
"""A device with less of the bytes than this, or of the few packets, carried something else."""
_LEAST_SEEN, _MOST_SEEN = 0.5, {True: 1.2, False: 4.0}
"""The path is unknown if all devices of an end together counted less of what was sent, by bytes or packets; what is
beyond the most was sent by other programs."""
_OVER_TCP, _IN_MEMORY = (
    re.compile(r"\btcp\b|Socket"),
    re.compile(r"\b(sm|vader|posix|sysv|cma|knem|xpmem|SHM|P2P|cuda_ipc)\b"),
)
"""In the words of libraries: the loopback is theirs, or memory is and the loopback is another program's."""
NVLINK = "NVLink"
"""How the engine calls the NVLinks of a GPU; what it calls PCIe is the GPU's link to everything else."""
ONLY_HERE = ("lo", "docker", "virbr", "br-", "cni", "veth", "lxc")
"""How interfaces begin that lead to nothing but containers and virtual machines of one host."""


class CountedDevice(msgspec.Struct, frozen=True):
    """A network device of one end, or the links of its GPU, and what it counted while the messages were sent."""

    name: str
    rdma: bool
    up: bool
    rate_bits_per_s: float | None
    shared: list[str]
    """Interfaces whose bytes it counts as well: a bond above it, IPoIB on it."""
    sent_bytes: int
    received_bytes: int
    sent_packets: int
    received_packets: int
    gpu: bool = False
    """NVLink or PCIe of a GPU, which counts no packets.  NVLink is up if it joins the GPUs of both ends."""

    def amount(self, way: Literal["sent", "received"], *, bytes_counted: bool) -> float:
        """Return the bytes without headers that went one way, or the packets."""
        packets: int = getattr(self, f"{way}_packets")
        counted: int = getattr(self, f"{way}_bytes")
        return max(counted - HEADERS_BYTES[self.rdma] * packets, 0) if bytes_counted else packets


class CountedEnd(msgspec.Struct, frozen=True):
    rank: int
    host: str
    devices: list[CountedDevice]
    gpu: str = ""
    """The PCI address of the GPU whose memory the messages are in; empty: they are in memory of the host."""


class PathCounts(msgspec.Struct, frozen=True, tag_field="record", tag="path"):
    """The engine's record: messages of one size on one transport, and the counters at both ends."""

    transport: str
    size_bytes: int
    exchanges: int
    """Messages each way."""
    ends: list[CountedEnd]

    @property
    def apart(self) -> bool:
        """True if the ranks are on two hosts."""
        return len({end.host for end in self.ends}) > 1


class Said(NamedTuple):
    """What a library said of messages: its name, what it calls the way, why it took no other; empty: nothing."""

    library: str = ""
    protocol: str = ""
    reason: str = ""


class DeviceShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a device of an end carried."""

    name: str
    rdma: bool = False
    rate_bits_per_s: float | None = None
    sent: float = 0.0
    """The part of the bytes that left this end; of small messages of their packets."""
    received: float = 0.0
    gpu: bool = False
    """NVLink or PCIe of the GPU."""


class PathEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rank: int
    host: str
    devices: list[DeviceShare] = []
    """Those that carried something, the most first."""
    gpu: str = ""
    """The PCI address of the GPU whose memory the messages are in."""


class RunPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What carried the messages of one size on one transport."""

    transport: str
    size_bytes: int
    bytes_each_way: int
    counted: float | None
    """Of these, the part that the counters saw, at the end and in the direction with the least, or the most where other
    programs used the loopback; null: small messages, whose bytes say nothing."""
    library: str
    """``Open MPI ob1``; empty: it did not say."""
    protocol: str
    """As the library calls it: ``tcp``, ``rendezvous zero-copy, rc_mlx5/mlx5_0:1``; empty: it did not say."""
    ends: list[PathEnd]
    reason: str = ""
    """Why the library took no better one, if it said so."""
    idle: list[DeviceShare] = []
    """Devices that are up on both hosts and carried nothing, the fastest first; of one host only NVLink between its
    GPUs.  An RDMA device is idle, too, if TCP goes over an interface of the same card."""

    @property
    def apart(self) -> bool:
        return len({end.host for end in self.ends}) > 1

    @property
    def devices(self) -> list[DeviceShare]:
        return [device for end in self.ends for device in end.devices]

    def over(self) -> str:
        """``eth0 (10 Gbit/s)``, ``60 % on eth0 (10 Gbit/s) and 40 % on eth1``; of other devices at both ends, both."""
        ways = []
        for one, other in (self.ends, self.ends[::-1]):
            out = _shares((device, device.sent) for device in one.devices)
            back = _shares((device, device.received) for device in other.devices)
            ways.append(out if out == back or not self.apart else f"{out or '?'} to {back or '?'}")
        if ways[0] == ways[1] or not self.apart:
            return ways[0]
        return f"{ways[0]}, back over {ways[1]}"

    @property
    def kind(self) -> str:
        """``TCP``, ``RDMA``, ``GPU to GPU``, ``memory of the host`` or ``of the GPU``; empty: unknown."""
        links = any(device.gpu for device in self.devices)
        if self.devices and not links:
            return "RDMA" if all(device.rdma for device in self.devices) else "TCP"
        direct = self.of_gpus and _DIRECT.search(self.protocol)  # of two hosts: NVLink joins them
        if self.crowded or (self.of_gpus and not self.protocol and not links) or (self.apart and not (direct or links)):
            return ""
        if _in_one_gpu(self.ends) and direct and not links:
            return "memory of the GPU"
        if direct or any(device.name == NVLINK for device in self.devices):
            return "GPU to GPU"
        # One GPU for both ranks: what its PCIe counts goes to the host and back.
        sure = self.protocol or not links or _in_one_gpu(self.ends)
        return "memory of the host" if sure else "GPU to GPU or memory of the host"

    @property
    def crowded(self) -> bool:
        """True if devices counted more than was sent: other programs used them, too."""
        # NCCL itself sends up to twice the bytes over the links of GPUs: a flag with each word (its protocol LL).
        return (self.counted or 0.0) > _MOST_SEEN[True] and not any(device.gpu for device in self.devices)

    @property
    def of_gpus(self) -> bool:
        """True if the messages are in the memory of GPUs."""
        return self.transport.startswith(("aware", "nccl", *BY_PEER_ACCESS))

    @property
    def lanes(self) -> str:
        """The last part of the library's words, which names the way; empty if UCX names none, as of its pipelines."""
        first, _, last = self.protocol.rpartition(", ")
        return "" if first and "/" not in last else last

    def in_short(self) -> str:
        """Return what is equal for all messages that go one way: ``TCP over eth0 (10 Gbit/s), UCX``."""
        if not self.kind:
            return self.words()
        if not self.devices:
            return ", ".join(filter(None, (self.kind, self.library, self.lanes)))
        out, back = (
            join_words(sorted(device_words(each) for each in self.ends[0].devices if getattr(each, way)))
            for way in ("sent", "received")
        )
        way = out if out == back else f"{out}, back over {back}"
        unused = join_few(map(device_words, self.idle), 2)
        said = self.lanes if any(device.gpu for device in self.devices) else ""
        return ", ".join(filter(None, (f"{self.kind} over {way}", self.library, said, unused and f"idle: {unused}")))

    def words(self) -> str:
        """Return what is known: ``TCP over eth0 (10 Gbit/s): Open MPI ob1, tcp``."""
        said = ", ".join(filter(None, (self.library, self.protocol)))
        times = f"{format_sig(self.counted or 0.0, 2)} times what was sent was counted, so other programs sent as well"
        if self.devices:
            way = ": ".join(filter(None, (f"{self.kind} over {self.over()}", said)))
            return f"{way}; {times}" if self.crowded else way
        if self.crowded or (not self.kind and self.apart):
            why = f"no counter of a network device saw the bytes{said and f'; the library says {said}'}"
            return f"unknown, because {times if self.crowded else why}"
        return f"{self.kind or 'unknown'}: {said or 'the library does not say how'}"


class Algorithm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a library made an operation among all ranks, in its own words."""

    transport: str
    operation: str
    size_bytes: int
    algorithm: str
    """``RING``, ``TREE``, ``NVLS``, …"""
    protocol: str
    """``LL``, ``LL128``, ``SIMPLE``."""
    channels: int

    @property
    def words(self) -> str:
        return f"{self.algorithm} {self.protocol}, {count(self.channels, 'channel')}"


class LaunchPaths(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a launch of its own showed; these keys are in a plan's ``launch``."""

    paths: list[RunPath]
    """Empty: the launch failed."""
    algorithms: list[Algorithm] = []


def _in_one_gpu(ends: Sequence[CountedEnd | PathEnd]) -> bool:
    return bool(ends[0].gpu) and len({(end.host, end.gpu) for end in ends}) == 1


def _shares(parts: Iterable[tuple[DeviceShare, float]]) -> str:
    used = [(device, part) for device, part in parts if part]
    each = [f"{part * 100:.0f} % on {device_words(device)}" for device, part in used]
    return device_words(used[0][0]) if len(used) == 1 else join_words(each)


def of_plan(launch: Mapping[str, Any]) -> LaunchPaths:
    """Return what was written into a plan's ``launch``; nothing where there is none, or none of this form."""
    return part_of(dict(launch), LaunchPaths) or LaunchPaths([])


def by_place(launch: Mapping[str, Any]) -> dict[str, str]:
    """Return what is to be compared with another run: ``TCP over eth0 (10 Gbit/s), UCX`` of ``host at 64 KiB``."""
    shown = of_plan(launch)
    ways = {f"{each.transport} at {format_size(each.size_bytes)}": each.in_short() for each in shown.paths}
    return ways | {
        f"{each.transport} {each.operation} at {format_size(each.size_bytes)}": each.words for each in shown.algorithms
    }


def device_words(device: DeviceShare) -> str:
    rate = device.rate_bits_per_s
    return f"{device.name} ({rate / 1e9:g} Gbit/s)" if rate else device.name


# ------------------------------------------------------------------------------------------------- what was counted


def path_of(counts: PathCounts, said: Said) -> RunPath:
    """Return the path of messages from the counters of both ends and from what the libraries said."""
    by_bytes = counts.size_bytes >= SMALLEST_COUNTED
    nvlink, network, pcie = (_carried(counts, link) for link in (NVLINK, "", "PCIe"))
    in_memory, crowded = _IN_MEMORY.search(said.protocol), max(network[1]) > _MOST_SEEN[by_bytes]
    others = not (counts.apart or _OVER_TCP.search(said.protocol)) and (in_memory or crowded)
    within = _in_one_gpu(counts.ends) and _DIRECT.search(said.protocol)
    no_pcie = counts.apart or within or counts.size_bytes < SMALLEST_OVER_PCIE
    # If others use the loopback, it says nothing.  What a network carries from GPU to GPU goes over PCIe before.
    able = [nvlink, *([] if others else [network]), *([] if no_pcie else [pcie])]
    nothing = [PathEnd(end.rank, end.host, [], end.gpu) for end in counts.ends]
    ends, seen = next((each for each in able if any(end.devices for end in each[0])), (nothing, []))
    counted = min(seen) if by_bytes and seen else max(network[1]) if others and not (seen or in_memory) else None
    return RunPath(
        counts.transport,
        counts.size_bytes,
        counts.size_bytes * counts.exchanges,
        counted,
        said.library,
        said.protocol,
        ends,
        said.reason,
        _idle(counts, ends) if counts.apart else _idle_nvlink(counts, ends, said),
    )


def _carried(counts: PathCounts, link: str) -> tuple[list[PathEnd], list[float]]:
    """Return what the devices of both ends carried, and the part of the whole that they counted in each direction.

    Args:
        counts: the messages.
        link: which links of the GPUs; empty: network devices.
    """
    by_bytes = counts.size_bytes >= SMALLEST_COUNTED
    # The loopback, or the GPU of both ranks, sends and receives the messages of both.
    both = _in_one_gpu(counts.ends) if link else not counts.apart
    whole = counts.exchanges * (counts.size_bytes if by_bytes else 1) * (2 if both else 1)
    ends: list[PathEnd] = []
    seen: list[float] = []
    for end in counts.ends:
        devices = [each for each in end.devices if (each.name if each.gpu else "") == link]
        able = [each for each in devices if link or (each.name == "lo") != counts.apart]
        out, back = (_amounts(able, way, whole, bytes_counted=by_bytes) for way in ("sent", "received"))
        totals = [sum(amounts.values()) / whole for amounts in (out, back)]
        seen += totals
        shares = [
            DeviceShare(each.name, each.rdma, each.rate_bits_per_s, _part(each, out), _part(each, back), each.gpu)
            for each in able
            if min(totals) >= _LEAST_SEEN and max(_part(each, out), _part(each, back)) >= _LEAST_SHARE[by_bytes]
        ]
        shares.sort(key=lambda each: -max(each.sent, each.received))
        ends.append(PathEnd(end.rank, end.host, shares, end.gpu))
    return ends, seen


def _amounts(
    devices: Sequence[CountedDevice], way: Literal["sent", "received"], whole: float, *, bytes_counted: bool
) -> dict[str, float]:
    """Return what devices counted one way; what two of them counted belongs to the upper one, which libraries name.

    If they counted more than the whole, and one of them the whole, the others counted what other programs sent.
    """
    amounts = {each.name: each.amount(way, bytes_counted=bytes_counted) for each in devices}
    twice = {
        each.name for each in devices if any(amounts.get(above, 0.0) > amounts[each.name] / 2 for above in each.shared)
    }
    amounts |= dict.fromkeys(twice, 0.0)
    most = _MOST_SEEN[bytes_counted] * whole
    alone = [name for name, amount in amounts.items() if bytes_counted and 0.9 * whole <= amount <= most]
    if sum(amounts.values()) > most and len(alone) == 1:
        return {name: amount if name in alone else 0.0 for name, amount in amounts.items()}
    return amounts


def _part(device: CountedDevice, amounts: Mapping[str, float]) -> float:
    return amounts[device.name] / (sum(amounts.values()) or 1.0)


def _idle(counts: PathCounts, ends: Sequence[PathEnd]) -> list[DeviceShare]:
    first, second = (
        {each.name: each for each in end.devices if each.up and not (each.gpu or each.name.startswith(ONLY_HERE))}
        for end in counts.ends
    )
    used = {device.name for end in ends for device in end.devices}
    beside = {above for name in used for device in (first.get(name),) if device for above in device.shared}
    idle = [
        DeviceShare(name, each.rdma, min(each.rate_bits_per_s or 0, second[name].rate_bits_per_s or 0) or None)
        for name, each in first.items()
        if name in second and name not in used | beside and (each.rdma or used.isdisjoint(each.shared))
    ]
    return sorted(idle, key=lambda each: -(each.rate_bits_per_s or 0))


def _idle_nvlink(counts: PathCounts, ends: Sequence[PathEnd], said: Said) -> list[DeviceShare]:
    """Return NVLink if it joins the GPUs and the bytes went over PCIe, or through the host as the library says."""
    joined = all(any(each.name == NVLINK and each.up for each in end.devices) for end in counts.ends)
    used = {device.name for end in ends for device in end.devices}
    through_host = said.protocol and not _DIRECT.search(said.protocol)
    return [DeviceShare(NVLINK, gpu=True)] if joined and NVLINK not in used and (used or through_host) else []
