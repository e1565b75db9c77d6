"""Slurm's short form of a list of hosts: ``n[1-3,07-09],login1``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

MOST_HOSTS = 65536
"""A list comes from the environment, and ``n[0-999999999]`` is short: no machine has so many nodes."""

_ITEM = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)


class HostListError(ValueError):
    """The text is no list of hosts."""


def expand(text: str) -> tuple[str, ...]:
    """Return the hosts of a list in their order.

    Numbers keep the width of the range's first: ``n[08-10]`` is n08, n09, n10.  Several brackets in one name count like
    digits, the last the fastest.

    Raises:
        HostListError: if the text is no such list, or stands for more than MOST_HOSTS.
    """
    items = _ITEM.findall(text)
    if ",".join(items) != text or not items:
        raise HostListError(f"{text!r} is no list of hosts")
    found = tuple(itertools.islice((host for item in items for host in _hosts(item)), MOST_HOSTS + 1))
    if len(found) > MOST_HOSTS:
        raise HostListError(f"more than {MOST_HOSTS} hosts")
    return found


def _hosts(item: str) -> Iterator[str]:
    """Yield the hosts of one item: fixed text and brackets in turn."""
    parts = [_numbers(inside) if fixed == "" else [fixed] for inside, fixed in _PART.findall(item)]
    return map("".join, itertools.product(*parts))


def _numbers(inside: str) -> list[str]:
    """Return the numbers of one bracket, as text of their width."""
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise HostListError(f"[{inside}] is no list of numbers")
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) >= MOST_HOSTS:
            raise HostListError(f"more than {MOST_HOSTS} hosts")
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return numbers
