"""volley: how fast processors and GPUs really talk to each other.

The engine (C++) measures and never interprets; this package interprets and never measures.
"""

from __future__ import annotations

__all__ = ["Runs", "load", "measure"]


def __getattr__(name: str) -> object:
    """``__version__``, from the installed distribution: pyproject.toml is the one place of the version; what
    :mod:`volley.api` has.  ``__init__.pyi`` has the types."""
    if name in __all__:
        from importlib import import_module  # noqa: PLC0415  start-up: the command line does without

        return getattr(import_module("volley.api"), name)
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  start-up: only who asks for the version pays for it

    return version("volley-bench")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
