"""What is captured about a machine: one JSON document, read by ``volley doctor`` and ``volley topo``.

Every probe ran in a separate process.  Its ``value`` is what it found; where there is none, ``error`` or ``skipped``
says why.  Nothing here is a judgement: those are doctor's checks.
"""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from volley.document import UNREADABLE, Fact, why_unreadable
from volley.errors import UserError
from volley.files import mistaken, read_bounded
from volley.machine.hardware import Gpu, PeerStatus, Settings
from volley.machine.job_facts import HostsFacts, JobFacts, NcclFacts, PairFacts, StackFacts, TrialFacts
from volley.machine.packages import UNKNOWN
from volley.text import escape_controls

FACTS_VERSION = 2
MAX_BYTES = 1 << 26
"""A document of facts is smaller."""
OLDER = "an older volley captured these facts"

T = TypeVar("T")


class Probe(Fact, Generic[T], frozen=True, kw_only=True):
    call: str  # the command or the call, as a person would repeat it
    value: T | None = None
    error: str | None = None  # why it has no value, or only half of one
    skipped: str | None = None  # why it was not tried
    said: str = ""  # the end of what it printed, where it has no value
    own: bool = False  # the error is one of the probe itself: a folder, a socket
    remedy: str = ""  # what ends the error, where who met it knows


# ------------------------------------------------------------------------------- system, programs, driver, limits


class SystemFacts(Fact, frozen=True, kw_only=True):
    """Distribution and kernel (os-release(5), uname(2))."""

    os_id: str = ""
    os_like: list[str] = []
    os_name: str = ""
    kernel: str = ""
    architecture: str = ""
    root: bool = False
    container: str | None = None  # docker, podman, lxc …, where its marks are found
    virtual: bool = False  # the processor reports a hypervisor


class Xid(Fact, frozen=True, kw_only=True):
    """An error of a GPU that the driver wrote into the kernel's messages (NVIDIA, GPU Deployment: Xid Errors)."""

    pci: str
    number: int
    said: str


class DriverFacts(Fact, frozen=True, kw_only=True):
    """The NVIDIA driver as the kernel and the loader know it."""

    version: str | None = None  # from /proc/driver/nvidia/version
    modules: list[str] = []  # loaded modules that matter here, from /proc/modules
    nodes: dict[str, str] = {}  # device nodes, opened: `ok` or the error
    library: str | None = None  # why libcuda.so.1 does not load; null: it does
    headers: bool = False  # headers of the running kernel are installed
    unsigned: str = ""  # what says that the kernel loads signed modules only, where no module of NVIDIA is loaded
    xids: list[Xid] = []  # since the start of the machine, as far as its messages go back
    xids_unread: str = OLDER  # why the kernel's messages could not be read; empty: they were


class LimitsFacts(Fact, frozen=True, kw_only=True):
    """What a container or the kernel may forbid to two processes of one user."""

    shm_bytes: int = 0
    shm_free_bytes: int = 0
    shm_error: str | None = None  # what happened when 1 MiB was written there
    ptrace_scope: int | None = None
    cap_sys_ptrace: bool = False
    seccomp: int = 0  # 0 off, 1 strict, 2 filter (proc(5))
    memlock_bytes: int | None = None  # RLIMIT_MEMLOCK; null: unlimited, or this user may exceed it (CAP_IPC_LOCK)
    rdma_errors: dict[str, str] | None = None  # by RDMA device, why it cannot be used; null: not looked at
    open_files: int | None = None  # the soft RLIMIT_NOFILE; null: unlimited, or not known
    low: list[str] = []  # what only root can raise and two ranks may exceed, e.g. `ulimit -Hn 20`
    cma_error: str | None = None  # what process_vm_readv between two siblings answered; null: the right bytes


class SurroundingsFacts(Fact, frozen=True, kw_only=True):
    """What a process gets from its shell and its host, before any MPI."""

    host: str = ""
    host_error: str | None = None  # why its name has no address
    loopback_error: str | None = None  # why this host did not reach itself at 127.0.0.1
    devices: list[str] = []  # network interfaces and RDMA devices, by their names
    cpus: int = 0  # on which this process may run
    free_cpus: list[int] = []  # on which its control group lets it run, where they are more
    folder: str = ""  # for temporary files
    folder_error: str | None = None  # what happened when 1 MiB was written there
    folder_run_error: str | None = None  # what happened when a program in it was started
    other_folder: str = ""  # another one where both work; empty: none
    home_error: str = ""  # the same of the home folder, if it is full
    batch_system: str = ""  # whose job the variables describe
    job_hosts: list[str] = []  # the hosts of that job
    in_job: bool = False  # this host is one of them
    step_error: str = ""  # why Slurm starts no process in this job, or another one's list of its hosts cannot be read


# ------------------------------------------------------------------------------------------------------------ GPUs


class PciGpu(Fact, frozen=True, kw_only=True):
    """An NVIDIA display controller on the PCI bus, from sysfs."""

    address: str
    device_id: str
    driver: str | None = None
    generation_max: int | None = None  # PCIe generation that the device can do
    width_max: int | None = None
    numa_node: int | None = None


class BusFacts(Fact, frozen=True, kw_only=True):
    gpus: list[PciGpu] = []
    infiniband: list[str] = []  # RDMA devices, from /sys/class/infiniband


class CudaDevice(Fact, frozen=True, kw_only=True):
    index: Annotated[int, Meta(ge=0, lt=1 << 16)]
    name: str
    uuid: str
    pci: str
    memory_bytes: int
    attributes: dict[str, int] = {}  # cuDeviceGetAttribute, by the attribute's name


class CudaFacts(Fact, frozen=True, kw_only=True):
    status: int = 0  # of the first call that failed; 0: none did
    status_name: str = "CUDA_SUCCESS"
    failed_call: str = ""
    driver_version: int = 0  # cuDriverGetVersion: 1000 · major + 10 · minor
    devices: list[CudaDevice] = []
    peers: list[list[bool]] = []  # cuDeviceCanAccessPeer, row reaches column

    def __post_init__(self) -> None:
        if self.peers and {len(self.devices)} != {len(self.peers), *map(len, self.peers)}:
            raise ValueError(f"`peers` is not a table of {len(self.devices)} rows and columns, one per device")


class NvmlFacts(Fact, frozen=True, kw_only=True):
    """What NVML answers, as in the record of a run's hardware."""

    driver_version: str = ""
    gpus: list[Gpu] = []
    peers: list[PeerStatus] = []


class LoadedLink(Fact, frozen=True, kw_only=True):
    """A GPU's PCIe link while copies kept it busy: the fastest that was seen."""

    pci: str
    generation: int | None = None
    width: int | None = None


class Bridge(Fact, frozen=True, kw_only=True):
    address: str
    acs_control: int | None = None  # ACS control register; null: it has none, or it cannot be read


class IommuFacts(Fact, frozen=True, kw_only=True):
    """What may send the traffic between two GPUs through the root complex."""

    units: list[str] = []  # /sys/class/iommu
    bridges: list[Bridge] = []
    readable: bool = False  # extended configuration space could be read (root only)
    parameters: list[str] = []  # kernel parameters about the IOMMU
    types: list[str] = []  # IOMMU domain types of the GPUs' groups: identity, DMA, DMA-FQ


# --------------------------------------------------------------------------------- processors, GPUs, network cards


class NumaFacts(Fact, frozen=True, kw_only=True):
    """A NUMA node, from /sys/devices/system/node."""

    number: int
    cores: str = ""  # its CPUs as Linux writes them, `0-19,40-59`; empty: memory alone
    threads_per_core: int | None = None  # CPUs that are hardware threads of the core of the first one
    package: int | None = None  # the socket of its first core
    memory_bytes: int | None = None
    distances: list[int] = []  # to every node, in the order of their numbers; 10: itself


class PciPlace(Fact, frozen=True, kw_only=True):
    """Where a GPU, a network card or an NVSwitch is attached in the PCI tree."""

    kind: Literal["gpu", "nic", "nvswitch"]
    address: str
    bridges: list[str] = []  # the PCI bridges above it, from the root down
    numa_node: int | None = None  # null: the firmware does not say
    cores: str = ""  # the cores near it (local_cpulist)
    names: list[str] = []  # of a network card: RDMA and network devices
    rate_bits_per_s: float | None = None  # of a network card's first port


class TopologyFacts(Fact, frozen=True, kw_only=True):
    nodes: list[NumaFacts] = []
    places: list[PciPlace] = []


# ---------------------------------------------------------------------------------------------------- GDRCopy, UCX


class GdrcopyFacts(Fact, frozen=True, kw_only=True):
    """GDRCopy: the device node, the module, the library, and a mapping."""

    node: str = "absent"  # /dev/gdrdrv, opened: `ok` or the error
    module: str | None = None
    library: str | None = None  # version of libgdrapi; null: it does not load
    mapped: bool | None = None  # GPU memory was mapped, written and read back; null: untried
    map_error: str | None = None


class UcxComponent(Fact, frozen=True, kw_only=True):
    """A UCX component (uct_query_components) and how many memory domains it can open here."""

    name: str
    resources: int


class UcxFacts(Fact, frozen=True, kw_only=True):
    version: str
    components: list[UcxComponent] = []


class Facts(Fact, frozen=True, kw_only=True):
    facts: Annotated[int, Meta(ge=1)]  # version of this document
    volley: str  # version of volley that captured it
    captured_at: str  # UTC, ISO 8601
    note: str = ""  # where these facts come from, for people
    environment: dict[str, str]  # variables of MPI, UCX, CUDA and launchers
    mpi: str = ""  # --mpi of the command
    installer: str = "pip install"  # the command that installs Python packages
    requirement: str = UNKNOWN  # what installs this copy of volley, given to that
    system: Probe[SystemFacts]
    driver: Probe[DriverFacts]
    bus: Probe[BusFacts]
    cuda: Probe[CudaFacts]
    nvml: Probe[NvmlFacts]
    pcie_load: Probe[list[LoadedLink]]
    iommu: Probe[IommuFacts]
    limits: Probe[LimitsFacts]
    gdrcopy: Probe[GdrcopyFacts]
    ucx: Probe[UcxFacts]
    stack: Probe[StackFacts]
    mpi_host: Probe[JobFacts]
    mpi_device: Probe[JobFacts]
    launcher: Probe[JobFacts]
    peers: Probe[list[PairFacts]]
    topology: Probe[TopologyFacts] = Probe(call="", skipped=OLDER)
    settings: Probe[Settings] = Probe(call="", skipped=OLDER)
    surroundings: Probe[SurroundingsFacts] = Probe(call="", skipped=OLDER)
    trials: Probe[list[TrialFacts]] = Probe(call="", skipped=OLDER)
    nccl: Probe[NcclFacts] = Probe(call="", skipped=OLDER)
    hosts: Probe[HostsFacts] = Probe(call="", skipped="one host")

    @property
    def mpi_family(self) -> str:
        """The MPI that the jobs loaded: openmpi, mpich, intel or other."""
        jobs = (self.mpi_host.value, self.launcher.value, self.mpi_device.value)
        if any("Intel" in (job.library or "") or "i_hydra" in "".join(job.text) for job in jobs if job):
            return "intel"
        return self.stack.value.mpi_family if self.stack.value else ""

    @property
    def cards_read_gpus(self) -> bool:
        """True if the kernel lets network cards read GPU memory; drivers of EFA and Omni-Path have their own way."""
        modules = self.driver.value.modules if self.driver.value else []
        own = all(name.startswith(("rdmap", "efa", "hfi1")) for name in self.rdma_devices)
        by_dmabuf = any(device.attributes.get("DMA_BUF_SUPPORTED") for device in self.cuda_devices)
        return own or by_dmabuf or not {"nvidia_peermem", "nv_peer_mem"}.isdisjoint(modules)

    @property
    def host_names(self) -> list[str]:
        return [host.name for host in self.hosts.value.hosts] if self.hosts.value else []

    @property
    def locks_all(self) -> bool:
        """True if locked memory has no limit: what cannot be registered then is in more areas than Linux maps."""
        return self.limits.value is not None and self.limits.value.memlock_bytes is None

    @property
    def fails_on_gpus(self) -> bool:
        """True if MPI sends host memory as it should, and not GPU memory."""
        host, device = self.mpi_host.value, self.mpi_device
        sends = device.skipped is not None or (device.value is not None and device.value.sends_gpu_memory)
        return host is not None and host.fast and not sends

    @property
    def ended_by(self) -> list[TrialFacts]:
        """The changes that ended a problem of MPI."""
        return [trial for trial in self.trials.value or [] if trial.works]

    @property
    def rdma_devices(self) -> list[str]:
        return self.bus.value.infiniband if self.bus.value else []

    @property
    def gpus_on_bus(self) -> list[PciGpu]:
        return self.bus.value.gpus if self.bus.value else []

    @property
    def gpus(self) -> list[Gpu]:
        """The GPUs that NVML describes; none if it does not answer."""
        return self.nvml.value.gpus if self.nvml.value else []

    @property
    def cuda_devices(self) -> list[CudaDevice]:
        """The devices that CUDA shows; none if CUDA does not answer."""
        return self.cuda.value.devices if self.cuda.value else []

    @property
    def open_gpus(self) -> list[str]:
        """The device nodes of GPUs that could be opened: a batch system closes those of other jobs."""
        nodes = self.driver.value.nodes if self.driver.value else {}
        return [node for node, said in nodes.items() if said == "ok" and node.removeprefix("/dev/nvidia").isdecimal()]

    @property
    def has_gpu(self) -> bool:
        """True if the PCI bus, CUDA or the driver shows an NVIDIA GPU."""
        driver = self.driver.value
        return bool(self.gpus_on_bus or self.cuda_devices or (driver and driver.version))


def encode(facts: Facts) -> bytes:
    """Return the document as people can read it, with its last line ended."""
    return msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n"


def decode(document: bytes, name: str) -> Facts:
    """Read a document; messages call it ``name``."""
    try:
        found = msgspec.json.decode(document, type=dict)
        version = found.get("facts")
        if version is None:
            raise UserError(f"{name} contains no facts saved by volley doctor --capture: field 'facts' is missing")
        if version != FACTS_VERSION:
            raise UserError(
                f"{name} contains facts of version {escape_controls(str(version))[:20]}, "
                f"this volley reads {FACTS_VERSION}: capture them again, or use the volley that captured them"
            )
        return msgspec.json.decode(document, type=Facts)
    except UNREADABLE as error:
        other, why = mistaken(document, name, "facts"), why_unreadable(error, document)
        raise UserError(other or f"{name} contains no facts saved by volley doctor --capture: {why}") from None


def read_facts(source: str) -> Facts:
    """Read a document from a file, or from standard input where it is called ``-``."""
    name = "standard input" if source == "-" else escape_controls(source)
    return decode(read_bounded(source, MAX_BYTES), name)
