"""Preflight: try a transport whose failure is a crash in a separate job.

An MPI that is not CUDA-aware does not reject a device pointer: it reads it as host memory and ends with SIGSEGV.  So
``aware`` is first tried in a small job of two ranks.  The self-report of MPI is not used as evidence.
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
"""One message that UCX sends eagerly and one that it sends by rendezvous, on different paths."""

WATCHDOG_S = 20.0

_MAX_LINES = 10_000
"""UCX's tables are long: ten to twenty lines for each operation, connection and rank."""


SELF_SEND = "self_send"
"""The engine's benchmark of one rank that sends to itself; no command offers it."""


class SelfSendPlan(Frozen, frozen=True, kw_only=True):
    """One rank sends to itself: a test of MPI on device memory inside a launcher, where no second rank can start."""

    sizes_bytes: list[Positive]


@dataclass(frozen=True)
class Preflight:
    """The result of the preflight."""

    excluded: dict[str, str] = field(default_factory=dict)
    """Transports that must not be opened, with the reason."""
    protocols: Protocols | None = None
    """UCX's protocols for GPU memory; ``None`` if nothing was sent."""


@dataclass(frozen=True)
class _Tried:
    """The result of the small job, from its records."""

    ended: bool
    """The job wrote its last record."""
    sent: bool
    """A message arrived."""
    refused: str | None
    """The engine's reason for not using the transport; ``None`` if it used it."""
    ending: Ending


def between_two(
    plan: Plan, command: Sequence[str], environment: Mapping[str, str], stack: Stack, stop: Stop
) -> Preflight:
    """Send between the first two ranks of a job like the measured one, with UCX's protocol tables switched on.

    UCX treats single sends and many sends in flight differently, so both are tried.  The measured job runs without
    these tables, so that they cannot disturb it.

    Args:
        plan: the plan that will be measured.
        command: the launcher's command line, the same as for the measurement.
        environment: the complete environment of that command.
        stack: the software stack of the job, for the reason.
        stop: the flag that stops the session.
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
        found = f"in a separate test job, MPI failed on a device pointer: {_cause(tried.ending)}"
        return Preflight({RISKY: f"{found}; {_remedy(stack)}"})
    if not tried.sent:
        return Preflight()  # the records of the measured job give the engine's reason
    return Preflight(protocols=ucx_protocols.parse(tried.ending.others))


def rehearsed(
    trial: Plan, command: Sequence[str], environment: Mapping[str, str], stack: Stack, stop: Stop
) -> Preflight:
    """Run a small plan of the benchmark on device memory, in a job like the measured one.

    Args:
        trial: the plan.
        command: the launcher's command line, the same as for the measurement.
        environment: the complete environment of that command.
        stack: the software stack of the job, for the reason.
        stop: the flag that stops the session.
    """
    small = msgspec.structs.replace(trial, transports=[RISKY], watchdog_s=WATCHDOG_S)
    tried = _try(small, command, environment, stop)
    if tried.ended or stop.signal is not None:
        return Preflight()  # a wrong result is one of the measured job, too, and its records give the engine's reason
    found = f"in a separate test job, {trial.benchmark} failed on device pointers: {_cause(tried.ending)}"
    return Preflight({RISKY: f"{found}; {_remedy(stack)}"})


def to_itself(engine: Sequence[str], environment: Mapping[str, str], stack: Stack, stop: Stop) -> Preflight:
    """Try MPI on device memory inside a foreign launcher, where no second rank can start: one process sends to itself.

    This is weaker evidence than a message between two ranks: an MPI that is not CUDA-aware crashes here too, but the
    path to the other GPU is not tried.

    Args:
        engine: the engine with its arguments, without a launcher.
        environment: this rank's environment without the variables of the launcher.
        stack: the software stack of the job, for the reason.
        stop: the flag that stops the session.
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
        found = f"in a test where one process sends to itself, MPI failed on a device pointer: {_cause(tried.ending)}"
        if stack.mca or stack.environment:  # the launcher started the ranks without the settings that volley would add
            return Preflight({RISKY: f"{found}; start volley without a launcher: then it uses a CUDA-aware MPI"})
        return Preflight({RISKY: f"{found}; {_remedy(stack)}"})
    return Preflight({} if tried.refused is None else {RISKY: tried.refused})


def _try(plan: Plan, command: Sequence[str], environment: Mapping[str, str], stop: Stop) -> _Tried:
    """Run a small job and return what its records show."""
    found: list[dict[str, Any]] = []
    with EngineProcess(command, environment, stop, max_lines=_MAX_LINES) as process:
        for line in process.lines(plan):
            record = msgspec.json.decode(line) if line.endswith(b"}\n") else {}
            found.append(record)
    refused = [each for each in found if each.get("record") == "transport" and not each.get("available")]
    return _Tried(
        ended=any(each.get("record") == "end" for each in found),
        sent=any(time_s is not None for each in found for time_s in each.get("medians", ())),
        refused=(refused[0].get("reason") or "") if refused else None,
        ending=process.ending,
    )


def _cause(ending: Ending) -> str:
    """Return the signal named in the launcher's text: the launcher's exit status is not that of the rank."""
    name = fatal_signal("\n".join(ending.others))
    return f"{name} in MPI" if name else ending.reason()


def _remedy(stack: Stack) -> str:
    """Return how to get a CUDA-aware MPI."""
    from volley.machine.nvidia_driver import cuda_extra  # noqa: PLC0415  start-up: only after a crash
    from volley.machine.reinstall import ELLIPSIS, install_command  # noqa: PLC0415

    if stack.mca or stack.environment:
        return f"the software was {stack.describe()}"
    if stack.built.mpi_source == "wheel":
        return f"this MPI uses no CUDA-aware UCX: {install_command(cuda_extra())}"
    return (
        f"{stack.describe()} is not CUDA-aware: install volley with another one: {install_command(MPI_HOME=ELLIPSIS)}"
    )
