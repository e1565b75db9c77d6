"""Records of matrices between GPUs, made with few words: what H200s gave, so that reports have something to show."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from example_records import run
from volley.benchmarks.matrix import SECTIONS, USUAL, WITH_HOST
from volley.benchmarks.matrix.records import GpuMatrixCell, GpuMatrixGpus, GpuMatrixPlan, GpuMatrixRow
from volley.machine.hardware import Device, Gpu, Hardware, NvLink, PeerStatus
from volley.records.plan import Plan
from volley.records.record_types import End
from volley.records.run_log import RunLog

MACHINES = Path(__file__).parents[1] / "machines"
MIB = 1 << 20
RATES = {
    "uni/off": 38e9, "bi/off": 53e9, "uni": 394e9, "uni/read": 392e9, "bi": 783e9, "uni/kernel": 370e9,
    "uni/kernel-read": 368e9, "bi/kernel": 720e9, "host-to-gpu": 55.5e9, "gpu-to-host": 55.4e9, "bi/host": 98e9,
    "host-to-gpu/kernel": 54e9, "gpu-to-host/kernel": 53e9, "bi/host/kernel": 90e9, "host-to-gpu/all": 40e9,
    "gpu-to-host/all": 39e9, "bi/host/all": 70e9,
}  # fmt: skip
"""Bytes a second."""
TIMES = {
    "completion/off": 30e-6, "issue/off": 15e-6, "enqueue/off": 4.3e-6, "completion": 6.4e-6, "issue": 2.2e-6,
    "enqueue": 1.3e-6, "store": 0.75e-6, "load": 0.83e-6, "load/host": 1.1e-6,
}  # fmt: skip
WITHIN = {"GB/s": 2.05e12, "s": 0.6}
"""Within a GPU: bytes a second, and the fraction of the time between two."""

Pair = tuple[int, int]


def uuid(number: int) -> str:
    return f"GPU-00000000-0000-0000-0000-00000000000{number}"


def device(number: int, **changes: Any) -> Device:
    facts = {"name": "Example GPU", "compute_capability": "9.0", "memory_bytes": 141 << 30}
    return Device(
        **{"index": number, "uuid": uuid(number), "pci": f"0000:{0x1B + number:02x}:00.0", **facts, **changes}
    )


def device_of(gpu: Gpu) -> Device:
    """The GPU as CUDA describes it to a rank, from what NVML says of it."""
    about = {"name": gpu.name or "", "pci": gpu.pci or "", "compute_capability": "9.0", "memory_bytes": 1 << 30}
    return Device(index=gpu.index, uuid=gpu.uuid, **about)


def facts_of(section: str) -> dict[str, Any]:
    """What the engine says of a section in each of its rows."""
    name, _, variant = section.partition("/")
    small = name in {"completion", "issue", "enqueue"}
    metric = name if small or name in {"store", "load"} else "bandwidth"
    kernel = "kernel" in variant or name in {"store", "load"}
    ends = "gpus"
    if section in WITH_HOST:
        up, every = name != "gpu-to-host", section.endswith("/all")
        ends = ("host to all gpus" if up else "all gpus to host") if every else "host to gpu" if up else "gpu to host"
    size = {"store": 8, "load": 16 << 10}.get(name, 16 if small else 64 * MIB if ends != "gpus" else 256 * MIB)
    off = variant == "off" or ends != "gpus"
    return {
        "section": section,
        "metric": metric,
        "engine": "SM" if kernel else "copy engine",
        "operation": "read" if variant in {"read", "kernel-read"} or name == "load" else "write",
        "direction": "bi" if name == "bi" else "uni",
        "ends": ends,
        "peer_access": not off,
        "size_bytes": size,
        "window": 4 if metric == "bandwidth" and variant != "off" else 1,
    }


def time_s(facts: Mapping[str, Any], within: bool, slowness: float = 1.0) -> float:
    """What a cell of that section takes."""
    section = facts["section"]
    if section in TIMES:
        return TIMES[section] * (WITHIN["s"] if within else 1) * slowness
    rate = WITHIN["GB/s"] if within else RATES[section]
    return float(facts["size_bytes"] * facts["window"] * (2 if facts["direction"] == "bi" else 1) / rate * slowness)


def cell(gpu: str, median_s: float, **changes: Any) -> GpuMatrixCell:
    facts = {"samples": 6, "count_per_sample": 1, "ended_by": "ci", "messages_verified": 6}
    bounds = {"median_s": median_s, "low_s": median_s * 0.999, "high_s": median_s * 1.001}
    return GpuMatrixCell(**{"gpu": gpu, "status": "ok", **bounds, **facts, **changes})


def failed(gpu: str, reason: str, status: str = "failed") -> GpuMatrixCell:
    return GpuMatrixCell(gpu=gpu, status=status, reason=reason)


def rows(
    section: str,
    devices: Sequence[Device],
    *,
    access: Callable[[Pair], bool] = lambda _: True,
    slow: Mapping[Pair, float] | None = None,
    other: Mapping[Pair, GpuMatrixCell] | None = None,
) -> list[GpuMatrixRow]:
    """All rows of a section; ``slow`` multiplies times, ``other`` replaces cells."""
    facts = facts_of(section)
    slow, other = slow or {}, other or {}
    with_host = facts["ends"] != "gpus"
    found = []
    for first, one in enumerate([None] if with_host else devices):
        cells = []
        for second, two in enumerate(devices):
            pair = (first, second)
            within = one is not None and first == second
            peers = None if with_host else within or (facts["peer_access"] and access(pair))
            through = "uni/off" if section.startswith("uni") else "bi/off"
            real = facts if with_host or peers or facts["metric"] != "bandwidth" else {**facts, "section": through}
            ways = 2 if facts["direction"] == "bi" or facts["metric"] == "store" else 1
            counts = {"messages_timed": 6 * ways * facts["window"], "messages_verified": 6 * ways}
            if facts["metric"] in ("store", "load"):
                counts |= {"compared_counts": 0, "compared_in_flight": 0}
            made = cell(two.uuid, time_s(real, within, slow.get(pair, 1.0)), peer_access=peers, **counts)
            if facts["engine"] == "SM" and not peers and not with_host:
                made = failed(two.uuid, "there is no peer access between the two", "skipped")
            cells.append(other.get(pair, made))
        found.append(GpuMatrixRow(**facts, gpu=one and one.uuid, cells=cells))
    return found


def hardware(devices: Sequence[Device], links: int = 18) -> Hardware:
    """NVLinks through a switch between all, and PCIe 5.0 x16; NVML counts by PCI address."""
    ordered = sorted(devices, key=lambda each: each.pci)
    gpus = [
        Gpu(
            index=index,
            uuid=each.uuid,
            name=each.name,
            pci=each.pci,
            nvlinks=[
                NvLink(link=link, version="4.0", line_rate_bytes_per_s=26.562e9, remote="switch")
                for link in range(links)
            ],
            pcie_generation=5,
            pcie_generation_max=5,
            pcie_width=16,
            pcie_width_max=16,
        )
        for index, each in enumerate(ordered)
    ]
    peers = [
        PeerStatus(first=one.uuid, second=two.uuid, read="ok", write="ok", nvlink="ok" if links else "not supported")
        for number, one in enumerate(ordered)
        for two in ordered[number + 1 :]
    ]
    return Hardware(when="before", host="example-node", gpus=gpus, peers=peers)


def log(
    count: int = 4,
    sections: Sequence[str] = USUAL,
    *,
    devices: Sequence[Device] | None = None,
    links: int | None = 18,
    access: Callable[[Pair], bool] = lambda _: True,
    changed: Mapping[str, list[GpuMatrixRow]] | None = None,
) -> RunLog:
    """A whole run; ``changed`` replaces the rows of sections."""
    there = list(devices or [device(number) for number in range(count)])
    plan = Plan(benchmark="gpu_matrix", world_size=1, transports=[], options=GpuMatrixPlan(sections=list(sections)))
    rank = replace(run().ranks[0], device=there[0] if there else None)
    made = RunLog(run=run(plan, ranks=[rank]))
    can = [[one == two or access((one, two)) for two in range(len(there))] for one in range(len(there))]
    made.records.append(GpuMatrixGpus(devices=there, can_access=can))
    if links is not None:
        made.hardware.append(hardware(there, links))
    ordered = [name for name in SECTIONS if name in sections]
    for name in ordered:
        made.records += (changed or {}).get(name) or rows(name, there, access=access)
    bad = made.statuses.count("failed")
    status: Literal["complete", "failed"] = "failed" if bad else "complete"
    made.end = End(status=status, points_ok=len(made.statuses) - bad, points_failed=bad, elapsed_s=9.0)
    return made


H200, T4, MIXED = "composed-2xh200-nv18", "composed-4xt4-pcie", "composed-4xv100-mixed"


def machine(name: str) -> list[Hardware]:
    """The records of a machine, before and after."""
    lines = (MACHINES / name / "hardware.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Hardware) for line in lines]


def changed(records: list[Hardware], **changes: object) -> list[Hardware]:
    """The records with every GPU changed."""
    return [replace(each, gpus=[replace(gpu, **changes) for gpu in each.gpus]) for each in records]
