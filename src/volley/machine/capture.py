"""Capture facts: run every probe in order, each in a separate process."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from shlex import join
from typing import Any

import msgspec

from volley.machine import cuda_driver, nvml, reinstall, settings, sysfs
from volley.machine.facts import FACTS_VERSION, SETTINGS_CALL, TOPOLOGY_CALL, Facts, Probe
from volley.machine.isolate import isolated
from volley.machine.variables import captured

LIMIT_S = 60.0
"""How long a probe may take, unless asked."""


@dataclass(frozen=True)
class Attempt:
    """A probe: its field in the facts, the call as a person would repeat it, and what does it."""

    name: str
    call: str
    work: Callable[[], Any]
    times: float = 1.0
    """How many limits it may take: some run several jobs."""


BUS = Attempt("bus", "grep 0x10de /sys/bus/pci/devices/*/vendor", sysfs.bus)
CUDA = Attempt("cuda", "cuInit, cuDeviceGetCount, cuDeviceCanAccessPeer", cuda_driver.facts)
NVML = Attempt("nvml", "nvmlInit, nvmlDeviceGetNvLinkState, nvmlDeviceGetP2PStatus", nvml.facts)
TOPOLOGY = Attempt("topology", TOPOLOGY_CALL, sysfs.topology)
SETTINGS = Attempt("settings", SETTINGS_CALL, settings.read)


def capture(
    attempts: Sequence[Attempt],
    limit_s: float = LIMIT_S,
    watch: Callable[[str], None] = lambda _: None,
    *,
    own_session: bool = True,
) -> Facts:
    """Run the probes; return what happened.

    Args:
        attempts: the probes; those of the document that are missing here are noted as skipped.
        limit_s: seconds that a probe may take before it is ended.
        watch: receives the call of each probe before it begins.
        own_session: off inside a foreign launcher (see :func:`volley.machine.isolate.isolated`).
    """
    from volley import __version__  # noqa: PLC0415  start-up: reads the distribution's metadata

    types = {field.name: field.type for field in msgspec.structs.fields(Facts)}
    probes = [name for name, kind in types.items() if getattr(kind, "__origin__", None) is Probe]
    found: dict[str, Any] = {name: Probe(call=name, skipped="it was not requested") for name in probes}
    for each in attempts:
        watch(each.call)
        (kind,) = types[each.name].__args__  # T of Probe[T]
        found[each.name] = isolated(each.call, each.work, kind, limit_s * each.times, own_session=own_session)
    facts = Facts(
        facts=FACTS_VERSION,
        volley=__version__,
        captured_at=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        environment=dict(captured(os.environ)),
        installer=join(reinstall.installer()),
        requirement=reinstall.requirement(),
        **found,
    )
    return without_home(facts, os.path.expanduser("~"))  # noqa: PTH111  an unknown user has none: Path raises


def without_home(facts: Facts, home: str) -> Facts:
    """Write ``~`` for the user's home folder: facts are given to others.  A folder that only begins like it stays."""
    if len(home) < 2:
        return facts
    folder = re.escape(msgspec.json.encode(home.rstrip("/"))[1:-1])
    # A path ends before what separates paths or words, and begins after it.
    document = re.sub(rb"""(?<![^\s:;,='"(])""" + folder + rb"""(?![^/\s:;,'"\\)])""", b"~", msgspec.json.encode(facts))
    return msgspec.json.decode(document, type=Facts)
