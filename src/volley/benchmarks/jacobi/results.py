"""From the records of a solver to the numbers that reports show.

All quantities are in SI units.  docs/method derives them.
"""

# B/s keeps its capital letter in names.
# ruff: noqa: N802, N815

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from volley.benchmarks.jacobi.grids import Grid
from volley.benchmarks.jacobi.records import JacobiPlan, JacobiPoint
from volley.run.run_log import RunLog
from volley.run.series import Series, series_of
from volley.statistics.estimates import Estimate, across_launches, median

FLOPS = 5
"""Floating-point operations an update, as NVIDIA's example counts them: three additions, a multiplication and the
subtraction of the residual."""

ALGORITHMIC_VALUES = 8
"""Values that NVIDIA's example counts as read or written in an update ("device bandwidth"): its kernel's six, and two
of the copy back that follows; 64 bytes in double precision."""

COMPULSORY_VALUES = 2
"""Values that must move: each is read from memory once and written once."""

PARTS = ("interior", "edges", "pack", "exchange", "reduction")


@dataclass(frozen=True, kw_only=True)
class Solution:
    """One problem on one transport, over all launches of the same request."""

    point: JacobiPoint
    """That of the first good launch; if a launch failed, that of the failed one."""
    check_every: int
    """Iterations from one residual to the next."""
    launches: int
    time: Estimate | None
    """Seconds of an iteration in the steady state: of batch means, the first batch left out where there are others."""
    run_s: float | None
    """Seconds of all iterations, the first included; the median over launches."""
    communication_s: float | None
    """Seconds of packing, sending and awaiting halos in all iterations, the mean over ranks."""
    first_s: float | None
    """Seconds of the first iteration, on fresh memory."""
    shares: dict[str, float]
    """Each part's share of the ranks' time in all parts together."""
    parts_s: dict[str, float]
    """Seconds of each part in an iteration, the mean over ranks and launches; on a GPU the parts overlap."""
    copy_Bps: float | None
    """Read and written, while all ranks copy the same field."""
    messages_timed: int
    messages_verified: int

    @property
    def transport(self) -> str:
        """The transport of the halos."""
        return self.point.transport

    @property
    def grid(self) -> Grid:
        """Processes along x and along y."""
        return self.point.grid[0], self.point.grid[1]

    @property
    def domain(self) -> tuple[int, int]:
        """Points of each process along x and along y."""
        return self.point.domain[0], self.point.domain[1]

    @property
    def residual(self) -> float | None:
        """The last residual."""
        return self.point.residuals[-1].residual if self.point.residuals else None

    @property
    def ranks(self) -> int:
        """Processes of the grid."""
        return self.grid[0] * self.grid[1]

    @property
    def point_bytes(self) -> int:
        """Bytes of a point's value."""
        return 8 if self.point.precision == "double" else 4

    @property
    def whole(self) -> tuple[int, int]:
        """Columns and rows of the global domain."""
        return self.grid[0] * self.domain[0], self.grid[1] * self.domain[1]

    @property
    def updates(self) -> int:
        """Points that an iteration updates: all but the outermost of the global domain."""
        columns, rows = self.whole
        return (columns - 2) * (rows - 2)

    @property
    def compulsory_bytes(self) -> int:
        """Bytes an update that must move."""
        return COMPULSORY_VALUES * self.point_bytes

    @property
    def algorithmic_bytes(self) -> int:
        """Bytes an update as NVIDIA's example counts them."""
        return ALGORITHMIC_VALUES * self.point_bytes

    @property
    def iteration_s(self) -> float | None:
        """Seconds of an iteration in the steady state."""
        return self.time.median if self.time else None

    @property
    def updates_per_s(self) -> float | None:
        """Lattice updates a second in the steady state."""
        return self.updates / self.time.median if self.time else None

    @property
    def overall_updates_per_s(self) -> float | None:
        """Lattice updates a second of run time, as NVIDIA's example states them."""
        return self.updates * self.point.iterations / self.run_s if self.run_s else None

    @property
    def compulsory_Bps(self) -> float | None:
        """What memory must move at least."""
        return self.updates_per_s * self.compulsory_bytes if self.updates_per_s else None

    @property
    def of_copy(self) -> float | None:
        """The compulsory bandwidth as a share of that of a copy of the same field."""
        return self.compulsory_Bps / self.copy_Bps if self.compulsory_Bps and self.copy_Bps else None

    @property
    def halo_s(self) -> float | None:
        """Seconds of an iteration that halos take, packing included."""
        return self.parts_s["pack"] + self.parts_s["exchange"] if self.parts_s else None

    @property
    def verified(self) -> bool:
        """Halos were compared and all were right.  A process without neighbours has none."""
        return self.point.status == "ok" and self.messages_verified > 0


@dataclass(frozen=True)
class JacobiResults:
    """The solutions of one series of launches, one a transport."""

    series: Series
    solutions: list[Solution]


def results(logs: Sequence[RunLog]) -> list[JacobiResults]:
    """Return the results of each series."""
    return [JacobiResults(each, solutions(each.logs)) for each in series_of(logs)]


def check_every(log: RunLog) -> int:
    """Return the iterations from one residual to the next; 1 where the plan is missing."""
    options = log.run.plan.options if log.run else None
    return options.check_every if isinstance(options, JacobiPlan) else 1


def solutions(logs: Sequence[RunLog]) -> list[Solution]:
    """Put the points of the same transport together, in order of appearance."""
    found: dict[str, list[JacobiPoint]] = {}
    for point in (point for log in logs for point in log.of(JacobiPoint)):
        found.setdefault(point.transport, []).append(point)
    every = max(map(check_every, logs), default=1)
    return [solution(points, every) for points in found.values()]


def solution(points: Sequence[JacobiPoint], every: int) -> Solution:
    """Return the solution of several launches.  One failure fails it; numbers come from the launches that have them.

    Args:
        points: of one transport, one at least.
        every: iterations from one residual to the next.
    """
    worst = next((point for status in ("failed", "skipped") for point in points if point.status == status), points[0])
    measured = [point for point in points if point.status == "ok" and point.batch_s] if worst.status == "ok" else []
    copies = [point.copy_bytes / copy_s for point in measured for copy_s in point.copy_s]
    return Solution(
        point=measured[0] if measured else worst,
        check_every=every,
        launches=len(points),
        time=across_launches([_iterations_s(point) for point in measured]) if measured else None,
        run_s=median([sum(point.batch_s) for point in measured]) if measured else None,
        communication_s=median([_communication_s(point) for point in measured]) if measured else None,
        first_s=median([point.batch_s[0] for point in measured]) if measured else None,
        shares=_shares(measured),
        parts_s=_parts_s(measured),
        copy_Bps=median(copies) if copies else None,
        messages_timed=sum(point.messages_timed for point in points),
        messages_verified=sum(point.messages_verified for point in points),
    )


def _iterations_s(point: JacobiPoint) -> list[float]:
    """Seconds of an iteration in each batch but the first, which also wakes up memory and connections."""
    means = [elapsed / n for elapsed, n in zip(point.batch_s, point.batch_iterations, strict=True)]
    return means[1:] or means


def _communication_s(point: JacobiPoint) -> float:
    return sum(parts.pack_s + parts.exchange_s for parts in point.parts) / max(1, len(point.parts))


def _parts_s(points: Sequence[JacobiPoint]) -> dict[str, float]:
    """Return the seconds of each part in an iteration."""
    iterations = sum(len(point.parts) * point.iterations for point in points)
    return {name: spent_s / iterations for name, spent_s in _sums(points).items()} if iterations else {}


def _shares(points: Sequence[JacobiPoint]) -> dict[str, float]:
    """Return the share of each part in all ranks' and launches' time."""
    sums = _sums(points)
    whole = sum(sums.values())
    return {name: spent_s / whole for name, spent_s in sums.items()} if whole > 0 else {}


def _sums(points: Sequence[JacobiPoint]) -> dict[str, float]:
    every = [parts for point in points for parts in point.parts]
    return {name: sum(getattr(parts, f"{name}_s") for parts in every) for name in PARTS}


# ----------------------------------------------------------------------------------------------------- scaling

ScalingKind = Literal["strong", "weak"]


@dataclass(frozen=True)
class ScalingStep:
    """One number of processes, compared with one process."""

    solution: Solution
    kind: ScalingKind
    iteration_s: float
    beyond_s: float
    """Seconds of an iteration beyond the ideal: T(1) / n if strong, T(1) if weak."""
    efficiency: float
    """Parallel efficiency: strong T(1) / (n T(n)), weak T(1) / T(n)."""


def scaling_chains(found: Iterable[Solution]) -> list[list[ScalingStep]]:
    """Find the solutions that show scaling: the same transport and kind of problem on one process and on others.

    Strong: the global domain is the same.  Weak: the domain of each process is.
    """
    measured = [(solution, solution.iteration_s) for solution in found if solution.iteration_s]
    kinds: tuple[ScalingKind, ...] = ("strong", "weak")
    chains: list[list[ScalingStep]] = []
    for kind, (one, one_s) in product(kinds, measured):
        others = [each for each in measured if each[0].ranks > 1 and _problem(each[0], kind) == _problem(one, kind)]
        if one.ranks == 1 and others:
            others.sort(key=lambda each: (each[0].ranks, each[0].grid))
            chains.append([_step(solution, kind, n_s, one_s) for solution, n_s in ((one, one_s), *others)])
    return chains


def _problem(solution: Solution, kind: ScalingKind) -> tuple[object, ...]:
    """Return what solutions must have in common."""
    point, size = solution.point, solution.whole if kind == "strong" else solution.domain
    return point.transport, point.precision, point.overlap, solution.check_every, point.memory, size


def _step(solution: Solution, kind: ScalingKind, iteration_s: float, one_s: float) -> ScalingStep:
    ideal_s = one_s / solution.ranks if kind == "strong" else one_s
    return ScalingStep(solution, kind, iteration_s, iteration_s - ideal_s, ideal_s / iteration_s)
