"""Doctor's probes of GPUs, through stand-ins for CUDA's driver library and GDRCopy's; NVML: test_hardware.py."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from volley.doctor.probes import gpus
from volley.machine import cuda_driver, sysfs
from volley.machine import facts as f
from volley.machine.capture import isolated
from volley.machine.cuda_driver import ATTRIBUTES

PCI = "0000:3b:00.0"
DEVICES = "bus/pci/devices"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    built = tmp_path_factory.mktemp("fake") / "libfake.so"
    source = Path(__file__).parents[1] / "fake_gpu.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(built), str(source)], check=True)
    return ctypes.CDLL(str(built))


@pytest.fixture
def fake(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """The stand-in, wherever a library is loaded."""
    for module in (cuda_driver, gpus):
        monkeypatch.setattr(module, "load", lambda _: (library, None))
    return library


def test_cuda_shows_its_devices(fake: ctypes.CDLL) -> None:
    found = cuda_driver.facts()
    assert (found.status, found.driver_version) == (0, 13000)
    first, second = found.devices
    assert (first.index, first.name, first.pci, first.memory_bytes) == (0, "Fake 0", PCI, 6 << 30)
    assert first.uuid == "GPU-46464646-4646-4646-4646-464646464646"
    assert second.name == "Fake 1"
    assert found.peers == [[True, True], [False, True]]
    assert first.attributes.pop("COMPUTE_CAPABILITY_MAJOR") == 9
    assert "GPU_DIRECT_RDMA_SUPPORTED" not in first.attributes
    assert all(ATTRIBUTES[name] == value for name, value in first.attributes.items())
    assert len(first.attributes) == len(ATTRIBUTES) - 2
    assert cuda_driver.cuda_gpu_count() == 2


@pytest.mark.parametrize(("status", "name"), [(100, "CUDA_ERROR_NO_DEVICE"), (12345, "unknown error")])
def test_cuda_that_does_not_start(status: int, name: str, fake: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUINIT", str(status))
    found = cuda_driver.facts()
    assert (found.status, found.status_name, found.failed_call) == (status, name, "cuInit")
    assert (found.driver_version, found.devices) == (13000, [])
    assert cuda_driver.cuda_gpu_count() == 0
    probe = isolated("load", gpus.pcie_load, list[f.LoadedLink], 10)
    assert f"cuInit: {name} ({status})" in (probe.error or "")


def test_the_link_is_read_while_it_is_busy(fake: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysfs, "ROOT", tmp_path)
    monkeypatch.setattr(gpus, "_LOAD_S", 0.02)
    monkeypatch.setattr(gpus, "_LOAD_BYTES", 1 << 16)
    device(tmp_path / DEVICES, PCI, current_link_speed="16.0 GT/s PCIe", current_link_width="8")
    loaded = gpus.pcie_load()
    assert loaded[0] == f.LoadedLink(pci=PCI, generation=4, width=8)
    assert loaded[1] == f.LoadedLink(pci="0000:3b:01.0")  # nothing in sysfs


def device(folder: Path, address: str, **files: str) -> Path:
    """A device of a pretended /sys."""
    path = folder / address
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text + "\n")
    return path


def test_the_bus_is_walked_for_display_controllers_of_nvidia(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysfs, "ROOT", tmp_path)
    gpu = {"vendor": "0x10de", "class": "0x030200", "device": "0x2335"}
    one = device(tmp_path / DEVICES, PCI, **gpu, max_link_speed="32.0 GT/s PCIe", max_link_width="16", numa_node="1")
    (tmp_path / "nvidia").mkdir()
    (one / "driver").symlink_to(tmp_path / "nvidia")
    device(tmp_path / DEVICES, "0000:3c:00.0", **gpu, max_link_speed="Unknown", max_link_width="0", numa_node="-1")
    device(tmp_path / DEVICES, "0000:3d:00.0", vendor="0x10de", **{"class": "0x040300"})  # its sound
    device(tmp_path / DEVICES, "0000:3e:00.0", vendor="0x8086", **{"class": "0x030000"})
    first, second = sysfs.bus().gpus
    assert first == f.PciGpu(
        address=PCI, device_id="0x2335", driver="nvidia", generation_max=5, width_max=16, numa_node=1
    )
    assert second == f.PciGpu(address="0000:3c:00.0", device_id="0x2335")


def test_bridges_above_a_gpu_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, devices = tmp_path / "tree", tmp_path / DEVICES
    devices.mkdir(parents=True)
    space = bytearray(4096)
    space[0x100:0x108] = (0x000D).to_bytes(4, "little") + bytes(2) + (0x1D).to_bytes(2, "little")
    bridge = device(tree, "0000:16:00.0", vendor="0x10b5")
    (bridge / "config").write_bytes(space)
    gpu = device(bridge, PCI, vendor="0x10de", **{"class": "0x030200"})
    (gpu / "config").write_bytes(bytes(64))
    (gpu / "iommu_group").mkdir()
    (gpu / "iommu_group" / "type").write_text("DMA-FQ\n")
    (devices / PCI).symlink_to(gpu)
    monkeypatch.setattr(sysfs, "ROOT", tmp_path)
    found = gpus.iommu()
    assert found.bridges == [f.Bridge(address="0000:16:00.0", acs_control=0x1D)]
    assert found.readable
    assert found.types == ["DMA-FQ"]
    (bridge / "config").write_bytes(bytes(64))  # what a user sees
    assert not gpus.iommu().readable


@pytest.mark.parametrize(
    ("fault", "mapped", "error"),
    [
        ("", True, None),
        ("map", False, "gdr_map failed with 22"),
        ("lie", False, "CUDA reads different bytes from those written through the mapping"),
    ],
)
def test_a_mapping_of_gdrcopy_is_written_and_read_back(
    fault: str, mapped: bool, error: str | None, fake: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "open_node", lambda _: "ok")
    monkeypatch.setenv("FAKE_GDR", fault)
    probe = isolated("gdr", gpus.gdrcopy, f.GdrcopyFacts, 10)
    assert (probe.value.mapped, probe.value.map_error, probe.value.library) == (mapped, error, "2.4")


def test_without_its_node_gdrcopy_is_not_mapped(fake: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "open_node", lambda _: "absent")
    found = gpus.gdrcopy()
    assert (found.node, found.library, found.mapped) == ("absent", "2.4", None)
