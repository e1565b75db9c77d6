"""The NVIDIA driver of this machine, from files alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

OLDEST_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""By major version of CUDA."""


def extra_for(driver: str | None) -> str | None:
    """Return the set of optional dependencies that a driver can use: ``cuda13``, ``cuda12`` or, before 525, none.

    Args:
        driver: a text that holds its version, such as the first line of /proc/driver/nvidia/version.  A driver that is
            not known counts as a new one.
    """
    branch = re.search(r"\b(\d{3})\.\d+", driver or "")
    if branch is None:
        return "cuda13"
    return next((f"cuda{major}" for major in (13, 12) if int(branch[1]) >= int(OLDEST_DRIVERS[major][:3])), None)


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
