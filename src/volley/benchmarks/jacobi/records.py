"""The plan and the records of a solution of Laplace's equation, and its jobs: one grid, or several for scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

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
    doc,
)
from volley.errors import MachineError, UserError
from volley.launch.launchers import PAIR, cores
from volley.machine.transports import without_fault
from volley.records.plan import Plan
from volley.records.record_types import Mismatch, Status
from volley.run.jobs import (
    MEMORY_BYTES,
    Forecast,
    Job,
    JobContext,
    choose_transports,
    count_ranks,
    make_plan,
    usable_transports,
)
from volley.run.launches import Jobs
from volley.text import count, join_words
from volley.units import LARGEST_COUNT, approximate_size

VALUE_BYTES = {"double": 8, "float": 4}
Points = Annotated[int, Meta(ge=MIN_POINTS, le=(1 << 31) - 1)]
"""Along x or y of a domain."""


class JacobiPlan(Frozen, frozen=True, kw_only=True):
    """Laplace's equation on a grid of processes (docs/method)."""

    grid: Annotated[list[Count], doc("processes along x and along y.", min_length=2, max_length=2)]
    domain: Annotated[list[Points], doc("points of each process along x and along y.", min_length=2, max_length=2)]
    precision: Annotated[Literal["double", "float"], doc("8 or 4 bytes a point.")] = JacobiOptions.precision
    iterations: Annotated[Count, doc("the most there are.")] = JacobiOptions.iterations
    tolerance: Annotated[PositiveNumber, doc("ends when the residual is at most this.")] = JacobiOptions.tolerance
    check_every: Annotated[Count, doc("iterations from one residual to the next.")] = JacobiOptions.check_every
    overlap: Annotated[bool, doc("points that need no halo are computed while the halos are in transit.")] = (
        JacobiOptions.overlap
    )
    threads: Annotated[Count | None, doc("of each rank; null: its share of the cores.")] = None


class JacobiParts(Frozen, frozen=True, kw_only=True):
    """Where the time of one rank went, over all iterations.

    On a GPU the parts overlap; what the device times itself is timed in every sixteenth iteration and stands for all.
    """

    interior_s: Annotated[Seconds, doc("new values that need no halo; on a CPU without overlap all new values.")]
    edges_s: Annotated[Seconds, doc("new values that need a halo; a GPU writes them into the next messages, too.")]
    pack_s: Annotated[Seconds, doc("halos into messages and out of them; on a GPU copies to and from host memory.")]
    exchange_s: Annotated[Seconds, doc("starting the messages and waiting for them.")]
    reduction_s: Annotated[Seconds, doc("the residual of all ranks.")]


class JacobiResidual(Frozen, frozen=True, kw_only=True):
    """The largest change of any point in one iteration."""

    iteration: Annotated[NonNegative, doc("counted from 0.")]
    residual: Annotated[Number | None, doc("null: no finite number.")]


class JacobiProgress(Frozen, frozen=True, kw_only=True, tag_field="record", tag="jacobi_progress"):
    """How far the solutions are, about once a second: for people who wait, never a result."""

    version: Version = RECORD_VERSION
    transport: Annotated[str, doc("of the batch of iterations that ended last.")]
    iterations: Annotated[NonNegative, doc("of that solution so far.")]
    elapsed_s: Annotated[Seconds, doc("of the run.")]
    left_s: Annotated[Seconds, doc("of all solutions, if none reaches the tolerance.")]


class JacobiPoint(Frozen, frozen=True, kw_only=True, tag_field="record", tag="jacobi"):
    """One solution of Laplace's equation, with the halos of one transport."""

    version: Version = RECORD_VERSION
    transport: str
    grid: Annotated[list[Positive], Meta(min_length=2, max_length=2)]
    domain: Annotated[list[Points], Meta(min_length=2, max_length=2)]
    precision: Literal["double", "float"]
    overlap: bool
    memory: Annotated[Literal["host", "device"], doc("where field and halos are: `device`, a GPU solves.")] = "host"
    interleaved: Annotated[
        bool, doc("took turns with the run's other solutions, batch by batch; else it was alone.")
    ] = False
    status: Annotated[
        Status, doc("`failed`: a halo was wrong, or the field no longer finite; `skipped`: no memory for it.")
    ]
    reason: Annotated[str | None, doc("why it failed or was skipped.")] = None
    threads: Annotated[NonNegative, doc("of each rank; the fewest that one has; 0 on a GPU.")] = 0
    iterations: Annotated[NonNegative, doc("done.")] = 0
    converged: Annotated[bool, doc("the residual reached the tolerance.")] = False
    residuals: Annotated[list[JacobiResidual], doc("of about every hundredth iteration, and the last there is.")] = []
    batch_iterations: Annotated[
        list[Positive], doc("iterations that were timed together; the first batch is one, on fresh memory.")
    ] = []
    batch_s: Annotated[list[PositiveSeconds], doc("seconds of each batch on the slowest rank.")] = []
    cold_exchange_s: Annotated[Seconds | None, doc("the first halos, before any iteration; slowest rank.")] = None
    parts: Annotated[list[JacobiParts], doc("of every rank.")] = []
    copy_s: Annotated[
        list[PositiveSeconds],
        doc("seconds of copying the field, before and after, all ranks at once, stored as the sweep does."),
    ] = []
    copy_bytes: Annotated[NonNegative, doc("read and written by such a copy, all ranks together.")] = 0
    field_hash: Annotated[
        str | None, doc("of all points bit by bit, the same whatever the grid; docs/method/jacobi.md.")
    ] = None
    deviation: Annotated[
        Number | None, doc("largest difference of a point from the exact solution of the equation.")
    ] = None
    messages_timed: NonNegative = 0
    messages_verified: Annotated[
        NonNegative, doc("halos compared byte for byte: the first ones and the last ones of every batch.")
    ] = 0
    mismatch: Mismatch | None = None
    elapsed_s: Annotated[Seconds, doc("wall time of it all, untimed parts included.")] = 0.0

    def __post_init__(self) -> None:
        """Refuse a record of which each number is possible, and all together are not."""
        if len(self.batch_s) != len(self.batch_iterations):
            raise ValueError("`batch_s` and `batch_iterations` have different lengths")


Grid = tuple[int, int]
"""Processes along x and along y."""


def grids(ranks: int) -> list[Grid]:
    """Return every grid of this number of processes, in the order of their width."""
    few = [number for number in range(1, math.isqrt(ranks) + 1) if ranks % number == 0]
    many = [ranks // number for number in reversed(few) if number * number != ranks]
    return [(across, ranks // across) for across in (*few, *many)]


def squarest(ranks: int) -> Grid:
    """Return the grid whose sides are nearest to each other, the longer one along x."""
    return min((grid for grid in grids(ranks) if grid[0] >= grid[1]), key=lambda grid: grid[0] - grid[1])


def grids_up_to(last: Grid) -> list[Grid]:
    """Return the grids from 1 × 1 to ``last``; each divides the longer side of the next one by its least prime.

    Every grid divides the last, so that each can share out the same global domain.
    """
    chain = [last]
    while chain[0] != (1, 1):
        across, along = chain[0]
        longer = max(across, along)
        prime = next((number for number in range(2, math.isqrt(longer) + 1) if longer % number == 0), longer)
        chain.insert(0, (across // prime, along) if across >= along else (across, along // prime))
    return chain


def jobs(options: JacobiOptions, context: JobContext) -> Jobs:
    grid = _grid(options, context)
    ranks = math.prod(grid)
    if options.scaling and context.position and ranks > 1:
        raise UserError(
            f"--scaling {options.scaling}: a launcher started this job with {count(ranks, 'rank')}, and scaling takes "
            "jobs of other sizes too: start volley without a launcher"
        )
    transports = choose_transports(options.points.transport, context, halos=True)
    planned: list[Job] = []
    for each in grids_up_to(grid) if options.scaling else [grid]:
        part = JacobiPlan(
            grid=list(each),
            domain=list(_domain_on(each, grid, options)),
            precision=options.precision,
            iterations=options.iterations,
            tolerance=options.tolerance,
            check_every=options.check_every,
            overlap=options.overlap,
            threads=options.threads,
        )
        plan = make_plan("jacobi", part, options, ranks=math.prod(each), transports=transports, verify=options.verify)
        _refuse_beyond_memory(plan, context)
        nodes = len(set(options.job.hosts)) or (context.allocation.nodes if context.allocation else 1)
        expected_s = _expected_s(part, options.precision, usable_transports(plan, context), min(nodes, math.prod(each)))
        planned.append(Job(plan, measuring_s=expected_s))
    return Jobs(tuple(planned), times=options.job.launches or 1, advice="--iterations changes that")


def _grid(options: JacobiOptions, context: JobContext) -> Grid:
    """Return the grid of all ranks; a UserError says that the requested one has more processes, or fewer."""
    usual = math.prod(options.grid) if options.grid else max(context.ranks_given or PAIR, PAIR)
    ranks = count_ranks(options.job, context, usual=usual)
    across, along = grid = options.grid or squarest(ranks)
    if across * along != ranks:
        fitting = join_words([f"{each[0]} {each[1]}" for each in grids(ranks)], "or")
        raise UserError(
            f"--grid {across} {along} is a grid of {count(across * along, 'process')}, and the job has "
            f"{count(ranks, 'rank')}: write --grid {fitting}, or start {across * along} ranks"
        )
    return grid


def _refuse_beyond_memory(plan: Plan, context: JobContext) -> None:
    """Refuse fields that this host has no memory for, whatever else is in it; of GPUs only the engine knows."""
    usable = {without_fault(name) for name in usable_transports(plan, context)}
    if not context.on_this_host or not usable or any(each.memory == "device" for each in context.about.of([*usable])):
        return
    a_point = _FIELDS * VALUE_BYTES[plan.options.precision] * plan.world_size
    across, along = plan.options.domain
    if across * along * a_point > MEMORY_BYTES:
        most = math.isqrt(MEMORY_BYTES // a_point)
        needed, has = approximate_size(across * along * a_point), approximate_size(MEMORY_BYTES)
        raise MachineError(
            f"--domain {across} {along}: {count(plan.world_size, 'process')} would need {needed} of memory, and this "
            f"host has {has}: at most about --domain {most} {most}"
        )


_FIELDS = 2
"""The old and the new one."""

SWEEPS_BESIDE = 40
"""The initial field, the deviation and the hash of the last one, and the copies before and after take so long."""

CORE_SWEEP_BPS, HOST_SWEEP_BPS, DEVICE_SWEEP_BPS = 1.2e10, 1e11, 1e12
"""A core, all cores of a host and a GPU read and write this many bytes per second, before anything was measured: 4096²
points on 2 cores and on 32."""


def _expected_s(part: JacobiPlan, precision: str, transports: Sequence[str], nodes: int) -> float:
    """Return how long all iterations are expected to take: each reads and writes every point of a domain."""
    swept_bytes = _FIELDS * math.prod(part.domain) * VALUE_BYTES[precision]
    host_s = swept_bytes * -(-math.prod(part.grid) // nodes) / min(cores() * CORE_SWEEP_BPS, HOST_SWEEP_BPS)
    on_host = sum(name.partition("/")[0] == "host" for name in transports)
    sweep_s = on_host * host_s + (len(transports) - on_host) * swept_bytes / DEVICE_SWEEP_BPS
    return (part.iterations + SWEEPS_BESIDE) * sweep_s


def _domain_on(grid: Grid, last: Grid, options: JacobiOptions) -> tuple[int, int]:
    """Return the points of each process on one of the grids; strong scaling keeps the global domain."""
    across, along = options.domain
    if options.scaling != "strong":
        return across, along
    domain = (across * (last[0] // grid[0]), along * (last[1] // grid[1]))
    if max(domain) > LARGEST_COUNT:
        raise UserError(
            f"--scaling strong: {count(grid[0] * grid[1], 'process')} would have {domain[0]} × {domain[1]} points "
            f"each, and at most {LARGEST_COUNT} along x or along y are possible: choose a smaller --domain"
        )
    return domain


class JacobiForecast(Forecast):
    """Repeats what the engine says, which knows its transports: ``done`` is a part of 1."""

    def add(self, record: Any) -> str | None:
        """Take what the engine says: ``host: 350 iterations``."""
        if not isinstance(record, JacobiProgress):
            return None
        whole_s = record.elapsed_s + record.left_s
        self.done = record.elapsed_s / whole_s if whole_s else 0.0
        return f"{record.transport}: {count(record.iterations, 'iteration')}"
