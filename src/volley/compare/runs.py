"""One side of a comparison: the launches of a records file and what they measured, or the figures of a reference."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from volley.benchmarks import BENCHMARKS
from volley.errors import UserError
from volley.records.launch_series import Observed, launches_of, observed_in
from volley.records.plan import Plan
from volley.records.record_types import Run
from volley.records.records_file import first_and_last, parse_runs, read_file, without_repeats
from volley.records.run_log import Observable, RunLog
from volley.references import Reference, published
from volley.statistics.columns import Floats, medians_of
from volley.text import join_few


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
    repeats: bool = True
    """False: one number for each point, whose spread over launches is not known."""
    reference: Reference | None = None
    """The published results, if the side is not of launches."""

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


def read_sides(words: Sequence[str], *, one_number: bool = False) -> tuple[Side, Side]:
    """Read two files of records; the first may be a published reference.

    Args:
        words: the names of the files, or that of the reference.
        one_number: of the first, the median over launches stands for the launches.

    Raises:
        UserError: if a file cannot be read, if nothing in it can be compared, or if both contain the same launch.
    """
    known = published()
    if words[1] in known:
        raise UserError(f"{words[1]} is a published reference: name it first: volley compare {words[1]} RECORDS")
    if words[0] in known:
        second = side_of(*read_file(words[1]))
        return published_side(words[0], known[words[0]], second), second
    files = [read_file(word) for word in words]
    (one, _), (other, _) = (first_and_last(data) for data, _ in files)
    if not one_number and (shared := [run for run in one if run in other]):
        names = " and ".join(name for _, name in files)
        raise UserError(
            f"{names} contain the same launch, of {shared[0].started_at}: compare two runs that were measured "
            "separately"
        )
    baseline, second = side_of(*files.pop(0)), side_of(*files.pop(0))
    if one_number:
        medians = [array("d", medians_of(baseline.seconds.T).tolist())]
        baseline = replace(baseline, observed=replace(baseline.observed, columns=medians), repeats=False)
    return baseline, second


def published_side(name: str, reference: Reference, second: Side) -> Side:
    """Return a reference as a run with one launch, of the points that a run measured.

    Raises:
        UserError: if it has none of them.
    """
    observed, column = Observed(), array("d")
    for table in reference.tables:
        sweep = (table.benchmark, table.series)
        for at, row in second.observed.rows.get(sweep, {}).items():
            work = second.observed.work[row] or None
            if at not in observed.rows.get(sweep, {}) and (seconds := table.seconds(at, work)):
                observed.add(table.benchmark, Observable(table.series, [at], [seconds], work), column)
    if not column:
        names = list(dict.fromkeys(f"{table.benchmark}: {table.series}" for table in reference.tables))
        places = list(dict.fromkeys(at for table in reference.tables for at in table.figures))
        raise UserError(
            f"{second.name} measures nothing that {name} has: it has {join_few(names)} at {places[0]} to "
            f"{places[-1]}; see volley references {name}"
        )
    return Side(name, [], replace(observed, columns=[column]), failed=0, repeats=False, reference=reference)


def side_of(data: bytes, name: str) -> Side:
    """Return the side that a file of records is.

    Raises:
        UserError: if nothing in it can be compared.
    """
    side = Side.of(name, without_repeats(parse_runs(data, BENCHMARKS, name)))
    if not side.observed.rows:
        raise UserError(f"{side.name} contains no measured point: there is nothing to compare")
    for log in side.logs:
        log.records.clear()
    return side
