"""Strong and weak scaling of ``volley jacobi``: solutions on several numbers of processes, held against one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from volley.solution import Solution
from volley.text import digits, harmless

Kind = Literal["strong", "weak"]


@dataclass(frozen=True)
class Step:
    """One number of processes beside one process."""

    solution: Solution
    one_s: float
    """Seconds of an iteration on one process."""
    kind: Kind

    @property
    def iteration_s(self) -> float:
        """Seconds of an iteration."""
        return self.solution.iteration_s or float("nan")

    @property
    def ideal_s(self) -> float:
        """Seconds that an iteration would take if processes cost each other nothing."""
        return self.one_s / self.solution.ranks if self.kind == "strong" else self.one_s

    @property
    def beyond_s(self) -> float:
        """Seconds that an iteration takes beyond that."""
        return self.iteration_s - self.ideal_s

    @property
    def efficiency(self) -> float:
        """Parallel efficiency: strong T(1) / (n T(n)), weak T(1) / T(n)."""
        return self.ideal_s / self.iteration_s


def steps(found: Iterable[Solution]) -> list[list[Step]]:
    """Find the solutions that show scaling: the same transport and kind of problem on one process and on others.

    Strong: the global domain is the same.  Weak: the domain of each process is.
    """
    measured = [solution for solution in found if solution.iteration_s]
    chains: list[list[Step]] = []
    kinds: tuple[Kind, ...] = ("strong", "weak")
    for kind in kinds:
        for one in (solution for solution in measured if solution.ranks == 1):
            others = [each for each in measured if each.ranks > 1 and _alike(one, each, kind)]
            ordered = sorted(others, key=lambda each: (each.ranks, each.topology))
            if ordered:
                chains.append([Step(each, one.iteration_s or 0.0, kind) for each in (one, *ordered)])
    return chains


def _alike(one: Solution, other: Solution, kind: Kind) -> bool:
    def key(solution: Solution) -> tuple[object, ...]:
        size = solution.whole if kind == "strong" else solution.domain
        return solution.transport, solution.precision, solution.overlap, solution.check_every, solution.memory, size

    return key(one) == key(other)


def lines(chain: list[Step]) -> Iterator[str]:
    """Yield a heading and one line for each number of processes."""
    one = chain[0]
    size = one.solution.whole if one.kind == "strong" else one.solution.domain
    where = "in all" if one.kind == "strong" else "a process"
    yield (
        f"{one.kind} scaling, {harmless(one.solution.transport)}, {size[0]} × {size[1]} points {where}, "
        f"{one.solution.precision}; efficiency is held against one process"
    )
    for step in chain:
        across, along = step.solution.topology
        rate = (step.solution.updates_per_s or 0.0) / 1e9
        more = "" if step is one else f", {step.beyond_s * 1e6:+.1f} µs beside the ideal"
        yield (
            f"  {across} × {along}: {digits(step.iteration_s * 1e3)} ms an iteration, {digits(rate)} GLU/s, "
            f"efficiency {step.efficiency * 100:.1f} %{more}"
        )
