"""What is captured of MPI, of the jobs that doctor starts, and of other hosts: the other part of the facts.

The jobs keep what matters of their records; the properties say what follows from these alone.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from volley.document import Fact
from volley.machine.hardware import Device
from volley.machine.mpi_words import reason_in
from volley.machine.paths import RunPath

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
    ompi_cuda: bool | None = None  # its mpi_built_with_cuda_support
    ompi_pml: list[str] = []  # its point-to-point layers
    misspelt: dict[str, str] = {}  # variables that it does not name, and the one that is nearly spelt so, if any
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
    ranks: list[RankFacts] = []
    transports: list[TransportFacts] = []
    points: list[PointFacts] = []
    protocols: list[str] = []  # UCX's own lines about the protocol that it chose
    unused: list[str] = []  # variables of which UCX says that nothing used them
    invalid: list[str] = []  # parameters of which Open MPI says that they have no such value, with it
    text: list[str] = []  # the end of what else was printed
    start_s: float = 0.0  # from the start of the launcher to the first record, when MPI_Init was over

    @property
    def command_line(self) -> str:
        """Its command for people; it was started from the words, not from this text."""
        return " ".join(self.command)

    @property
    def why(self) -> str:
        """Why it ended, or what it left out: the sentence of MPI or its launcher, else what is known of its end."""
        left_out = [*(each.reason for each in self.transports), *(each.reason for each in self.points)]
        known = self.reason or next(filter(None, left_out), None) or f"it ended with status {self.status}"
        return reason_in(self.text, "" if known.startswith("the job ended with") else known) or known

    @property
    def fast(self) -> bool:
        """True if it ended well, and ranks of one host took no longer than through shared memory."""
        apart = len({rank.node for rank in self.ranks}) > 1
        time_s = next((point.lower_quartile_s for point in self.points if point.lower_quartile_s), self.first_time_s)
        return self.complete and time_s > 0.0 and (apart or time_s <= SHARED_MEMORY_S)

    @property
    def sends(self) -> bool:
        """True if it ended well, and messages of host memory arrived: without room for them it has none."""
        return self.complete and bool(self.delivered("host"))

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

    @property
    def remedy(self) -> str:
        """What makes the change in a shell for good; of a way around the problem it says what that switches off."""
        if self.settings:
            return self.change
        lost = "shared memory" if "NOLOCAL" in self.change else "RDMA"
        said = f"  # a way around the problem: it switches off {lost}" if self.goes_around else ""
        return f"export {self.change}{said}"

    @property
    def goes_around(self) -> bool:
        """Whether it switches off a part of MPI that was asked for, as what failed may need."""
        return not self.settings and bool(re.search(r"tcp\b(?!_)|\^ofi|NOLOCAL|FABRICS=ofi", self.change))


class PairFacts(Fact, frozen=True, kw_only=True):
    """Copies between two GPUs, each verified by the other side."""

    gpus: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=2, max_length=2)]
    job: JobFacts


class HostFacts(Fact, frozen=True, kw_only=True):
    """A host of several, as it sees itself and the others."""

    name: str  # as it was asked for
    error: str = ""  # why it did not answer
    port: int = 0  # on which it listened
    answer_s: float = 0.0  # from the start of ssh or srun to its first answer
    interfaces: dict[str, str] = {}  # address and length of the network's prefix, by interface
    names: dict[str, list[str]] = {}  # addresses of each host's name, as this host looks them up
    settings: dict[str, str] = {}  # versions and limits, which should be alike
    reached: dict[str, str] = {}  # `ok` or the error, by `HOST ADDRESS`


class HostsFacts(Fact, frozen=True, kw_only=True):
    """Several hosts, and a job of MPI over them."""

    hosts: list[HostFacts]
    job: JobFacts  # of host memory
    device_job: JobFacts | None = None  # of GPU memory, by MPI itself
    paths: list[RunPath] = []  # what carried the messages of a job of their own
    trial: TrialFacts | None = None  # the job with one change, if it failed
    nccl: NcclFacts | None = None  # between two GPUs of two hosts
