"""GDRCopy: GPU memory mapped into the processor's address space (https://github.com/NVIDIA/gdrcopy, gdrapi.h)."""

from __future__ import annotations

import ctypes
from pathlib import Path

from volley.doctor.facts import Gdrcopy
from volley.doctor.isolate import Skip
from volley.doctor.probes.cuda import Api, CudaError
from volley.doctor.probes.libraries import load
from volley.doctor.probes.system import opened

_SIZE = 64 << 10
"""One GPU page, the unit that gdr_pin_buffer pins (GPU_PAGE_SIZE)."""
_PATTERN = b"volley" * 64


class _Handle(ctypes.Structure):
    """``gdr_mh_t``."""

    _fields_ = (("h", ctypes.c_ulong),)


def gdrcopy() -> Gdrcopy:
    """Open the node, load the library, and map GPU memory where both are there."""
    node = opened("/dev/gdrdrv")
    library, _ = load("libgdrapi.so.2")
    mapped, error = _try(library) if library and node == "ok" else (None, None)
    return Gdrcopy(
        node=node, module=_module(), library=_version(library) if library else None, mapped=mapped, map_error=error
    )


def _module() -> str | None:
    folder = Path("/sys/module/gdrdrv")
    if not folder.exists():
        return None
    try:
        return (folder / "version").read_text(encoding="ascii").strip()
    except OSError:
        return "loaded"


def _version(library: ctypes.CDLL) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.gdr_runtime_get_version(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def _try(library: ctypes.CDLL) -> tuple[bool | None, str | None]:
    """Write to GPU memory through a mapping and read it back with CUDA."""
    try:
        api = Api()
        api.call("cuInit", 0)
        devices = api.devices()
        if not devices:
            return None, None
        api.retain(devices[0])
        _map(library, api)
    except (CudaError, Skip) as error:
        return None, str(error)
    except OSError as error:
        return False, str(error)
    return True, None


def _map(library: ctypes.CDLL, api: Api) -> None:
    memory = api.allocate(_SIZE)
    library.gdr_open.restype = ctypes.c_void_p
    opened_ = library.gdr_open()
    if not opened_:
        raise OSError("gdr_open failed")
    here, handle, at = ctypes.c_void_p(opened_), _Handle(), ctypes.c_void_p()
    size = ctypes.c_size_t(_SIZE)
    _check(library, "gdr_pin_buffer", here, ctypes.c_ulong(memory.value), size, 0, 0, ctypes.byref(handle))
    _check(library, "gdr_map", here, handle, ctypes.byref(at), size)
    _check(library, "gdr_copy_to_mapping", handle, at, _PATTERN, ctypes.c_size_t(len(_PATTERN)))
    back = ctypes.create_string_buffer(len(_PATTERN))
    api.call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(len(_PATTERN)))
    if back.raw != _PATTERN:
        raise OSError("what was written through the mapping is not what CUDA reads")
    _check(library, "gdr_unmap", here, handle, at, size)
    _check(library, "gdr_unpin_buffer", here, handle)


def _check(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    status = getattr(library, name)(*arguments)
    if status:
        raise OSError(f"{name} failed with {status}")
