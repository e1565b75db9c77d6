"""Small sources that behave like GDRCopy, UCX and Open MPI towards ``volley setup``, a small CUDA, and a fake proof."""

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from example_records import log, pingpong, transport
from volley.errors import EXIT_MACHINE
from volley.records.record_types import Transport
from volley.records.records_file import encode_line
from volley.records.run_log import RunLog

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


def volley(folder: Path, said: RunLog | None = None, code: int = EXIT_MACHINE, body: str = "") -> tuple[str, ...]:
    """A volley whose ping-pong, on host memory alone unless another is given, was measured before."""
    said = said or pingpong_of(transport("aware", memory="device", available=False, reason="there is no NVIDIA driver"))
    records = b"".join(map(encode_line, (said.run, *said.transports, *said.records, said.end)))
    (folder / "records").write_bytes(records)
    script = f'#!/bin/sh\n{body}\nfor last; do :; done\ncp "{folder}/records" "$last"\nexit {code}\n'
    return (str(checkout(folder / "fake", {"volley": script}) / "volley"),)


def pingpong_of(aware: Transport, **changes: Any) -> RunLog:
    """The records of the proof; changes are those of the points in host memory."""
    names = ["host", "aware"] if aware.available else ["host"]
    points = [
        pingpong([1e-6], size, name, **(changes if name == "host" else {})) for size in (8, 1 << 20) for name in names
    ]
    return log(*points, transports=[transport(), aware])


def ucx(make: str = UCX_MAKE) -> dict[str, str]:
    return {"configure": CONFIGURE, "Makefile.in": make}


def openmpi() -> dict[str, str]:
    return {"configure": CONFIGURE, "Makefile.in": OPENMPI_MAKE, "mpicc": "", "mpirun": ""}


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
    folder.mkdir(parents=True, exist_ok=True)
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
