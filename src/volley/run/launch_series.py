"""Series of launches: runs of the same request on the same machine."""

from __future__ import annotations

import contextlib
import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from itertools import repeat
from operator import attrgetter
from typing import Any

import msgspec

from volley.run.benchmark import Benchmark, Observable
from volley.run.command_again import launches_asked
from volley.run.plan import Plan
from volley.run.records import Run, Transport
from volley.run.run_log import RunLog


@dataclass(frozen=True)
class LaunchSeries:
    """Launches of the same request on the same machine; at least one."""

    logs: tuple[RunLog, ...]

    @cached_property
    def run(self) -> Run | None:
        """The first ``run`` record; ``None`` if no launch has one."""
        return next((log.run for log in self.logs if log.run), None)

    @property
    def plan(self) -> Plan | None:
        """The plan of the first launch."""
        return self.run.plan if self.run else None

    @property
    def span_s(self) -> float | None:
        """Seconds from the start of the first launch to the end of the last; ``None`` where the records do not say."""
        spans = []
        for log in self.logs:
            with contextlib.suppress(ValueError):  # not a time
                if log.run and log.end:
                    begun = datetime.strptime(log.run.started_at, "%Y-%m-%dT%H:%M:%SZ")
                    begun_s = begun.replace(tzinfo=timezone.utc).timestamp()
                    spans.append((begun_s, begun_s + log.end.elapsed_s))
        return max(end for _, end in spans) - min(begun for begun, _ in spans) if spans else None

    @cached_property
    def transports(self) -> dict[str, Transport]:
        """The transports by name; a transport is unavailable if any launch could not use it."""
        found: dict[str, Transport] = {}
        for transport in (transport for log in self.logs for transport in log.transports):
            known = found.get(transport.transport)
            if known is None or known.available:
                found[transport.transport] = transport
        return found

    def describe_runs(self) -> list[dict[str, Any]]:
        """Return the common records of each launch, without results, for JSON."""
        return [
            {
                "file": log.file,
                "launch": log.number,
                "complete": log.complete,
                "problems": log.problems,
                "run": log.run,
                "settings": log.settings,
                "hardware": log.hardware,
                "transports": log.transports,
                "end": log.end,
            }
            for log in self.logs
        ]


def _place(run: Run) -> tuple[Any, ...]:
    return [rank.host for rank in run.ranks], run.mpi and run.mpi.library, run.engine.version


def same_request(log: RunLog, first: RunLog) -> bool:
    """Return whether two runs had the same plan, however they were launched."""
    plans = [
        msgspec.structs.replace(run.plan, launch={}, excluded={}, budget_s=None) for run in (log.run, first.run) if run
    ]
    return len(plans) == 2 and plans[0] == plans[1]


Key = tuple[str, str, str]
"""The benchmark, the series and the place in its sweep."""
Sweep = tuple[str, str]
"""The benchmark and the series."""
Rows = dict[Sweep, dict[str, int]]
"""The rows of a table by sweep and place."""


@dataclass(frozen=True)
class Observed:
    """What the launches of a run measured: a table with a row for each place of a sweep and a column for each launch.

    A thousand ranks have a million rows: so the numbers are arrays.
    """

    rows: Rows = field(default_factory=dict)
    """Numbered in order of appearance."""
    columns: list[array[float]] = field(default_factory=list)
    """The seconds of each launch; NaN where it did not measure."""
    work: array[float] = field(default_factory=lambda: array("d"))
    """What is done in the time of each row (``Observable``); 0 where it has no rate."""

    def seconds(self, row: int) -> list[float]:
        """Return the times of the launches that measured a row."""
        return [seconds for column in self.columns if not math.isnan(seconds := column[row])]

    def add(self, benchmark: str, each: Observable, column: array[float]) -> None:
        """Write what a launch measured into its column."""
        rows = self.rows.setdefault((benchmark, each.series), {})
        new = dict.fromkeys(at for at in each.at if at not in rows)
        rows.update(zip(new, range(len(self.work), len(self.work) + len(new)), strict=True))
        self.work.extend(repeat(each.work or 0.0, len(new)))
        column.extend(repeat(math.nan, len(self.work) - len(column)))
        for at, seconds in zip(each.at, each.seconds, strict=True):
            column[rows[at]] = seconds


def observed_in(logs: Sequence[RunLog], benchmarks: Sequence[Benchmark]) -> Observed:
    """Return what was measured.

    Launches of the same request are numbered in their order; those of another request continue the count.
    """
    found = Observed()
    for benchmark in benchmarks:
        for number, log in enumerate(launches_of(logs, benchmark.name)):
            if number == len(found.columns):
                found.columns.append(array("d"))
            for each in filter(attrgetter("at"), benchmark.observables(log)):
                found.add(benchmark.name, each, found.columns[number])
    for column in found.columns:
        column.extend(repeat(math.nan, len(found.work) - len(column)))
    return found


def launches_of(logs: Sequence[RunLog], benchmark: str) -> list[RunLog]:
    """Return the launches of a benchmark in the order of the columns of :class:`Observed`."""
    own = [log for log in logs if log.run and log.run.plan.benchmark == benchmark]
    return [log for series in series_of(own) for log in series.logs]


def series_of(logs: Iterable[RunLog], belongs: Callable[[RunLog, RunLog], bool] = same_request) -> list[LaunchSeries]:
    """Group launches of the same request on the same machine, in order of appearance.

    ``belongs`` returns true if the first launch belongs to the series that began with the second one.
    """
    groups: list[list[RunLog]] = []
    for log in logs:
        for group in reversed(groups):
            first = group[0]
            if log.run and first.run and _place(log.run) == _place(first.run) and belongs(log, first):
                group.append(log)
                break
        else:
            groups.append([log])
    return [LaunchSeries(tuple(group)) for group in groups]


def count_missing(logs: Iterable[RunLog]) -> None:
    """Write into the last launch of each request how many launches are missing, if the command named their number."""
    for series in series_of(log for log in logs if log.run):
        series.logs[-1].missing_launches = max(0, launches_asked(series.plan) - len(series.logs))
