"""Trying a transport in a job of its own, because failure there is a crash.

An MPI that is not CUDA-aware does not refuse a device pointer: it reads it as host memory and ends in SIGSEGV. So
``aware`` is tried first between two ranks that have nothing to lose; what MPI says of itself is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from volley import engine
from volley.machine import ucx_protocols
from volley.machine.mpi_stack import Stack
from volley.machine.ucx_protocols import Protocols
from volley.records import Matrix, Plan, Sampling
from volley.records_io import RunLog

RISKY = "aware"
SIZES = [8, 1 << 20]
"""One message that UCX sends eagerly and one that it sends by rendezvous: they take different ways."""

WATCHDOG_S = 20.0

_MOST_LINES = 10_000
"""UCX's tables are long: ten to twenty lines for each operation, connection and rank."""


@dataclass(frozen=True)
class Tried:
    """What came of it."""

    excluded: dict[str, str] = field(default_factory=dict)
    """What must not be opened, and why."""
    protocols: Protocols | None = None
    """What UCX said it does; ``None`` where nothing was sent."""


def attempt(plan: Plan, command: Sequence[str], environment: Mapping[str, str], stack: Stack) -> Tried:
    """Try what is risky among the plan's transports, and let UCX tell how it sends.

    The tables that UCX prints are asked for here and not in the job that is measured, which stays as it was.

    Args:
        plan: the plan that will be measured.
        command: the launcher's command line, the same as for the measurement.
        environment: the whole environment of that command.
        stack: what the job runs on, for the reason.
    """
    if RISKY not in plan.transports:
        return Tried()
    pair = plan.world_size == 2
    # UCX may treat the sends of a ping-pong and of a stream in different ways.
    benchmark: Literal["pingpong", "stream"] = "stream" if plan.benchmark == "stream" else "pingpong"
    trial = Plan(
        benchmark=benchmark if pair else "matrix",
        world_size=plan.world_size,
        transports=[RISKY],
        sizes_bytes=SIZES if pair else [],
        matrix=Matrix(latency_sizes_bytes=[] if pair else SIZES, pairs=[] if pair else [[0, 1]]),
        sampling=Sampling(mode="fixed", warmup=1, iterations=1),
        stream=plan.stream,
        share_device=plan.share_device,
        watchdog_s=WATCHDOG_S,
        launch=plan.launch,
    )
    log = RunLog()
    talkative = {**environment, **ucx_protocols.VARIABLES}
    with engine.Running(command, talkative, most_lines=_MOST_LINES) as running:
        for _, record in running.records(trial):
            log.add(record)
    if log.end is None:
        found = f"tried in a job of its own, MPI on a device pointer failed: {_cause(running.ending)}"
        return Tried({RISKY: f"{found}; {_remedy(stack)}"})
    if "ok" not in log.statuses:
        return Tried()  # the engine itself says why it cannot be used
    return Tried(protocols=ucx_protocols.parse(running.ending.others))


def alone(engine_words: Sequence[str], environment: Mapping[str, str], stack: Stack) -> dict[str, str]:
    """Try it inside a foreign launcher, where no second rank can be started: one process sends to itself.

    That is the weaker evidence: a device pointer that MPI takes for host memory ends this process as it would end two,
    but how MPI reaches the other GPU is not tried.

    Args:
        engine_words: the engine with its arguments, without a launcher.
        environment: this rank's environment without what makes it a rank.
        stack: what the job runs on, for the reason.
    """
    trial = Plan(benchmark="probe", world_size=1, transports=[RISKY], sizes_bytes=SIZES, watchdog_s=WATCHDOG_S)
    log = RunLog()
    with engine.Running(engine_words, environment) as running:
        for _, record in running.records(trial):
            log.add(record)
    if log.end is None:
        found = f"tried by sending to itself, MPI on a device pointer failed: {_cause(running.ending)}"
        return {RISKY: f"{found}; {_remedy_inside(stack)}"}
    return {each.transport: each.reason or "" for each in log.transports if not each.available}


def _cause(ending: engine.Ending) -> str:
    """Name the signal where the launcher's text does; its exit status is not that of the rank."""
    for line in ending.others:
        for name in ("SIGSEGV", "SIGBUS", "SIGABRT"):
            if name in line:
                return f"{name} in MPI_Send or MPI_Recv"
        if "Segmentation fault" in line:
            return "SIGSEGV in MPI_Send or MPI_Recv"
    return ending.reason()


def _remedy_inside(stack: Stack) -> str:
    """Say the same to somebody whose launcher started the ranks without what volley would have given them."""
    if stack.mca or stack.environment:
        return "start volley plainly, without a launcher, and it puts a CUDA-aware MPI together"
    return _remedy(stack)


def _remedy(stack: Stack) -> str:
    """Say what would make this MPI CUDA-aware."""
    if stack.mca or stack.environment:
        return f"the stack was {stack.describe()}"
    if stack.built.mpi_source == "wheel":
        return "this MPI uses no CUDA-aware UCX: pip install 'volley-bench[cuda13]'"
    return f"{stack.describe()} is not CUDA-aware: build against one that is, with MPI_HOME"
