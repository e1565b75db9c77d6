"""Distribution, kernel, compilers and the driver."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from volley.doctor.facts import Driver, Program, System, Toolchain
from volley.engine import clean

_CONTAINER_MARKS = {"/.dockerenv": "docker", "/run/.containerenv": "podman", "/.singularity.d": "apptainer"}
_MODULES = ("nvidia", "nvidia_uvm", "nvidia_peermem", "nv_peer_mem", "nouveau", "gdrdrv", "xpmem", "knem")
_LIMIT_S = 20.0
_MOST_SAID = 400

_CPP = """#include <span>
int main(int count, char** words) { return std::span(words, count).size() == 1 ? 0 : 1; }
"""
_CUDA = "__global__ void nothing() {}\nint main() { nothing<<<1, 1>>>(); }\n"


def system() -> System:
    """Read os-release and uname; look for the marks of containers and hypervisors."""
    release = _os_release()
    name = os.uname()
    return System(
        os_id=release.get("ID", ""),
        os_like=release.get("ID_LIKE", "").split(),
        os_name=release.get("PRETTY_NAME", ""),
        os_version=release.get("VERSION_ID", ""),
        kernel=name.release,
        architecture=name.machine,
        root=os.geteuid() == 0,
        container=_container(),
        virtual=" hypervisor" in _text("/proc/cpuinfo"),
    )


def _os_release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _container() -> str | None:
    for mark, name in _CONTAINER_MARKS.items():
        if Path(mark).exists():
            return name
    return os.environ.get("container") or None  # noqa: SIM112  systemd and podman write it so


def toolchain() -> Toolchain:
    """Compile and run a C++20 program; compile a kernel where there is nvcc; ask CMake for its version."""
    with tempfile.TemporaryDirectory(prefix="volley-doctor-") as folder:
        return Toolchain(compiler=_compiler(Path(folder)), cmake=_program("cmake", "cmake"), nvcc=_nvcc(Path(folder)))


def _compiler(folder: Path) -> Program:
    names = (os.environ.get("CXX") or "c++", "g++", "clang++")
    name = next((each for each in names if shutil.which(each)), names[0])
    found = _program("C++ compiler", name)
    if found.path is None:
        return found
    source, program = folder / "try.cpp", folder / "try"
    source.write_text(_CPP, encoding="ascii")
    error = _failure([found.path, "-std=c++20", str(source), "-o", str(program)]) or _failure([str(program)])
    return Program(name=found.name, path=found.path, version=found.version, error=error)


def _nvcc(folder: Path) -> Program:
    found = _program("nvcc", os.environ.get("CUDACXX") or "nvcc", line="release")
    if found.path is None:
        return found
    source = folder / "try.cu"
    source.write_text(_CUDA, encoding="ascii")
    error = _failure([found.path, "-c", str(source), "-o", str(folder / "try.o")])
    return Program(name=found.name, path=found.path, version=found.version, error=error)


def _program(name: str, command: str, *, line: str = "") -> Program:
    """Find a program and keep the line of its ``--version`` that holds ``line``; the first one unless asked."""
    path = shutil.which(command)
    if path is None:
        return Program(name=name)
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Program(name=name, path=path, error=str(error))
    said = [each for each in clean(done.stdout).splitlines() if line in each]
    return Program(name=name, path=path, version=said[0] if said else None)


def _failure(command: list[str]) -> str | None:
    """Run a command; return what it said if it failed."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return clean(done.stderr)[-_MOST_SAID:] or f"{command[0]} ended with status {done.returncode}"


def driver() -> Driver:
    """Read what the kernel says of the NVIDIA driver, open its device nodes, load its library."""
    from volley.doctor.probes.libraries import load  # noqa: PLC0415  ctypes only where it is used

    version = _text("/proc/driver/nvidia/version")
    loaded = {line.split()[0] for line in _text("/proc/modules").splitlines() if line}
    nodes = sorted(str(path) for path in Path("/dev").glob("nvidia*") if not path.is_dir())
    return Driver(
        version=version.splitlines()[0].removeprefix("NVRM version: ").strip() if version else None,
        modules=[name for name in _MODULES if name in loaded],
        nodes={node: opened(node) for node in nodes},
        library=load("libcuda.so.1")[1],
        headers=Path(f"/lib/modules/{os.uname().release}/build").exists(),
    )


def opened(node: str) -> str:
    """Open a device node for reading and writing: ``ok``, ``absent`` or the error."""
    try:
        os.close(os.open(node, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return "absent"
    except OSError as error:
        return error.strerror or str(error)
    return "ok"


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
