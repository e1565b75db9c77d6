"""Which driver runs which CUDA (CUDA Toolkit Release Notes, "CUDA Minor Version Compatibility")."""

from __future__ import annotations

import re

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
