"""How the times of a machine compare with a reference of an equal one: the user's own, or a published one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from volley.errors import UserError
from volley.machine.hardware import QUOTA
from volley.machine.transports import without_fault
from volley.records.launch_series import launches_of
from volley.records.record_types import cpus_needed, cpus_of
from volley.records.records_file import read_runs
from volley.records.run_log import Observable, RunLog
from volley.records.saved_runs import own_references
from volley.references import ratio_to_equal
from volley.run.benchmark import Benchmark
from volley.run.report_parts import others_used
from volley.statistics.estimates import median
from volley.text import count


def places(benchmark: Benchmark, logs: Sequence[RunLog]) -> Iterator[tuple[Observable, str, float]]:
    """Yield what each launch measured: the observable, the place in it, the seconds."""
    for log in logs:
        for each in benchmark.observables(log):
            for at, seconds in each.times:
                yield each, at, seconds


def measured(benchmark: Benchmark, logs: Sequence[RunLog]) -> dict[str, list[float]]:
    """Return the seconds of each launch, by what was measured: ``pingpong: host, 8 B``."""
    found: dict[str, list[float]] = {}
    for each, at, seconds in places(benchmark, logs):
        found.setdefault(f"{benchmark.name}: {each.series}, {at}", []).append(seconds)
    return found


def _machine_kind(logs: Sequence[RunLog]) -> tuple[set[str | None], set[str]]:
    """Return the names of the GPUs and of the processors."""
    gpus = {gpu.name for log in logs for gpu in log.gpus("before")}
    return gpus, {rank.cpu for log in logs if log.run for rank in log.run.ranks}


def _own(benchmarks: Sequence[Benchmark]) -> Iterator[tuple[str, list[RunLog]]]:
    """Yield the user's references; one that cannot be read is none."""
    for name, path in own_references().items():
        with suppress(UserError):
            yield name, read_runs(path, benchmarks)


def ratios_of(
    benchmark: Benchmark, logs: Sequence[RunLog], benchmarks: Sequence[Benchmark], *, of_cores: bool
) -> tuple[str, dict[str, list[float]]] | None:
    """Return a reference of such a machine, and by place the times of the launches / its time; ``None`` without one.

    The user's own references come first: machines with the same processors and GPUs; then published ones with the same
    GPUs, or with the same processors where the times are ``of_cores``.  No launch is judged by itself.
    """
    gpus, cpus = kind = _machine_kind(logs)
    runs = [log.run for log in logs]
    for name, theirs in _own(benchmarks):
        if any(log.run in runs for log in theirs):
            continue
        same = [log for log in launches_of(theirs, benchmark.name) if _machine_kind([log]) == kind]
        usual = measured(benchmark, same)
        if ratios := {
            at: [each / median(usual[good]) for each in seconds]
            for at, seconds in measured(benchmark, logs).items()
            if (good := without_fault(at)) in usual
        }:
            return name, ratios
    devices, names = cpus if of_cores else gpus, []
    found: dict[str, list[float]] = {}
    for each, at, seconds in places(benchmark, logs) if len(devices) == 1 else ():
        sweep = (benchmark.name, without_fault(each.series))
        if ratio := ratio_to_equal(str(*devices), sweep, at, seconds, each.work):
            names.append(ratio[0])
            found.setdefault(f"{each.series}, {at}", []).append(ratio[1])
    return (names[0], found) if names else None


OF_ITS_OWN = "with a CPU for each rank (taskset -cp $$ shows the CPUs of this shell)"


class Busy(NamedTuple):
    """Why ranks had less than a core each, so that times are longer than those of a quiet node."""

    said: str
    without: str = "while nothing else runs here"
    """How to check without it."""

    @property
    def longer(self) -> str:
        return f"{self.said}: these times are longer than those of a quiet node"


def without_core(logs: Sequence[RunLog]) -> Busy | None:
    """Say why ranks were without their cores: they share them, may not use them all the time, or others used them."""
    others = others_used(logs)
    return next(filter(None, map(few_cpus, logs)), None) or (Busy(others) if others else None)


def few_cpus(log: RunLog) -> Busy | None:
    """Say that the ranks have fewer CPUs than they need."""
    ranks, settings = log.run.ranks if log.run else [], log.settings
    if log.run and log.run.oversubscribed:
        cpus = len(cpus_of(ranks))
        places = count(cpus, "CPU") if cpus < len(ranks) else "fewer cores"
        return Busy(f"{count(len(ranks), 'rank')} share {places}", OF_ITS_OWN)
    small = settings and settings.small_quota(cpus_needed(ranks))
    return Busy(small, f"with a higher quota ({QUOTA})") if small else None
