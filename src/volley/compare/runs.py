"""One side of a comparison: the launches of a records file and what they measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from volley.benchmarks import BENCHMARKS
from volley.errors import UserError
from volley.run.launch_series import Observed, launches_of, observed_in
from volley.run.plan import Plan
from volley.run.records import Run
from volley.run.records_file import first_and_last, parse_runs, read_file, without_repeats
from volley.run.run_log import RunLog
from volley.statistics.columns import Floats


@dataclass(frozen=True)
class Side:
    """All launches of one file, and what they measured."""

    name: str
    """What messages call it."""
    logs: Sequence[RunLog]
    """Those of a file are without the records of benchmarks: a thousand ranks have half a gigabyte of them."""
    observed: Observed
    failed: int
    """How many points failed."""

    @classmethod
    def of(cls, name: str, logs: Sequence[RunLog]) -> Side:
        failed = sum(log.statuses.count("failed") for log in logs)
        return cls(name, logs, observed_in(logs, BENCHMARKS), failed)

    @cached_property
    def seconds(self) -> Floats:
        """What was measured, with a row for each row of ``observed`` and a column for each launch."""
        seconds: Floats = np.array(self.observed.columns, np.float64).reshape(-1, len(self.observed.work)).T
        return seconds

    @property
    def runs(self) -> list[Run]:
        """The ``run`` records."""
        return [log.run for log in self.logs if log.run]

    @property
    def incomplete(self) -> int:
        """How many launches ended before their last point, or did not begin because the run was stopped."""
        cut = sum(log.end is None or not log.complete or log.end.status == "stopped" for log in self.logs)
        return cut + sum(log.missing_launches for log in self.logs)

    @cached_property
    def launches(self) -> int:
        """The most launches that measured a point."""
        return int(np.count_nonzero(~np.isnan(self.seconds), axis=1).max(initial=0))

    def plan_of(self, benchmark: str, row: int) -> Plan | None:
        """The plan of the first launch of a benchmark that measured a row of ``observed``."""
        launch = int(np.argmax(~np.isnan(self.seconds[row])))
        run = launches_of(self.logs, benchmark)[launch].run
        return run.plan if run else None

    @property
    def benchmarks(self) -> list[str]:
        """The names of the benchmarks that measured something."""
        return list(dict.fromkeys(name for name, _ in self.observed.rows))


def read_side(path: str) -> Side:
    """Read a file of records; ``-`` is standard input.

    Raises:
        UserError: if the file cannot be read, or if nothing in it can be compared.
    """
    return _side(*read_file(path))


def read_sides(paths: Sequence[str]) -> tuple[Side, Side]:
    """Read two files of records.

    Raises:
        UserError: as above, or if both files contain the same launch.
    """
    files = [read_file(path) for path in paths]
    (one, _), (other, _) = (first_and_last(data) for data, _ in files)
    if shared := [run for run in one if run in other]:
        (_, first), (_, second) = files
        raise UserError(
            f"{first} and {second} contain the same launch, of {shared[0].started_at}: compare two runs that "
            "were measured separately"
        )
    return _side(*files.pop(0)), _side(*files.pop(0))


def _side(data: bytes, name: str) -> Side:
    side = Side.of(name, without_repeats(parse_runs(data, BENCHMARKS, name)))
    if not side.observed.rows:
        raise UserError(f"{side.name} contains no measured point: there is nothing to compare")
    for log in side.logs:
        log.records.clear()
    return side
