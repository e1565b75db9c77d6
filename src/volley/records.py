"""The seam between engine and front: one plan goes down, records come up.

These types are the single truth.  ``schema/*.json`` and ``docs/records.md`` are generated from
them, and the golden examples in ``schema/examples/`` are read by the tests of both sides.
Every quantity is in SI units and carries its unit in its name (``_s`` seconds, ``_bytes`` bytes).
A number that does not exist is ``null``, never NaN.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

PLAN_VERSION = 1
RECORD_VERSION = 1

Positive = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
PositiveSeconds = Annotated[float, Meta(gt=0)]
PositiveNumber = Annotated[float, Meta(gt=0)]
Number = Annotated[float, Meta(ge=0)]
Version = Annotated[int, Meta(ge=1)]


class _Frozen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A document type: immutable and closed to unknown keys."""


# ------------------------------------------------------------------------------------------ plan


class Sampling(_Frozen, frozen=True, kw_only=True):
    """How samples are taken (docs/method.md, "Sampling")."""

    mode: Annotated[
        Literal["adaptive", "fixed"],
        Meta(
            description="`adaptive` stops by the interval of the median; `fixed` takes one batch, as the tutorial does."
        ),
    ] = "adaptive"
    interval: Annotated[
        float,
        Meta(gt=0, le=1, description="adaptive: stop when the 95 % interval of the median is within ± this fraction."),
    ] = 0.01
    point_time_s: Annotated[
        PositiveSeconds, Meta(description="adaptive: stop a point after this much time, at the end of a round.")
    ] = 1.0
    min_visits: Annotated[
        Positive, Meta(description="adaptive: the fewest rounds in which every transport is visited.")
    ] = 3
    warmup: Annotated[NonNegative, Meta(description="fixed: untimed exchanges before the batch.")] = 5
    iterations: Annotated[Positive, Meta(description="fixed: exchanges in the one timed batch.")] = 50
    tail: Annotated[
        bool, Meta(description="adaptive: one exchange a sample (k = 1), so that percentiles are of messages.")
    ] = False


class Stream(_Frozen, frozen=True, kw_only=True):
    """How a windowed stream floods the link."""

    window: Annotated[Positive, Meta(description="messages in flight before one acknowledgement.")] = 64
    direction: Annotated[
        Literal["uni", "bi"], Meta(description="`uni`: first rank sends; `bi`: both send at once.")
    ] = "uni"


RankPair = Annotated[list[NonNegative], Meta(min_length=2, max_length=2)]


class Matrix(_Frozen, frozen=True, kw_only=True):
    """Which pairs of ranks are measured with each other, at which sizes, and what the others do meanwhile."""

    mode: Annotated[
        Literal["isolated", "loaded"],
        Meta(
            description="`isolated`: one pair at a time, all others wait; `loaded`: the rounds of a tournament, all "
            "ranks are busy until the round ends."
        ),
    ] = "isolated"
    latency_sizes_bytes: Annotated[list[Positive], Meta(description="message sizes of ping-pongs.")] = []
    bandwidth_sizes_bytes: Annotated[
        list[Positive], Meta(description="message sizes of streams; `stream` says window and direction.")
    ] = []
    pairs: Annotated[
        list[RankPair],
        Meta(
            description="first and second rank; empty: every ordered pair. `loaded`: the rounds that hold one of these."
        ),
    ] = []
    repeats: Annotated[
        Positive, Meta(description="how often everything is measured; `isolated`, each time from another pair on.")
    ] = 1
    samples: Annotated[bool, Meta(description="rows keep every sample.")] = False


Points = Annotated[int, Meta(ge=3, le=(1 << 31) - 1)]


class Jacobi(_Frozen, frozen=True, kw_only=True):
    """Laplace's equation on a grid of processes (docs/method.md, "Jacobi")."""

    topology: Annotated[list[Positive], Meta(min_length=2, max_length=2, description="processes along x and along y.")]
    domain: Annotated[
        list[Points], Meta(min_length=2, max_length=2, description="points of each process along x and along y.")
    ]
    precision: Annotated[Literal["double", "float"], Meta(description="8 or 4 bytes a point.")] = "double"
    iterations: Annotated[Positive, Meta(description="the most there are.")] = 1000
    tolerance: Annotated[PositiveNumber, Meta(description="ends when the residue is at most this.")] = 1e-5
    check_every: Annotated[Positive, Meta(description="iterations from one residue to the next.")] = 1
    overlap: Annotated[
        bool, Meta(description="points that need no halo are computed while the halos are on their way.")
    ] = True
    threads: Annotated[Positive | None, Meta(description="of each rank; null: its share of the cores.")] = None


class Plan(_Frozen, frozen=True, kw_only=True):
    """What to measure.  One JSON document, validated before any rank measures."""

    plan: Annotated[Version, Meta(description="version of this document; 1 where it is not given.")] = PLAN_VERSION
    benchmark: Annotated[
        Literal["pingpong", "stream", "matrix", "jacobi", "probe"],
        Meta(
            description="`matrix` measures every pair of ranks, as `matrix` says; `probe` tries which transports this "
            "job can use and measures nothing; a rank alone sends `sizes_bytes` to itself."
        ),
    ]
    world_size: Annotated[Positive, Meta(description="ranks expected; the engine refuses a job of any other size.")] = 2
    transports: Annotated[
        list[str], Meta(description="names from the registry, e.g. `host`, `staged/pinned`; visited in this order.")
    ]
    sizes_bytes: Annotated[
        list[Positive], Meta(description="message sizes, in this order; those of a matrix stand in `matrix`.")
    ] = []
    excluded: Annotated[
        dict[str, str],
        Meta(description="transports of the list that must not be opened, and why, as found in a job of their own."),
    ] = {}
    sampling: Sampling = Sampling()
    stream: Stream = Stream()
    matrix: Annotated[Matrix, Meta(description="read where the benchmark is `matrix`.")] = Matrix()
    jacobi: Annotated[
        Jacobi | msgspec.UnsetType, Meta(description="the problem; left out of the plans of other benchmarks.")
    ] = msgspec.UNSET
    verify: Annotated[bool, Meta(description="check the last message of every sample, outside the timed region.")] = (
        True
    )
    fresh_buffers: Annotated[bool, Meta(description="allocate new buffers for every size, as the tutorial does.")] = (
        False
    )
    share_device: Annotated[bool, Meta(description="allow two ranks on one GPU.")] = False
    budget_s: Annotated[
        PositiveSeconds | None,
        Meta(description="stop starting points after this much time in all; what is left is `skipped`."),
    ] = None
    watchdog_s: Annotated[
        PositiveSeconds, Meta(description="a region without progress for longer than this ends the job.")
    ] = 60.0
    launch: Annotated[
        dict[str, Any],
        Meta(description="what the front knows of the launch (launcher, command, software stack); copied, never read."),
    ] = {}


# --------------------------------------------------------------------------------------- records


class EngineFacts(_Frozen, frozen=True, kw_only=True):
    """What the engine was built from."""

    version: str
    mpi_built: Annotated[str, Meta(description="MPI library that the engine was compiled against.")]
    cuda_built: Annotated[str | None, Meta(description="CUDA compiler version; null: built without CUDA.")] = None
    cuda_architectures: list[str] = []


class MpiFacts(_Frozen, frozen=True, kw_only=True):
    """What MPI says of itself at run time."""

    library: Annotated[str, Meta(description="first line of MPI_Get_library_version.")]
    standard: Annotated[str, Meta(description="MPI_Get_version, as `major.minor`.")]
    cuda_query: Annotated[
        bool | None, Meta(description="MPIX_Query_cuda_support where it exists; reported, never trusted.")
    ] = None


class Device(_Frozen, frozen=True, kw_only=True):
    """The GPU that a rank uses, as the CUDA runtime describes it."""

    index: NonNegative
    name: str
    uuid: str
    pci: str
    compute_capability: str
    memory_bytes: NonNegative


class Rank(_Frozen, frozen=True, kw_only=True):
    """Where a rank runs."""

    rank: NonNegative
    host: str
    node: Annotated[NonNegative, Meta(description="number of the node, counted by first rank on it.")]
    local_rank: NonNegative
    pid: NonNegative
    cores: Annotated[list[NonNegative], Meta(description="logical CPUs that the rank may run on while it measures.")]
    sockets: Annotated[
        list[NonNegative], Meta(description="processors (physical packages) of those CPUs; empty where not known.")
    ] = []
    bound_by: Annotated[Literal["engine", "launcher", "nobody"], Meta(description="who restricted it to those CPUs.")]
    cpu: Annotated[str, Meta(description="processor model, from /proc/cpuinfo.")]
    memory_available_bytes: Annotated[
        NonNegative, Meta(description="the smaller of MemAvailable and what the control group leaves, at the start.")
    ]
    device: Device | None = None


class Clock(_Frozen, frozen=True, kw_only=True):
    """The engine's clock."""

    name: str
    resolution_s: Seconds
    read_s: Annotated[Seconds, Meta(description="median cost of reading it once.")]


class Run(_Frozen, frozen=True, kw_only=True, tag_field="record", tag="run"):
    """First record of a run: machine, software, environment, placement, and the plan itself."""

    version: Version = RECORD_VERSION
    started_at: Annotated[str, Meta(description="UTC, ISO 8601.")]
    engine: EngineFacts
    mpi: MpiFacts
    clock: Clock
    ranks: list[Rank]
    environment: Annotated[
        dict[str, str],
        Meta(description="first rank's variables that steer MPI, UCX, NCCL, CUDA or the launcher."),
    ]
    plan: Plan


class Transport(_Frozen, frozen=True, kw_only=True, tag_field="record", tag="transport"):
    """One transport of the plan: what it is, and whether this job can use it."""

    version: Version = RECORD_VERSION
    transport: str
    summary: Annotated[str, Meta(description="what moves the bytes, in a few words.")]
    mpi: Annotated[bool, Meta(description="the message's bytes travel through MPI.")]
    memory: Annotated[Literal["none", "host", "device"], Meta(description="where the message's buffers are.")]
    available: bool
    reason: Annotated[str | None, Meta(description="why not, when it is not available.")] = None
    facts: Annotated[
        dict[str, Any], Meta(description="what the transport settled on, e.g. chunk sizes; depends on the transport.")
    ] = {}


class Mismatch(_Frozen, frozen=True, kw_only=True):
    """The first wrong byte that verification found."""

    rank: Annotated[NonNegative, Meta(description="the rank whose receive buffer is wrong.")]
    offset_bytes: Annotated[int, Meta(description="from the start of the message; negative or ≥ size: a guard byte.")]
    expected: Annotated[NonNegative, Meta(le=255)]
    found: Annotated[NonNegative, Meta(le=255)]
    wrong_bytes: Annotated[Positive, Meta(description="how many bytes are wrong in all.")]


Status = Literal["ok", "failed", "skipped"]
EndedBy = Literal["interval", "time", "few", "fixed", "failure"]


class PingPong(_Frozen, frozen=True, kw_only=True, tag_field="record", tag="pingpong"):
    """One point of a ping-pong: a message size on one transport between two ranks."""

    version: Version = RECORD_VERSION
    transport: str
    ranks: Annotated[
        list[NonNegative], Meta(min_length=2, max_length=2, description="world ranks of the pair: first, second.")
    ]
    size_bytes: Positive
    status: Annotated[
        Status, Meta(description="`failed`: a checked message was wrong; `skipped`: not measured; both say the reason.")
    ]
    reason: Annotated[str | None, Meta(description="why it failed or was skipped.")] = None
    half_round_trip_s: Annotated[
        list[PositiveSeconds], Meta(description="one entry a sample: elapsed / (2 · exchanges_per_sample).")
    ] = []
    exchanges_per_sample: Annotated[NonNegative, Meta(description="k: round trips in one timed batch.")] = 0
    empty_sample_s: Annotated[
        Seconds | None, Meta(description="median length of a sample with k = 0: clock and call overhead.")
    ] = None
    cold_half_round_trip_s: Annotated[
        Seconds | None, Meta(description="the first exchange of fresh buffers; null where they were used before.")
    ] = None
    ended_by: Annotated[
        EndedBy | None,
        Meta(
            description="`interval` reached; `time` up; `few`: six samples of an exchange over 50 ms; "
            "`fixed` number asked for; `failure`."
        ),
    ] = None
    messages_timed: Annotated[NonNegative, Meta(description="messages inside timed batches, both directions.")] = 0
    messages_verified: Annotated[
        NonNegative, Meta(description="messages compared byte for byte: the last of every sample in each direction.")
    ] = 0
    mismatch: Mismatch | None = None
    elapsed_s: Annotated[Seconds, Meta(description="wall time of the whole point, untimed parts included.")] = 0.0


class StreamPoint(_Frozen, frozen=True, kw_only=True, tag_field="record", tag="stream"):
    """One point of a windowed stream: a message size on one transport between two ranks."""

    version: Version = RECORD_VERSION
    transport: str
    ranks: Annotated[
        list[NonNegative], Meta(min_length=2, max_length=2, description="world ranks of the pair: first, second.")
    ]
    direction: Literal["uni", "bi"]
    window: Positive
    size_bytes: Positive
    status: Annotated[
        Status, Meta(description="`failed`: a checked message was wrong; `skipped`: not measured; both say the reason.")
    ]
    reason: Annotated[str | None, Meta(description="why it failed or was skipped.")] = None
    forward_s: Annotated[
        list[PositiveSeconds],
        Meta(
            description="one entry a sample: seconds for one window from the first to the second rank, acknowledgement "
            "included; `uni` is timed by the sender, `bi` by the receiver."
        ),
    ] = []
    backward_s: Annotated[
        list[PositiveSeconds], Meta(description="`bi` only: the same from the second to the first rank.")
    ] = []
    windows_per_sample: Annotated[NonNegative, Meta(description="k: windows in one timed batch.")] = 0
    empty_sample_s: Seconds | None = None
    cold_window_s: Annotated[
        Seconds | None, Meta(description="the first window of fresh buffers; null where they were used before.")
    ] = None
    ended_by: EndedBy | None = None
    messages_timed: Annotated[NonNegative, Meta(description="messages inside timed batches, both directions.")] = 0
    messages_verified: Annotated[
        NonNegative, Meta(description="messages compared byte for byte: the last of every sample in each direction.")
    ] = 0
    mismatch: Mismatch | None = None
    elapsed_s: Seconds = 0.0


class Cell(_Frozen, frozen=True, kw_only=True):
    """One pair of a matrix: the row's rank is the first, this one the second."""

    rank: Annotated[NonNegative, Meta(description="the second rank.")]
    status: Annotated[
        Status, Meta(description="`failed`: a checked message was wrong; `skipped`: not measured; both say the reason.")
    ]
    reason: str | None = None
    median_s: Annotated[
        PositiveSeconds | None,
        Meta(
            description="ping-pong: half round trip; stream: one window, both ways the slower direction of each "
            "sample. null where the cell failed or was skipped."
        ),
    ] = None
    low_s: Annotated[
        PositiveSeconds | None,
        Meta(description="lower end of the median's 95 % interval; null with fewer than six samples."),
    ] = None
    high_s: PositiveSeconds | None = None
    samples: NonNegative = 0
    samples_s: Annotated[list[PositiveSeconds], Meta(description="all of them, where the plan asks for samples.")] = []
    count_per_sample: Annotated[NonNegative, Meta(description="k: round trips or windows in one timed batch.")] = 0
    ended_by: EndedBy | None = None
    messages_timed: NonNegative = 0
    messages_verified: NonNegative = 0
    mismatch: Mismatch | None = None
    elapsed_s: Seconds = 0.0


class MatrixRow(_Frozen, frozen=True, kw_only=True, tag_field="record", tag="matrix"):
    """One row of a matrix: what one rank, as the first of the pair, reaches with each other one."""

    version: Version = RECORD_VERSION
    transport: str
    mode: Literal["isolated", "loaded"]
    exercise: Literal["pingpong", "stream"]
    direction: Annotated[Literal["uni", "bi"] | None, Meta(description="of a stream.")] = None
    window: Annotated[Positive | None, Meta(description="of a stream.")] = None
    size_bytes: Positive
    rank: Annotated[NonNegative, Meta(description="the first rank of every pair of this row.")]
    repeat: Annotated[NonNegative, Meta(description="which repetition of the plan's, from 0.")] = 0
    cells: list[Cell]


class JacobiParts(_Frozen, frozen=True, kw_only=True):
    """Where the time of one rank went, over all iterations.

    On a GPU the parts go on side by side, and what the device times itself is timed in every sixteenth iteration and
    stands for all."""

    interior_s: Annotated[
        Seconds, Meta(description="new values that need no halo; on a CPU without overlap all new values.")
    ]
    edges_s: Annotated[
        Seconds, Meta(description="new values that need a halo; a GPU writes them into the next messages, too.")
    ]
    pack_s: Annotated[
        Seconds, Meta(description="halos into messages and out of them; on a GPU copies to and from host memory.")
    ]
    exchange_s: Annotated[Seconds, Meta(description="starting the messages and waiting for them.")]
    reduction_s: Annotated[Seconds, Meta(description="the residue of all ranks.")]


class JacobiResidue(_Frozen, frozen=True, kw_only=True):
    """The largest change of any point in one iteration."""

    iteration: Annotated[NonNegative, Meta(description="counted from 0.")]
    residue: Annotated[Number | None, Meta(description="null: no finite number.")]


class JacobiProgress(_Frozen, frozen=True, kw_only=True, tag_field="record", tag="jacobi_progress"):
    """How far the solutions are, about once a second: for people who wait, never a result."""

    version: Version = RECORD_VERSION
    transport: Annotated[str, Meta(description="of the batch of iterations that ended last.")]
    iterations: Annotated[NonNegative, Meta(description="of that solution so far.")]
    elapsed_s: Annotated[Seconds, Meta(description="of the run.")]
    left_s: Annotated[Seconds, Meta(description="of all solutions, if none comes to the tolerance.")]


class JacobiPoint(_Frozen, frozen=True, kw_only=True, tag_field="record", tag="jacobi"):
    """One solution of Laplace's equation, with the halos of one transport."""

    version: Version = RECORD_VERSION
    transport: str
    topology: Annotated[list[Positive], Meta(min_length=2, max_length=2)]
    domain: Annotated[list[Points], Meta(min_length=2, max_length=2)]
    precision: Literal["double", "float"]
    overlap: bool
    memory: Annotated[
        Literal["host", "device"], Meta(description="where field and halos are: `device`, a GPU solves.")
    ] = "host"
    interleaved: Annotated[
        bool, Meta(description="took turns with the run's other solutions, batch by batch; else it was alone.")
    ] = False
    status: Annotated[
        Status,
        Meta(description="`failed`: a halo was wrong, or the field no longer finite; `skipped`: no memory for it."),
    ]
    reason: Annotated[str | None, Meta(description="why it failed or was skipped.")] = None
    threads: Annotated[NonNegative, Meta(description="of each rank; the fewest that one has; 0 on a GPU.")] = 0
    stores: Annotated[
        Literal["cached", "streaming"] | None,
        Meta(
            description="how results are stored: `streaming` goes around the caches; as the faster copy does it. "
            "null on a GPU."
        ),
    ] = None
    iterations: Annotated[NonNegative, Meta(description="done.")] = 0
    converged: Annotated[bool, Meta(description="the residue came to the tolerance.")] = False
    residues: Annotated[
        list[JacobiResidue], Meta(description="of about every hundredth iteration, and the last there is.")
    ] = []
    batch_iterations: Annotated[
        list[Positive],
        Meta(description="iterations that were timed together; the first batch is one, on fresh memory."),
    ] = []
    batch_s: Annotated[list[PositiveSeconds], Meta(description="seconds of each batch on the slowest rank.")] = []
    cold_exchange_s: Annotated[
        Seconds | None, Meta(description="the first halos, on fresh buffers and before any iteration; slowest rank.")
    ] = None
    parts: Annotated[list[JacobiParts], Meta(description="of every rank.")] = []
    copy_s: Annotated[
        list[PositiveSeconds],
        Meta(
            description="seconds of copying the whole field, all ranks at once with the same stores; before and after."
        ),
    ] = []
    copy_bytes: Annotated[NonNegative, Meta(description="read and written by such a copy, all ranks together.")] = 0
    field_hash: Annotated[
        str | None, Meta(description="of all points bit by bit, the same whatever the grid; docs/method.md.")
    ] = None
    deviation: Annotated[
        Number | None, Meta(description="largest difference of a point from the exact solution of the equation.")
    ] = None
    messages_timed: NonNegative = 0
    messages_verified: Annotated[
        NonNegative, Meta(description="halos compared byte for byte: the first ones and the last ones of every batch.")
    ] = 0
    mismatch: Mismatch | None = None
    elapsed_s: Annotated[Seconds, Meta(description="wall time of it all, untimed parts included.")] = 0.0


class End(_Frozen, frozen=True, kw_only=True, tag_field="record", tag="end"):
    """Last record of a run.  A file without it is incomplete."""

    version: Version = RECORD_VERSION
    status: Annotated[
        Literal["complete", "failed", "stopped"],
        Meta(description="`failed`: at least one point failed; `stopped`: asked to stop before the last point."),
    ]
    reason: str | None = None
    points_ok: NonNegative = 0
    points_failed: NonNegative = 0
    points_skipped: NonNegative = 0
    elapsed_s: Seconds


# ------------------------------------------------------------------------------ hardware, read by the front


class NvLink(_Frozen, frozen=True, kw_only=True):
    """One active NVLink of a GPU."""

    link: Annotated[NonNegative, Meta(description="its number on this GPU.")]
    version: Annotated[str | None, Meta(description="of NVLink, e.g. `4.0`.")] = None
    line_rate_bytes_per_s: Annotated[
        PositiveNumber | None, Meta(description="in one direction, packet overhead included.")
    ] = None
    remote: Annotated[
        Literal["gpu", "switch", "other", "unknown"], Meta(description="what is at the other end; `switch`: NVSwitch.")
    ] = "unknown"
    remote_pci: str | None = None


class Gpu(_Frozen, frozen=True, kw_only=True):
    """A GPU at one moment, as NVML describes it.  What could not be read is null, and `unread` says why."""

    index: Annotated[NonNegative, Meta(description="NVML's; CUDA may count in another order.")]
    uuid: str
    name: str | None = None
    pci: str | None = None
    nvlinks: Annotated[
        list[NvLink] | None, Meta(description="those that are active; empty where the GPU has none.")
    ] = None
    nvlinks_inactive: NonNegative = 0
    pcie_generation: Annotated[
        NonNegative | None, Meta(description="at this moment; a link that idles may step down.")
    ] = None
    pcie_generation_max: Annotated[
        NonNegative | None, Meta(description="the most that GPU and slot allow together.")
    ] = None
    pcie_width: Annotated[NonNegative | None, Meta(description="lanes at this moment.")] = None
    pcie_width_max: NonNegative | None = None
    sm_clock_hz: NonNegative | None = None
    sm_clock_max_hz: NonNegative | None = None
    memory_clock_hz: NonNegative | None = None
    memory_clock_max_hz: NonNegative | None = None
    clocks_event_reasons: Annotated[
        list[str] | None, Meta(description="what holds the clocks down at this moment (throttle reasons).")
    ] = None
    ecc: bool | None = None
    ecc_corrected: Annotated[NonNegative | None, Meta(description="errors since the driver was loaded.")] = None
    ecc_uncorrected: NonNegative | None = None
    power_w: Number | None = None
    power_limit_w: Number | None = None
    temperature_c: int | None = None
    mig: Annotated[bool | None, Meta(description="divided into instances (MIG).")] = None
    unread: Annotated[dict[str, str], Meta(description="keys that are null, and what NVML said.")] = {}


class PeerStatus(_Frozen, frozen=True, kw_only=True):
    """What NVML says two GPUs can do with each other's memory: `ok`, or why not."""

    first: Annotated[str, Meta(description="UUID.")]
    second: Annotated[str, Meta(description="UUID.")]
    read: str | None = None
    write: str | None = None
    nvlink: str | None = None
    atomics: str | None = None


class Hardware(_Frozen, frozen=True, kw_only=True, tag_field="record", tag="hardware"):
    """The GPUs of a run on the front's own node, read through NVML before the launch and after its last point.

    The front writes it; the engine knows nothing of it.  It is there only where a transport on GPU memory was asked
    for and an NVIDIA driver is loaded.
    """

    version: Version = RECORD_VERSION
    when: Literal["before", "after"]
    host: str
    driver_version: str | None = None
    gpus: list[Gpu] = []
    peers: Annotated[list[PeerStatus], Meta(description="one entry a pair of those GPUs.")] = []
    reason: Annotated[str | None, Meta(description="why nothing could be read.")] = None


Record = Run | Transport | PingPong | StreamPoint | MatrixRow | JacobiPoint | JacobiProgress | End | Hardware
Point = PingPong | StreamPoint
