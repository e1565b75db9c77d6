"""The NVIDIA driver of this machine, from files alone."""

from __future__ import annotations

from pathlib import Path


def has_driver() -> bool:
    """Tell whether an NVIDIA driver is loaded, by its files: no library is touched."""
    return any(Path(path).exists() for path in ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"))
