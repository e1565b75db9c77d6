"""From a request to a plan: everything that can be refused before a rank starts is refused here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from volley.errors import MachineError, UserError
from volley.run.launchers.spec import cores
from volley.records import Jacobi, Matrix, Node, Plan, Sampling, Stream
from volley.solving import grids, squarest, steps
from volley.text import count, duration, harmless, several

if TYPE_CHECKING:
    from volley.engine import About
    from volley.launch.inside import Position

PAIR = 2
"""Ranks of a ping-pong or a stream: it is between two."""

MOST_USUAL_RANKS = 8
"""A matrix has no more ranks where nobody names a number: its 56 pairs take 20 s."""

WORTH_SAYING_S = 60.0
"""A matrix that is expected to take longer says so before it starts."""

LONGEST_S = 86_400.0
"""Nobody waits longer than a day for a matrix that was not given a time."""

_BESIDE_S = 0.05
"""What a pair takes beside its samples: meeting, opening, calibrating."""

MOST_COUNTED = (1 << 31) - 1
"""The engine counts in 32 bits where it can."""

MOST_IN_FLIGHT = 1 << 16
"""Messages of a window: MPI keeps a request for each, and a billion of them need more memory than a node has."""

Benchmark = Literal["pingpong", "stream", "matrix", "node", "jacobi", "probe"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for."""

    benchmark: Benchmark = "pingpong"
    transports: tuple[str, ...] = ()
    """Names; the name of a family (``staged``) stands for its members, ``all`` for everything but the test transports;
    empty: what is worth measuring on any machine."""
    sizes: tuple[int, ...] = ()
    """Message sizes in bytes."""
    sampling: Sampling = field(default_factory=Sampling)
    stream: Stream = field(default_factory=Stream)
    matrix: Matrix = field(default_factory=Matrix)
    retest: bool = True
    """Measure pairs of a matrix again that are slower than their like."""
    node: Node | None = None
    """Of the benchmark ``node``: matrices between the GPUs of one process."""
    jacobi: Jacobi | None = None
    topology: tuple[int, int] | None = None
    """Of the processes of ``jacobi``; None: as square as the ranks allow."""
    scaling: Literal["strong", "weak"] | None = None
    """``jacobi`` on several grids of processes, from one process to ``topology``."""
    verify: bool = True
    fresh_buffers: bool = False
    share_device: bool = False
    ranks: int | None = None
    hosts: tuple[str, ...] = ()
    launcher: str = "auto"
    launcher_args: tuple[str, ...] = ()
    launches: int = 1
    budget_s: float | None = None
    watchdog_s: float = 60.0
    output: Path | None = None
    format: str = "table"
    gpus: tuple[int, ...] = ()
    dry_run: bool = False


def choose_transports(asked: tuple[str, ...], about: About) -> list[str]:
    """Turn what was asked for into names from the engine's registry, in the order asked for.

    Raises:
        UserError: naming the nearest name, and all of them.
    """
    real = [transport.name for transport in about.transports if not transport.test]
    everything = [transport.name for transport in about.transports]
    if not asked:
        return [name for name in real if name != "null"]
    chosen: dict[str, None] = {}
    for name in asked:
        family = [member for member in everything if member.startswith(name + "/")]
        found = real if name == "all" else [name] if name in everything else family
        if not found:
            raise UserError(_unknown(name, real))
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def choose_exchanges(asked: tuple[str, ...], about: About) -> list[str]:
    """Turn what was asked for into names of transports that carry halos; ``host`` where nothing was.

    Raises:
        UserError: naming those that do.
    """
    carrying = [transport.name for transport in about.transports if transport.halos]
    real = [transport.name for transport in about.transports if transport.halos and not transport.test]
    if asked == ("all",):
        return real
    families = {name for name in asked if any(each.startswith(f"{name}/") for each in carrying)}
    names = [
        name
        for name in choose_transports(asked or ("host",), about)
        if name in carrying or name.partition("/")[0] not in families
    ]
    for name in names:
        if name not in carrying:
            raise UserError(f"--exchange: {name} carries no halos; those that do: {several(real)}")
    return names


def _unknown(name: str, valid: list[str]) -> str:
    import difflib  # noqa: PLC0415  start-up: only who errs needs it

    near = difflib.get_close_matches(name.lower(), [*valid, "all"], n=1)
    guess = f"; did you mean {near[0]}?" if near else ";"
    return f"there is no transport {harmless(name)!r}{guess} this engine has {several(valid)} (all for every one)"


def count_ranks(request: Request, place: Position | None, allocated: int | None = None) -> int:
    """Return how many ranks the job has or will have.

    ``allocated`` is the number that a batch system was asked for; a benchmark between two ranks takes two of them, a
    matrix all.

    Raises:
        UserError: if the benchmark does not work with that number.
    """
    if place and place.size and request.ranks not in (None, place.size):
        raise UserError(
            f"--ranks {request.ranks} was asked for inside a job of {place.size}: leave --ranks out, "
            f"or start {request.ranks} ranks"
        )
    ranks = (place.size if place else None) or request.ranks or _usual(request, allocated)
    if len(set(request.hosts)) > ranks:
        named = count(len(set(request.hosts)), "host")
        raise UserError(f"--hosts names {named} for {count(ranks, 'rank')}: name {ranks} at most")
    if request.benchmark == "jacobi":
        if request.topology and request.topology[0] * request.topology[1] != ranks:
            raise UserError(_not_a_grid(request.topology, ranks))
        return ranks
    if request.benchmark == "matrix" and ranks < PAIR:
        raise UserError(f"a matrix is between {PAIR} ranks at least, not {ranks}: write --ranks {PAIR} or more")
    if ranks != PAIR and request.benchmark in ("pingpong", "stream"):
        raise UserError(_not_a_pair(request, ranks, place))
    return ranks


def _usual(request: Request, allocated: int | None) -> int:
    """Ranks where nobody names a number here: a pair, a grid's, and all that there are for a grid, a matrix or
    a look at what works."""
    if request.topology:
        return request.topology[0] * request.topology[1]
    if request.benchmark in {"probe", "jacobi"}:
        return max(allocated or PAIR, PAIR)
    if request.benchmark == "matrix":
        return max(allocated or len(request.hosts) or min(cores(), MOST_USUAL_RANKS), PAIR)
    return PAIR


def _not_a_pair(request: Request, ranks: int, place: Position | None) -> str:
    said = f"{request.benchmark} is between {PAIR} ranks"
    if place:
        return (
            f"{said} and this job has {ranks}: start it with -n {PAIR}, "
            "or let volley start a job of its own with --launcher openmpi, mpich, srun or jsrun"
        )
    return f"{said}, not {ranks}: leave --ranks out, or write --ranks {PAIR}"


def _not_a_grid(topology: tuple[int, int], ranks: int) -> str:
    across, along = topology
    fitting = several([f"{each[0]} {each[1]}" for each in grids(ranks)], "or")
    return (
        f"--topology {across} {along} is a grid of {count(across * along, 'process')}, and the job has "
        f"{count(ranks, 'rank')}: write --topology {fitting}, or start {across * along} ranks"
    )


def in_a_hurry(request: Request) -> bool:
    """Tell whether an answer is wanted as soon as the CUDA sample has one."""
    return request.node is not None and request.node.quick


def check_sees_gpus(cuda_version: str | None) -> None:
    """Refuse the GPUs of a node where the engine's build has no CUDA.

    Raises:
        MachineError: saying what it can measure.
    """
    if cuda_version is None:
        raise MachineError(
            "this engine was built without CUDA and sees no GPU; volley matrix --transport host measures between ranks"
        )


def check_counts(request: Request) -> None:
    """Refuse numbers that no plan can hold.

    Raises:
        UserError: naming the option.
    """
    if request.launches < 1:
        raise UserError(f"--launches {request.launches}: at least 1 launch is needed")
    for option, number in _counts(request):
        if number > MOST_COUNTED:
            raise UserError(f"--{option} {number}: at most {MOST_COUNTED} can be asked for")
    if request.stream.window > MOST_IN_FLIGHT:
        raise UserError(f"--window {request.stream.window}: at most {MOST_IN_FLIGHT} messages can be in flight")
    if request.topology and math.prod(request.topology) > MOST_COUNTED:
        across, along = request.topology
        raise UserError(f"--topology {across} {along}: a job has at most {MOST_COUNTED} processes")
    if request.benchmark == "matrix":
        if not request.matrix.latency_sizes_bytes and not request.matrix.bandwidth_sizes_bytes:
            raise UserError("nothing to measure: leave out --latency none or --bandwidth none")
    elif request.benchmark in {"pingpong", "stream"} and not request.sizes:
        raise UserError("no message sizes were given: leave --sizes out for 8:1Gi")


def _counts(request: Request) -> Iterator[tuple[str, int]]:
    """The whole numbers of a request, each with its option."""
    yield "launches", request.launches
    yield "ranks", request.ranks or 0
    yield "warmup", request.sampling.warmup
    yield "iterations", request.sampling.iterations
    yield "repeats", request.matrix.repeats
    yield from (("gpus", number) for number in request.gpus)
    if request.jacobi:
        yield "iterations", request.jacobi.iterations
        yield "check-every", request.jacobi.check_every
        yield "threads", request.jacobi.threads or 0
        yield from (("topology", number) for number in request.topology or ())


def matrix_time_s(request: Request, transports: int, ranks: int) -> float:
    """Guess how long a matrix takes: pairs (loaded: halves of rounds) × cells × the time of a point."""
    sheets = len(request.matrix.latency_sizes_bytes) + len(request.matrix.bandwidth_sizes_bytes)
    loaded = request.matrix.mode == "loaded"
    turns = 2 * (ranks - 1 + ranks % 2) if loaded else ranks * (ranks - 1)
    point_s = request.sampling.point_time_s if request.sampling.mode == "adaptive" else 0.0
    return request.matrix.repeats * turns * (_BESIDE_S + sheets * transports * point_s)


def check_matrix_time(request: Request, transports: int, ranks: int) -> str | None:
    """Return a sentence about how long a matrix takes, where it takes long.

    Raises:
        UserError: if it takes longer than anybody waits, and no budget was given.
    """
    expected_s = matrix_time_s(request, transports, ranks)
    whole = f"{count(ranks * (ranks - 1), 'pair')} of {ranks} ranks"
    shorter = (
        "--mode loaded measures many pairs at once" if request.matrix.mode == "isolated" else "--ranks takes fewer"
    )
    if expected_s > LONGEST_S and request.budget_s is None:
        raise UserError(
            f"{whole} would take about {duration(expected_s)}: give it a --budget, after which the rest is skipped, "
            f"or a smaller --point-time; {shorter}"
        )
    if expected_s <= WORTH_SAYING_S or (request.budget_s or expected_s) < expected_s:
        return None
    return f"{whole} will take about {duration(expected_s)}; --point-time and --budget shorten it; {shorter}"


def scaled(request: Request, ranks: int) -> list[Request]:
    """Return a request for each grid that shows how a solution scales, the last one as it was asked for.

    Args:
        request: of ``volley jacobi``, with ``scaling``.
        ranks: processes of the last.
    """
    last = request.topology or squarest(ranks)
    assert request.jacobi is not None
    across, along = request.jacobi.domain
    found = []
    for grid in steps(last):
        share = (last[0] // grid[0], last[1] // grid[1]) if request.scaling == "strong" else (1, 1)
        domain = [across * share[0], along * share[1]]
        if max(domain) > MOST_COUNTED:
            raise UserError(
                f"--scaling strong: {count(grid[0] * grid[1], 'process')} would have {domain[0]} × {domain[1]} points "
                f"each, and at most {MOST_COUNTED} along x or along y can be had: choose a smaller --domain"
            )
        problem = msgspec.structs.replace(request.jacobi, domain=domain)
        found.append(replace(request, topology=grid, ranks=grid[0] * grid[1], jacobi=problem, scaling=None))
    return found


def make_plan(request: Request, transports: Iterable[str], ranks: int, launch: dict[str, Any]) -> Plan:
    """Write down what to measure; ``launch`` says how the job was started."""
    grid = list(request.topology or squarest(ranks))
    jacobi = msgspec.structs.replace(request.jacobi, topology=grid) if request.jacobi else msgspec.UNSET
    return Plan(
        benchmark=request.benchmark,
        world_size=ranks,
        transports=list(transports),
        sizes_bytes=list(request.sizes),
        sampling=request.sampling,
        stream=request.stream,
        matrix=request.matrix,
        node=request.node or msgspec.UNSET,
        jacobi=jacobi,
        verify=request.verify,
        fresh_buffers=request.fresh_buffers,
        share_device=request.share_device,
        budget_s=request.budget_s,
        watchdog_s=request.watchdog_s,
        launch=_utf8(launch),
    )


def _utf8(value: Any) -> Any:
    """Escape what is no UTF-8, such as an odd byte in a path: a plan is UTF-8."""
    if isinstance(value, dict):
        return {name: _utf8(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_utf8(inner) for inner in value]
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
