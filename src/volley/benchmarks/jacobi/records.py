"""The plan and the records of a solution of Laplace's equation."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from volley.benchmarks.jacobi import MIN_POINTS, JacobiOptions
from volley.document import (
    RECORD_VERSION,
    Count,
    Frozen,
    NonNegative,
    Number,
    Positive,
    PositiveNumber,
    PositiveSeconds,
    Seconds,
    Version,
)
from volley.run.records import Mismatch, Status

Points = Annotated[int, Meta(ge=MIN_POINTS, le=(1 << 31) - 1)]
"""Along x or y of a domain."""


class JacobiPlan(Frozen, frozen=True, kw_only=True):
    """Laplace's equation on a grid of processes (docs/method)."""

    grid: Annotated[list[Count], Meta(min_length=2, max_length=2, description="processes along x and along y.")]
    domain: Annotated[
        list[Points], Meta(min_length=2, max_length=2, description="points of each process along x and along y.")
    ]
    precision: Annotated[Literal["double", "float"], Meta(description="8 or 4 bytes a point.")] = (
        JacobiOptions.precision
    )
    iterations: Annotated[Count, Meta(description="the most there are.")] = JacobiOptions.iterations
    tolerance: Annotated[PositiveNumber, Meta(description="ends when the residual is at most this.")] = (
        JacobiOptions.tolerance
    )
    check_every: Annotated[Count, Meta(description="iterations from one residual to the next.")] = (
        JacobiOptions.check_every
    )
    overlap: Annotated[
        bool, Meta(description="points that need no halo are computed while the halos are in transit.")
    ] = JacobiOptions.overlap
    threads: Annotated[Count | None, Meta(description="of each rank; null: its share of the cores.")] = None


class JacobiParts(Frozen, frozen=True, kw_only=True):
    """Where the time of one rank went, over all iterations.

    On a GPU the parts overlap; what the device times itself is timed in every sixteenth iteration and stands for all.
    """

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
    reduction_s: Annotated[Seconds, Meta(description="the residual of all ranks.")]


class JacobiResidual(Frozen, frozen=True, kw_only=True):
    """The largest change of any point in one iteration."""

    iteration: Annotated[NonNegative, Meta(description="counted from 0.")]
    residual: Annotated[Number | None, Meta(description="null: no finite number.")]


class JacobiProgress(Frozen, frozen=True, kw_only=True, tag_field="record", tag="jacobi_progress"):
    """How far the solutions are, about once a second: for people who wait, never a result."""

    version: Version = RECORD_VERSION
    transport: Annotated[str, Meta(description="of the batch of iterations that ended last.")]
    iterations: Annotated[NonNegative, Meta(description="of that solution so far.")]
    elapsed_s: Annotated[Seconds, Meta(description="of the run.")]
    left_s: Annotated[Seconds, Meta(description="of all solutions, if none reaches the tolerance.")]


class JacobiPoint(Frozen, frozen=True, kw_only=True, tag_field="record", tag="jacobi"):
    """One solution of Laplace's equation, with the halos of one transport."""

    version: Version = RECORD_VERSION
    transport: str
    grid: Annotated[list[Positive], Meta(min_length=2, max_length=2)]
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
    iterations: Annotated[NonNegative, Meta(description="done.")] = 0
    converged: Annotated[bool, Meta(description="the residual reached the tolerance.")] = False
    residuals: Annotated[
        list[JacobiResidual], Meta(description="of about every hundredth iteration, and the last there is.")
    ] = []
    batch_iterations: Annotated[
        list[Positive],
        Meta(description="iterations that were timed together; the first batch is one, on fresh memory."),
    ] = []
    batch_s: Annotated[list[PositiveSeconds], Meta(description="seconds of each batch on the slowest rank.")] = []
    cold_exchange_s: Annotated[
        Seconds | None, Meta(description="the first halos, before any iteration; slowest rank.")
    ] = None
    parts: Annotated[list[JacobiParts], Meta(description="of every rank.")] = []
    copy_s: Annotated[
        list[PositiveSeconds],
        Meta(
            description="seconds of copying the field, before and after, all ranks at once, stored as the sweep does."
        ),
    ] = []
    copy_bytes: Annotated[NonNegative, Meta(description="read and written by such a copy, all ranks together.")] = 0
    field_hash: Annotated[
        str | None, Meta(description="of all points bit by bit, the same whatever the grid; docs/method/jacobi.md.")
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

    def __post_init__(self) -> None:
        """Refuse a record of which each number is possible, and all together are not."""
        if len(self.batch_s) != len(self.batch_iterations):
            raise ValueError("`batch_s` and `batch_iterations` have different lengths")


PLAN = JacobiPlan
RECORDS = (JacobiPoint, JacobiProgress)
