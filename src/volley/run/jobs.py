"""Jobs: immutable descriptions of one start of all ranks each, and what a benchmark needs to describe its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from volley.errors import UserError
from volley.run.inside_launcher import RankInfo
from volley.run.launchers.allocation import Allocation
from volley.run.options import JobOptions, SamplingOptions
from volley.run.plan import Plan, Sampling
from volley.text import count, escape_controls, join_words

if TYPE_CHECKING:
    from volley.run.engine import About
    from volley.run.run_log import RunLog

PAIR = 2
"""Ranks of a benchmark that is between two."""


@dataclass(frozen=True)
class Site:
    """What is known before the jobs are described: the engine, and where this process runs."""

    about: About
    position: RankInfo | None = None
    """This process's place in a job that a foreign launcher started."""
    allocation: Allocation | None = None

    @property
    def ranks_given(self) -> int | None:
        """Ranks of the foreign job, or that a batch system was asked for; ``None`` where nobody says."""
        if self.position and self.position.size:
            return self.position.size
        return self.allocation.ranks if self.allocation else None


@dataclass(frozen=True)
class Job:
    """One start of all ranks."""

    plan: Plan
    note: str | None = None
    """What to say before it starts."""


def nothing_more(logs: Sequence[RunLog], say: Callable[[str], None]) -> Job | None:  # noqa: ARG001
    """Need no job that depends on what was measured."""
    return None


@dataclass(frozen=True)
class Jobs:
    """All jobs of a session."""

    planned: tuple[Job, ...]
    """Known before anything is measured, repeated launches one by one.  They run in this order."""
    next_job: Callable[[Sequence[RunLog], Callable[[str], None]], Job | None] = nothing_more
    """Asked again and again after the planned ones, with the logs of all launches so far and a function that shows a
    sentence.  It returns one more job, or ``None``."""
    note: str | None = None
    """What to say before anything is measured."""
    hardware: bool = True
    """Read the GPUs through NVML before and after each launch that uses them."""


def launches(plan: Plan, job: JobOptions) -> tuple[Job, ...]:
    """Return the same job as many times as launches are asked for."""
    return (Job(plan),) * job.launches


# ------------------------------------------------------------------------------------------------ parts of a plan


def make_plan(
    benchmark: str,
    part: Any,
    *,
    job: JobOptions,
    ranks: int = 1,
    transports: Sequence[str] = (),
    sampling: SamplingOptions | None = None,
    verify: bool | None = None,
) -> Plan:
    """Write down what to measure.

    Args:
        benchmark: its name.
        part: its own part, a struct.
        job: how the ranks are started.
        ranks: their number.
        transports: by name.
        sampling: ``None`` where the benchmark has no such options; the plan's defaults then.
        verify: overrules that of ``sampling``.
    """
    asked = sampling or SamplingOptions()
    return Plan(
        benchmark=benchmark,
        world_size=ranks,
        transports=list(transports),
        options=part,
        sampling=sampling_part(asked),
        verify=asked.verify if verify is None else verify,
        share_device=job.share_gpu,
        budget_s=asked.budget,
        watchdog_s=job.watchdog,
    )


def sampling_part(asked: SamplingOptions) -> Sampling:
    """Return adaptive sampling, or fixed where ``--warmup`` or ``--iterations`` is given; the two do not mix.

    Raises:
        UserError: if options of both are given.
    """
    if not asked.given & {"warmup", "iterations"}:
        return Sampling(ci=asked.ci, point_time_s=asked.point_time, tail=asked.tail)
    mixed = [name for name in ("ci", "point_time", "tail") if name in asked.given]
    if mixed:
        raise UserError(
            f"--{mixed[0].replace('_', '-')} belongs to adaptive sampling, --warmup and --iterations to a fixed batch: "
            "leave one of them out"
        )
    return Sampling(mode="fixed", warmup=asked.warmup, iterations=asked.iterations)


def choose_transports(asked: Sequence[str], site: Site, *, usual: Sequence[str] = (), halos: bool = False) -> list[str]:
    """Turn what was asked for into names from the engine's registry, in the order asked for.

    Args:
        asked: names; the name of a family (``staged``) stands for its members, ``all`` for all but test transports.
        site: knows the engine.
        usual: where nothing is asked for; empty: all that carry data, without test transports.
        halos: only transports that carry halos will do.

    Raises:
        UserError: naming the nearest name, and all of them.
    """
    known = [each for each in site.about.transports if each.halos or not halos]
    real = [each.name for each in known if not each.test]
    names = [each.name for each in known]
    chosen: dict[str, None] = {}
    for name in asked or usual or [name for name in real if name != "null"]:
        family = [member for member in names if member.startswith(name + "/")]
        found = real if name == "all" else [name] if name in names else family
        if not found and halos and name in [each.name for each in site.about.transports]:
            raise UserError(f"--transport: {name} carries no halos; those that do: {join_words(real)}")
        if not found:
            raise UserError(_unknown(name, real))
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def _unknown(name: str, valid: Sequence[str]) -> str:
    import difflib  # noqa: PLC0415  start-up: only who errs needs it

    near = difflib.get_close_matches(name.lower(), [*valid, "all"], n=1)
    guess = f"; did you mean {near[0]}?" if near else ";"
    known = f"this engine has {join_words(valid)} (all for every one)"
    return f"there is no transport {escape_controls(name)!r}{guess} {known}"


def count_ranks(job: JobOptions, site: Site, *, usual: int) -> int:
    """Return how many ranks the job has or will have; ``usual`` where nobody names a number.

    Raises:
        UserError: if what was asked for does not fit the foreign job, or the hosts.
    """
    size = site.position.size if site.position else None
    if size and job.ranks not in (None, size):
        raise UserError(
            f"--ranks {job.ranks} was asked for inside a job of {size}: leave --ranks out, or start {job.ranks} ranks"
        )
    ranks = size or job.ranks or usual
    if len(set(job.hosts)) > ranks:
        named = count(len(set(job.hosts)), "host")
        raise UserError(f"--hosts names {named} for {count(ranks, 'rank')}: name {ranks} at most")
    return ranks


def count_pair(job: JobOptions, site: Site, title: str) -> int:
    """Return the ranks of a benchmark that is between two of them.

    Raises:
        UserError: if another number is asked for, or the foreign job has another.
    """
    ranks = count_ranks(job, site, usual=PAIR)
    if ranks == PAIR:
        return ranks
    if site.position:
        raise UserError(
            f"{title} is between {PAIR} ranks and this job has {ranks}: start it with -n {PAIR}, "
            "or let volley start a job of its own with --launcher openmpi, mpich, srun or jsrun"
        )
    raise UserError(f"{title} is between {PAIR} ranks, not {ranks}: leave --ranks out, or write --ranks {PAIR}")


def utf8(value: Any) -> Any:
    """Escape what is no UTF-8, such as an odd byte in a path: a plan is UTF-8."""
    if isinstance(value, Mapping):
        return {name: utf8(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [utf8(inner) for inner in value]
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def with_launch(plan: Plan, launch: Mapping[str, Any]) -> Plan:
    """Return the plan with what is known of the launch."""
    return msgspec.structs.replace(plan, launch=utf8(dict(launch)))
