"""The options of ``volley jacobi``, and how they become a request; they are declared as those of ``volley.options``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from volley.errors import UserError
from volley.records import Jacobi

_WHAT, _HOW = "What to solve", "How to measure"

DEFAULT_DOMAIN = (4096, 4096)
_ALONE = (1, 1)
DEFAULTS = Jacobi(topology=list(_ALONE), domain=list(DEFAULT_DOMAIN))
FEWEST_POINTS = 3
"""Along x or y: a point and its two neighbours."""

Topology = Annotated[
    tuple[int, int] | None,
    typer.Option(
        metavar="TX TY",
        rich_help_panel=_WHAT,
        help="Processes along x and along y.",
        show_default="as square as the ranks allow",
    ),
]
Domain = Annotated[
    tuple[int, int],
    typer.Option(metavar="DX DY", rich_help_panel=_WHAT, help="Points of each process along x and along y."),
]
Exchange = Annotated[
    list[str] | None,
    typer.Option(
        "--exchange",
        "-x",
        metavar="NAME,…",
        rich_help_panel=_WHAT,
        help="Transports of the halos, one solution each. host: solver and halos on the CPU.",
        show_default="host",
    ),
]
Precision = Annotated[str, typer.Option(metavar="double|float", rich_help_panel=_WHAT, help="8 or 4 bytes a point.")]
Iterations = Annotated[int, typer.Option(min=1, metavar="N", rich_help_panel=_WHAT, help="At most so many iterations.")]
Tolerance = Annotated[
    float,
    typer.Option(metavar="NUMBER", rich_help_panel=_WHAT, help="End when no point changes by more than this."),
]
CheckEvery = Annotated[
    int, typer.Option(min=1, metavar="N", rich_help_panel=_WHAT, help="Iterations from one residue to the next.")
]
Overlap = Annotated[
    bool,
    typer.Option(
        "--overlap/--no-overlap",
        rich_help_panel=_HOW,
        help="Compute the points that need no halo while the halos are on their way.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", rich_help_panel=_HOW, help="Threads of each rank.", show_default="its share of the cores"
    ),
]
Scaling = Annotated[
    str | None,
    typer.Option(
        metavar="strong|weak",
        rich_help_panel=_WHAT,
        help="Solve on 1 process, then on grids up to --topology: strong, the same points in all; weak, the same "
        "points a process.",
        show_default="that grid alone",
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify",
        rich_help_panel=_HOW,
        help="Compare the last halos of every batch of iterations with what was sent, byte for byte, untimed.",
    ),
]


def problem(options: Mapping[str, Any]) -> Jacobi:
    """Turn the parsed options into the plan's part; the topology is settled when the ranks are known.

    Raises:
        UserError: naming the option and the nearest valid form.
    """
    across, along = options["domain"]
    if min(across, along) < FEWEST_POINTS:
        raise UserError(
            f"--domain {across} {along}: a domain has at least {FEWEST_POINTS} points along x and along y, "
            f"e.g. --domain {max(across, FEWEST_POINTS)} {max(along, FEWEST_POINTS)}"
        )
    most = (1 << 31) - 1
    if max(across, along) > most:
        raise UserError(f"--domain {across} {along}: at most {most} points along x or along y")
    if options["precision"] not in {"double", "float"}:
        raise UserError(f"--precision: there is no {options['precision']!r}; choose double or float")
    tolerance = options["tolerance"]
    if not 0 < tolerance < float("inf"):
        raise UserError(f"--tolerance: {tolerance:g} is no size of a change: write a number above 0, e.g. 1e-5")
    if options.get("scaling") not in {None, "strong", "weak"}:
        raise UserError(f"--scaling: there is no {options['scaling']!r}; choose strong or weak")
    topology = options["topology"]
    if topology and min(topology) < 1:
        raise UserError(f"--topology {topology[0]} {topology[1]}: a grid has at least 1 process along x and along y")
    return Jacobi(
        topology=list(topology or _ALONE),
        domain=[across, along],
        precision=options["precision"],
        iterations=options["iterations"],
        tolerance=tolerance,
        check_every=options["check_every"],
        overlap=options["overlap"],
        threads=options["threads"],
    )


def steps(topology: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the grids from 1 × 1 to this one: before each comes one whose longer side is divided by its least prime.

    Every grid divides the last, so that the same points in all can be shared out among each.
    """
    chain = [topology]
    while chain[0] != (1, 1):
        across, along = chain[0]
        longer = max(across, along)
        prime = next((number for number in range(2, math.isqrt(longer) + 1) if longer % number == 0), longer)
        chain.insert(0, (across // prime, along) if across >= along else (across, along // prime))
    return chain


def grids(ranks: int) -> list[tuple[int, int]]:
    """Return every grid of so many processes."""
    few = [number for number in range(1, math.isqrt(ranks) + 1) if ranks % number == 0]
    many = [ranks // number for number in reversed(few) if number * number != ranks]
    return [(across, ranks // across) for across in (*few, *many)]


def squarest(ranks: int) -> tuple[int, int]:
    """Return the grid whose sides are nearest to each other, the longer one along x."""
    return min((grid for grid in grids(ranks) if grid[0] >= grid[1]), key=lambda grid: grid[0] - grid[1])
