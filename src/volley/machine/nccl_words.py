"""What NCCL says of itself with ``NCCL_DEBUG=INFO``: version, plugin, networks, and what each channel goes through.

It says so in a file, and takes no other path because of it (NCCL User Guide, "Environment Variables").
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from volley.machine.job_facts import NcclFacts

VARIABLES = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,P2P,SHM"}

_VERSION = re.compile(r"NCCL version (\d[\w.+]*)")
_PLUGIN = re.compile(r"NET/Plugin: (?:Loaded net plugin|Using|Plugin name set by env to) (?!internal)(\S+)")
_NETWORK = re.compile(r"(NET/\w+) ?: Using (.*?)(?:;| \[RO\]|$)")
_CHANNEL = re.compile(r"Channel \d+(?:/\d+)? ?: \d+\[\w+\] -> \d+\[\w+\] (?:\[\w+\] )?via (\S+(?: Libfabric\S*)?)")


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
