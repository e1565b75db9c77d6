"""What only root can do, as a shell script to read and to run by hand: driver, toolkit, GDRCopy's module.

The script is printed and never run.  The commands are those of NVIDIA's CUDA Installation Guide for Linux
(docs.nvidia.com/cuda/cuda-installation-guide-linux) and of GDRCopy's README.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from volley.errors import MachineError
from volley.machine.distribution import Distribution, this_distribution
from volley.machine.nvidia_driver import has_driver
from volley.setup.options import PROPRIETARY
from volley.setup.recipe import MINOR
from volley.setup.sources import RELEASES

_REPOSITORIES = "https://developer.download.nvidia.com/compute/cuda/repos"
_BEGIN = """\
#!/bin/sh
# What only root can do on {system}.
# Printed by volley setup --root-script, which ran none of it. Read it before you run it.
set -eu
scratch=$(mktemp -d)
"""
_INSTALL = {
    "debian": "apt-get install -y",
    "rhel": "dnf install -y",
    "suse": "zypper --non-interactive install",
}
_TOOLS = {
    "debian": "gcc g++ make perl curl ca-certificates",
    "rhel": "gcc gcc-c++ make perl curl",
    "suse": "gcc gcc-c++ make perl curl",
}
_HEADERS = {
    "debian": 'dkms "linux-headers-$(uname -r)"',
    "rhel": "kernel-devel-matched kernel-headers",
    **dict.fromkeys(("rhel7", "rhel8"), '"kernel-devel-$(uname -r)" "kernel-headers-$(uname -r)"'),
    "suse": "\"kernel-default-devel=$(uname -r | sed 's/-default$//')\"",
}
_REPOSITORY = {
    "debian": """\
curl -fsSLo "$scratch/cuda-keyring.deb" {url}/cuda-keyring_1.1-1_all.deb
dpkg -i "$scratch/cuda-keyring.deb"
apt-get update""",
    # Fedora's dnf 5 has no --add-repo; a file in yum.repos.d is what both read
    "rhel": """\
curl -fsSLo /etc/yum.repos.d/cuda-{name}.repo {url}/cuda-{name}.repo
dnf clean expire-cache""",
    "suse": """\
zypper addrepo {url}/cuda-{name}.repo
zypper --gpg-auto-import-keys refresh""",
}
_BRANCH = {
    "debian": "apt-get install -y nvidia-driver-pinning-{branch}",
    **dict.fromkeys(("rhel8", "rhel9"), "dnf module enable -y nvidia-driver:{branch}-{modules}"),
    "rhel": "dnf install -y 'dnf-command(versionlock)'\ndnf versionlock add '*nvidia*{branch}*'",
}
"""What ties the packages to one branch (NVIDIA Driver Installation Guide, "Kernel Modules" and "Version locking").
RHEL 10 and Fedora have no modules of packages."""
_PATH = """\
# nvcc on everybody's PATH, from the next login on
cat > /etc/profile.d/cuda.sh <<'END'
export PATH=/usr/local/cuda/bin${PATH:+:$PATH}
END
"""
_GDRDRV = """\
# GDRCopy's kernel module. It is built against the driver's sources in /usr/src, so after the driver
curl -fsSLo "$scratch/gdrcopy.tar.gz" {url}
echo "{sum}  $scratch/gdrcopy.tar.gz" | sha256sum --check -
mkdir -p /usr/local/src/gdrcopy
tar -xzf "$scratch/gdrcopy.tar.gz" -C /usr/local/src/gdrcopy --strip-components=1
make -C /usr/local/src/gdrcopy driver drv_install
# Loaded at every start, with its device for all users; the module makes no device by itself
cat > /usr/local/sbin/load-gdrdrv <<'END'
#!/bin/sh
set -eu
modprobe gdrdrv
rm -f /dev/gdrdrv
mknod -m 666 /dev/gdrdrv c "$(awk '$2 == "gdrdrv" {{print $1}}' /proc/devices)" 0
END
chmod 755 /usr/local/sbin/load-gdrdrv
cat > /etc/systemd/system/gdrdrv.service <<'END'
[Unit]
Description=GDRCopy's kernel module
After=systemd-modules-load.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/load-gdrdrv
[Install]
WantedBy=multi-user.target
END
systemctl enable gdrdrv.service{now}
"""


@dataclass(frozen=True)
class RootScriptFacts:
    """The facts that decide the contents of the script."""

    distribution: Distribution
    architecture: str = "x86_64"
    """As NVIDIA's repositories call it: ``x86_64`` or ``sbsa``."""
    driver: bool = False
    toolkit: bool = False
    gdrdrv: bool = False
    chosen_driver: str | None = None
    """The value of ``--driver``: installed even where another is loaded."""
    chosen_toolkit: str | None = None
    """The value of ``--toolkit``: installed even where there is another."""


def this_machine(driver: str | None, toolkit: str | None) -> RootScriptFacts:
    """Read these facts from files of this machine; the arguments are what was chosen."""
    return RootScriptFacts(
        this_distribution(),
        architecture={"aarch64": "sbsa"}.get(platform.machine(), "x86_64"),
        driver=has_driver() and not driver,
        toolkit=Path("/usr/local/cuda/bin/nvcc").exists() and not toolkit,
        chosen_driver=driver,
        chosen_toolkit=toolkit,
        gdrdrv=os.path.exists("/dev/gdrdrv"),  # noqa: PTH110  a device that may not be looked at raises in pathlib
    )


def root_script(machine: RootScriptFacts) -> str:
    """Return the script for a machine; what is already there is left out, and the script says so.

    Raises:
        MachineError: if the commands of this distribution are not known.
    """
    distribution = machine.distribution
    if distribution.family == "other":
        raise MachineError(
            f"no root script for {distribution.id}: there is one for Debian, Ubuntu, the RHEL family and SUSE; "
            "see docs.nvidia.com/cuda/cuda-installation-guide-linux"
        )
    system = f"{distribution.id} {distribution.version}".rstrip()
    install = _INSTALL[distribution.family]
    update = "apt-get update\n" if distribution.family == "debian" else ""
    tools = _TOOLS[distribution.family]
    parts = [_BEGIN.format(system=system), f"# Compilers and make\n{update}{install} {tools}\n"]
    if not (machine.driver and machine.gdrdrv):
        headers = distribution.most_specific(_HEADERS)
        parts.append(f"# Headers of the running kernel, for modules\n{install} {headers}\n")
    parts += _driver_and_toolkit(machine)
    if machine.gdrdrv:
        parts.append("# GDRCopy's module is loaded (/dev/gdrdrv): nothing to do\n")
    else:
        source, now = RELEASES["gdrcopy"], " --now" if machine.driver else ""
        parts.append(_GDRDRV.format(url=quote(source.where), sum=source.sha256, now=now))
    if not machine.driver:
        parts.append('echo "Now restart this machine: the driver is loaded when it starts."\n')
    return "\n".join(parts)


def _driver_and_toolkit(machine: RootScriptFacts) -> list[str]:
    """Return NVIDIA's repository, the driver with open kernel modules, the toolkit; whatever is missing."""
    if machine.driver and machine.toolkit:
        return ["# The driver is loaded and the toolkit is in /usr/local/cuda: nothing to do\n"]
    distribution = machine.distribution
    name = _repository_name(distribution)
    url = quote(f"{_REPOSITORIES}/{name}/{machine.architecture}")
    contrib = ""
    if distribution.id == "debian" and distribution.codename:  # the driver's packages need it
        line = f"deb http://deb.debian.org/debian {distribution.codename} contrib"
        contrib = f"echo '{line}' > /etc/apt/sources.list.d/contrib.list\n"
    install = _INSTALL[distribution.family]
    parts = [f"# NVIDIA's repository\n{contrib}{_REPOSITORY[distribution.family].format(name=name, url=url)}\n"]
    if machine.driver:
        parts.append("# The driver is loaded: nothing to do\n")
    else:
        parts.append(_driver(machine, install))
    if machine.toolkit:
        return [*parts, "# The toolkit is in /usr/local/cuda: nothing to do\n"]
    version = (machine.chosen_toolkit or MINOR).replace(".", "-")
    return [*parts, f"# The toolkit\n{install} cuda-toolkit-{version}\n", _PATH]


def _driver(machine: RootScriptFacts, install: str) -> str:
    """Return the commands that install the driver, of the branch that was chosen."""
    if machine.chosen_driver is None:
        return (
            f"# The driver with open kernel modules (Turing and later; for older GPUs: --driver 580{PROPRIETARY})\n"
            f"{install} nvidia-open\n"
        )
    branch, old = machine.chosen_driver.removesuffix(PROPRIETARY), machine.chosen_driver.endswith(PROPRIETARY)
    distribution = machine.distribution
    tie = distribution.most_specific(_BRANCH)
    if tie is None:
        raise MachineError(f"a branch of the driver cannot be chosen for {distribution.id}: leave --driver out")
    tie = tie.format(branch=branch, modules="dkms" if old else "open")
    title = "proprietary" if old else "open"
    return (
        f"# The driver, branch {branch}, with {title} kernel modules\n"
        f"{tie}\n{install} {'cuda-drivers' if old else 'nvidia-open'}\n"
    )


def _repository_name(distribution: Distribution) -> str:
    """Return what NVIDIA calls the repository: ``ubuntu2204``, ``debian12``, ``rhel9``, ``fedora42``, ``sles15``."""
    if distribution.id == "ubuntu":
        return "ubuntu" + distribution.version.replace(".", "")
    if distribution.id == "fedora":
        return "fedora" + distribution.major
    name: str = distribution.family
    if distribution.family == "suse":
        name = "opensuse" if "opensuse" in distribution.id else "sles"
    return name + distribution.major
