"""What only root can do: the scripts run, with stand-ins for what they call and for the folders of root."""

from __future__ import annotations

import io
import os
import re
import subprocess
from pathlib import Path

import pytest

import fake_sources as fake
from volley.errors import MachineError
from volley.machine.packages import Distribution, distribution
from volley.setup import command
from volley.setup.command import SetupOptions, root_script, run, shell_script

DEBIAN = {"ID": "debian", "VERSION_ID": "12", "VERSION_CODENAME": "bookworm"}
UBUNTU = {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "22.04", "VERSION_CODENAME": "jammy"}
ROCKY8 = {"ID": "rocky", "ID_LIKE": "rhel centos fedora", "VERSION_ID": "8.10"}
RHEL9 = {"ID": "rhel", "ID_LIKE": "fedora", "VERSION_ID": "9.4"}
FEDORA = {"ID": "fedora", "VERSION_ID": "42"}
SLES = {"ID": "sles", "ID_LIKE": "suse", "VERSION_ID": "15.6"}
LEAP = {"ID": "opensuse-leap", "ID_LIKE": "suse opensuse", "VERSION_ID": "15.6"}
ALL = [DEBIAN, UBUNTU, ROCKY8, RHEL9, FEDORA, SLES, LEAP]
REPOS = "https://developer.download.nvidia.com/compute/cuda/repos"

_CALLED = '#!/bin/sh\necho "$(basename "$0") $*" >> "{root}/called"\n'
_FOLDERS = (
    "dev",
    "etc/apt/sources.list.d",
    "etc/profile.d",
    "etc/systemd/system",
    "proc/driver/nvidia",
    "usr/local/sbin",
)


def ran(root: Path, release: dict[str, str], *there: str, machine: str = "x86_64", **chosen: str) -> list[str]:
    """Run the script of a distribution below a folder, where some files are ``there``; what it called and printed."""
    for folder in (*_FOLDERS, "usr/local/cuda/bin", "scratch"):
        (root / folder).mkdir(parents=True)
    for file in there:
        (root / file).touch()
    (root / "etc/os-release").write_text("".join(f"{name}='{value}'\n" for name, value in release.items()))
    programs = ("apt-get", "curl", "dnf", "dpkg", "make", "systemctl", "tar", "zypper")
    stand_ins = dict.fromkeys(programs, _CALLED.format(root=root))
    answers = f"#!/bin/sh\n[ $1 = -m ] && echo {machine} || echo 6.1.0-default\n"
    stand_ins |= {"uname": answers, "mktemp": f"#!/bin/sh\necho {root}/scratch\n"}
    stand_ins["sha256sum"] = f"#!/bin/sh\ncat >> {root}/called\n"
    path = f"{fake.checkout(root / 'bin', stand_ins)}{os.pathsep}{os.environ['PATH']}"
    script = root_script(SetupOptions(root_script=True, **chosen), distribution(release))
    script = re.sub(r"(?<![\w.])/(dev|etc|proc|usr/local)/", rf"{root}/\1/", script)
    done = subprocess.run(["bash", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=True)
    return [
        line.replace(str(root), "") for line in (*(root / "called").read_text().splitlines(), *done.stdout.splitlines())
    ]


@pytest.mark.parametrize(
    ("release", "calls"),
    [
        (
            DEBIAN,
            [
                "apt-get update",
                "apt-get install -y gcc g++ make perl curl ca-certificates",
                "apt-get install -y dkms linux-headers-6.1.0-default",
                f"curl -fsSLo /scratch/cuda-keyring.deb {REPOS}/debian12/x86_64/cuda-keyring_1.1-1_all.deb",
                "dpkg -i /scratch/cuda-keyring.deb",
                "apt-get update",
                "apt-get install -y nvidia-open",
                "apt-get install -y cuda-toolkit-13-0",
            ],
        ),
        (UBUNTU, [f"curl -fsSLo /scratch/cuda-keyring.deb {REPOS}/ubuntu2204/x86_64/cuda-keyring_1.1-1_all.deb"]),
        (
            ROCKY8,
            [
                "dnf install -y kernel-devel-6.1.0-default kernel-headers-6.1.0-default",
                f"curl -fsSLo /etc/yum.repos.d/cuda-rhel8.repo {REPOS}/rhel8/x86_64/cuda-rhel8.repo",
                "dnf clean expire-cache",
                "dnf install -y nvidia-open",
            ],
        ),
        (
            RHEL9,
            [
                "dnf install -y gcc gcc-c++ make perl curl",
                "dnf install -y kernel-devel-matched kernel-headers",
                f"curl -fsSLo /etc/yum.repos.d/cuda-rhel9.repo {REPOS}/rhel9/x86_64/cuda-rhel9.repo",
                "dnf install -y cuda-toolkit-13-0",
            ],
        ),
        (FEDORA, [f"curl -fsSLo /etc/yum.repos.d/cuda-fedora42.repo {REPOS}/fedora42/x86_64/cuda-fedora42.repo"]),
        (
            SLES,
            [
                "zypper --non-interactive install kernel-default-devel=6.1.0",
                f"zypper addrepo {REPOS}/sles15/x86_64/cuda-sles15.repo",
                "zypper --gpg-auto-import-keys refresh",
                "zypper --non-interactive install nvidia-open",
            ],
        ),
        (LEAP, [f"zypper addrepo {REPOS}/opensuse15/x86_64/cuda-opensuse15.repo"]),
    ],
)
def test_each_distribution_has_its_commands(tmp_path: Path, release: dict[str, str], calls: list[str]) -> None:
    said = ran(tmp_path, release)
    assert [line for line in said if line in calls] == calls
    assert "make -C /usr/local/src/gdrcopy driver drv_install" in said
    assert f"{sum_of_gdrcopy()}  /scratch/gdrcopy.tar.gz" in said
    assert said[-2:] == [
        "systemctl enable gdrdrv.service",
        "Now restart this machine: the driver is loaded when it starts.",
    ]
    assert "export PATH=" in (tmp_path / "etc/profile.d/cuda.sh").read_text()
    assert (tmp_path / "etc/apt/sources.list.d/contrib.list").exists() == (release == DEBIAN)
    assert not (tmp_path / "scratch").exists()


def sum_of_gdrcopy() -> str:
    """The sum of GDRCopy's release, which the source route builds too."""
    both = [shell_script(name, {}) for name in ("from_source.sh", "root/steps.sh")]
    (source,), (root,) = (re.findall(r"^gdrcopy=(.*)\ngdrcopy_sha256=(.*)$", script, re.MULTILINE) for script in both)
    assert source == root
    return str(root[1])


@pytest.mark.parametrize("release", ALL)
def test_what_is_there_is_left_out(tmp_path: Path, release: dict[str, str]) -> None:
    said = ran(tmp_path, release, "proc/driver/nvidia/version", "usr/local/cuda/bin/nvcc", "dev/gdrdrv")
    assert not re.search(
        "nvidia-open|cuda-toolkit|gdrcopy.tar.gz|restart|kernel|linux-headers|keyring", "\n".join(said)
    )
    assert [line for line in said if line.endswith(": nothing to do")] == said[-3:]
    assert not (tmp_path / "etc/profile.d/cuda.sh").exists()


def test_a_driver_without_a_toolkit_gets_the_toolkit_only(tmp_path: Path) -> None:
    said = ran(tmp_path, UBUNTU, "dev/nvidiactl", machine="aarch64")
    assert not re.search("nvidia-open|restart", "\n".join(said))
    assert "apt-get install -y cuda-toolkit-13-0" in said
    assert "systemctl enable --now gdrdrv.service" in said
    assert f"{REPOS}/ubuntu2204/sbsa/" in "\n".join(said)  # servers with Arm processors


@pytest.mark.parametrize(
    ("release", "driver", "calls"),
    [
        (DEBIAN, "580", ["apt-get install -y nvidia-driver-pinning-580", "apt-get install -y nvidia-open"]),
        (
            UBUNTU,
            "535-proprietary",
            ["apt-get install -y nvidia-driver-pinning-535", "apt-get install -y cuda-drivers"],
        ),
        (ROCKY8, "580", ["dnf module enable -y nvidia-driver:580-open", "dnf install -y nvidia-open"]),
        (RHEL9, "535-proprietary", ["dnf module enable -y nvidia-driver:535-dkms", "dnf install -y cuda-drivers"]),
        (FEDORA, "580", ["dnf versionlock add *nvidia*580*", "dnf install -y nvidia-open"]),
    ],
)
def test_what_was_chosen_is_installed_beside_what_is_there(
    tmp_path: Path, release: dict[str, str], driver: str, calls: list[str]
) -> None:
    there = ("proc/driver/nvidia/version", "usr/local/cuda/bin/nvcc", "dev/gdrdrv")
    said = ran(tmp_path, release, *there, driver=driver, toolkit="12.9")
    assert [line for line in said if line in calls] == calls
    assert [line for line in said if "cuda-toolkit" in line and line.endswith("cuda-toolkit-12-9")]
    assert "cuda-toolkit-13" not in "\n".join(said)


def test_a_distribution_without_a_script_or_without_branches_is_refused() -> None:
    with pytest.raises(MachineError, match="sles offers no choice of a driver branch: leave --driver out"):
        root_script(SetupOptions(root_script=True, driver="580"), distribution(SLES))
    with pytest.raises(MachineError, match=r"no root script for void.*docs\.nvidia\.com"):
        root_script(SetupOptions(root_script=True), distribution({"ID": "void"}))


def test_packages_of_a_major_version_come_before_those_of_its_family() -> None:
    """``rhel`` is a distribution and a family."""
    rhel7 = distribution({"ID": "rhel", "VERSION_ID": "7.9"})
    centos7 = distribution({"ID": "centos", "ID_LIKE": "rhel fedora", "VERSION_ID": "7"})
    assert rhel7.package("c++") == centos7.package("c++") != distribution(RHEL9).package("c++")
    assert rhel7.install_line("gcc").startswith("sudo yum ")


def test_what_os_release_says_is_data() -> None:
    evil = distribution({"ID": "debian", "VERSION_ID": "12'; rm -rf /\n"})
    assert evil == Distribution("debian", "12rm-rf", "debian")


def test_the_script_is_printed_and_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "this_distribution", lambda: distribution(DEBIAN))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("something was started"))
    out = io.StringIO()
    options = SetupOptions(root_script=True)
    assert run(options, {}, out) == 0
    assert out.getvalue() == root_script(options, distribution(DEBIAN))
