"""No composed machine is impossible: what can be checked by rule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from volley.machine import facts as f
from volley.units import parse_cpulist

MACHINES = Path(__file__).parent / "machines"
FACTS = sorted(MACHINES.glob("*/facts.json"))


@dataclass(frozen=True)
class Card:
    """What NVIDIA's datasheets and release notes say of a GPU."""

    capability: tuple[int, int]
    pcie: int
    nvlinks: int
    nvlink: str
    oldest_driver: int
    """The first branch of the driver that knows it."""


CARDS = {
    "T4": Card((7, 5), 3, 0, "", 410),
    "V100-SXM2": Card((7, 0), 3, 6, "2.0", 384),
    "A100-PCIE": Card((8, 0), 4, 12, "3.0", 450),
    "A100-SXM4": Card((8, 0), 4, 12, "3.0", 450),
    "RTX A6000": Card((8, 6), 4, 4, "3.0", 455),
    "L40S": Card((8, 9), 4, 0, "", 535),
    "H200": Card((9, 0), 5, 18, "4.0", 535),
}
CUDA_OF_DRIVER = {450: 11000, 460: 11020, 535: 12020, 550: 12040, 580: 13000}
"""The newest CUDA of each branch of the driver (CUDA Toolkit Release Notes, table 3)."""


@pytest.fixture(params=FACTS, ids=[path.parent.name for path in FACTS])
def facts(request: pytest.FixtureRequest) -> f.Facts:
    return f.decode(request.param.read_bytes(), str(request.param))


def card_of(name: str) -> Card:
    (found,) = [card for part, card in CARDS.items() if part in name]
    return found


def branch_of(facts: f.Facts) -> int:
    assert facts.driver.value
    found = re.search(r"\b(\d{3})\.\d+", facts.driver.value.version or "")
    assert found, facts.driver.value.version
    return int(found[1])


def test_every_machine_says_where_its_facts_come_from(facts: f.Facts) -> None:
    assert facts.note.startswith(("composed", "captured"))


def test_records_of_composed_gpus_say_that_they_are_composed() -> None:
    notes = [path.read_text("utf-8") for path in MACHINES.glob("composed-*/ABOUT.md")]
    assert len(notes) == 3
    assert all("Composed, not captured" in note for note in notes)


def test_gpus_have_one_address_and_one_uuid(facts: f.Facts) -> None:
    on_bus = {gpu.address for gpu in facts.bus.value.gpus} if facts.bus.value else set()
    nvml = facts.nvml.value.gpus if facts.nvml.value else []
    shown = facts.cuda.value.devices if facts.cuda.value else []
    assert {gpu.pci for gpu in nvml} <= on_bus
    assert {device.pci for device in shown} <= on_bus
    assert {link.pci for link in facts.pcie_load.value or ()} <= on_bus
    by_uuid = {gpu.uuid: gpu.pci for gpu in nvml}
    if "MIG" not in "".join(device.name for device in shown):
        assert all(by_uuid[device.uuid] == device.pci for device in shown if by_uuid)
    if facts.topology and facts.topology.value and nvml:
        assert {place.address for place in facts.topology.value.places if place.kind == "gpu"} == on_bus


def test_gpus_are_as_their_datasheets_say(facts: f.Facts) -> None:
    for device in facts.cuda.value.devices if facts.cuda.value else ():
        major, minor = (device.attributes[f"COMPUTE_CAPABILITY_{part}"] for part in ("MAJOR", "MINOR"))
        assert (major, minor) == card_of(device.name).capability
    for gpu in facts.nvml.value.gpus if facts.nvml.value else ():
        card = card_of(gpu.name)
        assert (gpu.pcie_generation_max or 0) <= card.pcie
        links = gpu.nvlinks or []
        assert len(links) in (0, card.nvlinks)
        assert {link.version for link in links if link.version} <= {card.nvlink}


def test_the_driver_knows_its_gpus_and_its_cuda(facts: f.Facts) -> None:
    if not facts.cuda.value:
        return
    assert facts.driver.value
    assert facts.system.value
    branch = branch_of(facts)
    assert facts.cuda.value.driver_version == CUDA_OF_DRIVER[branch]
    assert all(card_of(device.name).oldest_driver <= branch for device in facts.cuda.value.devices)
    assert facts.system.value.architecture in (facts.driver.value.version or "")
    if facts.nvml.value and facts.nvml.value.driver_version:
        assert facts.nvml.value.driver_version in (facts.driver.value.version or "")


def test_cuda_and_nvml_agree_on_who_reaches_whom(facts: f.Facts) -> None:
    if not facts.cuda.value or not facts.nvml.value:
        return
    index = {device.uuid: device.index for device in facts.cuda.value.devices}
    peers = facts.cuda.value.peers
    assert all(peers[one][other] == peers[other][one] for one in index.values() for other in index.values())
    for each in facts.nvml.value.peers:
        if each.first in index and each.second in index and len(index) > 1:
            assert (each.read == "ok") == bool(peers[index[each.first]][index[each.second]])


def test_cores_belong_to_one_node_and_ranks_to_these_cores(facts: f.Facts) -> None:
    if not facts.topology or not facts.topology.value:
        return
    nodes = [set(chain.from_iterable(parse_cpulist(node.cores))) for node in facts.topology.value.nodes]
    everywhere = set[int]().union(*nodes)
    assert sum(map(len, nodes)) == len(everywhere)
    for node, cores in zip(facts.topology.value.nodes, nodes, strict=True):
        assert len(cores) % (node.threads_per_core or 1) == 0
        assert len(node.distances) in (0, len(nodes))
    ranks = facts.launcher.value.ranks if facts.launcher.value else []
    assert {core for rank in ranks for core in rank.cores} <= everywhere
