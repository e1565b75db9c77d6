"""volley: how fast processors and GPUs really talk to each other.

The engine (C++) measures and never interprets; this package interprets and never measures.
"""

from __future__ import annotations


def __getattr__(name: str) -> str:
    """``__version__``, from the installed distribution: pyproject.toml is the one place of the version."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  start-up: only who asks for the version pays for it

    return version("volley-bench")
