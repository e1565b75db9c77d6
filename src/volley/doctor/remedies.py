"""Commands for the copy of volley that the facts describe; volley.machine.place has those for where it stands."""

from __future__ import annotations

from shlex import quote

from volley.machine.facts import Facts
from volley.machine.hardware import extra_for

MESSAGES = "pingpong"
"""The benchmark that sends verified messages between two ranks."""
SEND = f"volley {MESSAGES}"


def send_by(mpi: str) -> str:
    """Return the command that sends them by the MPI of ``--mpi``; an empty one is the usual MPI."""
    return f"{SEND} --mpi {quote(mpi)}" if mpi else SEND


AWARE_SOURCE = "volley setup --route source --prefix ~/mpi"
"""The command that builds a CUDA-aware MPI in a folder of the user."""


def install_volley(facts: Facts, extra: str = "", variables: str = "") -> str:
    """Return the command that installs the copy of volley that captured the facts again.

    Args:
        facts: where it came from.
        extra: a set of optional dependencies, such as ``cuda13``; nothing is built again for them.
        variables: the environment of the build, such as ``CUDACXX=…``.
    """
    name, at, url = facts.requirement.partition(" @ ")  # of a package that came from a URL
    requirement = f"{name}[{extra}]{at}{url}" if extra else facts.requirement
    # A shell knows the home folder by a ~ outside of quotes only.
    home = "~/" if requirement.startswith("~/") else ""
    word = home + quote(requirement.removeprefix(home))
    again = "" if extra else "--force-reinstall --no-cache-dir "
    return f"{variables} {facts.installer} {again}{word}".strip()


def aware_wheels(facts: Facts) -> str:
    """Return the command that installs a CUDA-aware UCX for Open MPI's wheel: no root, no compiler."""
    extra = extra_for(facts.driver.value.version if facts.driver.value else None)
    return install_volley(facts, extra=extra) if extra and facts.mpi_family in ("", "openmpi") else AWARE_SOURCE


GDRCOPY = "build and load GDRCopy: https://github.com/NVIDIA/gdrcopy"
"""No distribution has its packages, and its module is built for the running kernel."""
