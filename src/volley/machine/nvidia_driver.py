"""The NVIDIA driver of this machine, from files alone."""

from __future__ import annotations

import os
from pathlib import Path


def has_driver() -> bool:
    """Return whether an NVIDIA driver is loaded, from its files, without loading a library."""
    return any(Path(path).exists() for path in ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"))


def gpu_count() -> int:
    """Return how many GPUs this process may use, from their device nodes and CUDA_VISIBLE_DEVICES."""
    nodes = sum(node.name.removeprefix("nvidia").isdecimal() for node in Path("/dev").glob("nvidia*"))
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return nodes if chosen is None else min(nodes, len(list(filter(None, chosen.split(",")))))
