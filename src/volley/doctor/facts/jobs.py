"""MPI, and what jobs of volley's engine found."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from volley.doctor.facts.base import Fact
from volley.records import Device


class Stack(Fact, frozen=True, kw_only=True):
    """The engine, the MPI that it was linked to, and what that MPI's own tools say."""

    engine_version: str = ""
    mpi_built: str = ""
    mpi_source: str = ""
    mpi_family: str = ""
    mpi_version: str = ""
    described: str = ""
    prepared: Annotated[bool, Meta(description="volley put a CUDA-aware UCX in front of this MPI.")] = False
    mpiexec: str | None = None
    cuda_built: str | None = None
    cuda_architectures: list[str] = []
    ompi_info: Annotated[str | None, Meta(description="path of the ompi_info beside that mpirun.")] = None
    ompi_cuda: Annotated[bool | None, Meta(description="its mpi_built_with_cuda_support.")] = None
    ompi_pml: Annotated[list[str], Meta(description="its point-to-point layers.")] = []
    other_mpirun: Annotated[str | None, Meta(description="the mpirun on PATH, where it is another one.")] = None


class Seen(Fact, frozen=True, kw_only=True):
    """One rank of a job."""

    rank: int
    host: str
    node: int
    local_rank: int
    cores: list[int]
    bound_by: str
    device: Device | None = None


class Way(Fact, frozen=True, kw_only=True):
    """A transport, as a job found it."""

    transport: str
    available: bool
    reason: str | None = None


class Tried(Fact, frozen=True, kw_only=True):
    """One message size on one transport."""

    transport: str
    size_bytes: int
    status: str
    reason: str | None = None
    half_round_trip_s: Annotated[float | None, Meta(description="median of the samples.")] = None
    messages_verified: int = 0


class Job(Fact, frozen=True, kw_only=True):
    """A job of volley's engine."""

    launcher: str
    command: list[str]
    wanted_ranks: int
    inside: Annotated[bool, Meta(description="a foreign launcher started it, and this process was its first rank.")] = (
        False
    )
    complete: Annotated[bool, Meta(description="the engine wrote its last record.")] = False
    status: Annotated[int, Meta(description="the launcher's exit status; negative: by that signal.")] = 0
    reason: Annotated[str | None, Meta(description="why it ended early, as well as anybody knows.")] = None
    library: str | None = None
    cuda_query: bool | None = None
    ranks: list[Seen] = []
    transports: list[Way] = []
    points: list[Tried] = []
    protocols: Annotated[list[str], Meta(description="UCX's own lines about the protocol that it chose.")] = []
    text: Annotated[list[str], Meta(description="the end of what else was printed.")] = []


class PairJob(Fact, frozen=True, kw_only=True):
    """Copies between two GPUs, each verified by the other side."""

    gpus: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=2, max_length=2)]
    job: Job
