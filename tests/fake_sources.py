"""Small sources that behave like GDRCopy, UCX and Open MPI towards ``volley setup``, a small CUDA, and a fake MPI."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

GOOD = (
    '{"memory": "%s", "gpus": %d, "why_host": "%s", "sizes_bytes": [8, 1048576], '
    '"wrong_bytes": %d, "library": "Fake MPI 1"}'
)

CONFIGURE = """#!/bin/sh
echo "configuring $*"
for word in "$@"; do case $word in --prefix=*) prefix=${word#--prefix=};; esac; done
sed "s|@PREFIX@|$prefix|" Makefile.in > Makefile
"""

UCX_MAKE = """all:
\techo built >> @PREFIX@/builds-of-ucx
install:
\tmkdir -p @PREFIX@/lib
\ttouch @PREFIX@/lib/libucp.so
"""

OPENMPI_MAKE = """all:
\techo built >> @PREFIX@/builds-of-openmpi
install:
\tmkdir -p @PREFIX@/bin
\tcp mpicc mpirun @PREFIX@/bin
"""

GDRCOPY_MAKE = """lib_install:
\techo built >> $(prefix)/builds-of-gdrcopy
\tmkdir -p $(prefix)/lib $(prefix)/include
\ttouch $(prefix)/lib/libgdrapi.so $(prefix)/include/gdrapi.h
"""


def mpirun(memory: str = "host", gpus: int = 0, why: str = "there is no NVIDIA driver", wrong: int = 0) -> str:
    """A launcher that answers as the transfer would."""
    return f"#!/bin/sh\necho '{GOOD % (memory, gpus, why, wrong)}'\n"


def ucx(make: str = UCX_MAKE) -> dict[str, str]:
    return {"configure": CONFIGURE, "Makefile.in": make}


def openmpi(launcher: str | None = None) -> dict[str, str]:
    launcher = launcher or mpirun()
    return {"configure": CONFIGURE, "Makefile.in": OPENMPI_MAKE, "mpicc": "#!/bin/sh\nexit 0\n", "mpirun": launcher}


def gdrcopy() -> dict[str, str]:
    return {"Makefile": GDRCOPY_MAKE}


def tarball(path: Path, files: Mapping[str, str], top: str = "thing-1.0") -> Path:
    """Pack files, all of them executable, under one top folder."""
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{top}/{name}" if top else name)
            member.size, member.mode = len(text.encode()), 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


def checkout(folder: Path, files: Mapping[str, str]) -> Path:
    """Lay files out as a checkout has them."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def cuda(home: Path) -> Path:
    """CUDA as the wheels lay it out: no lib64, no unversioned runtime, no stubs."""
    headers = {
        "cuda.h": "#define cuMemAlloc cuMemAlloc_v2\nCUresult cuInit(unsigned int);\nCUresult cuMemAlloc(void);\n",
        "cuda_runtime.h": "",
        "nvml.h": "#define nvmlInit nvmlInit_v2\nnvmlReturn_t nvmlInit_v2(void);\n",
    }
    checkout(home / "include", headers)
    (home / "lib").mkdir()
    (home / "lib" / "libcudart.so.13").touch()
    return home
