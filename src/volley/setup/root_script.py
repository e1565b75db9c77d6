"""What only root can do, as a shell script to read and to run by hand: driver, toolkit, GDRCopy's module.

The script is printed and never run.  The commands are those of NVIDIA's CUDA Installation Guide for Linux
(docs.nvidia.com/cuda/cuda-installation-guide-linux) and of GDRCopy's README.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from volley.errors import MachineError
from volley.machine.driver import has_driver
from volley.setup.distribution import Distribution, Family, this_distribution
from volley.setup.sources import DEFAULTS

TOOLKIT = "13-0"
"""The toolkit's version, as its packages are called; the same minor version as volley's wheels."""
_REPOSITORIES = "https://developer.download.nvidia.com/compute/cuda/repos"


@dataclass(frozen=True)
class Machine:
    """What the script depends on."""

    distribution: Distribution
    architecture: str = "x86_64"
    """As NVIDIA's repositories call it: ``x86_64`` or ``sbsa``."""
    driver: bool = False
    toolkit: bool = False
    gdrdrv: bool = False


def this_machine() -> Machine:
    """Look at this machine; only files are looked at."""
    architecture = {"aarch64": "sbsa"}.get(platform.machine(), "x86_64")
    toolkit = Path("/usr/local/cuda/bin/nvcc").exists()
    return Machine(this_distribution(), architecture, has_driver(), toolkit, os.path.exists("/dev/gdrdrv"))  # noqa: PTH110


def root_script(machine: Machine) -> str:
    """Return the script for a machine; what is already there is left out, and said to be there.

    Raises:
        MachineError: if nobody knows this distribution's commands.
    """
    family = machine.distribution.family
    if family == "other":
        raise MachineError(
            f"no root script for {machine.distribution.id}: there is one for Debian, Ubuntu, the RHEL family and SUSE; "
            "see docs.nvidia.com/cuda/cuda-installation-guide-linux"
        )
    lines = [
        "#!/bin/sh",
        f"# What only root can do on {machine.distribution.id} {machine.distribution.version}".rstrip() + ".",
        "# Printed by volley setup --root-script, which ran none of it. Read it before you run it.",
        "set -eu",
        "scratch=$(mktemp -d)",
        "",
        "# Compiler and make" + ("" if machine.driver and machine.gdrdrv else ", and kernel headers for modules"),
        *_TOOLS[family](machine),
        "",
        *_driver_and_toolkit(machine),
        *_path(machine),
        *_gdrdrv(machine),
    ]
    if not machine.driver:
        lines += ["# The driver is loaded when the machine starts", "reboot"]
    return "\n".join(lines).rstrip("\n") + "\n"


def _tools_debian(machine: Machine) -> list[str]:
    headers = "" if machine.driver and machine.gdrdrv else ' dkms "linux-headers-$(uname -r)"'
    return ["apt-get update", f"apt-get install -y gcc g++ make perl curl ca-certificates{headers}"]


def _tools_rhel(machine: Machine) -> list[str]:
    lines = ["dnf install -y gcc gcc-c++ make perl curl"]
    if machine.driver and machine.gdrdrv:
        return lines
    if _rhel_major(machine.distribution) >= 9:
        return [*lines, "dnf install -y kernel-devel-matched kernel-headers"]
    return [*lines, 'dnf install -y "kernel-devel-$(uname -r)" "kernel-headers-$(uname -r)"']


def _tools_suse(machine: Machine) -> list[str]:
    lines = ["zypper --non-interactive install gcc gcc-c++ make perl curl"]
    headers = "zypper --non-interactive install \"kernel-default-devel=$(uname -r | sed 's/-default$//')\""
    return lines if machine.driver and machine.gdrdrv else [*lines, headers]


def _driver_and_toolkit(machine: Machine) -> list[str]:
    """Yield NVIDIA's repository, the driver with open kernel modules, the toolkit; whatever is missing."""
    if machine.driver and machine.toolkit:
        return ["# The driver is loaded and the toolkit is in /usr/local/cuda: nothing to do", ""]
    family = machine.distribution.family
    lines = ["# NVIDIA's repository", *_REPOSITORY[family](machine), ""]
    if machine.driver:
        lines += ["# The driver is loaded: nothing to do"]
    else:
        lines += ["# The driver with open kernel modules (Turing and later; for older GPUs: cuda-drivers)"]
        lines += [f"{_INSTALL[family]} nvidia-open"]
    if machine.toolkit:
        return [*lines, "# The toolkit is in /usr/local/cuda: nothing to do", ""]
    return [*lines, "", "# The toolkit", f"{_INSTALL[family]} cuda-toolkit-{TOOLKIT}", ""]


def _repository_debian(machine: Machine) -> list[str]:
    url = f"{_REPOSITORIES}/{_repository_name(machine.distribution)}/{machine.architecture}/cuda-keyring_1.1-1_all.deb"
    codename = machine.distribution.codename
    contrib = f"echo 'deb http://deb.debian.org/debian {codename} contrib' > /etc/apt/sources.list.d/contrib.list"
    return [
        *([contrib] if machine.distribution.id == "debian" and codename else []),  # the driver's packages ask for it
        f'curl -fsSLo "$scratch/cuda-keyring.deb" {quote(url)}',
        'dpkg -i "$scratch/cuda-keyring.deb"',
        "apt-get update",
    ]


def _repository_rhel(machine: Machine) -> list[str]:
    name = _repository_name(machine.distribution)
    url = f"{_REPOSITORIES}/{name}/{machine.architecture}/cuda-{name}.repo"
    # Fedora's dnf 5 has no --add-repo; a file in yum.repos.d is what both read
    return [f"curl -fsSLo /etc/yum.repos.d/cuda-{name}.repo {quote(url)}", "dnf clean expire-cache"]


def _repository_suse(machine: Machine) -> list[str]:
    name = _repository_name(machine.distribution)
    url = f"{_REPOSITORIES}/{name}/{machine.architecture}/cuda-{name}.repo"
    return [f"zypper addrepo {quote(url)}", "zypper --gpg-auto-import-keys refresh"]


def _repository_name(distribution: Distribution) -> str:
    """Return what NVIDIA calls the repository: ``ubuntu2204``, ``debian12``, ``rhel9``, ``fedora42``, ``sles15``."""
    major = re.match(r"\d*", distribution.version)
    number = major[0] if major else ""
    if distribution.family == "suse":
        return f"{'opensuse' if 'opensuse' in distribution.id else 'sles'}{number}"
    if distribution.id == "ubuntu":
        return "ubuntu" + distribution.version.replace(".", "")
    if distribution.id == "fedora":
        return f"fedora{number}"
    return f"{'rhel' if distribution.family == 'rhel' else 'debian'}{number}"


def _rhel_major(distribution: Distribution) -> int:
    major = re.match(r"\d+", distribution.version)
    return int(major[0]) if major else 0


def _path(machine: Machine) -> list[str]:
    """Yield what puts nvcc on everybody's PATH."""
    if machine.toolkit:
        return []
    return [
        "# nvcc on everybody's PATH, from the next login on",
        "cat > /etc/profile.d/cuda.sh <<'END'",
        "export PATH=/usr/local/cuda/bin${PATH:+:$PATH}",
        "END",
        "",
    ]


def _gdrdrv(machine: Machine) -> list[str]:
    """Yield GDRCopy's kernel module: small messages from GPU memory need it, nothing else does."""
    if machine.gdrdrv:
        return ["# GDRCopy's module is loaded (/dev/gdrdrv): nothing to do", ""]
    source = DEFAULTS["gdrcopy"]
    return [
        "# GDRCopy's kernel module. It is built against the driver's sources in /usr/src, so after the driver",
        f'curl -fsSLo "$scratch/gdrcopy.tar.gz" {quote(source.where)}',
        f'echo "{source.sha256}  $scratch/gdrcopy.tar.gz" | sha256sum --check -',
        "mkdir -p /usr/local/src/gdrcopy",
        'tar -xzf "$scratch/gdrcopy.tar.gz" -C /usr/local/src/gdrcopy --strip-components=1',
        "make -C /usr/local/src/gdrcopy driver drv_install",
        "# Loaded at every start, with its device for all users; the module makes no device by itself",
        "cat > /usr/local/sbin/load-gdrdrv <<'END'",
        "#!/bin/sh",
        "set -eu",
        "modprobe gdrdrv",
        "rm -f /dev/gdrdrv",
        'mknod -m 666 /dev/gdrdrv c "$(awk \'$2 == "gdrdrv" {print $1}\' /proc/devices)" 0',
        "END",
        "chmod 755 /usr/local/sbin/load-gdrdrv",
        "cat > /etc/systemd/system/gdrdrv.service <<'END'",
        "[Unit]",
        "Description=GDRCopy's kernel module",
        "After=systemd-modules-load.service",
        "[Service]",
        "Type=oneshot",
        "ExecStart=/usr/local/sbin/load-gdrdrv",
        "[Install]",
        "WantedBy=multi-user.target",
        "END",
        "systemctl enable gdrdrv.service" + (" --now" if machine.driver else ""),
        "",
    ]


_Lines = Callable[[Machine], list[str]]
_TOOLS: dict[Family, _Lines] = {"debian": _tools_debian, "rhel": _tools_rhel, "suse": _tools_suse}
_REPOSITORY: dict[Family, _Lines] = {"debian": _repository_debian, "rhel": _repository_rhel, "suse": _repository_suse}
_INSTALL: dict[Family, str] = {
    "debian": "apt-get install -y",
    "rhel": "dnf install -y",
    "suse": "zypper --non-interactive install",
}
