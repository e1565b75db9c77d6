"""Shared libraries opened at run time."""

from __future__ import annotations

import ctypes


def load(name: str) -> tuple[ctypes.CDLL | None, str | None]:
    """Open a library; return it, or the loader's own words."""
    try:
        return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL), None
    except OSError as error:
        return None, str(error)
