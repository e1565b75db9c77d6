"""How software is installed here: the packages of the Linux distribution, and this copy of volley again.

The names ``volley`` and ``volley-bench`` on PyPI belong to others: no message may refer users to them.

Package names: Debian 12 and 13, Ubuntu 22.04 and 24.04 (their package lists have all of them), RHEL 9 and SLES 15; the
driver as NVIDIA packages it (Driver Installation Guide), whose branch 580 is the last one for GPUs older than Turing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from shlex import join
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

Family = Literal["debian", "rhel", "suse", "other"]

_FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("debian", "ubuntu"), "debian"),
    **dict.fromkeys(("rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn"), "rhel"),
    **dict.fromkeys(("suse", "sles", "opensuse"), "suse"),
}

_INSTALLERS = {
    "debian": "apt-get install",
    "rhel": "dnf install",
    "suse": "zypper install",
}

_PACKAGES: dict[str, dict[str, str]] = {
    "cc": {"debian": "gcc libc6-dev", "rhel": "gcc", "suse": "gcc"},
    "c++": {"debian": "g++", "rhel": "gcc-c++", "suse": "gcc-c++"},
    "xz": {"debian": "xz-utils"},
    "autoreconf": dict.fromkeys(("debian", "rhel", "suse"), "autoconf automake"),
    "libtoolize": dict.fromkeys(("debian", "rhel", "suse"), "libtool"),
    "dpkg-source": {"debian": "dpkg-dev", "rhel": "dpkg-dev", "suse": "dpkg"},
    "driver": {
        "ubuntu": "nvidia-driver-580-open",
        "debian": "nvidia-driver",
        "rhel": "nvidia-open",
        "suse": "nvidia-open",
    },
    "old driver": {
        "ubuntu": "nvidia-driver-580",
        "debian": "nvidia-driver",
        "rhel": "cuda-drivers-580",
        "suse": "cuda-drivers-580",
    },
    "kernel headers": {
        "debian": "linux-headers-$(uname -r)",
        "rhel": "kernel-devel-$(uname -r)",
        "suse": "kernel-default-devel",
    },
    "/var/lib/dkms/mok.pub": {"ubuntu": "/var/lib/shim-signed/mok/MOK.der"},
    "ssh": {"debian": "openssh-client", "rhel": "openssh-clients", "suse": "openssh-clients"},
    "srun": {"debian": "slurm-client", "rhel": "slurm", "suse": "slurm"},
    "ucx": {"debian": "ucx-utils", "rhel": "ucx", "suse": "ucx-tools"},
}
"""By program or product, then by distribution or family: the first of these counts.  A program that is not listed is in
a package of its own name."""

_SOURCES = {
    "debian": "add contrib non-free non-free-firmware to the components in /etc/apt, {sudo}apt-get update; ",
    **dict.fromkeys(("ubuntu", "amzn"), ""),
    **dict.fromkeys(("rhel", "suse"), "add NVIDIA's repository (Driver Installation Guide); "),
}
"""What stock installations lack before they know the driver's packages."""
_KMP = "{sudo}zypper install --force $(rpm -qa --qf '%{NAME} ' 'nvidia*kmp*')"
"""SUSE's packages have the modules of the driver built; the others build them for each kernel."""
_GRUB = "add {parameters} to GRUB_CMDLINE_LINUX in /etc/default/grub, then: "
_KERNEL_PARAMETERS = {
    "debian": _GRUB + "{sudo}update-grub",
    "rhel": '{sudo}grubby --update-kernel=ALL --args="{parameters}"',
    "suse": _GRUB + "{sudo}grub2-mkconfig -o /boot/grub2/grub.cfg",
}


@dataclass(frozen=True)
class Distribution:
    """A distribution, as ``/etc/os-release`` describes it (os-release(5)), and whether root asks."""

    id: str = "linux"
    family: Family = "other"
    root: bool = False

    @property
    def sudo(self) -> str:
        return "" if self.root else "sudo "

    def package(self, tool: str) -> str:
        return self.most_specific(_PACKAGES.get(tool, {})) or tool

    def install_line(self, packages: str) -> str:
        """Return the command that installs packages, or a sentence where the package manager is not known."""
        return (
            f"{self.sudo}{self.installer} {packages}"
            if self.installer
            else f"install {packages} with your package manager"
        )

    @property
    def installer(self) -> str:
        return self.most_specific(_INSTALLERS) or ""

    def sources(self) -> str:
        """Return what comes before the installation of the driver's packages; ``{sudo}`` where root is needed."""
        return self.most_specific(_SOURCES) or ""

    def rebuild_modules(self, *, headers: bool) -> str:
        """Return how the driver's modules get to the running kernel, with ``{sudo}``; ``headers``: its are there."""
        if self.family == "suse":
            return _KMP
        install = f"{{sudo}}{self.installer} {self.package('kernel headers')}; " * bool(self.installer and not headers)
        return f"{install}{{sudo}}dkms autoinstall"

    def kernel_parameters(self, parameters: str) -> str:
        """Return how the kernel is given more parameters, with ``{sudo}`` where root is needed."""
        text = self.most_specific(_KERNEL_PARAMETERS) or "give the kernel the parameter {parameters}"
        return text.replace("{parameters}", parameters)

    def most_specific(self, table: Mapping[str, str]) -> str | None:
        """Return a table's entry for the distribution, or for the family."""
        return next((table[key] for key in (self.id, self.family) if key in table), None)


def os_release() -> dict[str, str]:
    """Return what ``/etc/os-release`` says; nothing where there is no such file."""
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def this_distribution() -> Distribution:
    return distribution(os_release(), root=os.geteuid() == 0)


def distribution(release: Mapping[str, str], *, root: bool = False) -> Distribution:
    """Return the distribution that an os-release describes; its family by its own name, else by what it is like."""
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    families = [_FAMILIES[word] for name in names for word in (name, name.partition("-")[0]) if word in _FAMILIES]
    name = re.sub(r"[^A-Za-z0-9._-]", "", release.get("ID", ""))
    return Distribution(name or "linux", families[0] if families else "other", root)


# ------------------------------------------------------------------------------------------- volley itself

DISTRIBUTION = "volley-bench"
UNKNOWN = "/path/to/volley"
"""The argument of pip where the origin of volley is not known."""


def install_command(extra: str = "", python: str = "") -> str:
    """Return the shell command that installs this copy of volley again.

    Args:
        extra: a set of optional dependencies, such as ``cuda13``.
        python: the Python to install into; this one unless given.
    """
    again = ["--force-reinstall", "--no-cache-dir"] if not extra and not python else []
    return join([*installer(python), *again, with_extra(requirement(), extra)])


def with_extra(requirement: str, extra: str) -> str:
    """Return the argument of pip with a set of optional dependencies, if one is named."""
    name, at, url = requirement.partition(" @ ")  # of a package that came from a URL
    return f"{name}[{extra}]{at}{url}" if extra else requirement


def installer(python: str = "") -> list[str]:
    """Return the words that install packages into a Python, this one unless another is named: pip's, or uv's."""
    if not python and not importlib.util.find_spec("pip") and (uv := shutil.which("uv")):
        return [uv, "pip", "install", "--python", sys.executable]
    return [python or sys.executable, "-m", "pip", "install"]


def requirement() -> str:
    """Return the argument of pip: a checkout, a wheel file or a URL."""
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file() and (checkout / "build_backend").is_dir():
        return str(checkout)
    source = _source()
    if "vcs_info" in source:
        vcs = source["vcs_info"]
        revision = vcs.get("requested_revision") or vcs.get("commit_id")
        return f"{DISTRIBUTION} @ {vcs['vcs']}+{source['url']}" + (f"@{revision}" if revision else "")
    url = urlsplit(source.get("url", ""))
    if url.scheme == "file" and Path(unquote(url.path)).exists():
        return unquote(url.path)
    if url.scheme in ("http", "https"):
        return f"{DISTRIBUTION} @ {source['url']}"
    return UNKNOWN


def _source() -> dict[str, Any]:
    """Return the installer's ``direct_url.json`` (PEP 610); empty if there is none."""
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        found = json.loads(text or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
