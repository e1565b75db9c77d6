"""The records of every run, and the types shared by the records of all benchmarks.

The records of a benchmark are in ``volley.benchmarks.<name>.records``.  Every quantity is in SI units and has its unit
in its name (``_s`` seconds, ``_bytes`` bytes).  A missing number is ``null``, never NaN.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, Any, Literal

from msgspec import Meta

from volley.document import RECORD_VERSION, Frozen, NonNegative, Positive, Seconds, Version, doc
from volley.machine.finding import Verdict
from volley.machine.hardware import Device, Hardware, Settings
from volley.records.plan import Plan
from volley.text import grouped

Status = Literal["ok", "failed", "skipped"]
EndedBy = Literal["ci", "time", "few", "fixed", "failure"]


Work = Annotated[
    list[Seconds],
    doc(
        "seconds of a fixed piece of work (some microseconds of integer arithmetic) on the first rank, at "
        "the start of each visit: how fast the CPU was."
    ),
]


class Mismatch(Frozen, frozen=True, kw_only=True):
    """The first wrong byte that verification found."""

    rank: Annotated[NonNegative, doc("the rank whose receive buffer is wrong.")]
    offset_bytes: Annotated[int, doc("from the start of the message; negative or ≥ size: a guard byte.")]
    expected: Annotated[int, Meta(ge=0, le=255)]
    found: Annotated[int, Meta(ge=0, le=255)]
    wrong_bytes: Annotated[Positive, doc("total number of wrong bytes.")]

    @property
    def byte(self) -> str:
        return f"0x{self.found:02x} instead of 0x{self.expected:02x}"


class EngineFacts(Frozen, frozen=True, kw_only=True):
    """The libraries that the engine was built with."""

    version: str
    mpi_built: Annotated[
        str | None, doc("MPI that the engine was compiled against; null: none, as every engine since 0.2.")
    ] = None
    cuda_built: Annotated[str | None, doc("CUDA compiler version; null: built without CUDA.")] = None
    cuda_architectures: list[str] = []


class MpiFacts(Frozen, frozen=True, kw_only=True):
    """The self-report of MPI at run time."""

    library: Annotated[str, doc("first line of MPI_Get_library_version.")]
    standard: Annotated[str, doc("MPI_Get_version, as `major.minor`.")]
    interface: Annotated[str | None, doc("its binary interface: libmpi.so.40, libmpi.so.12 or libmpi_abi.so.1.")] = None
    cuda_query: Annotated[bool | None, doc("MPIX_Query_cuda_support where it exists; recorded, never relied on.")] = (
        None
    )
    thread_multiple: Annotated[
        bool | None, doc("whether several threads of a rank may call it: MPI_THREAD_MULTIPLE, asked for on request.")
    ] = None


class Rank(Frozen, frozen=True, kw_only=True):
    """The placement of a rank."""

    rank: NonNegative
    host: str
    node: Annotated[NonNegative, doc("number of the node; nodes are numbered by their lowest rank.")]
    local_rank: NonNegative
    pid: NonNegative
    cores: Annotated[list[NonNegative], doc("logical CPUs on which the measuring thread may run.")]
    sockets: Annotated[list[NonNegative], doc("processors (physical packages) of those CPUs; empty if unknown.")] = []
    caches: Annotated[
        list[NonNegative], doc("last-level caches of those CPUs, each as its first CPU; empty if unknown.")
    ] = []
    numa_nodes: Annotated[
        list[NonNegative], doc("NUMA nodes of those CPUs, each as its first CPU; empty if unknown.")
    ] = []
    bound_by: Annotated[Literal["engine", "launcher", "nobody"], doc("what restricted it to those CPUs.")]
    library_cpus: Annotated[
        list[NonNegative], doc("logical CPUs on which threads of MPI, CUDA and transports may run; empty: as `cores`.")
    ] = []
    cpu: Annotated[str, doc("processor model, from /proc/cpuinfo.")]
    memory_available_bytes: Annotated[
        NonNegative, doc("the smaller of MemAvailable and the control group's limit, at the start.")
    ]
    device: Device | None = None
    device_chosen_late: Annotated[
        bool, doc("after MPI_Init: as asked, or because no variable of the launcher said the local rank.")
    ] = False


class Clock(Frozen, frozen=True, kw_only=True):
    """The engine's clock."""

    name: str
    resolution_s: Seconds
    read_s: Annotated[Seconds, doc("median cost of reading it once.")]


class Startup(Frozen, frozen=True, kw_only=True):
    """When the first rank had done each step of its start, in seconds from the start of its process."""

    main_s: Annotated[Seconds, doc("its libraries were loaded.")]
    placed_s: Annotated[Seconds, doc("cores and GPU were chosen; CUDA has counted the GPUs.")]
    mpi_s: Annotated[Seconds | None, doc("MPI_Init returned; null: the run uses no MPI.")] = None
    plan_s: Annotated[Seconds, doc("the facts of all ranks were gathered and the plan was read.")]


def cpus_of(ranks: Iterable[Rank]) -> set[int]:
    """Return the logical CPUs on which the measuring threads of these ranks may run."""
    return {cpu for rank in ranks for cpu in rank.cores}


def cpus_needed(ranks: Iterable[Rank]) -> int:
    """Return how many CPUs these ranks need: one that the engine did not bind may move among many, and needs one."""
    by_engine = grouped(ranks, lambda rank: rank.bound_by == "engine")
    return len(cpus_of(by_engine.get(True, ()))) + len(by_engine.get(False, ()))


def crowded(ranks: Collection[Rank]) -> bool:
    """Return whether these ranks of one host are more than the CPUs that they may use."""
    return len(ranks) > len(cpus_of(ranks)) > 0


class Run(Frozen, frozen=True, kw_only=True, tag_field="record", tag="run"):
    """First record of a run: machine, software, environment, placement, and the plan itself."""

    version: Version = RECORD_VERSION
    started_at: Annotated[str, doc("UTC, ISO 8601.")]
    engine: EngineFacts
    mpi: Annotated[MpiFacts | None, doc("null: the run uses no MPI.")]
    clock: Clock
    startup: Startup | None = None
    ranks: list[Rank]
    environment: Annotated[
        dict[str, str], doc("rank 0's variables that configure MPI, UCX, NCCL, CUDA or the launcher.")
    ]
    plan: Plan

    @property
    def oversubscribed(self) -> bool:
        """Whether ranks share cores: the launcher was granted fewer, or those of a host have fewer CPUs."""
        by_host = grouped(self.ranks, lambda rank: rank.host).values()
        return bool(self.plan.launch.get("oversubscribed")) or any(map(crowded, by_host))


class Transport(Frozen, frozen=True, kw_only=True, tag_field="record", tag="transport"):
    """One transport of the plan: its description, and whether this job can use it."""

    version: Version = RECORD_VERSION
    transport: str
    summary: Annotated[str, doc("short description of what moves the bytes.")]
    mpi: Annotated[bool, doc("the message's bytes travel through MPI.")]
    memory: Annotated[Literal["none", "host", "device"], doc("where the message's buffers are.")]
    available: bool
    reason: Annotated[str | None, doc("why the transport is unavailable.")] = None
    open_s: Annotated[Seconds | None, doc("time to open it on the first rank, waiting for the others included.")] = None
    threads: Annotated[
        dict[str, NonNegative] | None,
        doc("other threads of the first rank when it was open: their number by the CPUs they may use."),
    ] = None
    facts: Annotated[
        dict[str, Any], doc("the transport's choices, e.g. chunk sizes; keys depend on the transport.")
    ] = {}


class Usage(Frozen, frozen=True, kw_only=True):
    """What the system did to the measuring thread of one rank, from the first transport to the last point."""

    rank: NonNegative
    elapsed_s: Seconds
    cpu_s: Annotated[Seconds, doc("processor time of the thread, user and system.")]
    other_threads_cpu_s: Annotated[
        Seconds | None, doc("the same of all other threads of the rank, such as those of MPI and NCCL.")
    ] = None
    voluntary_switches: Annotated[NonNegative, doc("the thread waited, and another one ran.")]
    involuntary_switches: Annotated[NonNegative, doc("the system took the CPU away from the thread.")]
    minor_faults: Annotated[NonNegative, doc("page faults that read no disk.")]
    major_faults: NonNegative
    steal_ticks: Annotated[NonNegative, doc("a hypervisor ran something else on the CPUs of the rank (/proc/stat).")]
    total_ticks: Annotated[NonNegative, doc("all ticks of those CPUs, idle or not; 0: Linux does not say.")]


class End(Frozen, frozen=True, kw_only=True, tag_field="record", tag="end"):
    """Last record of a run.  A file without it is incomplete."""

    version: Version = RECORD_VERSION
    status: Annotated[
        Literal["complete", "failed", "stopped"],
        doc("`failed`: at least one point failed; `stopped`: stopped by a signal before the last point."),
    ]
    reason: str | None = None
    points_ok: NonNegative = 0
    points_failed: NonNegative = 0
    points_skipped: NonNegative = 0
    elapsed_s: Seconds
    usage: Annotated[list[Usage], doc("of every rank; empty where the run ended early.")] = []


class LaunchTimes(Frozen, frozen=True, kw_only=True, tag_field="record", tag="launch_times"):
    """When a launch reached each step, in seconds from the start of its launcher.

    The front end writes it when the next launch has begun or the run has ended: a run that was killed between two
    launches lacks it.
    """

    version: Version = RECORD_VERSION
    gap_s: Annotated[
        Seconds | None, doc("from the end of the launch before it to this start; null: the first launch.")
    ] = None
    run_s: Annotated[Seconds | None, doc("the run record arrived.")] = None
    transports_s: Annotated[Seconds | None, doc("the transports were open: their records arrived.")] = None
    end_s: Annotated[Seconds | None, doc("the end record arrived.")] = None
    exit_s: Annotated[Seconds, doc("the launcher ended.")]
    failed: Annotated[str, doc("why the launch failed, if no point says so: what volley printed.")] = ""
    limit: Annotated[str, doc("the command that shows a limit of a shell or host which MPI met.")] = ""


class NotMeasured(Frozen, frozen=True, kw_only=True, tag_field="record", tag="not_measured"):
    """What a check could not measure, or what ended it early: the front end writes it after all launches."""

    version: Version = RECORD_VERSION
    layer: Annotated[str, doc("what was to be measured.")]
    verdict: Verdict
    why: str
    decides: Annotated[str, doc("what to do.")]


COMMON = (Run, Transport, Settings, Hardware, End, LaunchTimes, NotMeasured)
"""The record types that are independent of the benchmark."""
