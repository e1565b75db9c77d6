"""UCX's own account of the protocol that it chose (``UCX_PROTO_INFO=y``, since UCX 1.13), as it stands on stderr."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TITLE = re.compile(r"\| \S+ (?:intra-node|inter-node) cfg#\d+ \| (?P<says>.*?) *\|$")
_ROW = re.compile(r"\| +(?P<sizes>\S+\.\.\S+) \| (?P<says>.*?) *\| (?P<by>.*?) *\|$")


def protocols(lines: Iterable[str], memory: str) -> list[str]:
    """Return what UCX says of plain sends from ``memory``, as ``0..92: eager short, sysv/memory``, each once.

    Tables of a rank's messages to itself, and of other calls than ``ucp_tag_send*``, are passed over.
    """
    found: dict[str, None] = {}
    wanted: dict[str, bool] = {}
    for line in lines:
        process = line.partition("|")[0].rpartition("[")[2]  # host:pid:thread; the lines of two ranks are mixed
        if row := _ROW.search(line):
            if wanted.get(process):
                found[f"{row['sizes']}: {row['says'].removeprefix('(?) ')}, {row['by']}"] = None
        elif "cfg#" in line:
            title = _TITLE.search(line)
            wanted[process] = bool(title and f"ucp_tag_send* from {memory}" in title["says"])
    return list(found)


def is_account(line: str) -> bool:
    """True for any line of such a table."""
    return re.search(r"[|+](?:-+\+|.*\|)\s*$", line) is not None
