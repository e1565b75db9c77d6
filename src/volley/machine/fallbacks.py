"""Messages that went a slower way than the hosts and GPUs have: which one, why, and what shows the other way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from volley.machine.paths import DeviceShare, RunPath, device_words
from volley.text import join_words

_STAGED = re.compile(r"cuda_copy|frag host|fragmented")
"""In UCX's: it copies GPU memory to the host, piece by piece."""
_LONG_BYTES = 1 << 20
"""Shorter messages that MPI sends from GPU to GPU may go through the host because that takes less time."""
_FASTER = 1.5
"""A device that does nothing is worth a word if it is so many times as fast as the one that carried the bytes."""
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
    "CUDA": (re.compile("(?!)"), "", ""),  # no variable
    "UCX": (re.compile(r"UCX_(TLS|NET_DEVICES|IB_GPU_DIRECT_RDMA)"), "UCX_NET_DEVICES={}:1", "UCX_NET_DEVICES={}"),
    "": (
        re.compile(r"FI_(PROVIDER|\w+_IFACE)|I_MPI_(FABRICS|OFI_PROVIDER)|OMPI_MCA_mtl\w*"),
        "FI_PROVIDER={}",
        "FI_TCP_IFACE={}",
    ),
}
"""By the beginning of the library: the variables that choose a network, and what chooses an RDMA device or an
interface; CUDA has none, and the last one is libfabric."""
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
    chosen, *changes = next(each for begin, each in _CHOICES.items() if path.library.startswith(begin))
    unset = [name for name in environment if chosen.fullmatch(name)]
    why = (
        f"the environment sets {join_words(f'{name}={environment[name]}' for name in unset)}" if unset else path.reason
    )
    # MPI sends short messages from GPU to GPU as it likes; NCCL has one way for all sizes.
    by_size = path.transport.startswith("aware") and path.size_bytes < _LONG_BYTES
    found = _past_nvlink(path, unset) or _without_gpudirect(path) if path.of_gpus and not by_size else None
    found = found or _over_tcp(path, *changes)
    if found is None:
        return None
    text, change = found
    return Fallback(f"{sizes} {text}: {why}" if why else f"{sizes} {text}", unset, "" if unset else change)


_Found = tuple[str, str]
"""What is slower, and the variable that changes it."""


def _past_nvlink(path: RunPath, unset: Sequence[str]) -> _Found | None:
    """Messages of GPUs that a variable sends through the host, or that NVLink between the GPUs does not carry."""
    through_host = path.kind.startswith("memory of the host")
    if path.apart or path.kind == "TCP" or not (path.idle or (through_host and unset)):
        return None
    way = "through the memory of the host" if through_host else f"over {path.over()}"
    said = f" ({path.protocol})" if path.protocol else ""
    beside = " though NVLink joins the GPUs" if path.idle else ""
    return f"{way}{said}{beside}", "NCCL_P2P_LEVEL=NVL" if path.library.startswith("NCCL") else ""


def _without_gpudirect(path: RunPath) -> _Found | None:
    nccl = path.library.startswith("NCCL")
    staged = path.protocol and "GDR" not in path.protocol if nccl else _STAGED.search(path.protocol)
    if path.kind != "RDMA" or not staged:
        return None
    text = f"over RDMA on {path.over()} without GPUDirect, through the memory of both hosts"
    return text, "NCCL_NET_GDR_LEVEL=SYS" if nccl else "UCX_IB_GPU_DIRECT_RDMA=yes"


def _over_tcp(path: RunPath, by_device: str, by_interface: str) -> _Found | None:
    """TCP on one host, or beside a better device; the last two are what chooses an RDMA device, and an interface."""
    if path.kind != "TCP":
        return None
    over = f"over TCP on {path.over()}"
    if not path.apart:
        return f"{over} although both ranks are on {path.ends[0].host}", ""
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
        by_device = _BY_LIBFABRIC[path.library.startswith("NCCL")]
    named = provider or "verbs" if by_device.startswith("FI_") else better.name
    change = by_device.format(named) if better.rdma else by_interface.format(better.name)
    return f"{over} though {device_words(better)} is up on both hosts", change
