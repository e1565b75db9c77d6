"""The whole document, and how it is written and read."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from volley.doctor.facts.base import Fact, Probe
from volley.doctor.facts.gpus import Bus, Cuda, Iommu, LoadedLink, Nvml
from volley.doctor.facts.jobs import Job, PairJob, Stack
from volley.doctor.facts.libraries import Gdrcopy, Transfer, Ucx
from volley.doctor.facts.machine import Driver, Limits, System, Toolchain
from volley.doctor.facts.topology import Topology
from volley.errors import UserError
from volley.text import harmless

FACTS_VERSION = 1
TOPOLOGY_CALL = "ls /sys/devices/system/node; readlink -f /sys/bus/pci/devices/*"


class Facts(Fact, frozen=True, kw_only=True):
    """Everything that doctor captured."""

    facts: Annotated[int, Meta(ge=1, description="version of this document.")]
    volley: Annotated[str, Meta(description="version of volley that captured it.")]
    captured_at: Annotated[str, Meta(description="UTC, ISO 8601.")]
    note: Annotated[str, Meta(description="where these facts come from, for people.")] = ""
    environment: Annotated[dict[str, str], Meta(description="variables that steer MPI, UCX, CUDA or a launcher.")]
    system: Probe[System]
    toolchain: Probe[Toolchain]
    driver: Probe[Driver]
    bus: Probe[Bus]
    cuda: Probe[Cuda]
    nvml: Probe[Nvml]
    pcie_load: Probe[list[LoadedLink]]
    iommu: Probe[Iommu]
    limits: Probe[Limits]
    gdrcopy: Probe[Gdrcopy]
    ucx: Probe[Ucx]
    ucx_transfer: Probe[Transfer]
    stack: Probe[Stack]
    mpi_host: Probe[Job]
    mpi_device: Probe[Job]
    launcher: Probe[Job]
    peers: Probe[list[PairJob]]
    topology: Probe[Topology] = Probe(call=TOPOLOGY_CALL, skipped="an older volley captured these facts")


def encode(facts: Facts) -> bytes:
    """Return the document as people can read it, with its last line ended."""
    return msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n"


def decode(document: bytes, name: str) -> Facts:
    """Read a document.

    Args:
        document: JSON.
        name: what to call it when it is refused.

    Raises:
        UserError: if it holds no facts, or those of another version.
    """
    try:
        found = msgspec.json.decode(document, type=dict)
        version = found.get("facts")
        if version != FACTS_VERSION:
            raise UserError(
                f"{name} holds facts of version {harmless(str(version))[:20]}, this volley reads {FACTS_VERSION}: "
                "capture them again, or use the volley that captured them"
            )
        return msgspec.json.decode(document, type=Facts)
    except msgspec.MsgspecError as error:
        raise UserError(f"{name} holds no facts of volley doctor --capture: {harmless(str(error))}") from None
    except UnicodeDecodeError:
        raise UserError(f"{name} holds no facts of volley doctor --capture: its text is not UTF-8") from None
    except RecursionError:
        raise UserError(f"{name} holds no facts of volley doctor --capture: JSON nested too deeply") from None
