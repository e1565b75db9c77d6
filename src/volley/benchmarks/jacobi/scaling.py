"""Strong and weak scaling: solutions on several numbers of processes, compared with one process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from volley.benchmarks.jacobi.results import Solution

ScalingKind = Literal["strong", "weak"]


@dataclass(frozen=True)
class ScalingStep:
    """One number of processes beside one process."""

    solution: Solution
    one_s: float
    """Seconds of an iteration on one process."""
    kind: ScalingKind

    @property
    def iteration_s(self) -> float:
        """Seconds of an iteration."""
        return self.solution.iteration_s or float("nan")

    @property
    def ideal_s(self) -> float:
        """Seconds of an iteration if processes cost each other nothing."""
        return self.one_s / self.solution.ranks if self.kind == "strong" else self.one_s

    @property
    def beyond_s(self) -> float:
        """Seconds that an iteration takes beyond the ideal."""
        return self.iteration_s - self.ideal_s

    @property
    def efficiency(self) -> float:
        """Parallel efficiency: strong T(1) / (n T(n)), weak T(1) / T(n)."""
        return self.ideal_s / self.iteration_s


def scaling_chains(found: Iterable[Solution]) -> list[list[ScalingStep]]:
    """Find the solutions that show scaling: the same transport and kind of problem on one process and on others.

    Strong: the global domain is the same.  Weak: the domain of each process is.
    """
    measured = [solution for solution in found if solution.iteration_s]
    chains: list[list[ScalingStep]] = []
    kinds: tuple[ScalingKind, ...] = ("strong", "weak")
    for kind in kinds:
        for one in (solution for solution in measured if solution.ranks == 1):
            others = [each for each in measured if each.ranks > 1 and _problem(one, kind) == _problem(each, kind)]
            ordered = sorted(others, key=lambda each: (each.ranks, each.grid))
            if ordered:
                chains.append([ScalingStep(each, one.iteration_s or 0.0, kind) for each in (one, *ordered)])
    return chains


def _problem(solution: Solution, kind: ScalingKind) -> tuple[object, ...]:
    """Return what solutions must have in common."""
    size = solution.whole if kind == "strong" else solution.domain
    return solution.transport, solution.precision, solution.overlap, solution.check_every, solution.memory, size
