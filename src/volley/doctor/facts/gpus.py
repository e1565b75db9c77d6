"""The GPUs: on the bus, in CUDA's driver API, in NVML, and what is between them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from volley.doctor.facts.base import Fact


class PciDevice(Fact, frozen=True, kw_only=True):
    """An NVIDIA display controller on the PCI bus, from sysfs."""

    address: str
    device_id: str
    driver: str | None = None
    generation_max: Annotated[int | None, Meta(description="PCIe generation that the device can do.")] = None
    width_max: int | None = None
    numa_node: int | None = None


class Bus(Fact, frozen=True, kw_only=True):
    """What hangs on the PCI bus."""

    gpus: list[PciDevice] = []
    infiniband: Annotated[list[str], Meta(description="RDMA devices, from /sys/class/infiniband.")] = []


class CudaDevice(Fact, frozen=True, kw_only=True):
    """A device that the CUDA driver API shows."""

    index: Annotated[int, Meta(ge=0, lt=1 << 16)]
    name: str
    uuid: str
    pci: str
    memory_bytes: int
    attributes: Annotated[dict[str, int], Meta(description="cuDeviceGetAttribute, by the attribute's name.")] = {}


class Cuda(Fact, frozen=True, kw_only=True):
    """What the CUDA driver API answers."""

    status: Annotated[int, Meta(description="of the first call that failed; 0: none did.")] = 0
    status_name: str = "CUDA_SUCCESS"
    failed_call: str = ""
    driver_version: Annotated[int, Meta(description="cuDriverGetVersion: 1000 · major + 10 · minor.")] = 0
    devices: list[CudaDevice] = []
    peers: Annotated[list[list[bool]], Meta(description="cuDeviceCanAccessPeer, row reaches column.")] = []

    def __post_init__(self) -> None:
        """Refuse a table of peers that does not fit the devices."""
        if self.peers and {len(self.devices)} != {len(self.peers), *map(len, self.peers)}:
            raise ValueError(f"`peers` is no table of {len(self.devices)} rows and columns, one a device")


class NvLink(Fact, frozen=True, kw_only=True):
    """One NVLink of a GPU."""

    link: int
    active: bool
    version: int | None = None
    remote: Annotated[str | None, Meta(description="PCI address of the other end.")] = None
    remote_kind: Annotated[
        Literal["gpu", "switch", "other"] | None,
        Meta(description="what is there; `other`: a processor."),
    ] = None
    line_rate_bytes_per_s: Annotated[
        float | None, Meta(description="in one direction, packet overhead included; null: NVML does not say.")
    ] = None


class NvmlDevice(Fact, frozen=True, kw_only=True):
    """A GPU as NVML shows it; null is what it would not say."""

    index: Annotated[int, Meta(ge=0, lt=1 << 16)]
    name: str = ""
    uuid: str = ""
    pci: str = ""
    mig: bool | None = None
    compute_mode: Annotated[int | None, Meta(description="0 default, 2 prohibited, 3 exclusive process.")] = None
    ecc: bool | None = None
    pcie_generation: Annotated[int | None, Meta(description="now, perhaps idle.")] = None
    pcie_generation_max: Annotated[int | None, Meta(description="of device and slot together.")] = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    links: list[NvLink] = []


class Nvml(Fact, frozen=True, kw_only=True):
    """What NVML answers."""

    driver_version: str = ""
    devices: list[NvmlDevice] = []
    p2p: Annotated[list[list[str]], Meta(description="nvmlDeviceGetP2PStatus for reads, by row and column.")] = []


class LoadedLink(Fact, frozen=True, kw_only=True):
    """A GPU's PCIe link while copies kept it busy: the fastest that was seen."""

    pci: str
    generation: int | None = None
    width: int | None = None


class Bridge(Fact, frozen=True, kw_only=True):
    """A PCI bridge above a GPU."""

    address: str
    acs_control: Annotated[
        int | None, Meta(description="ACS control register; null: it has none, or it cannot be read.")
    ] = None


class Iommu(Fact, frozen=True, kw_only=True):
    """What may send the traffic between two GPUs through the root complex."""

    units: Annotated[list[str], Meta(description="/sys/class/iommu.")] = []
    bridges: list[Bridge] = []
    readable: Annotated[bool, Meta(description="extended configuration space could be read (root only).")] = False
    parameters: Annotated[list[str], Meta(description="kernel parameters about the IOMMU.")] = []
    types: Annotated[list[str], Meta(description="IOMMU domain types of the GPUs' groups: identity, DMA, DMA-FQ.")] = []
