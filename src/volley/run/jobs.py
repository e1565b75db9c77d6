"""Jobs: an immutable description of each launch, and functions with which a benchmark describes its jobs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from volley.command.options import BenchmarkOptions, JobOptions, SamplingOptions
from volley.errors import UserError
from volley.launch.allocation import Allocation
from volley.launch.inside_launcher import RankInfo
from volley.launch.launchers import LAUNCHERS, PAIR
from volley.launch.start import left_over
from volley.machine.nvidia_driver import gpu_count
from volley.machine.transports import have_threads, meant, without_fault
from volley.records.plan import Plan, Sampling
from volley.records.record_types import COMMON
from volley.text import count, did_you_mean, escape_controls, join_few, join_words

if TYPE_CHECKING:
    from volley.launch.engine import About

MEMORY_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
"""Of this host: what needs more is not measured, and no forecast counts it."""


@dataclass(frozen=True)
class JobContext:
    """What is known before the jobs are described: the engine, the foreign job and the allocation."""

    about: About
    position: RankInfo | None = None
    allocation: Allocation | None = None
    on_this_host: bool = True
    """All ranks are known to run on this host."""

    @property
    def sees_gpus(self) -> bool:
        return self.about.cuda_built is not None and gpu_count() > 0

    @property
    def ranks_given(self) -> int | None:
        """The number of ranks of the foreign job or of the allocation; ``None`` if unknown."""
        if self.position and self.position.size:
            return self.position.size
        return self.allocation.ranks if self.allocation else None


@dataclass(frozen=True)
class Job:
    """One launch: all ranks are started once."""

    plan: Plan
    note: str | None = None
    measuring_s: float | None = None
    """How long the ranks are expected to measure; ``None``: the forecast of the benchmark says it before it begins."""


class Forecast:
    """How far a launch is: ``done`` of ``total`` steps, such as the rows of a matrix, within its budget.

    ``forecast`` of a ``Benchmark`` returns one for a plan.
    """

    def __init__(self, total: float = 1, budget_s: float | None = None, whole_s: float = 0.0) -> None:
        self.total, self.done, self.budget_s = total, 0.0, budget_s
        self.whole_s = whole_s
        """How long the ranks are expected to measure; 0 if nothing is known."""

    def add(self, record: Any) -> str | None:
        """Take a record of the launch; return the summary of one that deserves a line."""
        self.done += not isinstance(record, COMMON)
        return None


def make_plan(
    benchmark: str,
    part: Any,
    options: BenchmarkOptions,
    *,
    ranks: int = 1,
    transports: Sequence[str] = (),
    verify: bool | None = None,
) -> Plan:
    """Return the plan of a benchmark; ``part`` is a struct of its own type.

    Options without sampling have that of the plan; ``verify`` overrides theirs unless ``None``.
    """
    asked: SamplingOptions = getattr(options, "sampling", SamplingOptions())
    return Plan(
        benchmark=benchmark,
        world_size=ranks,
        transports=list(transports),
        options=part,
        sampling=sampling_part(asked),
        verify=asked.verify if verify is None else verify,
        share_device=options.job.share_gpu,
        budget_s=asked.budget,
        watchdog_s=options.job.watchdog,
    )


def sampling_part(asked: SamplingOptions) -> Sampling:
    """Return fixed sampling if ``--warmup`` or ``--iterations`` is given, else adaptive sampling."""
    if not asked.given & {"warmup", "iterations"}:
        return Sampling(ci=asked.ci, point_time_s=asked.point_time, size_time_s=asked.size_time, tail=asked.tail)
    mixed = [name for name in ("ci", "point_time", "tail") if name in asked.given]
    if mixed:
        raise UserError(
            f"--{mixed[0].replace('_', '-')} is for adaptive sampling, --warmup and --iterations are for fixed "
            "sampling: use one or the other"
        )
    return Sampling(mode="fixed", size_time_s=asked.size_time, warmup=asked.warmup, iterations=asked.iterations)


def choose_transports(
    asked: Sequence[str], context: JobContext, *, usual: Sequence[str] = (), halos: bool = False
) -> list[str]:
    """Resolve the value of ``--transport`` to names of the engine's registry, in the order given.

    Args:
        asked: names; a part of a name (``staged``, ``put``) stands for all transports that have it and no such name,
            ``all`` for all of them but those with threads. NAME+FAULT is the transport NAME with one of the engine's
            faults.
        context: its ``about`` lists the engine's transports.
        usual: the default if ``asked`` is empty; if also empty, the transports that the engine calls usual.
        halos: accept only transports that can exchange halos.
    """
    known = [each for each in context.about.transports if each.halos or not halos]
    names = [each.name for each in known]
    faulty = {f"{each.name}+{fault.name}" for each in known for fault in context.about.faults}
    chosen: dict[str, None] = {}
    for name in asked or usual or [each.name for each in known if each.usual]:
        found = [name] if name in faulty else meant(name, names)
        if name == "all":  # beside threads MPI is started in another way, which changes the others
            found = [each for each in names if not have_threads([each])]
        others = [each.name for each in context.about.transports if name in (each.name, *each.name.split("/"))]
        if not found and halos and (others := others or [each.name for each in context.about.of([name])]):
            of = "" if others == [name] else f" ({join_few(others)})"
            raise UserError(f"--transport: {name}{of} cannot exchange halos; these can: {join_words(names)}")
        if not found:
            guess = " ".join(filter(None, (";", did_you_mean(name.lower(), [*names, "all"]))))
            raise UserError(
                f"there is no transport {escape_controls(name)!r}{guess} this engine has {join_words(names)} (write "
                "all for all of them)"
            )
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def usable_transports(plan: Plan, context: JobContext, ranks: int | None = None) -> list[str]:
    """Return the transports of a plan that this machine may have.

    Those in GPU memory need CUDA and, unless ranks may share one, a GPU for each of so many ``ranks``, or for all.
    """
    few = context.on_this_host and not plan.share_device and gpu_count() < (ranks or plan.world_size)
    if context.sees_gpus and not few:
        return plan.transports
    on_gpus = {each.name for each in context.about.of(plan.transports) if each.memory == "device"}
    return [name for name in plan.transports if without_fault(name) not in on_gpus]


def needs_trial(plan: Plan, context: JobContext) -> bool:
    """Return whether a trial tells before the first launch if MPI accepts device memory: two ranks may have it."""
    return not {*context.about.risky(plan.transports)}.isdisjoint(usable_transports(plan, context, PAIR))


def count_ranks(job: JobOptions, context: JobContext, *, usual: int) -> int:
    """Return the number of ranks of the foreign job or of ``--ranks``, else ``usual``, and one a host at least."""
    size = context.position.size if context.position else None
    if size and job.ranks not in (None, size):
        raise UserError(
            f"--ranks {job.ranks} does not fit this job of {size} ranks: leave --ranks out, or start {job.ranks} ranks"
            f"{left_over()}"
        )
    slots = {host: job.hosts.count(host) for host in job.hosts}
    if len(set(slots.values())) > 1:
        raise UserError("--hosts: volley starts the same number of ranks on each host; give each the same slots")
    most = len(job.hosts) if max(slots.values(), default=1) > 1 else 0
    ranks = size or job.ranks or most or max(usual, len(set(job.hosts)))
    if most and ranks > most:
        raise UserError(f"--hosts has {most} slots for {ranks} ranks: give the hosts more, or write --ranks {most}")
    if len(set(job.hosts)) > ranks:
        named = count(len(set(job.hosts)), "host")
        raise UserError(f"--hosts names {named} for {count(ranks, 'rank')}: name at most {ranks}")
    return ranks


def count_pair(job: JobOptions, context: JobContext, title: str) -> int:
    """Return the number of ranks of a benchmark between two ranks: 2."""
    hosts = tuple(dict.fromkeys(job.hosts))  # slots are the most that a host takes
    ranks = count_ranks(
        replace(job, hosts=hosts, ranks=job.ranks or (None if context.position else PAIR)), context, usual=PAIR
    )
    if ranks == PAIR:
        return ranks
    if context.position:
        raise UserError(
            f"{title} needs {PAIR} ranks and this job has {ranks}: start it with -n {PAIR}, "
            f"or let volley start its own job with --launcher {join_words(LAUNCHERS, 'or')}"
            f"{left_over()}"
        )
    raise UserError(f"{title} needs {PAIR} ranks, not {ranks}: leave --ranks out, or write --ranks {PAIR}")
