"""Compilers, kernel and driver."""

from __future__ import annotations

import re

from volley.doctor.checks.common import NO_GPU, container, cuda_devices, has_gpu, open_gpus
from volley.doctor.facts import Driver, Facts, Program
from volley.doctor.findings import Verdict, answered, broken, good, lost, not_applicable, not_tested, warning
from volley.doctor.remedies import install, install_driver, sudo, system_of
from volley.text import count, several

_CMAKE = (3, 25)
"""What volley's CMakeLists.txt asks for."""
_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm")
"""The device nodes that every use of CUDA opens, beside those of its GPUs."""
_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest driver of each major version of CUDA (CUDA Toolkit Release Notes, "CUDA Minor Version Compatibility")."""


def compiler(facts: Facts) -> Verdict:
    """Judge the C++ compiler by the program that it compiled."""
    if facts.toolchain.value is None:
        return lost(facts.toolchain, "the compiler", install(facts, "compiler"))
    found = facts.toolchain.value.compiler
    if found.path is None:
        return warning(
            "no C++ compiler: neither volley nor an MPI can be built here", "c++ --version: not found",
            install(facts, "compiler"),
        )  # fmt: skip
    if found.error:
        return _failed(found, "a C++20 program does not compile", install(facts, "newer compiler"))
    return good(f"{found.version or found.path} compiled a C++20 program that runs")


def cmake(facts: Facts) -> Verdict:
    """Judge CMake by its version."""
    if facts.toolchain.value is None:
        return lost(facts.toolchain, "CMake", install(facts, "cmake"))
    found = facts.toolchain.value.cmake
    if found.path is None:
        return not_applicable("no CMake; volley's build fetches its own")
    version = _version(found.version or "")
    if version and version < _CMAKE:
        return warning(
            f"{found.version} is older than {'.'.join(map(str, _CMAKE))}", f"cmake --version: {found.version}",
            "pip install cmake",
        )  # fmt: skip
    return good(found.version or found.path)


def nvcc(facts: Facts) -> Verdict:
    """Judge the CUDA compiler by the kernel that it compiled."""
    if facts.toolchain.value is None:
        return lost(facts.toolchain, "nvcc", install(facts, "toolkit"))
    found = facts.toolchain.value.nvcc
    if found.path is None:
        return not_applicable("no nvcc on PATH; volley's build fetches its own")
    if found.error:
        return _failed(found, "a kernel does not compile", install(facts, "toolkit"))
    return good(f"{found.version or found.path} compiled a kernel")


def _failed(found: Program, said: str, remedy: str) -> Verdict:
    return broken(said, f"{found.path}: {found.error}", remedy)


def _version(text: str) -> tuple[int, int] | None:
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found.group(1)), int(found.group(2))) if found else None


# ------------------------------------------------------------------------------------------------ driver


def driver(facts: Facts) -> Verdict:
    """Judge the driver by its module, its device nodes and its library."""
    if facts.driver.value is None:
        return lost(facts.driver, "the driver", install_driver(facts))
    found = facts.driver.value
    gpus = facts.bus.value.gpus if facts.bus.value else []
    if found.version is None:
        if cuda_devices(facts):
            return good("CUDA answers, through a driver that the kernel does not show")
        if not gpus:
            return not_applicable(NO_GPU)
        held = "; nouveau holds the GPU" if "nouveau" in found.modules else ""
        return broken(
            f"{count(len(gpus), 'NVIDIA GPU')} on the PCI bus and no NVIDIA driver{held}",
            answered(facts.driver, "no such file"),
            install_driver(facts),
        )
    return _loaded(facts, found)


def _loaded(facts: Facts, found: Driver) -> Verdict:
    """A driver is in the kernel: can this user reach it?"""
    root = sudo(system_of(facts))
    shut = [node for node, said in found.nodes.items() if said != "ok"]
    if shut and (set(_CONTROL) & set(shut) or not open_gpus(found)):
        said = several([f"{node} ({found.nodes[node]})" for node in shut])
        return broken(
            f"the driver is loaded, and this user cannot open {said}", answered(facts.driver, said), _open(facts, shut)
        )
    if found.nodes and "/dev/nvidia-uvm" not in found.nodes:
        return broken(
            "the driver is loaded, and /dev/nvidia-uvm is missing: CUDA does not start without it",
            answered(facts.driver, f"only {several(found.nodes)}"),
            f"{root}nvidia-modprobe -u -c=0",
        )
    if found.library:
        remedy = install_driver(facts)
        if system_of(facts).container:
            remedy = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        return broken(
            "the driver is loaded, and its library is not there", answered(facts.driver, found.library), remedy
        )
    return good(found.version or "")


def _open(facts: Facts, shut: list[str]) -> str:
    """Return how device nodes are opened: a batch system or a container shuts them, or their permissions do."""
    if container(facts):
        return "docker run --gpus all"
    if any(name.startswith(("SLURM_", "LSB_", "PBS_")) for name in facts.environment):
        return "ask the batch system for GPUs, e.g. srun --gpus-per-node=2 volley doctor"
    return f"{sudo(system_of(facts))}chmod 666 {' '.join(shut)}"


def driver_age(facts: Facts) -> Verdict:
    """Compare the CUDA that the driver supports with the CUDA that the engine was built with."""
    stack, cuda = facts.stack.value, facts.cuda.value
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    if cuda is None or cuda.driver_version == 0:
        return not_tested(facts.cuda.skipped or facts.cuda.error or "the driver does not say its version")
    supported = cuda.driver_version // 1000, cuda.driver_version % 1000 // 10
    shown = f"{supported[0]}.{supported[1]}"
    built = _version((stack.cuda_built if stack else None) or "")
    if built is None:
        return not_tested(f"the driver supports CUDA {shown}; the engine was built without CUDA")
    if supported[0] < built[0]:
        least = _DRIVERS.get(built[0])
        return broken(
            f"the driver is too old: it supports CUDA {shown}, the engine was built with {built[0]}.{built[1]}"
            + (f", which needs driver {least} or newer" if least else ""),
            f"cuDriverGetVersion: {cuda.driver_version}",
            install_driver(facts),
        )
    return good(f"the driver supports CUDA {shown}; the engine was built with {built[0]}.{built[1]}")
