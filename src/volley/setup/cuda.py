"""The CUDA that the source route builds with: a toolkit of the machine, or NVIDIA's wheels from PyPI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import join

from volley.errors import UserError
from volley.machine.reinstall import installer
from volley.setup.workspace import Folders

MINOR = "13.0"
"""What is built with 13.0 runs on driver 580 and later; the same minor version as volley's own engine from wheels."""
WHEELS = tuple(f"{name}=={MINOR}.*" for name in ("nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-nvml-dev"))
"""Headers and runtime (crt: headers of the runtime's own; NVML: UCX asks for it).  Nothing here is CUDA C++."""


@dataclass(frozen=True)
class CudaToolkit:
    """A CUDA toolkit, or what there is of one."""

    home: Path
    wheels: Path | None = None
    """Where NVIDIA's wheels are to be installed; ``None`` for a toolkit that is there."""

    @property
    def libdir(self) -> Path:
        """Where the runtime library is."""
        return self.home / "lib64" if (self.home / "lib64").is_dir() else self.home / "lib"

    @property
    def complete(self) -> bool:
        """True when UCX and Open MPI can be pointed at it as it is."""
        wanted = ("lib64/libcudart.so", "include/nvml.h", "lib64/stubs/libcuda.so", "lib64/stubs/libnvidia-ml.so")
        return not self.wheels and all((self.home / path).exists() for path in wanted)


def find(asked: str | None, folders: Folders, environment: Mapping[str, str]) -> CudaToolkit:
    """Find the CUDA to build with: the one asked for, the machine's, or the wheels.

    Raises:
        UserError: if what was asked for is no CUDA.
    """
    place = folders.prefix / "lib" / "cuda-wheels"  # not among our own folders: the runtime is loaded from there
    wheels = CudaToolkit(place / "nvidia/cu13", place)
    if asked == "wheels":
        return wheels
    if asked:
        home = Path(asked)
        if not _has_headers(home):
            raise UserError(
                f"--cuda {home} has no include/cuda.h and include/cuda_runtime.h; give the folder that has include and "
                "lib64 in it (the wheels': …/site-packages/nvidia/cu13), or --cuda wheels"
            )
        if not (home / "include/nvml.h").exists():
            package = join([*installer(), f"nvidia-nvml-dev=={MINOR}.*"])
            raise UserError(f"--cuda {home} has no include/nvml.h, which UCX needs: {package}")
        return CudaToolkit(home)
    nvcc = shutil.which("nvcc", path=environment.get("PATH"))
    beside_nvcc = Path(os.path.realpath(nvcc)).parents[1] if nvcc else None
    named = (environment.get("CUDA_HOME"), environment.get("CUDA_PATH"), beside_nvcc, "/usr/local/cuda")
    return next((CudaToolkit(Path(home)) for home in named if home and _has_headers(Path(home))), wheels)


def _has_headers(home: Path) -> bool:
    return all((home / "include" / header).is_file() for header in ("cuda.h", "cuda_runtime.h"))
