"""Remedies as data: what to install, by family of distributions.

Package names: Debian 12, Ubuntu 24.04, RHEL 9 and SLES 15; the driver, GDRCopy and the CUDA toolkit as NVIDIA packages
them (CUDA Installation Guide for Linux; the README of gdrcopy).
"""

from __future__ import annotations

from volley.doctor.facts import Facts, System

_FAMILIES = (
    ("ubuntu", ("ubuntu",)),
    ("debian", ("debian",)),
    ("rhel", ("rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn")),
    ("suse", ("suse", "sles", "opensuse", "opensuse-leap")),
)

_OLD_RHEL = ("rhel7", "7")
"""RHEL 7 and its like have yum and packages of their own; by the first part of VERSION_ID."""

_HEADERS = {
    "ubuntu": "linux-headers-$(uname -r)",
    "debian": "linux-headers-$(uname -r)",
    "rhel": "kernel-devel-$(uname -r)",
    "rhel7": "kernel-devel-$(uname -r)",
    "suse": "kernel-default-devel",
}
_COMMANDS = {
    "ubuntu": "apt-get install",
    "debian": "apt-get install",
    "rhel": "dnf install",
    "rhel7": "yum install",
    "suse": "zypper install",
}

_PACKAGES: dict[str, dict[str, str]] = {
    "compiler": {
        "ubuntu": "g++",
        "debian": "g++",
        "rhel": "gcc-c++",
        "rhel7": "devtoolset-11-gcc-c++",
        "suse": "gcc-c++",
    },
    "newer compiler": {
        "ubuntu": "g++-12 && export CXX=g++-12",
        "debian": "g++-12 && export CXX=g++-12",
        "rhel": "gcc-toolset-13-gcc-c++ && scl enable gcc-toolset-13 bash",
        "rhel7": "devtoolset-11-gcc-c++ && scl enable devtoolset-11 bash",
        "suse": "gcc13-c++ && export CXX=g++-13",
    },
    "cmake": dict.fromkeys(_COMMANDS, "cmake"),
    "driver": {
        "ubuntu": "nvidia-driver-580-open",
        "debian": "nvidia-driver",
        "rhel": "nvidia-open",
        "rhel7": "nvidia-driver-latest-dkms",
        "suse": "nvidia-open",
    },
    "toolkit": dict.fromkeys(_COMMANDS, "cuda-toolkit"),
    "gdrcopy": {
        "ubuntu": "gdrdrv-dkms libgdrapi",
        "debian": "gdrdrv-dkms libgdrapi",
        "rhel": "gdrcopy gdrcopy-kmod",
        "rhel7": "gdrcopy gdrcopy-kmod",
        "suse": "gdrcopy gdrcopy-kmod",
    },
    "ucx": {"ubuntu": "ucx-utils", "debian": "ucx-utils", "rhel": "ucx", "rhel7": "ucx", "suse": "ucx-tools"},
}
_ELSEWHERE = {
    "compiler": "install a C++20 compiler",
    "newer compiler": "install a C++20 compiler and name it in CXX",
    "cmake": "pip install cmake",
    "driver": "install the NVIDIA driver: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",
    "toolkit": "install the CUDA toolkit: https://docs.nvidia.com/cuda/cuda-installation-guide-linux/",
    "gdrcopy": "build and load GDRCopy: https://github.com/NVIDIA/gdrcopy",
    "ucx": "install UCX's tools: https://github.com/openucx/ucx",
}
_BOOT = {
    "ubuntu": "add {words} to GRUB_CMDLINE_LINUX in /etc/default/grub, then: {sudo}update-grub && {sudo}reboot",
    "debian": "add {words} to GRUB_CMDLINE_LINUX in /etc/default/grub, then: {sudo}update-grub && {sudo}reboot",
    "rhel": '{sudo}grubby --update-kernel=ALL --args="{words}" && {sudo}reboot',
    "rhel7": '{sudo}grubby --update-kernel=ALL --args="{words}" && {sudo}reboot',
    "suse": "add {words} to GRUB_CMDLINE_LINUX in /etc/default/grub, then: "
    "{sudo}grub2-mkconfig -o /boot/grub2/grub.cfg && {sudo}reboot",
}

AWARE_WHEELS = "pip install 'volley-bench[cuda13]'"
"""A CUDA-aware Open MPI without root and without compiling."""
AWARE_SOURCE = "volley setup"
"""A CUDA-aware MPI of one's own, in a prefix."""


def system_of(facts: Facts) -> System:
    """Return the distribution; one that nobody knows where its probe has no value."""
    return facts.system.value or System()


def family(system: System) -> str | None:
    """Return the family of a distribution; ``None`` for one that no remedy is known for."""
    for name in (system.os_id, *system.os_like):
        for known, members in _FAMILIES:
            if name in members or name.partition("-")[0] in members:
                return _OLD_RHEL[0] if known == "rhel" and system.os_version.split(".")[0] == _OLD_RHEL[1] else known
    return None


def sudo(system: System) -> str:
    """Return what stands before a command of root's."""
    return "" if system.root else "sudo "


def install(facts: Facts, what: str) -> str:
    """Return the command that installs something here."""
    system = system_of(facts)
    kind = family(system)
    if kind is None:
        return _ELSEWHERE[what]
    words = f"{sudo(system)}{_COMMANDS[kind]} "
    return words + _PACKAGES[what][kind]


def install_driver(facts: Facts) -> str:
    """Return how the driver gets here, with the headers of the running kernel; a container has its host's driver."""
    system = system_of(facts)
    kind = family(system)
    if system.container:
        return "start the container with the host's driver, e.g. docker run --gpus all; the driver is the host's"
    if kind is None:
        return _ELSEWHERE["driver"]
    root = sudo(system)
    return f"{root}{_COMMANDS[kind]} {_HEADERS[kind]} {_PACKAGES['driver'][kind]} && {root}reboot"


def boot_with(facts: Facts, words: str) -> str:
    """Return how the kernel gets other parameters here."""
    system = system_of(facts)
    form = _BOOT.get(family(system) or "", "boot the kernel with {words}")
    return form.format(words=words, sudo=sudo(system))
