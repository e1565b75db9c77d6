"""The NVIDIA driver of this machine, from files alone."""

from __future__ import annotations

from pathlib import Path


def has_driver() -> bool:
    """Return whether an NVIDIA driver is loaded, from its files, without loading a library."""
    return any(Path(path).exists() for path in ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"))
