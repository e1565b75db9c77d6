"""What is captured about a machine: one JSON document, read by ``volley doctor`` and ``volley topo``.

Every probe ran in a separate process.  Its ``value`` is what it found; where there is none, ``error`` or ``skipped``
says why.  Nothing here is a judgement: those are doctor's checks.
"""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from volley.document import UNREADABLE, why_unreadable
from volley.errors import UserError
from volley.files import read_bounded
from volley.machine.hardware import Device, Gpu, PeerStatus, Settings
from volley.machine.mpi_words import reason_in
from volley.machine.paths import RunPath
from volley.text import escape_controls

FACTS_VERSION = 2
MAX_BYTES = 1 << 26
"""A document of facts is smaller."""
OLDER = "an older volley captured these facts"
SHARED_MEMORY_S = 2e-6
"""Half a round trip of 8 B between two ranks of a host takes less through shared memory (0.2 to 0.9 µs in
tests/machines), and more through TCP (about 4 µs through a loopback). A slower job is only repeated."""
HOST_SIZES, DEVICE_SIZES, COPY_SIZES, BETWEEN_SIZES = (
    (8, 1 << 16),
    (8, 1 << 15, 1 << 20),
    (1 << 12, 1 << 22),
    (8, 1 << 22),
)
"""Sizes of the messages in doctor's jobs: in host memory, in GPU memory, between GPUs without MPI, between hosts.  UCX
sends the smallest in GPU memory eagerly and the largest by rendezvous; the middle one is a halo of 4096 doubles."""
REQUIREMENT = "/path/to/volley"
"""The argument of pip where the origin of volley is not known."""

T = TypeVar("T")


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of the document: immutable, written without what is at its default; unknown keys are ignored."""


class Probe(Fact, Generic[T], frozen=True, kw_only=True):
    call: str  # the command or the call, as a person would repeat it
    value: T | None = None
    error: str | None = None  # why it has no value, or only half of one
    skipped: str | None = None  # why it was not tried
    said: str = ""  # the end of what it printed, where it has no value
    own: bool = False  # the error is one of the probe itself: a folder, a socket


# ------------------------------------------------------------------------------- system, programs, driver, limits


class SystemFacts(Fact, frozen=True, kw_only=True):
    """Distribution and kernel (os-release(5), uname(2))."""

    os_id: str = ""
    os_like: list[str] = []
    os_name: str = ""
    os_version: str = ""
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
    memlock_bytes: int | None = None  # RLIMIT_MEMLOCK; null: unlimited
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
    folder: str = ""  # for temporary files
    folder_error: str | None = None  # what happened when 1 MiB was written there
    folder_run_error: str | None = None  # what happened when a program in it was started
    other_folder: str = ""  # another one where both work; empty: none
    batch_system: str = ""  # whose job the variables describe
    job_hosts: list[str] = []  # the hosts of that job
    in_job: bool = False  # this host is one of them
    step_error: str = ""  # what srun said when it was to start one process in this job of Slurm


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


class TransferFacts(Fact, frozen=True, kw_only=True):
    """A real transfer by ucx_perftest between two processes."""

    memory: str  # `cuda` or `host`
    status: int
    said: str = ""


# ------------------------------------------------------------------------------------- MPI, and jobs of the engine


class StackFacts(Fact, frozen=True, kw_only=True):
    """The engine, the MPI that it runs on, and what that MPI's own tools say."""

    engine_version: str = ""
    mpi_source: str = ""
    mpi_family: str = ""
    described: str = ""
    prepared: bool = False  # volley put a CUDA-aware UCX in front of this MPI
    mpiexec: str | None = None
    start_error: str | None = None  # why the engine does not start; what follows is then from its build
    cuda_built: str | None = None
    cuda_architectures: list[str] = []
    ompi_info: str | None = None  # path of the ompi_info beside that mpirun
    ompi_cuda: bool | None = None  # its mpi_built_with_cuda_support
    ompi_pml: list[str] = []  # its point-to-point layers
    other_mpirun: str | None = None  # the mpirun on PATH, where it is another one


class RankFacts(Fact, frozen=True, kw_only=True):
    rank: int
    host: str
    node: int
    local_rank: int
    cores: list[int]
    bound_by: str
    device: Device | None = None


class TransportFacts(Fact, frozen=True, kw_only=True):
    transport: str
    available: bool
    reason: str | None = None


class PointFacts(Fact, frozen=True, kw_only=True):
    """One message size on one transport."""

    transport: str
    size_bytes: int
    status: str
    reason: str | None = None
    half_round_trip_s: float | None = None  # median of the samples
    lower_quartile_s: float | None = None  # other load moves it less than the median
    messages_verified: int = 0


class JobFacts(Fact, frozen=True, kw_only=True):
    launcher: str
    command: list[str]
    wanted_ranks: int
    inside: bool = False  # a foreign launcher started it, and this process was its first rank
    complete: bool = False  # the engine wrote its last record
    status: int = 0  # the launcher's exit status; negative: by that signal
    reason: str | None = None  # why it ended early, as well as anybody knows
    library: str | None = None
    cuda_query: bool | None = None
    ranks: list[RankFacts] = []
    transports: list[TransportFacts] = []
    points: list[PointFacts] = []
    protocols: list[str] = []  # UCX's own lines about the protocol that it chose
    text: list[str] = []  # the end of what else was printed
    start_s: float = 0.0  # from the start of the launcher to the first record, when MPI_Init was over

    @property
    def command_line(self) -> str:
        """Its command for people; it was started from the words, not from this text."""
        return " ".join(self.command)

    @property
    def why(self) -> str:
        """Why it ended: the sentence of MPI or its launcher, else what is known of its end."""
        return reason_in(self.text) or self.reason or f"it ended with status {self.status}"

    @property
    def fast(self) -> bool:
        """True if it ended well, and ranks of one host took no longer than through shared memory."""
        apart = len({rank.node for rank in self.ranks}) > 1
        time_s = next((point.lower_quartile_s for point in self.points if point.lower_quartile_s), self.first_time_s)
        return self.complete and time_s > 0.0 and (apart or time_s <= SHARED_MEMORY_S)

    @property
    def sends_gpu_memory(self) -> bool:
        """True if MPI itself sent GPU memory, and every byte arrived."""
        return self.complete and bool(self.delivered("aware"))

    def crossed(self, largest_bytes: int) -> bool:
        """Return whether every message up to the largest arrived on every transport: what failed is the end alone."""
        last = {point.transport for point in self.points if point.size_bytes >= largest_bytes}
        known = {each.transport for each in self.transports if each.available}
        return bool(last) and known <= last and all(point.status == "ok" for point in self.points)

    @property
    def first_time_s(self) -> float:
        """The half round trip of the smallest message, in s; 0.0: none arrived."""
        return next((point.half_round_trip_s for point in self.points if point.half_round_trip_s), 0.0)

    def delivered(self, transport: str) -> list[PointFacts]:
        """Return the message sizes that arrived on a transport, byte for byte."""
        return [point for point in self.points if point.transport == transport and point.status == "ok"]


class NcclFacts(Fact, frozen=True, kw_only=True):
    """A job of NCCL, and what its first rank said of its way."""

    job: JobFacts | None = None
    version: str = ""
    plugin: str = ""  # for networks; empty: NCCL's own
    networks: list[str] = []  # `NET/IB [0]mlx5_0:1/IB`
    channels: list[str] = []  # `P2P/CUMEM/read`, `SHM/direct/direct`, `NET/IB/0/GDRDMA`, …


class TrialFacts(Fact, frozen=True, kw_only=True):
    """A job that failed, once more with one change."""

    change: str  # for a shell: `unset NAME` or `NAME=value`
    settings: list[str] = []  # what was taken away, `NAME=value`; empty: something was added
    works: bool = False
    reason: str = ""


class PairFacts(Fact, frozen=True, kw_only=True):
    """Copies between two GPUs, each verified by the other side."""

    gpus: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=2, max_length=2)]
    job: JobFacts


class HostFacts(Fact, frozen=True, kw_only=True):
    """A host of several, as it sees itself and the others."""

    name: str  # as it was asked for
    error: str = ""  # why it did not answer
    port: int = 0  # on which it listened
    interfaces: dict[str, str] = {}  # address and length of the network's prefix, by interface
    names: dict[str, list[str]] = {}  # addresses of each host's name, as this host looks them up
    settings: dict[str, str] = {}  # versions and limits, which should be alike
    reached: dict[str, str] = {}  # `ok` or the error, by `HOST ADDRESS`


class HostsFacts(Fact, frozen=True, kw_only=True):
    """Several hosts, and a job of MPI over them."""

    hosts: list[HostFacts]
    job: JobFacts
    paths: list[RunPath] = []  # what carried the messages of a job of their own
    trial: TrialFacts | None = None  # the job with one change, if it failed
    nccl: NcclFacts | None = None  # between two GPUs of two hosts


class Facts(Fact, frozen=True, kw_only=True):
    facts: Annotated[int, Meta(ge=1)]  # version of this document
    volley: str  # version of volley that captured it
    captured_at: str  # UTC, ISO 8601
    note: str = ""  # where these facts come from, for people
    environment: dict[str, str]  # variables of MPI, UCX, CUDA and launchers
    mpi: str = ""  # --mpi of the command
    installer: str = "pip install"  # the command that installs Python packages
    requirement: str = REQUIREMENT  # what installs this copy of volley, given to that
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
    ucx_transfer: Probe[TransferFacts]
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
    def fails_on_gpus(self) -> bool:
        """True if MPI sends host memory as it should, and not GPU memory."""
        host, device = self.mpi_host.value, self.mpi_device
        sends = device.skipped is not None or (device.value is not None and device.value.sends_gpu_memory)
        return host is not None and host.fast and not sends

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
        if version != FACTS_VERSION:
            raise UserError(
                f"{name} contains facts of version {escape_controls(str(version))[:20]}, "
                f"this volley reads {FACTS_VERSION}: capture them again, or use the volley that captured them"
            )
        return msgspec.json.decode(document, type=Facts)
    except UNREADABLE as error:
        raise UserError(f"{name} contains no facts saved by volley doctor --capture: {why_unreadable(error)}") from None


def read_facts(source: str) -> Facts:
    """Read a document from a file, or from standard input where it is called ``-``."""
    name = "standard input" if source == "-" else escape_controls(source)
    return decode(read_bounded(source, MAX_BYTES), name)
