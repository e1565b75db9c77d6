"""The probe of the topology, through pretended folders of sysfs."""

from pathlib import Path

import pytest

from volley.machine import facts as f
from volley.machine import sysfs as reader
from volley.machine.capture import capture

GPU = {"vendor": "0x10de", "class": "0x030200"}
CARD = {"vendor": "0x15b3", "class": "0x020700"}


class Sysfs:
    """A pretended /sys."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bus/pci/devices").mkdir(parents=True)

    def device(self, path: str, **files: str) -> Path:
        """A PCI device at its place in the tree, listed on the bus."""
        folder = self.write(f"devices/{path}", **files)
        (self.root / "bus/pci/devices" / folder.name).symlink_to(folder)
        return folder

    def write(self, path: str, **files: str) -> Path:
        """A folder with files."""
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text + "\n")
        return folder

    def named(self, kind: str, name: str, device: Path, **files: str) -> None:
        """A device of a class, e.g. net, that hangs on another."""
        (self.write(f"class/{kind}/{name}", **files) / "device").symlink_to(device)


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sysfs:
    monkeypatch.setattr(reader, "ROOT", tmp_path)
    return Sysfs(tmp_path)


def test_an_empty_sysfs_gives_an_empty_topology(sysfs: Sysfs) -> None:
    assert reader.topology() == f.TopologyFacts()


def test_devices_stand_below_their_bridges(sysfs: Sysfs) -> None:
    above = "pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:08.0"
    sysfs.device(f"{above}/0000:19:00.0", **GPU, numa_node="1", local_cpulist="20-39")
    sysfs.device("pci0000:00/0000:00:1f.0", vendor="0x8086", **{"class": "0x060100"})
    sysfs.device("pci0000:e0/0000:e0:00.0", vendor="0x10de", numa_node="-1", **{"class": "0x068000"})
    gpu, switch = reader.topology().places
    assert gpu == f.PciPlace(
        kind="gpu",
        address="0000:19:00.0",
        bridges=["0000:16:02.0", "0000:17:00.0", "0000:18:08.0"],
        numa_node=1,
        cores="20-39",
    )
    assert switch == f.PciPlace(kind="nvswitch", address="0000:e0:00.0")


def test_network_cards_have_their_names_and_rates(sysfs: Sysfs) -> None:
    card = sysfs.device("pci0000:16/0000:16:01.0/0000:1a:00.0", **CARD)
    sysfs.named("infiniband", "mlx5_0", card)
    sysfs.write("class/infiniband/mlx5_0/ports/1", rate="100 Gb/sec (4X EDR)")
    sysfs.named("net", "ib0", card, speed="56000")
    virtual = sysfs.device("pci0000:00/0000:00:03.0", vendor="0x1af4", **{"class": "0x020000"})
    sysfs.named("net", "eth0", sysfs.write("devices/pci0000:00/0000:00:03.0/virtio2"), speed="-1")
    sysfs.write("class/net/lo")
    assert virtual.is_dir()
    first, second = reader.topology().places
    assert (first.address, first.names, first.rate_bits_per_s) == ("0000:00:03.0", ["eth0"], None)
    assert (second.names, second.rate_bits_per_s, second.bridges) == (["mlx5_0", "ib0"], 100e9, ["0000:16:01.0"])


def test_nodes_have_cores_memory_and_distances(sysfs: Sysfs) -> None:
    sysfs.write("devices/system/node/node8", cpulist="88-175", distance="40 10", meminfo="Node 8 MemTotal: 1024 kB")
    sysfs.write("devices/system/node/node0", cpulist="0-87", distance="10 40")
    sysfs.write("devices/system/node/node250", cpulist="")
    sysfs.write("devices/system/cpu/cpu88/topology", physical_package_id="8", thread_siblings_list="88-91")
    assert reader.topology().nodes == [
        f.NumaFacts(number=0, cores="0-87", distances=[10, 40]),
        f.NumaFacts(number=8, cores="88-175", threads_per_core=4, package=8, memory_bytes=1 << 20, distances=[40, 10]),
        f.NumaFacts(number=250),
    ]


def test_only_what_is_asked_for_is_captured() -> None:
    facts = capture((reader.TOPOLOGY,))
    assert facts.topology.value.nodes
    assert facts.cuda.skipped == facts.mpi_host.skipped == "it was not requested"
