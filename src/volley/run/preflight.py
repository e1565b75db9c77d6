"""Preflight: a transport whose failure is a crash is tried in a job of its own.

An MPI that is not CUDA-aware does not refuse a device pointer: it reads it as host memory and ends in SIGSEGV. So
``aware`` is tried first between two ranks that have nothing to lose; what MPI says of itself is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from volley.document import Frozen, Positive
from volley.machine import ucx_protocols
from volley.machine.mpi_stack import Stack
from volley.machine.signals import fatal_signal
from volley.machine.ucx_protocols import Protocols
from volley.run.engine import Ending, EngineProcess, Stop
from volley.run.plan import Plan, Sampling

RISKY = "aware"
SIZES = [8, 1 << 20]
"""One message that UCX sends eagerly and one that it sends by rendezvous: they take different ways."""

WATCHDOG_S = 20.0

_MOST_LINES = 10_000
"""UCX's tables are long: ten to twenty lines for each operation, connection and rank."""


SELF_SEND = "self_send"
"""The engine's benchmark of one rank that sends to itself: no command shows it."""


class SelfSendPlan(Frozen, frozen=True, kw_only=True):
    """One rank sends to itself: whether MPI takes device memory inside a launcher, where no second rank can start."""

    sizes_bytes: list[Positive]


@dataclass(frozen=True)
class Preflight:
    """What came of it."""

    excluded: dict[str, str] = field(default_factory=dict)
    """What must not be opened, and why."""
    protocols: Protocols | None = None
    """What UCX said it does; ``None`` where nothing was sent."""


@dataclass(frozen=True)
class _Tried:
    """What the records of a small job say."""

    ended: bool
    """It came to its last record."""
    sent: bool
    """A message arrived."""
    refused: str | None
    """Why the engine itself does not use the transport."""
    ending: Ending


def between_two(
    plan: Plan, command: Sequence[str], environment: Mapping[str, str], stack: Stack, stop: Stop
) -> Preflight:
    """Send between the first two ranks of a job like the one that will be measured, and let UCX tell how it sends.

    UCX treats single sends and many in flight in different ways, so both are sent.  The tables that UCX prints are
    asked for here and not in the job that is measured, which stays as it was.

    Args:
        plan: the plan that will be measured.
        command: the launcher's command line, the same as for the measurement.
        environment: the whole environment of that command.
        stack: what the job runs on, for the reason.
        stop: who asks to stop.
    """
    options = {"latency_sizes_bytes": SIZES, "bandwidth_sizes_bytes": SIZES, "window": 2, "pairs": [[0, 1]]}
    small = Plan(
        benchmark="rank_matrix",
        world_size=plan.world_size,
        transports=[RISKY],
        options=options,
        sampling=Sampling(mode="fixed", warmup=1, iterations=1),
        share_device=plan.share_device,
        watchdog_s=WATCHDOG_S,
        launch=plan.launch,
    )
    tried = _try(small, command, {**environment, **ucx_protocols.VARIABLES}, stop)
    if stop.signal is not None:
        return Preflight()
    if not tried.ended:
        found = f"tried in a job of its own, MPI on a device pointer failed: {_cause(tried.ending)}"
        return Preflight({RISKY: f"{found}; {_remedy(stack)}"})
    if not tried.sent:
        return Preflight()  # the engine itself says why it cannot be used
    return Preflight(protocols=ucx_protocols.parse(tried.ending.others))


def to_itself(engine: Sequence[str], environment: Mapping[str, str], stack: Stack, stop: Stop) -> Preflight:
    """Try it inside a foreign launcher, where no second rank can be started: one process sends to itself.

    That is the weaker evidence: a device pointer that MPI takes for host memory ends this process as it would end two,
    but how MPI reaches the other GPU is not tried.

    Args:
        engine: the engine with its arguments, without a launcher.
        environment: this rank's environment without what makes it a rank.
        stack: what the job runs on, for the reason.
        stop: who asks to stop.
    """
    small = Plan(
        benchmark=SELF_SEND,
        world_size=1,
        transports=[RISKY],
        options=SelfSendPlan(sizes_bytes=SIZES),
        watchdog_s=WATCHDOG_S,
    )
    tried = _try(small, engine, environment, stop)
    if stop.signal is not None:
        return Preflight()
    if not tried.ended:
        found = f"tried by sending to itself, MPI on a device pointer failed: {_cause(tried.ending)}"
        if stack.mca or stack.environment:  # a launcher started the ranks without what volley would have given them
            return Preflight({RISKY: f"{found}; start volley plainly, without a launcher: it uses a CUDA-aware MPI"})
        return Preflight({RISKY: f"{found}; {_remedy(stack)}"})
    return Preflight({} if tried.refused is None else {RISKY: tried.refused})


def _try(plan: Plan, command: Sequence[str], environment: Mapping[str, str], stop: Stop) -> _Tried:
    """Run a small job and read in its records only what matters here."""
    found: list[dict[str, Any]] = []
    with EngineProcess(command, environment, stop, most_lines=_MOST_LINES) as process:
        for line in process.lines(plan):
            record = msgspec.json.decode(line) if line.endswith(b"}\n") else {}
            found.append(record)
    parts = [part for record in found for part in (record, *record.get("cells", ()))]
    refused = [each for each in found if each.get("record") == "transport" and not each.get("available")]
    return _Tried(
        ended=any(each.get("record") == "end" for each in found),
        sent=any(part.get("status") == "ok" for part in parts),
        refused=(refused[0].get("reason") or "") if refused else None,
        ending=process.ending,
    )


def _cause(ending: Ending) -> str:
    """Name the signal where the launcher's text does; its exit status is not that of the rank."""
    name = fatal_signal("\n".join(ending.others))
    return f"{name} in MPI_Send or MPI_Recv" if name else ending.reason()


def _remedy(stack: Stack) -> str:
    """Say what would make this MPI CUDA-aware."""
    from volley.machine.origin import ELLIPSIS, install_command  # noqa: PLC0415  start-up: only after a crash

    if stack.mca or stack.environment:
        return f"the software was {stack.describe()}"
    if stack.built.mpi_source == "wheel":
        return f"this MPI uses no CUDA-aware UCX: {install_command('cuda13')}"
    return (
        f"{stack.describe()} is not CUDA-aware: install volley with another one: {install_command(MPI_HOME=ELLIPSIS)}"
    )
