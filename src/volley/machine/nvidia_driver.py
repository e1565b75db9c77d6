"""The NVIDIA driver of this machine, from files alone."""

from __future__ import annotations

import os
from pathlib import Path

from volley.machine.cuda_releases import extra_for

_VERSION = Path("/proc/driver/nvidia/version")


def has_driver() -> bool:
    """Return whether an NVIDIA driver is loaded, from its files, without loading a library."""
    return any(Path(path).exists() for path in (_VERSION, "/dev/nvidiactl", "/dev/dxg"))


def gpu_count() -> int:
    """Return how many GPUs this process may use, from their device nodes and CUDA_VISIBLE_DEVICES."""
    nodes = sum(node.name.removeprefix("nvidia").isdecimal() for node in Path("/dev").glob("nvidia*"))
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return nodes if chosen is None else min(nodes, len(list(filter(None, chosen.split(",")))))


def cuda_extra() -> str:
    """Return the set of optional dependencies for this machine's driver; the newest where it can use none."""
    version = _VERSION.read_text(encoding="utf-8", errors="replace") if _VERSION.exists() else None
    return extra_for(version) or "cuda13"
