"""From the records of a solver to the numbers that reports show.

All quantities are in SI units.  docs/method derives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Literal

from volley.benchmarks.jacobi.records import VALUE_BYTES, JacobiPlan, JacobiPoint
from volley.records.launch_series import LaunchSeries, series_of, software
from volley.records.record_types import Run, Status
from volley.records.run_log import Observable, RunLog
from volley.statistics.estimates import Estimate, median
from volley.statistics.launches import Repeated

FLOPS = 5
"""Floating-point operations an update, as NVIDIA's example counts them: three additions, a multiplication and the
subtraction of the residual."""

ALGORITHMIC_VALUES = 8
"""Values that NVIDIA's example counts as read or written in an update ("device bandwidth"): its kernel's six, and two
of the copy back that follows; 64 bytes in double precision."""

COMPULSORY_VALUES = 2
"""Values that must move: each is read from memory once and written once."""


PARTS = ("interior", "edges", "pack", "exchange", "reduction")


def _halos_s(point: JacobiPoint) -> float:
    return sum(parts.pack_s + parts.exchange_s for parts in point.parts) / max(1, len(point.parts))


def _over_launches(of: Callable[[JacobiPoint], Sequence[float | None]]) -> property:
    """Return the median of what the points of all launches have; ``None`` if they have nothing."""

    def value(self: Solution) -> float | None:
        found = [each for point in self.measured.values() for each in of(point) if each is not None]
        return median(found) if found else None

    return property(value)


@dataclass(frozen=True)
class Solution:
    """One problem on one transport, over all launches of the same request.  One failure fails it."""

    by_launch: Mapping[int, JacobiPoint]
    """By number of the launch, one at least."""
    check_every: int
    """Number of iterations between two residuals."""
    run: Run | None = None
    """That of the first launch."""

    @cached_property
    def measured(self) -> Mapping[int, JacobiPoint]:
        """The launches that have numbers; none if one failed or was skipped."""
        good = self._worst.status == "ok"
        return {launch: point for launch, point in self.by_launch.items() if good and point.batch_s}

    @cached_property
    def _worst(self) -> JacobiPoint:
        return min(self.by_launch.values(), key=lambda point: ("failed", "skipped", "ok").index(point.status))

    @cached_property
    def point(self) -> JacobiPoint:
        """The first launch that has numbers; if a launch failed, that one."""
        return next(iter(self.measured.values()), self._worst)

    @property
    def launches(self) -> int:
        return len(self.by_launch)

    @property
    def transport(self) -> str:
        return self.point.transport

    @property
    def status(self) -> Status:
        return self.point.status

    @property
    def ranks(self) -> int:
        return math.prod(self.point.grid)

    @property
    def residual(self) -> float | None:
        return self.point.residuals[-1].residual if self.point.residuals else None

    @property
    def messages_timed(self) -> int:
        return sum(point.messages_timed for point in self.by_launch.values())

    @property
    def messages_verified(self) -> int:
        return sum(point.messages_verified for point in self.by_launch.values())

    @property
    def sends(self) -> bool:
        return bool(self.measured)

    @property
    def whole(self) -> tuple[int, int]:
        (across, along), (columns, rows) = self.point.grid, self.point.domain
        return across * columns, along * rows

    @cached_property
    def repeated(self) -> Repeated | None:
        """Seconds of an iteration in the steady state, of the mean of each batch.

        The first batch also wakes up memory and connections.  It is left out where there are others.
        """
        means = {
            launch: [elapsed_s / many for elapsed_s, many in zip(point.batch_s, point.batch_iterations, strict=True)]
            for launch, point in self.measured.items()
        }
        return Repeated.of({launch: each[1:] or each for launch, each in means.items()}) if means else None

    @property
    def time(self) -> Estimate | None:
        return self.repeated.estimate if self.repeated else None

    @property
    def halos_s(self) -> dict[int, float]:
        """Seconds of packing, sending and awaiting halos in an iteration, the mean over ranks, by launch."""
        return {launch: _halos_s(point) / max(1, point.iterations) for launch, point in self.measured.items()}

    @property
    def iteration_s(self) -> float | None:
        return self.time.median if self.time else None

    run_s = _over_launches(lambda point: [sum(point.batch_s)])
    """Seconds of all iterations, the first included."""
    first_s = _over_launches(lambda point: point.batch_s[:1])
    """Seconds of the first iteration, on fresh memory."""
    communication_s = _over_launches(lambda point: [_halos_s(point)])
    """Seconds of packing, sending and awaiting halos in all iterations; of a single process 0."""
    cold_exchange_s = _over_launches(lambda point: [point.cold_exchange_s])
    """Seconds of the first exchange of halos."""
    copy_Bps = _over_launches(lambda point: [point.copy_bytes / copy_s for copy_s in point.copy_s])
    """Bytes read and written a second while all ranks copy the same field."""

    @cached_property
    def _spent_s(self) -> dict[str, float]:
        every = [parts for point in self.measured.values() for parts in point.parts]
        return {name: sum(getattr(parts, f"{name}_s") for parts in every) for name in PARTS}

    @property
    def shares(self) -> dict[str, float]:
        """The parts of the ranks' time; nothing of GPUs, where the parts overlap."""
        if self.point.memory == "device":
            return {}
        whole_s = sum(self._spent_s.values())
        return {name: spent_s / whole_s for name, spent_s in self._spent_s.items()} if whole_s > 0 else {}

    @property
    def parts_s(self) -> dict[str, float]:
        """Seconds of each part in an iteration, the mean over ranks and launches; on a GPU the parts overlap."""
        iterations = sum(len(point.parts) * point.iterations for point in self.measured.values())
        return {name: spent_s / iterations for name, spent_s in self._spent_s.items()} if iterations else {}

    @property
    def updates(self) -> int:
        """Points that an iteration updates: all but the outermost of the global domain."""
        columns, rows = self.whole
        return (columns - 2) * (rows - 2)

    @property
    def updates_per_s(self) -> float | None:
        return self.updates / self.iteration_s if self.iteration_s else None

    @property
    def overall_updates_per_s(self) -> float | None:
        """Lattice updates a second of run time, as NVIDIA's example states them."""
        return self.updates * self.point.iterations / self.run_s if self.run_s else None

    @property
    def compulsory_bytes(self) -> int:
        return COMPULSORY_VALUES * VALUE_BYTES[self.point.precision]

    @property
    def algorithmic_bytes(self) -> int:
        """Bytes an update as NVIDIA's example counts them."""
        return ALGORITHMIC_VALUES * VALUE_BYTES[self.point.precision]

    @property
    def compulsory_Bps(self) -> float | None:
        return self.updates_per_s * self.compulsory_bytes if self.updates_per_s else None

    @property
    def of_copy(self) -> float | None:
        return self.compulsory_Bps / self.copy_Bps if self.compulsory_Bps and self.copy_Bps else None

    @property
    def verified(self) -> bool | None:
        """Halos of batches were compared and all were right; ``None``: a process without neighbours has none."""
        compares = not self.run or self.run.plan.verify  # without it, only the first halos are compared
        return None if self.ranks == 1 else compares and self.status == "ok" and self.messages_verified > 0


@dataclass(frozen=True)
class JacobiResults:
    """The solutions of one series of launches, one a transport."""

    series: LaunchSeries
    solutions: list[Solution]
    chains: Sequence[Sequence[ScalingStep]] = ()
    """How all series together scale; the last one has it."""


def results(logs: Sequence[RunLog]) -> list[JacobiResults]:
    found = [JacobiResults(each, solutions(each.logs)) for each in series_of(logs)]
    chains = scaling_chains(solution for each in found for solution in each.solutions)
    return [*found[:-1], *(replace(last, chains=chains) for last in found[-1:])]


def check_every(log: RunLog) -> int:
    """Return the iterations from one residual to the next; 1 where the plan is missing."""
    options = log.run.plan.options if log.run else None
    return options.check_every if isinstance(options, JacobiPlan) else 1


def solutions(logs: Sequence[RunLog]) -> list[Solution]:
    found: dict[str, dict[int, JacobiPoint]] = {}
    for launch, log in enumerate(logs, start=1):
        for point in log.of(JacobiPoint):
            found.setdefault(point.transport, {})[launch] = point
    every = max(map(check_every, logs), default=1)
    run = next((log.run for log in logs if log.run), None)
    return [Solution(points, every, run) for points in found.values()]


def observables(log: RunLog) -> Iterator[Observable]:
    """Yield the time of an iteration of each solution: in the steady state, and over the whole run as NVIDIA's example
    states it, with the communication in it."""
    for solution in solutions([log]):
        point = solution.point
        (across, along), (columns, rows) = point.grid, point.domain
        problem = f"{across} × {along} of {columns} × {rows} {point.precision}"
        for what, seconds, iterations in (
            ("iteration", solution.iteration_s, 1),
            ("run / iterations", solution.run_s, point.iterations),
            ("communication / iterations", solution.communication_s, point.iterations),
        ):
            if seconds and iterations:
                work = None if what.startswith("communication") else solution.updates
                yield Observable(solution.transport, [f"{problem}, {what}"], [seconds / iterations], work)


ScalingKind = Literal["strong", "weak"]


@dataclass(frozen=True)
class ScalingStep:
    """One number of processes, compared with one process."""

    solution: Solution
    kind: ScalingKind
    beyond_s: float | None
    """Seconds of an iteration beyond the ideal: T(1) / n if strong, T(1) if weak."""
    efficiency: float | None
    """Parallel efficiency: strong T(1) / (n T(n)), weak T(1) / T(n); ``None``: the one process has other threads."""


def scaling_chains(found: Iterable[Solution]) -> list[list[ScalingStep]]:
    """Find solutions that show scaling: the same problem and transport on one process and on several of its machine.

    Strong: the global domain is the same.  Weak: the domain of each process is.
    """
    measured = [each for each in found if each.time]
    measured.sort(key=lambda each: (each.ranks, each.point.grid))
    kinds: tuple[ScalingKind, ...] = ("strong", "weak")
    chains: list[list[ScalingStep]] = []
    for kind, one in product(kinds, (each for each in measured if each.ranks == 1)):
        others = [
            each
            for each in measured
            if each.ranks > 1 and _comparable(each, kind) == _comparable(one, kind) and _places(one) <= _places(each)
        ]
        if others:
            chains.append([_step(each, kind, one) for each in (one, *others)])
    return chains


def _step(solution: Solution, kind: ScalingKind, one: Solution) -> ScalingStep:
    if solution.point.threads != one.point.threads:
        return ScalingStep(solution, kind, None, None)
    iteration_s, one_s = solution.iteration_s or 0.0, one.iteration_s or 0.0
    ideal_s = one_s / solution.ranks if kind == "strong" else one_s
    return ScalingStep(solution, kind, iteration_s - ideal_s, ideal_s / iteration_s)


def _places(solution: Solution) -> set[tuple[str, str, str]]:
    """Return the hosts with the processors and the GPUs: host names such as ``vm`` are not enough."""
    ranks = solution.run.ranks if solution.run else []
    return {(rank.host, rank.cpu, rank.device.uuid if rank.device else "") for rank in ranks}


def _comparable(solution: Solution, kind: ScalingKind) -> tuple[object, ...]:
    point, size = solution.point, solution.whole if kind == "strong" else tuple(solution.point.domain)
    programs = solution.run and software(solution.run)
    return point.transport, point.precision, point.overlap, solution.check_every, point.memory, size, programs
