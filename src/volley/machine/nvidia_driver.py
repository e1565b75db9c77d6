"""The NVIDIA driver of this machine, from files alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

_VERSION = Path("/proc/driver/nvidia/version")
_WSL = Path("/dev/dxg")


def has_driver() -> bool:
    """Return whether an NVIDIA driver is loaded, from its files, without loading a library."""
    return any(Path(path).exists() for path in (_VERSION, "/dev/nvidiactl", _WSL))


def gpu_count() -> int:
    """Return how many GPUs this process may use, from their device nodes and CUDA_VISIBLE_DEVICES.

    A node over which /dev/null is mounted is hidden, as container runtimes hide paths.
    """
    nodes = [node for node in Path("/dev").glob("nvidia*") if node.name.removeprefix("nvidia").isdecimal()]
    gpus = sum(node.stat().st_rdev != Path(os.devnull).stat().st_rdev for node in nodes)
    if not gpus and _WSL.exists():
        from volley.machine import nvml  # noqa: PLC0415  start-up: only here must the driver be asked

        gpus = len(nvml.read("before").gpus)
    visible = visible_gpus(os.environ)
    return gpus if visible is None else min(gpus, visible)


def visible_gpus(environment: Mapping[str, str]) -> int | None:
    """Count the GPUs in CUDA_VISIBLE_DEVICES; ``None`` if it is not set.

    CUDA ignores what follows the first invalid entry, such as -1 (CUDA C++ Programming Guide, "CUDA Environment
    Variables").  Slurm writes NoDevFiles for none.
    """
    text = environment.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    entries = (entry.strip() for entry in text.split(","))
    return len(list(takewhile(lambda entry: entry not in ("", "NoDevFiles") and entry[0] != "-", entries)))


def cuda_extra() -> str:
    """Return the set of optional dependencies for this machine's driver; the newest where it can use none."""
    from volley.machine.hardware import extra_for  # noqa: PLC0415  start-up: only for a remedy

    version = _VERSION.read_text(encoding="utf-8", errors="replace") if _VERSION.exists() else None
    return extra_for(version) or "cuda13"
