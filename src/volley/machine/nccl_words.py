"""What NCCL says of itself with ``NCCL_DEBUG=INFO``: version, plugin, networks, and what each channel goes through.

It says so in a file, and takes no other path because of it (NCCL User Guide, "Environment Variables").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from volley.machine.job_facts import NcclFacts
from volley.machine.paths import Algorithm
from volley.machine.sysfs import word

VARIABLES = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,P2P,SHM,TUNING"}

_VERSION = re.compile(r"NCCL version (\d[\w.+]*)")
_PLUGIN = re.compile(r"NET/Plugin: (?:Loaded net plugin|Using|Plugin name set by env to) (?!internal)(\S+)")
_NETWORK = re.compile(r"(NET/\w+) ?: Using (.*?)(?:;| \[RO\]|$)")
_CHANNEL = re.compile(r"Channel \d+(?:/\d+)? ?: \d+\[\w+\] -> \d+\[\w+\] (?:\[\w+\] )?via (\S+(?: Libfabric\S*)?)")

_ALGORITHM = re.compile(
    r"NCCL INFO (\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}"
)
_OF_A_BLOCK = ("allgather", "reduce-scatter")
"""Operations of which NCCL names the bytes of each rank's block (src/enqueue.cc)."""
_ELEMENT_BYTES = 4


def to_files_in(folder: str) -> dict[str, str]:
    """Return variables by which each process of this host writes a file of its own: in one pipe another's line may
    begin within a line, and only the first rank says how an operation is made.  Processes of other hosts, which have no
    such folder, print."""
    return {**VARIABLES, "NCCL_DEBUG_FILE": f"{folder}/%h.%p"}


def said_in(folder: str) -> list[str]:
    """Return the lines of these files."""
    return [line for path in sorted(Path(folder).glob("*")) for line in word(path).splitlines()]


def parse(lines: Sequence[str]) -> NcclFacts:
    """Return what the lines of one rank say.

    >>> parse(["n1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"]).channels
    ['P2P/CUMEM/read']
    """
    version, plugin = (
        next((found[1] for line in lines if (found := each.search(line))), "") for each in (_VERSION, _PLUGIN)
    )
    networks = [f"{found[1]} {found[2].strip()}" for line in lines if (found := _NETWORK.search(line))]
    channels = dict.fromkeys(found[1] for line in lines if (found := _CHANNEL.search(line)))
    return NcclFacts(version=version, plugin=plugin, networks=networks, channels=list(channels))


def algorithms(
    lines: Sequence[str], operations: Sequence[str], sizes_bytes: Sequence[int], ranks: int
) -> Iterator[Algorithm]:
    """Yield how NCCL made each operation of each size among so many ranks; older versions do not say it.

    >>> line = "n1:7:7 [0] NCCL INFO AllGather: 512 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"
    >>> [each.words for each in algorithms([line], ["allgather"], [1024], 2)]
    ['RING LL, 2 channels']
    """
    found = {(line[1].lower(), int(line[2])): line for line in map(_ALGORITHM.search, lines) if line}
    for operation in operations:
        for size in sizes_bytes:
            elements = size // _ELEMENT_BYTES // (ranks if operation in _OF_A_BLOCK else 1)
            if line := found.get((operation.replace("-", ""), elements * _ELEMENT_BYTES)):
                channels = int(line[6]) - int(line[5]) + 1
                yield Algorithm("nccl", operation, size, line[3], line[4], channels)
