"""Doctor's probes of GPUs, through stand-ins for CUDA's driver library, GDRCopy's library and NVML."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from volley.doctor.probes import gpus
from volley.machine import cuda_driver, nvml, sysfs
from volley.machine import facts as f
from volley.machine.capture import Skip, isolated
from volley.machine.cuda_driver import ATTRIBUTES
from volley.machine.hardware import NvLink

PCI = "0000:3b:00.0"
DEVICES = "bus/pci/devices"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    built = tmp_path_factory.mktemp("fake") / "libfake.so"
    source = Path(__file__).parent / "fake_gpu.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(built), str(source)], check=True)
    return ctypes.CDLL(str(built))


@pytest.fixture
def fake(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """The stand-in, wherever a library is loaded."""
    for module in (cuda_driver, gpus):
        monkeypatch.setattr(module, "load", lambda _: (library, None))
    return library


def test_without_a_library_there_is_nothing_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "load", lambda _: (None, "no such file"))
    for probe in (cuda_driver.facts, gpus.pcie_load):
        with pytest.raises(Skip, match="no such file"):
            probe()
    assert cuda_driver.cuda_gpu_count() == 0


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
    assert probe.value
    assert (probe.value.mapped, probe.value.map_error, probe.value.library) == (mapped, error, "2.4")


def test_without_its_node_gdrcopy_is_not_mapped(fake: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "open_node", lambda _: "absent")
    found = gpus.gdrcopy()
    assert (found.node, found.library, found.mapped) == ("absent", "2.4", None)


# ------------------------------------------------------------------------------------------------ NVML


class NVMLError(Exception):
    pass


def refuse(*_: object) -> Any:
    raise NVMLError("Not Supported")


def pretend_nvml(**changes: Any) -> SimpleNamespace:
    """Two GPUs with two of three links up; the second says no more than that it is there."""

    def link_state(handle: int, link: int) -> int:
        return int(link < 2) if handle == 0 else refuse()

    def of_first(value: Any) -> Any:
        return lambda handle, *_: value if handle == 0 else refuse()

    def p2p_status(one: int, other: int, index: int) -> int:
        ctypes.c_uint(index)  # as the call itself converts it
        return 3 if one < other else refuse()

    known = {
        "NVMLError": NVMLError,
        "NVMLError_LibraryNotFound": type("NVMLError_LibraryNotFound", (NVMLError,), {}),
        "NVMLError_NotSupported": type("NVMLError_NotSupported", (NVMLError,), {}),
        "NVMLError_InvalidArgument": type("NVMLError_InvalidArgument", (NVMLError,), {}),
        "NVML_NVLINK_MAX_LINKS": 3,
        "NVML_P2P_CAPS_INDEX_READ": (0,),  # as nvidia-ml-py 13.615 has it
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlSystemGetDriverVersion": lambda: "580.159.04",
        "nvmlDeviceGetName": of_first("NVIDIA H200"),
        "nvmlDeviceGetUUID": of_first("GPU-1"),
        "nvmlDeviceGetPciInfo": of_first(SimpleNamespace(busId="00000000:3B:00.0")),
        "nvmlDeviceGetMigMode": of_first([1, 1]),
        "nvmlDeviceGetEccMode": of_first([1, 1]),
        "nvmlDeviceGetCurrPcieLinkGeneration": of_first(1),
        "nvmlDeviceGetMaxPcieLinkGeneration": of_first(5),
        "nvmlDeviceGetCurrPcieLinkWidth": of_first(16),
        "nvmlDeviceGetMaxPcieLinkWidth": of_first(16),
        "nvmlDeviceGetNvLinkState": link_state,
        "nvmlDeviceGetNvLinkVersion": of_first(4),
        "nvmlDeviceGetNvLinkRemotePciInfo": lambda _handle, link: (
            SimpleNamespace(busId="00000000:3C:00.0") if link == 0 else refuse()
        ),
        "nvmlDeviceGetNvLinkRemoteDeviceType": lambda _handle, link: 2 if link == 0 else 255,
        "NVML_FI_DEV_NVLINK_GET_SPEED": 1,
        "NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON": 2,
        "nvmlDeviceGetFieldValues": lambda _handle, fields: [
            SimpleNamespace(nvmlReturn=link, valueType=2, value=SimpleNamespace(ulVal=26562)) for _, link in fields
        ],
        "nvmlDeviceGetP2PStatus": p2p_status,
    }
    return SimpleNamespace(**{**known, **changes})


def test_nvml_is_asked_for_modes_and_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", pretend_nvml())  # type: ignore[arg-type]
    found = nvml.facts()
    first, second = found.gpus
    assert (first.pci, first.mig, first.ecc, first.pcie_generation_max) == (PCI, True, True, 5)
    assert first.nvlinks == [
        NvLink(link=0, version="3.0", remote="switch", remote_pci="0000:3c:00.0", line_rate_bytes_per_s=26.562e9),
        NvLink(link=1, version="3.0", line_rate_bytes_per_s=26.562e9),
    ]
    assert first.nvlinks_inactive == 1
    assert (second.index, second.uuid, second.nvlinks, second.unread["name"]) == (1, "", None, "Not Supported")
    assert [pair.read for pair in found.peers] == ["topology not supported"]


def test_without_nvml_there_is_nothing_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Skip, match="pip install nvidia-ml-py"):
        nvml.facts()
    absent = pretend_nvml()
    absent.nvmlInit = lambda: (_ for _ in ()).throw(absent.NVMLError_LibraryNotFound())
    monkeypatch.setitem(sys.modules, "pynvml", absent)
    with pytest.raises(Skip, match="no NVML"):
        nvml.facts()
