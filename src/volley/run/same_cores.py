"""Other runs of volley that measure on the same cores at the same time: both would measure the other one's load."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from volley.text import join_words
from volley.units import format_cpulist, parse_cpulist

SPACE = "VOLLEY_SPACE"
"""The variable for tests that run side by side: runs with another value of it are not seen."""

_MOST_CHARACTERS = 80
"""Of a list of CPUs: the name of a socket has at most 107 characters (unix(7))."""


@contextlib.contextmanager
def announced() -> Iterator[str | None]:
    """Announce a run on the cores of this process until it ends, however it ends; yield a sentence about other runs.

    The announcement is the name of a socket, which all users of this machine and network namespace can see.
    """
    own, start = os.sched_getaffinity(0), f"volley{os.environ.get(SPACE, '')[:9]}/"
    cpus = format_cpulist(own)
    if len(cpus) > _MOST_CHARACTERS:
        cpus = f"{min(own)}-{max(own)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
        with contextlib.suppress(OSError):
            name.bind(f"\0{start}{os.getpid()}/{cpus}")
        others = [pid for pid, ranges in _runs(start) if any(cpu in each for each in ranges for cpu in own)]
        which = sorted({int(pid) for pid in others} - {os.getpid()})
        them = f"process{'es' * (len(which) > 1)} {join_words(map(str, which))}"
        yield f"another volley measures on these cores ({them}): each disturbs the other" if which else None


def _runs(start: str) -> Iterator[tuple[str, list[range]]]:
    """Yield process and CPUs of each run of which there is an announcement."""
    names = ""
    with contextlib.suppress(OSError):
        names = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace")
    for pid, cpus in re.findall(rf"@{re.escape(start)}(\d+)/(\S+)$", names, re.ASCII | re.MULTILINE):
        yield pid, parse_cpulist(cpus)
