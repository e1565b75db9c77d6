"""The two sides of a comparison, and a verdict for each point they have in common.

A side is the launches of a records file and what they measured, or the figures of a reference.
"""

from __future__ import annotations

import math
import shlex
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from volley.benchmarks import BENCHMARKS, named
from volley.compare.options import FailOn
from volley.errors import UserError
from volley.records.launch_series import Key, Observed, Rows, Sweep, launches_of, observed_in, ways_apart
from volley.records.plan import Plan
from volley.records.record_types import Run
from volley.records.records_file import first_and_last, parse_runs, read_file, without_repeats
from volley.records.run_log import Observable, RunLog, not_whole, place_name
from volley.references import Reference, published
from volley.statistics.launches import FEASIBLE
from volley.statistics.two_runs import (
    Booleans,
    Differences,
    Floats,
    Integers,
    can_decide,
    differences,
    medians_of,
    min_to_decide,
)
from volley.text import count, escape_controls, join_few, join_words


def letter(place: int) -> str:
    """Return what reports call a side: A is the baseline."""
    return chr(ord("A") + place)


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
    reference: Reference | None = None
    """The published results, if the side is not of launches: one number for each point, of unknown spread."""
    file: str = ""
    """Where its records are; empty if they are in no file that could be read again."""

    @classmethod
    def of(cls, name: str, logs: Sequence[RunLog], file: str = "") -> Side:
        observed = observed_in(logs, BENCHMARKS)
        if not observed.rows:
            raise UserError(f"{name} contains no measured point: there is nothing to compare")
        return cls(name, logs, observed, sum(log.statuses.count("failed") for log in logs), file=file)

    @classmethod
    def read(cls, data: bytes, name: str) -> Side:
        """Read the contents of a file of records; those of the benchmarks are not kept."""
        side = cls.of(name, without_repeats(parse_runs(data, BENCHMARKS, name)), name)
        for log in side.logs:
            log.records.clear()
        return side

    @property
    def repeats(self) -> bool:
        return self.reference is None

    @property
    def rounds(self) -> list[tuple[str, str]]:
        """The alternation and the round of each launch, as ``--live`` wrote them into the plan; empty if it did not."""
        marks = [run.plan.launch.get("live") for run in self.runs]
        return [(str(mark.get("of")), str(mark.get("round"))) for mark in marks if isinstance(mark, dict)]

    @cached_property
    def seconds(self) -> Floats:
        """What was measured, with a row for each row of ``observed`` and a column for each launch."""
        seconds: Floats = np.array(self.observed.columns, np.float64).reshape(-1, len(self.observed.work)).T
        return seconds

    @property
    def runs(self) -> list[Run]:
        return [log.run for log in self.logs if log.run]

    @property
    def incomplete(self) -> str:
        return not_whole(self.logs)

    def plan_of(self, sweep: Sweep, at: str) -> Plan | None:
        """The plan of the first launch that measured a point."""
        launch = int(np.argmax(~np.isnan(self.seconds[self.observed.rows[sweep][at]])))
        return launches_of(self.logs, sweep[0])[launch].plan

    @property
    def benchmarks(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.observed.rows))


def read_sides(words: Sequence[str]) -> list[Side]:
    """Read files of records, the baseline first, which may be a published reference beside one file."""
    known = published()
    if misplaced := [word for word in words[1:] if word in known]:
        other = next((word for word in words if word not in known), None)
        if other is not None:
            read_file(other)  # what cannot be read is told first
        line = shlex.join(["volley", "compare", misplaced[0], other or "RECORDS"])
        raise UserError(f"{misplaced[0]} is a published reference: name it first: {escape_controls(line)}")
    if words[0] in known:
        if len(words) > 2:
            raise UserError(f"{words[0]} is a published reference: compare one run with it, not {len(words) - 1}")
        second = Side.read(*read_file(words[1]))
        return [published_side(words[0], known[words[0]], second), second]
    files = [read_file(word) for word in words]
    refuse_shared([(name, first_and_last(data)[0]) for data, name in files])
    return [Side.read(*files.pop(0)) for _ in words]


def published_side(name: str, reference: Reference, second: Side) -> Side:
    """Return a reference as a run with one launch, of the points that a run measured."""
    observed, column = Observed(), array("d")
    for table, series in ((each, series) for each in reference.tables for series in each.series):
        sweep = (table.benchmark, series)
        for at, row in second.observed.rows.get(sweep, {}).items():
            work = second.observed.work[row] or None
            if at not in observed.rows.get(sweep, {}) and (seconds := table.seconds(series, at, work)):
                observed.add(table.benchmark, Observable(series, [at], [seconds], work), column)
    if not column:
        names = [f"{table.benchmark}: {series}" for table in reference.tables for series in table.series]
        places = list(dict.fromkeys(at for table in reference.tables for at in table.figures))
        raise UserError(
            f"{second.name} measures nothing that {name} has: {join_few(dict.fromkeys(names))} at {places[0]} to "
            f"{places[-1]}; see volley references {name}"
        )
    return Side(name, [], replace(observed, columns=[column]), failed=0, reference=reference)


def refuse_shared(sides: Sequence[tuple[str, Sequence[Run]]]) -> None:
    (first, runs), *others = sides
    for name, other in others:
        if shared := [run for run in runs if run in other]:
            raise UserError(
                f"{first} and {name} contain the same launch, of {shared[0].started_at}: compare two runs that were "
                "measured separately"
            )


Verdict = Literal["changed", "same", "undecided"]


@dataclass(frozen=True)
class Part:
    """A part of the machine: a node, or the link between two."""

    name: str
    series: str
    points: Integers
    """The points of that series that share it, nearly all of them slower, or nearly all faster."""


@dataclass(frozen=True)
class Comparison:
    """Two sides and all points that they have in common: arrays, because a thousand ranks have two million."""

    first: Side
    second: Side
    sweeps: Sequence[Sweep]
    """Each benchmark and series of which there are points."""
    sweep: Integers
    """Which of them each point is of."""
    at: Sequence[str]
    """The place of each point in its sweep."""
    differences: Differences
    seconds: tuple[Floats, Floats]
    """Of each point on both sides: the medians over launches."""
    within: float
    """What counts as the same, as a fraction."""
    paired: bool
    letter: str = "B"
    """What reports call the second side."""
    comparisons: int = 1
    """How many sides are compared with the first one."""

    @property
    def sides(self) -> tuple[tuple[str, Side], tuple[str, Side]]:
        """Both sides, with what reports call them."""
        return (letter(0), self.first), (self.letter, self.second)

    @cached_property
    def verdicts(self) -> NDArray[np.str_]:
        if not self.first.repeats:
            return np.full(len(self.at), "undecided")
        same = np.where(self.differences.shown_within <= self.within, "same", "undecided")
        return np.where(self.differences.changed, "changed", same)

    def of(self, verdict: Verdict) -> Integers:
        return np.flatnonzero(self.verdicts == verdict)

    @cached_property
    def drifted(self) -> Integers:
        """The undecided points that differ, by no more than a drift of the machine may explain."""
        return np.flatnonzero(self.differences.drifted & (self.verdicts == "undecided"))

    @cached_property
    def firsts(self) -> list[tuple[Sweep, str]]:
        """Of each sweep the first point."""
        firsts = np.unique(self.sweep, return_index=True)[1].tolist()
        return [(self.sweeps[self.sweep[point]], self.at[point]) for point in firsts]

    @cached_property
    def ways(self) -> list[str]:
        """In what the ways differ in which both sides measured: two such results differ, and nothing changed.

        Two recordings of an application are replayed to see what changed.
        """
        sides = (self.first, self.second) if self.first.repeats else ()
        plans = ([side.plan_of(*first) for side in sides] for first in self.firsts)
        return list(dict.fromkeys(chain.from_iterable(map(ways_apart, plans))))

    @cached_property
    def series(self) -> list[str]:
        """What each sweep is called: its series, with the benchmark where several have one of this name."""
        names = [name for _, name in self.sweeps]
        return [f"{named(of).command} {name}" if names.count(name) > 1 else name for of, name in self.sweeps]

    def point_name(self, point: int) -> str:
        return place_name(self.series[self.sweep[point]], self.at[point])

    def by_series(self, points: Integers | None = None) -> dict[str, Integers]:
        """Return these points, or all of them, by their series, both in order of appearance."""
        points = np.arange(len(self.at)) if points is None else points
        some, begin = np.unique(self.sweep[points], return_index=True)
        return {
            self.series[number]: points[self.sweep[points] == number] for number in some[np.argsort(begin)].tolist()
        }

    @cached_property
    def same_within(self) -> Floats:
        """The percentage within which both sides of each point are the same, rounded up; infinite if not shown."""
        return np.maximum(1, np.ceil(100 * self.differences.shown_within - 1e-9))

    @cached_property
    def launches_needed(self) -> Floats:
        """About how many launches of each side would decide; NaN if decided, or with more than ``FEASIBLE``.

        An interval narrows with the square root of the launches.  It decides where it fits within the range of what is
        the same, or, ``widths`` times as narrow, where it excludes 1.  A drift does not go away.
        """
        found, at_least = self.differences, min_to_decide(paired=self.paired, comparisons=self.comparisons)
        fewer = np.minimum(*found.launches)
        off = np.abs(np.log(found.ratio))
        room = np.maximum(math.log1p(self.within) - off, off / found.widths)
        with np.errstate(all="ignore"):  # no room at all
            needed = np.ceil(fewer * (found.width / room) ** 2)
        needed = np.where(
            (needed <= FEASIBLE) & ~found.drifted, np.maximum(needed, np.maximum(fewer + 1, at_least)), np.nan
        )
        return np.where(self.verdicts == "undecided", np.where(found.kind == "ci", needed, at_least), np.nan)

    @cached_property
    def shown_by_most(self) -> Floats:
        """The smallest difference of each point that ``FEASIBLE`` of each side would show, as a fraction."""
        narrower = np.sqrt(np.minimum(*self.differences.launches) / FEASIBLE)
        return np.exp(self.differences.widths * self.differences.width * narrower) - 1

    @cached_property
    def able(self) -> Booleans:
        """Whether the launches of each point can show a change, at the level of this comparison."""
        counts = zip(*(those.tolist() for those in self.differences.launches), strict=True)
        able = (can_decide(*each, paired=self.paired, comparisons=self.comparisons) for each in counts)
        return np.array([*able]) if self.first.repeats else np.array(self.differences.kind == "ci")

    @property
    def possible(self) -> bool:
        """True if the launches could show a change of some point; a reference has no launches."""
        return self.first.repeats and bool(self.able.any())

    @cached_property
    def parts(self) -> list[Part]:
        """What the changed points of a series share, if its benchmark knows; if no change can be shown, what the points
        share that differ most."""
        ratios, found = self.differences.ratio, []
        if self.possible:
            ratios = np.where(self.differences.changed, ratios, 1.0)
        for number, (benchmark, series) in enumerate(self.sweeps):
            run = next(run for run in self.second.runs if run.plan.benchmark == benchmark)
            points = np.flatnonzero(self.sweep == number)
            at = [self.at[point] for point in points.tolist()]
            parts = named(benchmark).parts(run, at, ratios[points].tolist())
            found += [Part(name, series, points[places]) for name, places in parts]
        return found

    @cached_property
    def only(self) -> tuple[list[Key], list[Key]]:
        """What only the first side measured, and what only the second one did."""
        one, other = self.first.observed.rows, self.second.observed.rows
        return _only(one, other), _only(other, one)

    def missing(self, keys: Sequence[Key]) -> str:
        """Say how many points only one side has, and name them: a series as a whole if the other side has none of it.

        ``3 points: aware and host at 8 B``
        """
        both = self.first.observed.rows.keys() & self.second.observed.rows.keys()
        names = (place_name(*key[1:]) if key[:2] in both else key[1] for key in keys)
        return f"{count(len(keys), 'point')}: {join_few(dict.fromkeys(names))}"

    @cached_property
    def lost(self) -> list[str]:
        """Why no check can pass: a run has failed points, or the second one incomplete launches, or it lacks points."""
        second = self.second
        found = [f"{count(side.failed, 'point')} of {side.name} failed" for side in (self.first, second) if side.failed]
        if second.incomplete:
            found.append(f"{second.name} has {second.incomplete}")
        return [*found, f"{second.name} lacks {self.missing(self.only[0])}"] if self.only[0] else found

    def failing(self, condition: FailOn) -> Integers:
        """Return the points to which the condition applies with their whole interval; beside a reference, which allows
        no verdict, that of the other run.
        """
        if condition.share is None:
            return np.empty(0, np.int64)
        found = self.differences
        shown = found.changed if self.first.repeats else np.ones(len(self.at), bool)
        at_least = np.where(found.ratio > 1, found.low, 1 / found.high)
        counts = shown & (condition.either_way | (found.ratio > 1))
        return np.flatnonzero(counts & (at_least - 1 >= condition.share))

    def undecided(self, condition: FailOn) -> Integers:
        """Return the points whose interval neither shows what the condition names nor excludes it."""
        if condition.share is None:
            return self.of("undecided")
        found, limit = self.differences, 1 + condition.share
        excluded = (found.high < limit) & ((found.low > 1 / limit) | (not condition.either_way))
        excluded &= (found.kind == "ci") | (not self.first.repeats)
        return np.setdiff1d(np.flatnonzero(~excluded), self.failing(condition))

    def detectable(self, share: float) -> Floats:
        """Return the smallest change of each point that is shown to be larger than ``share``; infinite if none is."""
        return np.where(self.able, self.differences.detectable(share), math.inf)


def _only(first: Rows, second: Rows) -> list[Key]:
    """Return what the first run measured and the second did not, in order."""
    found = {
        rows[at]: (*sweep, at) for sweep, rows in first.items() for at in rows.keys() - second.get(sweep, {}).keys()
    }
    return [found[row] for row in sorted(found)]


def compare_all(sides: Sequence[Side], within: float) -> list[Comparison]:
    first, *others = sides
    return [
        compare(first, other, within, name=letter(place), comparisons=len(others))
        for place, other in enumerate(others, start=1)
    ]


def compare(first: Side, second: Side, within: float, *, name: str = "B", comparisons: int = 1) -> Comparison:
    """Compare two sides; launches that were measured in turn, and have the same order on both sides, are pairs."""
    sweeps, sweep, at, rows = _common(first.observed.rows, second.observed.rows)
    whole = min(len(first.logs), len(second.logs))
    paired = 0 < whole <= len(first.rounds) and first.rounds[:whole] == second.rounds[:whole]
    times = [side.seconds[those] for side, those in zip((first, second), rows, strict=True)]
    if paired:
        launches = min(each.shape[1] for each in times)
        times = [each[:, :launches] for each in times]
        both = ~np.isnan(times[0]) & ~np.isnan(times[1])
        kept = np.flatnonzero(both.any(axis=1))
        times = [np.where(both, each, np.nan)[kept] for each in times]
        sweep, at = sweep[kept], [at[place] for place in kept.tolist()]
    if not at:
        raise UserError(_nothing_in_common(first, second))
    one, other = (medians_of(each.T) for each in times)
    if first.repeats:
        begun = [min((run.started_at for run in side.runs), default="") for side in (first, second)]
        found = differences(*times, paired=paired, comparisons=comparisons, reverse=begun[1] < begun[0])
    else:  # a number that does not vary: the interval is that of the second side
        times[0] = np.where(np.isnan(times[1]), np.nan, times[0])
        found = differences(*times, paired=True)
        found = replace(found, launches=(np.ones_like(found.launches[0]), found.launches[1]))
    return Comparison(first, second, sweeps, sweep, at, found, (one, other), within, paired, name, comparisons)


def _common(first: Rows, second: Rows) -> tuple[list[Sweep], Integers, list[str], list[Integers]]:
    """Return the sweeps of both sides, and of each common point its sweep, its place in it, and its rows."""
    sweeps = [sweep for sweep in first if sweep in second]
    common = [list(filter(second[sweep].__contains__, first[sweep])) for sweep in sweeps]
    at = list(chain.from_iterable(common))
    rows = [
        np.array([row for sweep, those in zip(sweeps, common, strict=True) for row in map(run[sweep].get, those)], int)
        for run in (first, second)
    ]
    order = np.argsort(rows[0])  # as the first run measured them
    sweep = np.repeat(np.arange(len(sweeps)), list(map(len, common)))
    return sweeps, sweep[order], [at[place] for place in order.tolist()], [each[order] for each in rows]


def _nothing_in_common(first: Side, second: Side) -> str:
    if not set(first.benchmarks) & set(second.benchmarks):
        commands = [
            f"{side.name} is from {join_words(f'volley {named(name).command}' for name in side.benchmarks)}"
            for side in (first, second)
        ]
        return f"{join_words(commands)}: compare two runs of one benchmark"
    series = [
        f"{side.name} has {join_few([place_name(*key[1:]) for key in _only(side.observed.rows, {})], 3)}"
        for side in (first, second)
    ]
    return f"the runs have no point in common ({'; '.join(series)}): measure the same sizes in the same way"
