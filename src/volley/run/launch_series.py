"""Series of launches: runs of the same request on the same machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

import msgspec

from volley.run.benchmark import Benchmark, Observable
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


def observables_of(logs: Sequence[RunLog], benchmarks: Sequence[Benchmark]) -> dict[Key, dict[int, Observable]]:
    """Return what was measured, by number of the launch.

    Launches of the same request are numbered in their order; those of another request continue the count.
    """
    found: dict[Key, dict[int, Observable]] = {}
    for benchmark in benchmarks:
        own = [log for log in logs if log.run and log.run.plan.benchmark == benchmark.name]
        for number, log in enumerate((log for series in series_of(own) for log in series.logs), start=1):
            for each in benchmark.observables(log):
                found.setdefault((benchmark.name, each.series, each.at), {})[number] = each
    return found


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
