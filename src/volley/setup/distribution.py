"""Which distribution this is, and what it calls things."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from volley.errors import UserError
from volley.text import harmless

Family = Literal["debian", "rhel", "suse", "other"]

_FAMILIES: dict[str, Family] = {
    "debian": "debian",
    "ubuntu": "debian",
    "rhel": "rhel",
    "fedora": "rhel",
    "centos": "rhel",
    "suse": "suse",
    "sles": "suse",
    "opensuse": "suse",
}

INSTALL: dict[Family, str] = {"debian": "apt-get install", "rhel": "dnf install", "suse": "zypper install"}

PACKAGES: dict[str, dict[Family, str]] = {
    "cc": {"debian": "gcc libc6-dev", "rhel": "gcc", "suse": "gcc"},
    "c++": {"debian": "g++", "rhel": "gcc-c++", "suse": "gcc-c++"},
    "make": {"debian": "make", "rhel": "make", "suse": "make"},
    "perl": {"debian": "perl", "rhel": "perl", "suse": "perl"},
    "autoreconf": {"debian": "autoconf automake", "rhel": "autoconf automake", "suse": "autoconf automake"},
    "libtoolize": {"debian": "libtool", "rhel": "libtool", "suse": "libtool"},
    "flex": {"debian": "flex", "rhel": "flex", "suse": "flex"},
    "apt-get": {"debian": "apt"},
    "dpkg-source": {"debian": "dpkg-dev", "rhel": "dpkg-dev", "suse": "dpkg"},
}
"""The packages of each program that a build may need."""


@dataclass(frozen=True)
class Distribution:
    """What ``/etc/os-release`` says, as far as it matters here."""

    id: str = "linux"
    version: str = ""
    codename: str = ""
    family: Family = "other"

    def install(self, packages: str) -> str:
        """Return the command that installs packages, for people."""
        command = INSTALL.get(self.family)
        return f"sudo {command} {packages}" if command else f"install {packages} with your package manager"

    def package(self, tool: str) -> str:
        """Return the packages that a program is in."""
        return PACKAGES[tool].get(self.family, tool)

    def source_line(self, suite: str | None) -> str:
        """Return the line of ``sources.list`` for a suite's source packages.

        Raises:
            UserError: if this distribution has none.
        """
        if self.family != "debian":
            raise UserError(
                f"--source …=deb:… needs Debian's apt, and this is {harmless(self.id)}; "
                "give a tarball, a checkout or a .dsc file"
            )
        suite = suite or self.codename
        if not suite:
            raise UserError("/etc/os-release names no suite; write it: deb:PACKAGE@bookworm")
        if self.id == "ubuntu":
            keyring = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
            return f"deb-src [signed-by={keyring}] http://archive.ubuntu.com/ubuntu {suite} main universe\n"
        keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
        return f"deb-src [signed-by={keyring}] http://deb.debian.org/debian {suite} main\n"


def this_distribution() -> Distribution:
    """Return the distribution that this runs on."""
    try:
        return distribution(platform.freedesktop_os_release())
    except OSError:
        return Distribution()


def distribution(release: Mapping[str, str]) -> Distribution:
    """Read what os-release says: its own name first, then those that it is like."""
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    known = [_FAMILIES[word] for name in names for word in (name, name.partition("-")[0]) if word in _FAMILIES]
    family: Family = known[0] if known else "other"
    plain = {
        key: re.sub(r"[^A-Za-z0-9._-]", "", release.get(key, "")) for key in ("ID", "VERSION_ID", "VERSION_CODENAME")
    }
    return Distribution(plain["ID"] or "linux", plain["VERSION_ID"], plain["VERSION_CODENAME"], family)
