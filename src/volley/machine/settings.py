"""The settings of this node that decide how fast its CPUs run, and which hardware threads share a core."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from volley.machine.hardware import Settings
from volley.machine.sysfs import number, word
from volley.units import format_cpulist, parse_cpulist


def read(root: Path = Path("/")) -> Settings:
    """Read the settings of all CPUs from ``proc`` and ``sys`` in a folder; what cannot be read is left out."""
    cpus = root / "sys/devices/system/cpu"
    governors: dict[str, list[int]] = defaultdict(list)
    cores: dict[str, None] = {}
    for path in cpus.glob("cpu[0-9]*"):
        if governor := word(path / "cpufreq/scaling_governor"):
            governors[governor].append(int(path.name.removeprefix("cpu")))
        if threads := word(path / "topology/thread_siblings_list"):
            cores[threads] = None
    no_turbo = _switch(cpus / "intel_pstate/no_turbo")  # Intel's own driver has a switch that says no
    # The chosen one of several words: "always [madvise] never"
    quota_cpus, unread = None, {}
    try:
        quota_cpus = min(_quotas(root), default=None)
    except OSError as error:
        unread["quota_cpus"] = error.strerror or str(error)
    chosen = re.search(r"\[(\w+)\]", word(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    return Settings(
        host=os.uname().nodename,
        clock_driver=word(cpus / "cpu0/cpufreq/scaling_driver") or None,
        governors={governor: format_cpulist(those) for governor, those in sorted(governors.items())},
        boost=_switch(cpus / "cpufreq/boost") if no_turbo is None else not no_turbo,
        smt=_switch(cpus / "smt/active"),
        siblings=sorted(threads for threads in map(_cpus, cores) if len(threads) > 1),
        transparent_huge_pages=chosen[1] if chosen else None,
        numa_balancing=_switch(root / "proc/sys/kernel/numa_balancing"),
        quota_cpus=quota_cpus,
        unread=unread,
    )


def of(settings: Settings, cpus: Collection[int]) -> Settings:
    governors = {name: [each for each in _cpus(those) if each in cpus] for name, those in settings.governors.items()}
    return msgspec.structs.replace(
        settings,
        governors={name: format_cpulist(those) for name, those in governors.items() if those},
        siblings=[threads for threads in settings.siblings if not set(threads).isdisjoint(cpus)],
    )


def _cpus(text: str) -> list[int]:
    return [cpu for each in parse_cpulist(text) for cpu in each]


def _switch(path: Path) -> bool | None:
    found = number(path)
    return None if found is None else found > 0


def _quotas(root: Path) -> Iterator[float]:
    """Yield the limits of the control groups of this process, of versions 1 and 2, in CPUs (cgroups(7)).

    Raises:
        OSError: if a limit may be there and cannot be read.
    """
    groups = list(control_groups(root, "cpu"))
    if not groups:
        raise OSError("no control group of this process is mounted")
    for each in groups:
        quota, _, period = _limit(each / "cpu.max").partition(" ")  # version 2: `max 100000`
        if not quota:
            quota, period = _limit(each / "cpu.cfs_quota_us"), _limit(each / "cpu.cfs_period_us")  # version 1: -1
        if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
            yield int(quota) / int(period)
        elif quota not in ("", "max", "-1"):
            raise OSError(f"{each} allows {quota} of {period}")


def _limit(path: Path) -> str:
    """Return what a file of a control group holds; nothing where there is none, as in the topmost group."""
    with suppress(FileNotFoundError):
        return path.read_text(encoding="ascii").strip()
    return ""


def control_groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the control groups in which this process is, each before those above it.

    Those of version 1 are of one controller.  Inside a container the mount may begin at the container's own group
    (fourth column of mountinfo).
    """
    lines = [line.split(":", 2) for line in word(root / "proc/self/cgroup").splitlines() if line.count(":") >= 2]
    mounts = [line.split() for line in word(root / "proc/self/mountinfo").splitlines()]
    for number_, controllers, group in lines:
        for mount in mounts:
            # Type, source and options of the file system stand after a lone dash (proc(5)).
            kind, _, options = mount[mount.index("-") + 1 :][:3] if "-" in mount[:-3] else ("", "", "")
            if kind != ("cgroup2" if number_ == "0" else "cgroup"):
                continue
            if kind == "cgroup" and (controller not in controllers.split(",") or controller not in options.split(",")):
                continue
            top = root / mount[4].lstrip("/")
            below = Path(group).relative_to(mount[3]) if Path(group).is_relative_to(mount[3]) else Path()
            yield from (each for each in (top / below, *(top / below).parents) if each.is_relative_to(top))
