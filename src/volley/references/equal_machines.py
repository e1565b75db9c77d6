"""How the times of a machine compare with a reference of an equal one: the user's own, or a published one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from volley.errors import UserError
from volley.machine.transports import without_fault
from volley.records.launch_series import launches_of
from volley.records.records_file import read_runs
from volley.records.run_log import Observable, RunLog
from volley.records.saved_runs import own_references
from volley.references import ratio_to_equal
from volley.run.benchmark import Benchmark
from volley.statistics.estimates import median


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


class Ratios(NamedTuple):
    reference: str
    at: dict[str, list[float]]
    """By place the times of the launches / that of the reference."""


def ratios_of(
    benchmark: Benchmark, logs: Sequence[RunLog], benchmarks: Sequence[Benchmark], *, of_cores: bool
) -> Ratios | None:
    """Compare the times of launches with a reference of such a machine; ``None`` without one.

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
            return Ratios(name, ratios)
    devices, names = cpus if of_cores else gpus, []
    found: dict[str, list[float]] = {}
    for each, at, seconds in places(benchmark, logs) if len(devices) == 1 else ():
        sweep = (benchmark.name, without_fault(each.series))
        if ratio := ratio_to_equal(str(*devices), sweep, at, seconds, each.work):
            names.append(ratio[0])
            found.setdefault(f"{each.series}, {at}", []).append(ratio[1])
    return Ratios(names[0], found) if names else None
