"""What the build wrote down beside the engine: ``build.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from volley.errors import MachineError

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
        MachineError: if they are missing or cannot be understood: without them nobody knows which mpirun fits.
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
