"""One side of a comparison: the launches of a records file and what they measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from volley.benchmarks import BENCHMARKS
from volley.errors import UserError
from volley.run.benchmark import Observable
from volley.run.launch_series import Key, observables_of
from volley.run.records import Run
from volley.run.records_file import read_runs
from volley.run.run_log import RunLog


@dataclass(frozen=True)
class Side:
    """All launches of one file."""

    name: str
    """What messages call it."""
    logs: Sequence[RunLog]

    @cached_property
    def observables(self) -> dict[Key, dict[int, Observable]]:
        """What was measured, by number of the launch."""
        return observables_of(self.logs, BENCHMARKS)

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
        raise UserError(f"{side.name} contains no measured point: there is nothing to compare")
    return side
