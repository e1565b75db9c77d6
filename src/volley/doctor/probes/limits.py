"""What the kernel and a container let two processes of one user do with each other's memory."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

from volley.doctor.facts import Limits

_SHM = "/dev/shm"  # noqa: S108  the folder itself is looked at
_TRIED_BYTES = 1 << 20
_CAP_SYS_PTRACE = 19  # linux/capability.h
_PATTERN = b"volley" * 16
_ANSWER_S = 5.0


def limits() -> Limits:
    """Write to /dev/shm, read another process's memory, and read the limits."""
    status = _status()
    shm = _statvfs()
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return Limits(
        shm_bytes=shm[0],
        shm_free_bytes=shm[1],
        shm_error=_shm_error(),
        ptrace_scope=_ptrace_scope(),
        cap_sys_ptrace=bool(int(status.get("CapEff", "0"), 16) >> _CAP_SYS_PTRACE & 1),
        seccomp=int(status.get("Seccomp", "0")),
        memlock_bytes=None if soft == resource.RLIM_INFINITY else soft,
        cma_error=cma_error(),
    )


def _status() -> dict[str, str]:
    """/proc/self/status as a dictionary (proc(5))."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _statvfs() -> tuple[int, int]:
    try:
        found = os.statvfs(_SHM)
    except OSError:
        return 0, 0
    return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail


def _shm_error() -> str | None:
    try:
        with tempfile.TemporaryFile(dir=_SHM) as file:
            file.write(bytes(_TRIED_BYTES))
    except OSError as error:
        return error.strerror or str(error)
    return None


def _ptrace_scope() -> int | None:
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


# ------------------------------------------------------------------------------------ cross-memory attach (CMA)


class _Piece(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def cma_error() -> str | None:
    """Let one child read another's memory with process_vm_readv, as MPI's ranks do: they are siblings.

    A parent may read its child where siblings may not (Yama, ptrace_scope 1), so this process does not try it itself.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    owner = context.Process(target=_own, args=(theirs,))
    owner.start()
    try:
        if not ours.poll(_ANSWER_S):
            return "the other process did not start"
        address = ours.recv()
        mine, readers = context.Pipe(duplex=False)
        reader = context.Process(target=_read, args=(readers, owner.pid, address))
        reader.start()
        said: str | None = mine.recv() if mine.poll(_ANSWER_S) else f"no answer within {_ANSWER_S:g} s"
        reader.kill()
        reader.join()
        return said
    finally:
        owner.kill()
        owner.join()


def _own(answers: Connection) -> None:
    """Hold a pattern, say where it is, and wait to be ended."""
    buffer = ctypes.create_string_buffer(_PATTERN, len(_PATTERN))
    answers.send(ctypes.addressof(buffer))
    answers.poll(2 * _ANSWER_S)


def _read(answers: Connection, pid: int, address: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(len(_PATTERN))
    here, there = _Piece(ctypes.addressof(buffer), len(buffer)), _Piece(address, len(buffer))
    library.process_vm_readv.restype = ctypes.c_ssize_t
    count = library.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if count < 0:
        answers.send(os.strerror(ctypes.get_errno()))
    else:
        answers.send(None if buffer.raw == _PATTERN else f"{count} bytes arrived, and not the right ones")
