"""The path of messages: library and protocol as the library says, and the devices whose counters saw the bytes.

The engine's benchmark ``path`` sends a few messages in a launch of its own and reads the counters of all network
devices of both hosts before and after them; there the libraries say what they chose.  The counters decide, the words
explain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from volley.text import join_few, join_words
from volley.units import format_sig, format_size

LARGEST_TRIED = 1 << 22
"""A longer message takes the path of one of this size."""

LIKE_HOST = "staged/"
"""How transports begin whose bytes travel between the ranks as those of ``host``."""
HEADERS_BYTES = {False: 66, True: 24}
"""Of each packet that an interface counts: Ethernet 14, IPv4 20, TCP with timestamps 32 (RFC 791, 9293, 7323); of an
RDMA device, whose counters leave out the rest: LRH 8, BTH 12, ICRC 4 (InfiniBand Architecture Specification,
PortXmitData)."""
SMALLEST_COUNTED = 1 << 12
"""Below this the library's own headers are a large part of a message: packets are counted there, and no bytes."""
_DIRECT = re.compile(r"cuda_ipc|\bP2P/")
"""In the words of UCX and NCCL: one GPU reads or writes the memory of the other."""
_STAGED = re.compile(r"cuda_copy|frag host|fragmented")
"""In UCX's: it copies GPU memory to the host, piece by piece."""
_LONG_BYTES = 1 << 20
"""Shorter messages that MPI sends from GPU to GPU may go through the host because that takes less time."""
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
_FASTER = 1.5
"""A device that does nothing is worth a word if it is so many times as fast as the one that carried the bytes."""
ONLY_HERE = ("lo", "docker", "virbr", "br-", "cni", "veth", "lxc")
"""How interfaces begin that lead to nothing but containers and virtual machines of one host."""


class CountedDevice(msgspec.Struct, frozen=True):
    """A network device of one end, and what it counted while the messages were sent."""

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

    def amount(self, way: Literal["sent", "received"], *, bytes_counted: bool) -> float:
        """Return the bytes without headers that went one way, or the packets."""
        packets: int = getattr(self, f"{way}_packets")
        counted: int = getattr(self, f"{way}_bytes")
        return max(counted - HEADERS_BYTES[self.rdma] * packets, 0) if bytes_counted else packets


class CountedEnd(msgspec.Struct, frozen=True):
    rank: int
    host: str
    devices: list[CountedDevice]


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


class PathEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rank: int
    host: str
    devices: list[DeviceShare] = []
    """Those that carried something, the most first."""


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
    """Devices that are up on both hosts and carried nothing, the fastest first; of two hosts only.  An RDMA device is
    idle, too, if TCP goes over an interface of the same card."""

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
        """``TCP``, ``RDMA``; of one host without a device ``memory of the host``, ``GPU to GPU``; empty: unknown."""
        if self.devices:
            return "RDMA" if all(device.rdma for device in self.devices) else "TCP"
        direct = self.of_gpus and _DIRECT.search(self.protocol)  # of two hosts: NVLink joins them
        if self.crowded or (self.of_gpus and not self.protocol) or (self.apart and not direct):
            return ""
        return "GPU to GPU" if direct else "memory of the host"

    @property
    def crowded(self) -> bool:
        """True if devices counted more than was sent: other programs used them, too."""
        return (self.counted or 0.0) > _MOST_SEEN[True]

    @property
    def of_gpus(self) -> bool:
        """True if the messages are in the memory of GPUs."""
        return self.transport.startswith(("aware", "nccl"))

    def in_short(self) -> str:
        """Return what is equal for all messages that go one way: ``TCP over eth0 (10 Gbit/s), UCX``."""
        if not self.kind:
            return self.words()
        if not self.devices:  # the last part of UCX's words names the way
            return ", ".join(filter(None, (self.kind, self.library, self.protocol.rpartition(", ")[2])))
        out, back = (
            join_words(sorted(device_words(each) for each in self.ends[0].devices if getattr(each, way)))
            for way in ("sent", "received")
        )
        way = out if out == back else f"{out}, back over {back}"
        unused = join_few(map(device_words, self.idle), 2)
        return ", ".join(filter(None, (f"{self.kind} over {way}", self.library, unused and f"idle: {unused}")))

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


def _shares(parts: Iterable[tuple[DeviceShare, float]]) -> str:
    used = [(device, part) for device, part in parts if part]
    each = [f"{part * 100:.0f} % on {device_words(device)}" for device, part in used]
    return device_words(used[0][0]) if len(used) == 1 else join_words(each)


def of_plan(launch: Mapping[str, Any]) -> list[RunPath]:
    """Return what was written into a plan's ``launch``; nothing where there is none, or none of this form."""
    try:
        return msgspec.convert(launch.get("paths", []), list[RunPath])
    except msgspec.ValidationError:
        return []


def by_place(launch: Mapping[str, Any]) -> dict[str, str]:
    """Return what is to be compared with another run: ``TCP over eth0 (10 Gbit/s), UCX`` of ``host at 64 KiB``."""
    return {f"{each.transport} at {format_size(each.size_bytes)}": each.in_short() for each in of_plan(launch)}


def device_words(device: DeviceShare) -> str:
    rate = device.rate_bits_per_s
    return f"{device.name} ({rate / 1e9:g} Gbit/s)" if rate else device.name


# ------------------------------------------------------------------------------------------------- what was counted


def path_of(counts: PathCounts, said: Said) -> RunPath:
    """Return the path of messages from the counters of both ends and from what the libraries said."""
    whole = counts.size_bytes * counts.exchanges
    by_bytes = counts.size_bytes >= SMALLEST_COUNTED
    sent = whole if by_bytes else counts.exchanges
    ends: list[PathEnd] = []
    seen: list[float] = []
    for end in counts.ends:
        able = [each for each in end.devices if (each.name == "lo") != counts.apart]
        # The loopback sends and receives the messages of both ranks.
        whole_end = sent * (1 if counts.apart else 2)
        out, back = (_amounts(able, way, whole_end, bytes_counted=by_bytes) for way in ("sent", "received"))
        totals = [sum(amounts.values()) / whole_end for amounts in (out, back)]
        seen += totals
        shares = [
            DeviceShare(each.name, each.rdma, each.rate_bits_per_s, _part(each, out), _part(each, back))
            for each in able
            if min(totals) >= _LEAST_SEEN and max(_part(each, out), _part(each, back)) >= _LEAST_SHARE[by_bytes]
        ]
        ends.append(PathEnd(end.rank, end.host, sorted(shares, key=lambda each: -max(each.sent, each.received))))
    counted = min(seen) if by_bytes and any(end.devices for end in ends) else None
    in_memory, crowded = _IN_MEMORY.search(said.protocol), max(seen) > _MOST_SEEN[by_bytes]
    if not (counts.apart or _OVER_TCP.search(said.protocol)) and (in_memory or crowded):
        ends = [PathEnd(end.rank, end.host) for end in ends]  # another program uses the loopback
        counted = None if in_memory else max(seen)
    idle = _idle(counts, ends) if counts.apart else []
    return RunPath(
        counts.transport, counts.size_bytes, whole, counted, said.library, said.protocol, ends, said.reason, idle
    )


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
        {each.name: each for each in end.devices if each.up and not each.name.startswith(ONLY_HERE)}
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


# ------------------------------------------------------------------------------------------------------ fallbacks

_CHOICES = {
    "NCCL": (
        re.compile(r"NCCL_(NET|NET_PLUGIN|IB_\w+|SOCKET_IFNAME|NET_GDR_LEVEL|P2P_\w+|SHM_DISABLE)"),
        "NCCL_IB_HCA={}",
        "NCCL_SOCKET_IFNAME={}",
    ),
    "Open MPI ob1": (
        re.compile(r"OMPI_MCA_(pml|btl|btl_tcp_if_\w+)"),
        "OMPI_MCA_pml=ucx",
        "OMPI_MCA_btl_tcp_if_include={}",
    ),
    "UCX": (re.compile(r"UCX_(TLS|NET_DEVICES|IB_GPU_DIRECT_RDMA)"), "UCX_NET_DEVICES={}:1", "UCX_NET_DEVICES={}"),
    "": (
        re.compile(r"FI_(PROVIDER|\w+_IFACE)|I_MPI_(FABRICS|OFI_PROVIDER)|OMPI_MCA_mtl\w*"),
        "FI_PROVIDER={}",
        "FI_TCP_IFACE={}",
    ),
}
"""By the beginning of the library: the variables that choose a network, and what chooses an RDMA device or an
interface; the last one is libfabric."""
_PROVIDERS = {"rdmap": "efa", "efa": "efa", "hfi1": "opx", "cxi": "cxi"}
"""Of libfabric, by the beginning of the name of a device; other devices have ``verbs``, and UCX knows them."""
_BY_LIBFABRIC = {True: "NCCL_NET_PLUGIN=aws-ofi", False: "OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi"}
"""What makes NCCL, and an Open MPI, take such a device."""
_SLINGSHOT = "hsn"
"""How the interfaces of its cards begin, whose RDMA is in no list of devices."""


@dataclass(frozen=True)
class Fallback:
    """Messages that went a slower way than the hosts have."""

    text: str
    unset: Sequence[str]
    """Variables that chose it."""
    change: str
    """The variable with which another launch proves what the other device does."""


def fallback(path: RunPath, environment: Mapping[str, str], sizes: str) -> Fallback | None:
    """Return what is wrong with a path, with the reason where one is known; ``None``: nothing that is known.

    Args:
        path: of messages of these ``sizes``, in words.
        environment: the variables of the ranks.
    """
    chosen, by_device, by_interface = next(each for begin, each in _CHOICES.items() if path.library.startswith(begin))
    unset = [name for name in environment if chosen.fullmatch(name)]
    why = (
        f"the environment sets {join_words(f'{name}={environment[name]}' for name in unset)}" if unset else path.reason
    )
    by_size = path.transport.startswith("aware") and path.size_bytes < _LONG_BYTES  # NCCL has one way for all sizes
    if path.kind == "memory of the host" and path.of_gpus and unset and not by_size:
        return Fallback(f"{sizes} through the memory of the host ({path.protocol}): {why}", unset, "")
    nccl = path.library.startswith("NCCL")
    staged = path.protocol and "GDR" not in path.protocol if nccl else not by_size and _STAGED.search(path.protocol)
    if path.kind == "RDMA" and path.of_gpus and staged:
        text = f"{sizes} over RDMA on {path.over()} without GPUDirect, through the memory of both hosts"
        return Fallback(
            f"{text}: {why}" if why else text,
            unset,
            "" if unset else "NCCL_NET_GDR_LEVEL=SYS" if nccl else "UCX_IB_GPU_DIRECT_RDMA=yes",
        )
    if path.kind != "TCP":
        return None
    over = f"{sizes} over TCP on {path.over()}"
    if not path.apart:
        text = f"{over} although both ranks are on {path.ends[0].host}"
        return Fallback(f"{text}; {why}" if why else text, unset, "")
    slowest = min((device.rate_bits_per_s or 0 for device in path.devices), default=0)
    better = next(
        (each for each in path.idle if each.rdma or (slowest and (each.rate_bits_per_s or 0) > _FASTER * slowest)), None
    )
    if better is None and any(device.name.startswith(_SLINGSHOT) for device in path.devices):
        better = DeviceShare("cxi", rdma=True)
    if better is None:
        return None
    provider = next((name for begin, name in _PROVIDERS.items() if better.name.startswith(begin)), "")
    if provider and not by_device.startswith("FI_"):
        by_device = _BY_LIBFABRIC[nccl]
    named = provider or "verbs" if by_device.startswith("FI_") else better.name
    change = by_device.format(named) if better.rdma else by_interface.format(better.name)
    text = f"{over} though {device_words(better)} is up on both hosts"
    return Fallback(f"{text}: {why}" if why else text, unset, "" if unset else change)
