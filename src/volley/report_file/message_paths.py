"""Pictures of the GPUs of a run, with the path of a message in each of its transports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from volley.errors import UserError
from volley.machine.hardware import Gpu, Hardware
from volley.machine.transports import TRANSPORTS
from volley.records.record_types import Transport
from volley.topo.message_path import path_of
from volley.topo.picture import picture
from volley.topo.topology import NumaNode, PlacedGpu, Topology, nvlinks

_NOTE = "from the records of the run: these name no CPUs and no PCIe switches; volley topo draws them"


def pictures_of(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the title and the SVG drawing of each path, from the first launch that has the facts.

    Args:
        runs: the common records of each launch (``LaunchSeries.describe_runs``).
    """
    for launch in runs:
        run, found = launch["run"], next((each for each in launch["hardware"] if len(each.gpus) > 1), None)
        if run is None or found is None or len({rank.host for rank in run.ranks}) > 1:
            continue
        topology = topology_of(found)
        used = [rank.device.uuid for rank in run.ranks if rank.device]
        numbers = [gpu.index for uuid in used for gpu in found.gpus if gpu.uuid == uuid][:2]
        if len(set(numbers)) == 2:
            yield from _paths(topology, launch["transports"], numbers)
        else:
            yield "the GPUs", picture(topology)
        return


def _paths(topology: Topology, transports: Sequence[Transport], numbers: Sequence[int]) -> Iterator[tuple[str, str]]:
    for transport in transports:
        if transport.available and transport.memory == "device" and transport.transport in TRANSPORTS:
            try:
                path = path_of(topology, transport.transport, numbers)
            except UserError:  # the records do not tell the path
                continue
            yield f"{transport.transport}: {path.words}", picture(topology, path)


def topology_of(hardware: Hardware) -> Topology:
    """Return what the record of a run tells of its GPUs: NVLinks, PCIe and peer access."""
    gpus = sorted(hardware.gpus, key=lambda gpu: gpu.index)
    read = {frozenset((each.first, each.second)): each.read == "ok" for each in hardware.peers if each.read}
    peers = tuple(tuple(read.get(frozenset((one.uuid, other.uuid)), one is other) for other in gpus) for one in gpus)
    placed = [_placed(gpu) for gpu in gpus]
    return Topology(
        note="",
        nodes=(NumaNode(number=None),),
        gpus=tuple(placed),
        nics=(),
        nvlinks=nvlinks([(place, gpu.nvlinks or ()) for place, gpu in zip(placed, gpus, strict=True)]),
        nvswitches=0,
        peers=peers if read else None,
        notes=(_NOTE,),
    )


def _placed(gpu: Gpu) -> PlacedGpu:
    return PlacedGpu(
        number=gpu.index,
        name=gpu.name or "",
        address=gpu.pci or "",
        node=None,
        pcie_generation=gpu.pcie_generation_max,
        pcie_width=gpu.pcie_width_max,
    )
