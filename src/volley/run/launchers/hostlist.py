"""Expand Slurm's host list format: ``n[1-3,07-09],login1``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

MAX_HOSTS = 65536
"""The limit protects against a short list from the environment that expands to very many hosts."""

_ITEM = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)


class HostListError(ValueError):
    """The text is not a host list."""


def expand(text: str) -> tuple[str, ...]:
    """Return the hosts of a list in order.

    Numbers keep the width of the first number of their range: ``n[08-10]`` is n08, n09, n10.  With several brackets in
    one name, the last one varies fastest.

    Raises:
        HostListError: if the text is not a host list, or expands to more than MAX_HOSTS hosts.
    """
    items = _ITEM.findall(text)
    if ",".join(items) != text or not items:
        raise HostListError(f"{text!r} is not a host list")
    found = tuple(itertools.islice((host for item in items for host in _hosts(item)), MAX_HOSTS + 1))
    if len(found) > MAX_HOSTS:
        raise HostListError(f"more than {MAX_HOSTS} hosts")
    return found


def _hosts(item: str) -> Iterator[str]:
    """Yield the hosts of one item, which consists of plain text and brackets."""
    parts = [_numbers(inside) if fixed == "" else [fixed] for inside, fixed in _PART.findall(item)]
    return map("".join, itertools.product(*parts))


def _numbers(inside: str) -> list[str]:
    """Return the numbers of one bracket as text, padded to their width."""
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise HostListError(f"[{inside}] is not a list of numbers")
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) >= MAX_HOSTS:
            raise HostListError(f"more than {MAX_HOSTS} hosts")
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return numbers
