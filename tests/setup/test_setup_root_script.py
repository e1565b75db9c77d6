"""What only root can do: the scripts run, with stand-ins for what they call and for the folders of root."""

import io
import os
import re
import subprocess
from pathlib import Path

import pytest

import fake_sources as fake
from screens import SCREENS, check_screen
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


THERE = ("proc/driver/nvidia/version", "usr/local/cuda/bin/nvcc", "dev/gdrdrv")
CASES: dict[str, tuple[dict[str, str], tuple[str, ...], dict[str, str]]] = {
    **{f"{release['ID']} {release['VERSION_ID']}": (release, (), {}) for release in ALL},
    **{f"{release['ID']} {release['VERSION_ID']}, where all is there": (release, THERE, {}) for release in ALL},
    "a server with Arm processors and a driver": (UBUNTU, ("dev/nvidiactl",), {"machine": "aarch64"}),
    **{
        f"{release['ID']} {release['VERSION_ID']}, driver {driver} and another toolkit": (
            *(release, THERE, {"driver": driver, "toolkit": "12.9"}),
        )
        for release, driver in (
            *((DEBIAN, "580"), (UBUNTU, "535-proprietary"), (ROCKY8, "580"), (RHEL9, "535-proprietary")),
            (FEDORA, "580"),
        )
    },
}
"""A distribution, what is there, and what was chosen."""


def test_what_each_distribution_calls_is_what_was_looked_at(tmp_path: Path) -> None:
    parts = []
    for number, (name, (release, there, chosen)) in enumerate(CASES.items()):
        root = tmp_path / str(number)
        said = ran(root, release, *there, **chosen)
        files = [str(file.relative_to(root)) for file in sorted(root.glob("etc/*/**/*")) if file.is_file()]
        assert not (root / "scratch").exists()
        parts.append("\n".join([f"# {name}", *said, f"files: {', '.join(files) or 'none'}", ""]))
    check_screen(SCREENS / "setup/root-scripts.txt", "\n".join(parts).replace(sum_of_gdrcopy(), "SHA256"))


def sum_of_gdrcopy() -> str:
    """The sum of GDRCopy's release, which the source route builds too."""
    both = [shell_script(name, {}) for name in ("from_source.sh", "root/steps.sh")]
    (source,), (root,) = (re.findall(r"^gdrcopy=(.*)\ngdrcopy_sha256=(.*)$", script, re.MULTILINE) for script in both)
    assert source == root
    return str(root[1])


def test_a_distribution_without_a_script_or_without_branches_is_refused() -> None:
    with pytest.raises(MachineError, match="sles offers no choice of a driver branch: leave --driver out"):
        root_script(SetupOptions(root_script=True, driver="580"), distribution(SLES))
    with pytest.raises(MachineError, match=r"no root script for void.*docs\.nvidia\.com"):
        root_script(SetupOptions(root_script=True), distribution({"ID": "void"}))


def test_what_os_release_says_is_data() -> None:
    assert distribution({"ID": "de'; rm -rf /\nbian", "ID_LIKE": "debian"}) == Distribution("derm-rfbian", "debian")


def test_the_script_is_printed_and_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "this_distribution", lambda: distribution(DEBIAN))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("something was started"))
    out = io.StringIO()
    options = SetupOptions(root_script=True)
    assert run(options, {}, out) == 0
    assert out.getvalue() == root_script(options, distribution(DEBIAN))
