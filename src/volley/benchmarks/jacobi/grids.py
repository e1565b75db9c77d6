"""Grids of processes: plain arithmetic."""

from __future__ import annotations

import math

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
