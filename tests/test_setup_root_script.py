"""What only root can do: the script's text for each distribution, and that a shell can read it."""

from __future__ import annotations

import io
import subprocess
from dataclasses import replace

import pytest

from volley import cli
from volley.errors import MachineError
from volley.machine.distribution import Distribution, distribution
from volley.setup import root_script as scripts
from volley.setup.command import run
from volley.setup.options import SetupOptions
from volley.setup.root_script import RootScriptFacts, root_script

DEBIAN = {"ID": "debian", "VERSION_ID": "12", "VERSION_CODENAME": "bookworm"}
UBUNTU = {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "22.04", "VERSION_CODENAME": "jammy"}
ROCKY8 = {"ID": "rocky", "ID_LIKE": "rhel centos fedora", "VERSION_ID": "8.10"}
RHEL9 = {"ID": "rhel", "ID_LIKE": "fedora", "VERSION_ID": "9.4"}
FEDORA = {"ID": "fedora", "VERSION_ID": "42"}
SLES = {"ID": "sles", "ID_LIKE": "suse", "VERSION_ID": "15.6"}
LEAP = {"ID": "opensuse-leap", "ID_LIKE": "suse opensuse", "VERSION_ID": "15.6"}
ALL = [DEBIAN, UBUNTU, ROCKY8, RHEL9, FEDORA, SLES, LEAP]
REPOS = "https://developer.download.nvidia.com/compute/cuda/repos"


def script(release: dict[str, str], **facts: bool | str) -> str:
    return root_script(RootScriptFacts(distribution(release), **facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("release", "lines"),
    [
        (
            DEBIAN,
            [
                "apt-get install -y gcc g++ make perl curl ca-certificates",
                'apt-get install -y dkms "linux-headers-$(uname -r)"',
                "echo 'deb http://deb.debian.org/debian bookworm contrib' > /etc/apt/sources.list.d/contrib.list",
                f'curl -fsSLo "$scratch/cuda-keyring.deb" {REPOS}/debian12/x86_64/cuda-keyring_1.1-1_all.deb',
                "apt-get install -y nvidia-open",
                "apt-get install -y cuda-toolkit-13-0",
            ],
        ),
        (
            UBUNTU,
            [
                f'curl -fsSLo "$scratch/cuda-keyring.deb" {REPOS}/ubuntu2204/x86_64/cuda-keyring_1.1-1_all.deb',
                "apt-get install -y nvidia-open",
            ],
        ),
        (
            ROCKY8,
            [
                'dnf install -y "kernel-devel-$(uname -r)" "kernel-headers-$(uname -r)"',
                f"curl -fsSLo /etc/yum.repos.d/cuda-rhel8.repo {REPOS}/rhel8/x86_64/cuda-rhel8.repo",
                "dnf install -y nvidia-open",
            ],
        ),
        (
            RHEL9,
            [
                "dnf install -y kernel-devel-matched kernel-headers",
                f"curl -fsSLo /etc/yum.repos.d/cuda-rhel9.repo {REPOS}/rhel9/x86_64/cuda-rhel9.repo",
                "dnf install -y cuda-toolkit-13-0",
            ],
        ),
        (FEDORA, [f"curl -fsSLo /etc/yum.repos.d/cuda-fedora42.repo {REPOS}/fedora42/x86_64/cuda-fedora42.repo"]),
        (
            SLES,
            [
                "zypper --non-interactive install \"kernel-default-devel=$(uname -r | sed 's/-default$//')\"",
                f"zypper addrepo {REPOS}/sles15/x86_64/cuda-sles15.repo",
                "zypper --non-interactive install nvidia-open",
            ],
        ),
        (LEAP, [f"zypper addrepo {REPOS}/opensuse15/x86_64/cuda-opensuse15.repo"]),
    ],
)
def test_each_distribution_has_its_commands(release: dict[str, str], lines: list[str]) -> None:
    said = script(release).splitlines()
    assert [line for line in lines if line not in said] == []


@pytest.mark.parametrize("release", ALL)
def test_every_script_has_path_module_and_restart_and_is_shell(release: dict[str, str]) -> None:
    said = script(release)
    assert "export PATH=/usr/local/cuda/bin${PATH:+:$PATH}" in said
    assert "make -C /usr/local/src/gdrcopy driver drv_install" in said
    assert "sha256sum --check -" in said
    assert said.endswith('\necho "Now restart this machine: the driver is loaded when it starts."\n')
    assert "reboot" not in said
    assert subprocess.run(["sh", "-n"], input=said, text=True, check=False).returncode == 0


@pytest.mark.parametrize("release", ALL)
def test_what_is_there_is_left_out(release: dict[str, str]) -> None:
    said = script(release, driver=True, toolkit=True, gdrdrv=True)
    for gone in ("nvidia-open", "cuda-toolkit", "gdrcopy.tar.gz", "restart", "kernel", "linux-headers", "profile.d"):
        assert gone not in said
    assert "The driver is loaded and the toolkit is in /usr/local/cuda: nothing to do" in said
    assert subprocess.run(["sh", "-n"], input=said, text=True, check=False).returncode == 0


def test_a_driver_without_a_toolkit_gets_the_toolkit_only() -> None:
    said = script(UBUNTU, driver=True)
    assert "nvidia-open" not in said
    assert "cuda-toolkit-13-0" in said
    assert "restart" not in said
    assert "systemctl enable gdrdrv.service --now" in said


@pytest.mark.parametrize(
    ("release", "driver", "lines"),
    [
        (DEBIAN, "580", ["apt-get install -y nvidia-driver-pinning-580", "apt-get install -y nvidia-open"]),
        (
            UBUNTU,
            "535-proprietary",
            ["apt-get install -y nvidia-driver-pinning-535", "apt-get install -y cuda-drivers"],
        ),
        (ROCKY8, "580", ["dnf module enable -y nvidia-driver:580-open", "dnf install -y nvidia-open"]),
        (RHEL9, "535-proprietary", ["dnf module enable -y nvidia-driver:535-dkms", "dnf install -y cuda-drivers"]),
        (FEDORA, "580", ["dnf versionlock add '*nvidia*580*'", "dnf install -y nvidia-open"]),
    ],
)
def test_a_driver_and_a_toolkit_can_be_chosen(release: dict[str, str], driver: str, lines: list[str]) -> None:
    said = script(release, chosen_driver=driver, chosen_toolkit="12.9")
    order = [said.splitlines().index(line) for line in lines]
    assert order == sorted(order)
    assert "cuda-toolkit-12-9\n" in said
    assert "cuda-toolkit-13" not in said
    assert subprocess.run(["sh", "-n"], input=said, text=True, check=False).returncode == 0


def test_a_branch_is_refused_where_nothing_holds_it() -> None:
    with pytest.raises(MachineError, match="cannot be chosen for sles: leave --driver out"):
        script(SLES, chosen_driver="580")


def test_what_was_chosen_is_installed_beside_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "has_driver", lambda: True)
    assert scripts.this_machine(None, None).driver
    machine = scripts.this_machine("580", "12.9")
    assert (machine.driver, machine.toolkit) == (False, False)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--driver", "580"], "--driver belongs to --root-script"),
        (["--toolkit", "12.9"], "--toolkit belongs to --root-script"),
        (["--root-script", "--driver", "580; id"], "is no branch of the driver"),
        (["--root-script", "--toolkit", "12"], "is no version of a CUDA toolkit: write e.g. --toolkit 12.9"),
    ],
)
def test_options_that_choose_nothing(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["setup", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_an_unknown_distribution_is_told_where_to_look() -> None:
    with pytest.raises(MachineError, match=r"no root script for void.*docs\.nvidia\.com"):
        script({"ID": "void"})


def test_packages_of_a_major_version_come_before_those_of_its_family() -> None:
    """``rhel`` is a distribution and a family."""
    rhel7 = distribution({"ID": "rhel", "VERSION_ID": "7.9"})
    centos7 = distribution({"ID": "centos", "ID_LIKE": "rhel fedora", "VERSION_ID": "7"})
    assert rhel7.package("c++") == centos7.package("c++") != distribution(RHEL9).package("c++")
    assert rhel7.install_line("gcc").startswith("sudo yum ")


def test_what_os_release_says_is_data() -> None:
    evil = distribution({"ID": "debian", "VERSION_ID": "12'; rm -rf /\n", "VERSION_CODENAME": "$(id)"})
    assert evil == Distribution("debian", "12rm-rf", "id", "debian")


def test_arm_servers_have_their_own_repository() -> None:
    machine = replace(RootScriptFacts(distribution(UBUNTU)), architecture="sbsa")
    assert f"{REPOS}/ubuntu2204/sbsa/" in root_script(machine)


def test_the_script_is_printed_and_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = RootScriptFacts(distribution(DEBIAN))
    monkeypatch.setattr(scripts, "this_machine", lambda *_: machine)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("something was started"))
    out = io.StringIO()
    assert run(SetupOptions(root_script=True), {}, out) == 0
    assert out.getvalue() == root_script(machine)
