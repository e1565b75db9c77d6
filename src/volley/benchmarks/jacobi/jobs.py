"""The jobs of a Jacobi solver: launches on one grid of processes, or on several grids for scaling."""

from __future__ import annotations

import math
from typing import Any

from volley.benchmarks.jacobi import JacobiOptions
from volley.benchmarks.jacobi.records import JacobiPlan, JacobiProgress
from volley.errors import UserError
from volley.run.jobs import PAIR, Job, Jobs, Site, choose_transports, count_ranks, launches, make_plan
from volley.run.plan import Plan
from volley.run.progress import Forecast
from volley.text import count, join_words
from volley.units import LARGEST_COUNT

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


def jobs(options: JacobiOptions, site: Site) -> Jobs:
    """Describe the launches, one grid after another."""
    grid = _grid(options, site)
    ranks = math.prod(grid)
    if options.scaling and site.position and ranks > 1:
        raise UserError(
            f"--scaling {options.scaling}: a launcher started this job with {count(ranks, 'rank')}, and scaling takes "
            "jobs of other sizes too: start volley without a launcher"
        )
    transports = choose_transports(options.points.transport, site, usual=("host",), halos=True)
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
        planned += launches(plan, options.job)
    return Jobs(tuple(planned))


def _grid(options: JacobiOptions, site: Site) -> Grid:
    """Return the grid of all ranks; a UserError says that the requested one has more processes, or fewer."""
    usual = math.prod(options.grid) if options.grid else max(site.ranks_given or PAIR, PAIR)
    ranks = count_ranks(options.job, site, usual=usual)
    across, along = grid = options.grid or squarest(ranks)
    if across * along != ranks:
        fitting = join_words([f"{each[0]} {each[1]}" for each in grids(ranks)], "or")
        raise UserError(
            f"--grid {across} {along} is a grid of {count(across * along, 'process')}, and the job has "
            f"{count(ranks, 'rank')}: write --grid {fitting}, or start {across * along} ranks"
        )
    return grid


def _domain_on(grid: Grid, last: Grid, options: JacobiOptions) -> tuple[int, int]:
    """Return the points of each process on one of the grids; strong scaling keeps the global domain.

    Raises:
        UserError: if no plan can hold them.
    """
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
    """Repeats what the engine expects, which knows its transports."""

    _elapsed_s = _left_s = 0.0

    def add(self, record: Any) -> str | None:
        """Take what the engine says: ``host: 350 iterations``."""
        if not isinstance(record, JacobiProgress):
            return None
        self._elapsed_s, self._left_s = record.elapsed_s, record.left_s
        return f"{record.transport}: {count(record.iterations, 'iteration')}"

    def left_s(self, elapsed_s: float) -> float:
        return self._left_s

    def fraction(self, elapsed_s: float) -> float:
        whole_s = self._elapsed_s + self._left_s
        return min(self._elapsed_s / whole_s, 0.99) if whole_s > 0 else 0.0


def forecast(_: Plan) -> Forecast:
    return JacobiForecast()
