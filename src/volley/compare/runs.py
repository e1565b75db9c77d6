"""One side of a comparison: the launches of a records file and what they measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from volley.benchmarks import BENCHMARKS
from volley.errors import UserError
from volley.run.benchmark import Observable
from volley.run.launch_series import series_of
from volley.run.records import Run
from volley.run.records_file import read_runs
from volley.run.run_log import RunLog

Key = tuple[str, str, str]
"""The benchmark, the series and the place in its sweep."""


@dataclass(frozen=True)
class Side:
    """All launches of one file."""

    name: str
    """What messages call it."""
    logs: Sequence[RunLog]

    @cached_property
    def observables(self) -> dict[Key, dict[int, Observable]]:
        """What was measured, by number of the launch.

        Launches of the same request are numbered in their order; those of another request continue the count.
        """
        found: dict[Key, dict[int, Observable]] = {}
        number = 0
        for benchmark in BENCHMARKS:
            logs = [log for log in self.logs if log.run and log.run.plan.benchmark == benchmark.name]
            for series in series_of(logs):
                for log in series.logs:
                    number += 1
                    for each in benchmark.observables(log):
                        found.setdefault((benchmark.name, each.series, each.at), {})[number] = each
            number = 0
        return found

    @property
    def times(self) -> dict[Key, dict[int, float]]:
        """The seconds of each, by number of the launch."""
        return {
            key: {launch: each.seconds for launch, each in launches.items()}
            for key, launches in self.observables.items()
        }

    @property
    def runs(self) -> list[Run]:
        """The ``run`` records."""
        return [log.run for log in self.logs if log.run]

    @property
    def launches(self) -> int:
        """The most launches that measured a point."""
        return max(map(len, self.observables.values()), default=0)

    @property
    def benchmarks(self) -> list[str]:
        """The names of the benchmarks that measured something."""
        return list(dict.fromkeys(name for name, _, _ in self.observables))


def read_side(path: str) -> Side:
    """Read a file of records; ``-`` is standard input.

    Raises:
        UserError: if the file cannot be read, or if nothing in it can be compared.
    """
    logs = read_runs(path, BENCHMARKS)
    side = Side(logs[0].file, logs)
    if not side.observables:
        raise UserError(f"{side.name} holds no measured point: there is nothing to compare")
    return side
