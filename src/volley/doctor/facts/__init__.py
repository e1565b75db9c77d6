"""What doctor captures: one JSON document, the only thing that its two halves share.

Every probe ran in a process of its own.  Its ``value`` is what it found; where there is none, ``error`` or ``skipped``
says why.  Nothing here is a judgement: that is what ``checks`` are for.
"""

from __future__ import annotations

from volley.doctor.facts.base import Probe
from volley.doctor.facts.document import FACTS_VERSION, TOPOLOGY_CALL, Facts, decode, encode
from volley.doctor.facts.gpus import (
    Bridge,
    Bus,
    Cuda,
    CudaDevice,
    Iommu,
    LoadedLink,
    NvLink,
    Nvml,
    NvmlDevice,
    PciDevice,
)
from volley.doctor.facts.jobs import Job, PairJob, Seen, Stack, Tried, Way
from volley.doctor.facts.libraries import Gdrcopy, Transfer, Ucx, UcxComponent
from volley.doctor.facts.machine import Driver, Limits, Program, System, Toolchain
from volley.doctor.facts.topology import NumaNode, PciPlace, Topology

__all__ = [
    "FACTS_VERSION",
    "TOPOLOGY_CALL",
    "Bridge",
    "Bus",
    "Cuda",
    "CudaDevice",
    "Driver",
    "Facts",
    "Gdrcopy",
    "Iommu",
    "Job",
    "Limits",
    "LoadedLink",
    "NumaNode",
    "NvLink",
    "Nvml",
    "NvmlDevice",
    "PairJob",
    "PciDevice",
    "PciPlace",
    "Probe",
    "Program",
    "Seen",
    "Stack",
    "System",
    "Toolchain",
    "Topology",
    "Transfer",
    "Tried",
    "Ucx",
    "UcxComponent",
    "Way",
    "decode",
    "encode",
]
