"""Remedies: commands for the distribution and the copy of volley that the facts describe."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from volley.machine.facts import Facts, SystemFacts
from volley.machine.hardware import extra_for
from volley.machine.packages import Distribution, distribution

MESSAGES = "pingpong"
"""The benchmark that sends verified messages between two ranks."""
SEND = f"volley {MESSAGES}"


def send_by(mpi: str) -> str:
    """Return the command that sends them by the MPI of ``--mpi``; an empty one is the usual MPI."""
    return f"{SEND} --mpi {quote(mpi)}" if mpi else SEND


AWARE_SOURCE = "volley setup --route source --prefix ~/mpi"
"""The command that builds a CUDA-aware MPI in a folder of the user."""

_ELSEWHERE = {
    "c++": "install a C++20 compiler",
    "newer c++": "install a C++20 compiler and name it in CXX",
    "cmake": "pip install cmake",
    "kernel headers": "install the headers of this kernel",
    "driver": "install the NVIDIA driver: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",
    "toolkit": "install the CUDA toolkit: https://docs.nvidia.com/cuda/cuda-installation-guide-linux/",
    "gdrcopy": "build and load GDRCopy: https://github.com/NVIDIA/gdrcopy",
    "ucx": "install UCX's tools: https://github.com/openucx/ucx",
}
"""Remedies for distributions whose packages are not known."""


def system(facts: Facts) -> SystemFacts:
    """Return what is known of the system; with the defaults if its probe has no value."""
    return facts.system.value or SystemFacts()


def distribution_of(facts: Facts) -> Distribution:
    known = system(facts)
    release = {"ID": known.os_id, "ID_LIKE": " ".join(known.os_like), "VERSION_ID": known.os_version}
    return distribution(release, root=known.root)


def sudo(facts: Facts) -> str:
    """Return the prefix of a command that only root may run: ``sudo`` or nothing."""
    return distribution_of(facts).sudo


def install(facts: Facts, tool: str) -> str:
    known = distribution_of(facts)
    return _ELSEWHERE[tool] if known.family == "other" else known.install_line(known.package(tool))


def install_driver(facts: Facts) -> str:
    """Return how the driver is installed, with the headers of the running kernel; a container has its host's driver."""
    known = distribution_of(facts)
    if system(facts).container:
        return "start the container with the host's driver, e.g. docker run --gpus all; the driver is the host's"
    if known.family == "other":
        return _ELSEWHERE["driver"]
    packages = f"{known.package('kernel headers')} {known.package('driver')}"
    return f"{known.install_line(packages)}; then reboot at a convenient time"


def install_volley(facts: Facts, extra: str = "", variables: str = "") -> str:
    """Return the command that installs the copy of volley that captured the facts again.

    Args:
        facts: where it came from.
        extra: a set of optional dependencies, such as ``cuda13``; nothing is built again for them.
        variables: the environment of the build, such as ``CUDACXX=…``.
    """
    name, at, url = facts.requirement.partition(" @ ")  # of a package that came from a URL
    requirement = f"{name}[{extra}]{at}{url}" if extra else facts.requirement
    # A shell knows the home folder by a ~ outside of quotes only.
    home = "~/" if requirement.startswith("~/") else ""
    word = home + quote(requirement.removeprefix(home))
    again = "" if extra else "--force-reinstall --no-cache-dir "
    return f"{variables} {facts.installer} {again}{word}".strip()


def unset_all(beginnings: Sequence[str]) -> str:
    """Return the command that unsets the variables whose names begin so."""
    needed = [each for each in beginnings if not each.startswith(tuple(other for other in beginnings if other != each))]
    return f"unset $(env | grep -oE '^({'|'.join(needed)})[A-Za-z0-9_]*')"


def raise_limit(facts: Facts, name: str, to: str) -> str:
    """Return how a limit of limits.conf(5) is raised: in a shell, for all logins, and for batch jobs."""
    letter = {"memlock": "l", "nofile": "n"}[name]
    shell = f"ulimit -{letter} {to}, if the hard limit (ulimit -H{letter}) allows it"
    logins = f"echo '* - {name} {to}' | {sudo(facts)}tee /etc/security/limits.d/{name}.conf"
    unit = f"Limit{name.upper()}={'infinity' if to == 'unlimited' else to}"
    return f"this shell: {shell}; all logins: {logins}; batch jobs: {unit} in slurmd's systemd unit, then restart it"


def aware_wheels(facts: Facts) -> str:
    """Return the command that installs a CUDA-aware UCX for Open MPI's wheel: no root, no compiler."""
    extra = extra_for(facts.driver.value.version if facts.driver.value else None)
    return install_volley(facts, extra=extra) if extra and facts.mpi_family in ("", "openmpi") else AWARE_SOURCE


def boot_with(facts: Facts, parameters: str) -> str:
    return distribution_of(facts).kernel_parameters(parameters)
