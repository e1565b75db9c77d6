"""What the hardware between two GPUs allows, from its own description: pure functions over ``hardware`` records.

A line rate is what the wires carry, headers included.  No transport reaches it; docs/method/comparing.md says why the
packets' overhead is not taken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from volley.machine.hardware import Gpu, Hardware, NvLink, PeerStatus
from volley.machine.health import C2C
from volley.machine.transports import Route
from volley.text import escape_controls
from volley.units import format_sig

NOMINAL_BYTES_PER_S = {"1.0": 20e9, "2.0": 25e9, "2.2": 25e9, "3.0": 25e9, "3.1": 25e9, "4.0": 25e9, "5.0": 50e9}
"""One NVLink in one direction, where NVML names no rate.  Source: NVIDIA's architecture whitepapers, each total divided
by its links and 2 directions: P100 160 GB/s of 4 links, V100 300 of 6, A100 600 of 12, H100 900 of 18, B200 1800 of
18."""

GIGATRANSFERS = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}
"""PCI Express: billions of transfers a second and lane, a bit each.  Source: PCI-SIG, PCI Express Base Specification
6.0."""


@dataclass(frozen=True)
class LineRate:
    over: Literal["NVLink", "NVLink-C2C", "PCIe"]
    words: str
    """What it is made of: ``18 links of 26.56 GB/s with packet headers; NVIDIA states 450 GB/s``."""
    one_way_Bps: float
    both_ways_Bps: float
    """Both directions together, when both ranks send at once."""

    def describe(self) -> str:
        """Return it in words: ``478.1 GB/s over NVLink (18 links of 26.56 GB/s)``."""
        return f"{format_sig(self.one_way_Bps / 1e9)} GB/s over {self.over} ({escape_controls(self.words)})"

    def of(self, direction: str | None) -> float:
        """Return the line rate of what is shown; ``bi`` shows both directions together."""
        return self.both_ways_Bps if direction == "bi" else self.one_way_Bps


_C2C = LineRate("NVLink-C2C", "NVIDIA states 450 GB/s in each direction", 450e9, 900e9)
"""Between a Grace processor and its GPU.  Source: NVIDIA Grace Hopper Superchip Architecture, 900 GB/s in all."""


def between(route: Route, uuids: tuple[str, str], hardware: Sequence[Hardware]) -> LineRate | None:
    """Return the line rate of a route between two GPUs of one host; ``None`` where it is not known.

    ``staged`` with a GPU and itself is the route between that GPU and its host.
    """
    states = [[gpu for record in hardware for gpu in record.gpus if gpu.uuid == uuid] for uuid in uuids]
    if not all(states):
        return None
    shared = uuids[0] == uuids[1]
    if route == "staged":
        chips = all(C2C.search(each[-1].name or "") for each in states)
        return _C2C if chips else _pcie(states, together=1 if shared else 2)
    if shared:  # within one GPU's memory
        return None
    first, second = (each[-1] for each in states)
    if first.nvlinks is None or second.nvlinks is None:
        return None
    peers = [
        peer for record in hardware for peer in record.peers if {peer.first, peer.second} == {first.uuid, second.uuid}
    ]
    return _nvlink(first, second, peers) or _pcie(states, together=2)


def _nvlink(first: Gpu, second: Gpu, peers: Iterable[PeerStatus]) -> LineRate | None:
    said = [peer.nvlink for peer in peers if peer.nvlink is not None]
    if said and "ok" not in said:
        return None  # links may be there, and the switch between them not set up
    sides = [_towards(*pair, joined="ok" in said) for pair in ((first, second), (second, first))]
    rates = [[nvlink_bytes_per_s(link) or 0.0 for link in side] for side in sides]
    if not all(side and all(side) for side in rates):
        return None
    narrow = min(rates, key=sum)
    total = sum(narrow)
    each = {f"{format_sig(rate / 1e9)} GB/s" for rate in narrow}
    words = f"{len(narrow)} link{'' if len(narrow) == 1 else 's'} of {' or '.join(sorted(each))}"
    stated = min(sum(NOMINAL_BYTES_PER_S.get(link.version or "", total) for link in side) for side in sides)
    if stated < total:
        words += f" with packet headers; NVIDIA states {stated / 1e9:g} GB/s"
    return LineRate("NVLink", words, total, 2 * total)


def _towards(gpu: Gpu, peer: Gpu, *, joined: bool) -> list[NvLink]:
    """The links of a GPU that lead to its peer: those to the peer itself, else all that lead into the switch.

    A virtual machine may hide what is at the other end; where NVML says that NVLink joins the two, those links count.
    """
    links = gpu.nvlinks or []
    direct = [link for link in links if link.remote_pci is not None and link.remote_pci == peer.pci]
    if direct:
        return direct
    return [link for link in links if link.remote == "switch" or (joined and link.remote == "unknown")]


def nvlink_bytes_per_s(link: NvLink) -> float | None:
    """Return the line rate of a link in one direction: NVML's, else that of its version; ``None``: neither is known."""
    return link.line_rate_bytes_per_s or NOMINAL_BYTES_PER_S.get(link.version or "")


def _pcie(states: Sequence[Sequence[Gpu]], *, together: int) -> LineRate | None:
    """The slower of two GPUs' PCIe links, each as it was read before and after; ``None`` where one is not known.

    ``together``: how much of both directions' payload fits through at once, in units of one direction.  Two ranks on
    one GPU send every byte through the same link twice, once each way.

    An idle link steps down to a lower generation and never to fewer lanes, so the generation is the most that the link
    can have and the lanes are those that it has.
    """
    links = []
    for gpus in states:
        seen = max(gpu.pcie_generation or 0 for gpu in gpus)
        generation = max(seen, *(gpu.pcie_generation_max or 0 for gpu in gpus))
        width = max(gpu.pcie_width or 0 for gpu in gpus)
        rate = pcie_bytes_per_s(generation, width)
        if rate is None:
            return None
        stepped = f", read as {seen}.0 when idle" if 0 < seen < generation else ""
        links.append((rate, f"{generation}.0 x{width}{stepped}"))
    rate, words = min(links, key=lambda link: link[0])
    return LineRate("PCIe", words, rate, together * rate)


def pcie_bytes_per_s(generation: int, width: int) -> float | None:
    """Return the line rate of a PCI Express link in one direction; ``None`` for an unknown generation or no lanes.

    Transfers × lanes × what the line code leaves: 8 of 10 bits (generations 1, 2), 128 of 130 bits (3 to 5), 236 of a
    flit's 256 bytes (6).  Source: PCI-SIG, PCI Express Base Specification 6.0.

    >>> round(pcie_bytes_per_s(5, 16) / 1e9, 3)
    63.015
    """
    if generation not in GIGATRANSFERS or width < 1:
        return None
    code = 8 / 10 if generation <= 2 else 128 / 130 if generation <= 5 else 236 / 256
    return GIGATRANSFERS[generation] * 1e9 * width * code / 8
