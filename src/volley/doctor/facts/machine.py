"""The machine without its GPUs: system, programs, driver, and what is forbidden."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from volley.doctor.facts.base import Fact


class System(Fact, frozen=True, kw_only=True):
    """Distribution and kernel (os-release(5), uname(2))."""

    os_id: str = ""
    os_like: list[str] = []
    os_name: str = ""
    os_version: str = ""
    kernel: str = ""
    architecture: str = ""
    root: bool = False
    container: Annotated[str | None, Meta(description="docker, podman, lxc …, where its marks are found.")] = None
    virtual: Annotated[bool, Meta(description="the processor reports a hypervisor.")] = False


class Program(Fact, frozen=True, kw_only=True):
    """A program, and what happened when it was used."""

    name: str
    path: str | None = None
    version: str | None = None
    error: Annotated[str | None, Meta(description="what it said when the attempt failed.")] = None


class Toolchain(Fact, frozen=True, kw_only=True):
    """Compilers that were given a small program, and CMake."""

    compiler: Program
    cmake: Program
    nvcc: Program


class Driver(Fact, frozen=True, kw_only=True):
    """The NVIDIA driver as the kernel and the loader know it."""

    version: Annotated[str | None, Meta(description="from /proc/driver/nvidia/version.")] = None
    modules: Annotated[list[str], Meta(description="loaded modules that matter here, from /proc/modules.")] = []
    nodes: Annotated[dict[str, str], Meta(description="device nodes, opened: `ok` or the error.")] = {}
    library: Annotated[str | None, Meta(description="why libcuda.so.1 does not load; null: it does.")] = None
    headers: Annotated[bool, Meta(description="headers of the running kernel are installed.")] = False


class Limits(Fact, frozen=True, kw_only=True):
    """What a container or the kernel may forbid to two processes of one user."""

    shm_bytes: int = 0
    shm_free_bytes: int = 0
    shm_error: Annotated[str | None, Meta(description="what happened when 1 MiB was written there.")] = None
    ptrace_scope: int | None = None
    cap_sys_ptrace: bool = False
    seccomp: Annotated[int, Meta(description="0 off, 1 strict, 2 filter (proc(5)).")] = 0
    memlock_bytes: Annotated[int | None, Meta(description="RLIMIT_MEMLOCK; null: unlimited.")] = None
    cma_error: Annotated[
        str | None, Meta(description="what process_vm_readv between two siblings answered; null: the right bytes.")
    ] = None
