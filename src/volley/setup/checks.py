"""Checks before the build: disk space, permissions, programs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from volley.errors import MachineError
from volley.machine.distribution import Distribution
from volley.setup.sources import Source

MIB = 1 << 20

SOURCE_NEED_BYTES = 1536 * MIB
"""Room that the source route asks for: sources, one build tree at a time, and what is installed.  A run took 622 MiB at
most (docs/evidence/setup-from-source.md); twice that and more, since other versions and compilers differ."""
WHEELS_NEED_BYTES = 1024 * MIB
"""Room that the wheels ask for: 534 MiB are installed (Open MPI 5.0.11, UCX 1.22, NCCL), and downloads come on top."""


def writable(prefix: Path, need_bytes: int) -> None:
    """Check that a prefix can be made or written to, and that its file system has room.

    Nothing is created: the nearest folder that exists answers for those below it.

    Raises:
        MachineError: if not.
    """
    there = next(path for path in (prefix, *prefix.parents) if path.exists())
    if not there.is_dir():
        raise MachineError(f"cannot make {prefix}: {there} is not a folder; choose another --prefix")
    if not os.access(there, os.W_OK | os.X_OK):
        raise MachineError(f"no permission to write to {there}; choose a folder of your own: --prefix ~/mpi")
    free = shutil.disk_usage(there).free
    if free < need_bytes:
        raise MachineError(
            f"{there} has {free // MIB} MiB free and this needs {need_bytes // MIB} MiB; "
            "make room, or choose a --prefix on another file system"
        )


def programs(sources: Iterable[Source], environment: Mapping[str, str], distribution: Distribution) -> None:
    """Check that the programs that a build from these sources needs are there, as :func:`require` does."""
    wanted = {"cc": environment.get("CC"), "c++": environment.get("CXX"), "make": None, "perl": None}
    for source in sources:
        if source.kind in ("url", "tarball"):
            wanted["tar"] = None
            wanted |= {tool: None for end, tool in ((".bz2", "bzip2"), (".xz", "xz")) if source.where.endswith(end)}
        if source.kind == "debian":
            wanted["apt-get"] = None
        if source.kind in ("debian", "dsc"):
            wanted["dpkg-source"] = None
        checkout = source.kind == "directory" and source.name != "gdrcopy"
        if (checkout and not Path(source.where, "configure").exists()) or (
            source.name == "ucx" and source.kind in ("debian", "dsc")  # Debian's has no configure
        ):
            wanted |= dict.fromkeys(("autoreconf", "libtoolize", "flex"))
    require(wanted, environment, distribution)


def require(wanted: Mapping[str, str | None], environment: Mapping[str, str], distribution: Distribution) -> None:
    """Check for programs by name; a value is what the user calls it instead (``CC=ccache gcc``).

    Raises:
        MachineError: naming those that are missing, and the packages that they are in.
    """
    path = environment.get("PATH")
    missing = [
        tool for tool, named in wanted.items() if shutil.which((named or tool).partition(" ")[0], path=path) is None
    ]
    if missing:
        packages = " ".join(distribution.package(tool) for tool in missing)
        raise MachineError(f"missing: {', '.join(missing)}; {distribution.install_line(packages)}")
