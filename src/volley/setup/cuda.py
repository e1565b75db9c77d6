"""The CUDA that the source route builds against: a toolkit of the machine, or NVIDIA's wheels from PyPI.

UCX and Open MPI want a toolkit laid out as NVIDIA's installer does: ``include``, ``lib64`` with ``libcudart.so``, and
``lib64/stubs`` with a ``libcuda.so`` to link against where there is no driver.  The wheels have no ``lib64``, no
unversioned library and no stubs, so a view of links is made, with stubs of our own in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from volley.errors import MachineError, UserError
from volley.setup.work import Folders, Work, program

MINOR = "13.0"
"""What is built with 13.0 runs on driver 580 and later; the same minor version as volley's own engine from wheels."""
WHEELS = tuple(f"{name}=={MINOR}.*" for name in ("nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-nvml-dev"))
"""Headers and runtime (crt: headers of the runtime's own; NVML: UCX asks for it).  Nothing here is CUDA C++."""
WHEELS_PLACE = "nvidia/cu13"

CUDA_ERROR_STUB_LIBRARY = 34
"""What NVIDIA's own stub answers to every call (cuda.h)."""
NVML_ERROR_LIBRARY_NOT_FOUND = 12
"""nvml.h: there is no NVML behind this library."""


@dataclass(frozen=True)
class Stub:
    """A library to link against where the driver's is not installed; it is never on a run path."""

    library: str
    header: str
    prefix: str
    """How the library's functions begin."""
    answer: int
    """The error that each function returns, should the stub ever be loaded."""


STUBS = (
    Stub("libcuda.so", "cuda.h", "cu", CUDA_ERROR_STUB_LIBRARY),
    Stub("libnvidia-ml.so", "nvml.h", "nvml", NVML_ERROR_LIBRARY_NOT_FOUND),
)


@dataclass(frozen=True)
class Cuda:
    """A CUDA toolkit, or what there is of one."""

    home: Path
    wheels: bool = False
    """To be installed from PyPI into the prefix."""

    @property
    def libdir(self) -> Path:
        """Where the runtime library is."""
        return next((path for path in (self.home / "lib64", self.home / "lib") if path.is_dir()), self.home / "lib")

    @property
    def whole(self) -> bool:
        """True when UCX and Open MPI can be pointed at it as it is."""
        wanted = ("lib64/libcudart.so", "include/nvml.h", *(f"lib64/stubs/{stub.library}" for stub in STUBS))
        return not self.wheels and all((self.home / path).exists() for path in wanted)


def find(asked: str | None, folders: Folders, environment: Mapping[str, str]) -> Cuda:
    """Find the CUDA to build with: the one asked for, the machine's, or the wheels.

    Raises:
        UserError: if what was asked for is no CUDA.
    """
    wheels = Cuda(folders.cuda_wheels / WHEELS_PLACE, wheels=True)
    if asked == "wheels":
        return wheels
    if asked:
        return _checked(Path(asked).expanduser().absolute())
    nvcc = program("nvcc", environment)
    beside_nvcc = Path(os.path.realpath(nvcc)).parents[1] if nvcc else None
    named = (environment.get("CUDA_HOME"), environment.get("CUDA_PATH"), beside_nvcc, "/usr/local/cuda")
    homes = (Path(home) for home in named if home)
    return next((Cuda(home) for home in homes if _has_headers(home)), wheels)


def _checked(home: Path) -> Cuda:
    if not _has_headers(home):
        raise UserError(
            f"--cuda {home} has no include/cuda.h and include/cuda_runtime.h; give the folder that has include and "
            "lib64 in it (the wheels': …/site-packages/nvidia/cu13), or --cuda wheels"
        )
    if not (home / "include/nvml.h").exists():
        raise UserError(
            f"--cuda {home} has no include/nvml.h, which UCX needs: pip install 'nvidia-nvml-dev=={MINOR}.*'"
        )
    return Cuda(home)


def _has_headers(home: Path) -> bool:
    return all((home / "include" / header).is_file() for header in ("cuda.h", "cuda_runtime.h"))


@dataclass(frozen=True)
class View:
    """Lay out a CUDA as the builds want it, from links, with stubs where it has none."""

    cuda: Cuda
    into: Path
    compiler: str
    """A C compiler, for the stubs."""

    def line(self) -> str:
        names = " and ".join(stub.library for stub in STUBS)
        return f"lay out {self.cuda.home} as a toolkit in {self.into}: links, and stubs of {names} where it has none"

    def do(self, work: Work) -> None:
        work.note(self.line())
        stubs = self.into / "lib64" / "stubs"
        stubs.mkdir(parents=True, exist_ok=True)
        (self.into / "include").symlink_to(self.cuda.home / "include")
        for library in sorted(self.cuda.libdir.glob("libcuda*")):
            _link(self.into / "lib64" / library.name, library)
        versions = sorted(self.cuda.libdir.glob("libcudart.so.*"))
        if not versions and not (self.cuda.libdir / "libcudart.so").exists():
            raise MachineError(f"{self.cuda.libdir} has no libcudart.so; is {self.cuda.home} the CUDA that was meant?")
        if versions:
            _link(self.into / "lib64" / "libcudart.so", versions[-1])
        for stub in STUBS:
            theirs = self.cuda.libdir / "stubs" / stub.library
            if theirs.exists():
                _link(stubs / stub.library, theirs)
            else:
                self._compile(stub, stubs, work)

    def _compile(self, stub: Stub, stubs: Path, work: Work) -> None:
        """Make a stub from the header's own declarations."""
        header = (self.cuda.home / "include" / stub.header).read_text(encoding="utf-8", errors="replace")
        source = stubs / f"{stub.library}.c"
        source.write_text("".join(stub_lines(stub, header)), encoding="utf-8")
        soname = f"-Wl,-soname,{stub.library}.1"  # the driver's library has this name: it is what will be loaded
        work.run([self.compiler, "-shared", "-fPIC", soname, "-o", stub.library, source.name], stubs)


def stub_lines(stub: Stub, header: str) -> Iterator[str]:
    """Yield the C source of a stub: a function for each name that the header declares, or maps a name to (``…_v2``)."""
    called = rf"\b({stub.prefix}[A-Z]\w*)\s*\("
    mapped = rf"^[ \t]*#[ \t]*define[ \t]+{stub.prefix}[A-Z]\w*[ \t]+({stub.prefix}[A-Z]\w*)[ \t]*$"
    for name in sorted({*re.findall(called, header), *re.findall(mapped, header, re.MULTILINE)}):
        yield f"int {name}(void) {{ return {stub.answer}; }}\n"


def _link(link: Path, target: Path) -> None:
    if not link.is_symlink():
        link.symlink_to(target)
