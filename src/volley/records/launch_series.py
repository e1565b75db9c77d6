"""Series of launches: runs of the same request under the same conditions.  Only these are pooled."""

from __future__ import annotations

import contextlib
import math
import time
from array import array
from calendar import timegm
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

import msgspec

from volley.errors import UserError
from volley.machine.variables import OF_ONE_JOB
from volley.records.command_again import budget_named, launches_named, options_apart
from volley.records.plan import Plan
from volley.records.record_types import Run, Transport
from volley.records.run_log import Observable, RecordedBenchmark, RunLog
from volley.records.saved_runs import TIME
from volley.text import escape_controls, grouped, join_few, join_words, shortened
from volley.units import format_cpulist, numbered


@dataclass(frozen=True)
class LaunchSeries:
    """Launches of the same request under the same conditions; at least one."""

    logs: tuple[RunLog, ...]
    differing: Mapping[str, str] = field(default_factory=dict)
    """The conditions that other launches of the same request do not share, as they are in this series."""

    @cached_property
    def run(self) -> Run | None:
        """The first ``run`` record; ``None`` if no launch has one."""
        return next((log.run for log in self.logs if log.run), None)

    @property
    def plan(self) -> Plan | None:
        return self.run.plan if self.run else None

    @property
    def launch(self) -> Mapping[str, Any]:
        """What the front end knew about the launch."""
        return self.run.plan.launch if self.run else {}

    @property
    def span_s(self) -> float | None:
        """Seconds from the start of the first launch to the end of the last; ``None`` where the records do not say.

        Launches one after the other in a file have times that no step of the clock changes.
        """
        spans = []
        for logs in grouped(self.logs, lambda log: log.file).values():
            with contextlib.suppress(ValueError):  # not a time
                ended = ((log.run.started_at, log.end) for log in logs if log.run and log.end)
                known = [(timegm(time.strptime(at, TIME)), end) for at, end in ended]
                begun_s = min(begun for begun, _ in known)
                lasted_s = max(begun + end.elapsed_s for begun, end in known) - begun_s
                waits = [log.times and log.times.gap_s for log in logs[1:]]
                in_turn = [log.number for log in logs] == list(range(logs[0].number, logs[0].number + len(logs)))
                if in_turn and None not in (*waits, logs[0].times):
                    gaps_s = sum(wait for wait in waits if wait)
                    lasted_s = gaps_s + sum(log.times.exit_s for log in logs if log.times)
                spans.append((begun_s, begun_s + lasted_s))
        return max(end for _, end in spans) - min(begun for begun, _ in spans) if spans else None

    @cached_property
    def transports(self) -> dict[str, Transport]:
        """The transports by name; a transport is unavailable if any launch could not use it."""
        found: dict[str, Transport] = {}
        for transport in (transport for log in self.logs for transport in log.transports):
            if transport.transport not in found or found[transport.transport].available:
                found[transport.transport] = transport
        return found


Conditions = Mapping[str, Hashable]
"""What must be equal for launches to belong together, by name; ``None`` or nothing where the records do not say."""

MAX_NAMED = 4
"""A sentence names at most this many conditions that differ, and counts the others."""

_BOUND_BY = {"engine": "", "launcher": " by the launcher", "nobody": ", not bound"}


def software(run: Run) -> Conditions:
    """Return the programs of a run, and the recorded variables that configure them."""
    engine = run.engine
    built = f"CUDA {engine.cuda_built} for {' '.join(engine.cuda_architectures)}" if engine.cuda_built else "no CUDA"
    mpi = engine.mpi_built or ("any MPI" if run.mpi else "no MPI")
    return {
        "MPI": run.mpi and run.mpi.library,
        "engine": f"{engine.version}, {mpi}, {built}",
        **{name: value for name, value in run.environment.items() if not OF_ONE_JOB.search(name)},
    }


def conditions(log: RunLog) -> Conditions:
    """Return where a launch ran, with which programs and settings; nothing is known of one without a ``run`` record."""
    run, settings = log.run, log.settings
    if run is None:
        return {}
    devices = [rank.device for rank in run.ranks if rank.device]
    before = [record for record in log.hardware if record.when == "before"]
    typed = str([run.plan.launch.get("command"), run.plan.launch.get("asked")])  # perhaps of a file that somebody wrote
    return {
        "host": tuple(rank.host for rank in run.ranks),
        "CPU": tuple(rank.cpu for rank in run.ranks),
        "GPU": tuple(f"{gpu.name} {gpu.uuid}" for gpu in devices or log.gpus("before")),
        "placement": tuple(
            f"rank {rank.rank} on core {format_cpulist(rank.cores)}{_BOUND_BY[rank.bound_by]}" for rank in run.ranks
        ),
        "driver": tuple(each.driver_version for each in before if each.driver_version) or None,
        "power limit": tuple(f"{gpu.power_limit_w:g} W" for gpu in log.gpus("before") if gpu.power_limit_w) or None,
        "governor": (tuple(settings.governors) or None) if settings else None,
        "boost": settings and {True: "on", False: "off", None: None}[settings.boost],
        "GPU chosen": "after MPI_Init" if "'--gpu-after-init'" in typed else None,
        **software(run),
    }


OF_THE_NODE = ("driver", "power limit", "governor", "boost")
"""Conditions that some launches do not record, such as those without GPU memory."""


def differing(found: Sequence[Conditions]) -> list[str]:
    return [name for name in dict.fromkeys(chain(*found)) if len({each.get(name) for each in found}) > 1]


_OF_EACH_RANK = ("host", "CPU", "GPU")


def _shown(found: Conditions, name: str) -> str:
    value = found.get(name)
    if not value:
        return "not set" if value is None else "none"
    if not isinstance(value, tuple):
        return shortened(str(value))
    ranks = grouped(range(len(value)), lambda rank: str(value[rank]))
    several = name in _OF_EACH_RANK and len(ranks) > 1
    return shortened(
        join_few((f"{each} ({numbered('rank', its)})" if several else each for each, its in ranks.items()), 2)
    )


def request_of(plan: Plan) -> Hashable:
    """Return what was asked for, however it was launched."""
    asked = plan.changed(launch={}, excluded={}, budget_s=None)
    return msgspec.json.encode(asked, order="sorted")


_OF_THE_TIME = {"ci", "point_time_s", "size_time_s", "min_visits", "rounds", "repeats", "samples", "time_s"}
"""Parts of a plan that set how long and in which order it measures, and not how."""
_OF_THE_POINTS = {"operations", "sizes_bytes", "latency_sizes_bytes", "bandwidth_sizes_bytes", "computations"}
_OF_THE_POINTS |= {"sections", "pairs", "gpus"}
"""Parts that a point has by itself."""
_OF_A_RECORDING = frozenset({"program", "recorded"})
"""Parts that say which recording is replayed."""


def settings_of(plan: Plan) -> dict[str, Any]:
    """Return the settings of a plan, besides its points, by which two results of one point may differ."""
    known = msgspec.to_builtins([plan.options, plan.sampling])
    options, sampling = known if isinstance(known[0], dict) else ({}, known[1])  # the plan of somebody else
    how = "tail" if sampling["tail"] else sampling["mode"]
    if how == "fixed":
        how = f"{sampling['warmup']} untimed, {sampling['iterations']} timed"
    own = {name: value for name, value in options.items() if name not in _OF_THE_TIME | _OF_THE_POINTS}
    if "recorded" in own:  # of a replay
        own["memory"] = own["recorded"]["memory"]
    return {**own, "sampling": how}


def way_of(plan: Plan | None) -> Conditions:
    """Return how points were to be measured, whichever these are: launches of which this differs are not pooled."""
    if plan is None:
        return {}
    known = {"benchmark": plan.benchmark, "ranks": plan.world_size, "verified": plan.verify}
    known |= {"sharing a GPU": plan.share_device, **settings_of(plan)}
    return {name: str(value) for name, value in known.items()}


def ways_apart(plans: Sequence[Plan | None]) -> list[str]:
    """Return in what plans differ in how they measure, whichever recording they replay."""
    return [each for each in differing([way_of(plan) for plan in plans]) if each not in _OF_A_RECORDING]


def way_key(log: RunLog) -> Hashable:
    return frozenset(way_of(log.plan).items())


Key = tuple[str, str, str]
"""The benchmark, the series and the place in its sweep."""
Sweep = tuple[str, str]
Rows = dict[Sweep, dict[str, int]]


@dataclass(frozen=True)
class Observed:
    """What the launches of a run measured: a table with a row for each place of a sweep and a column for each launch.

    A thousand ranks have a million rows: so the numbers are arrays.
    """

    rows: Rows = field(default_factory=dict)
    columns: list[array[float]] = field(default_factory=list)
    """The seconds of each launch; NaN where it did not measure."""
    work: array[float] = field(default_factory=lambda: array("d"))
    """What is done in the time of each row (``Observable``); 0 where it has no rate."""

    def seconds(self, row: int) -> list[float]:
        return [seconds for column in self.columns if not math.isnan(seconds := column[row])]

    def add(self, benchmark: str, each: Observable, column: array[float]) -> None:
        """Write what a launch measured into its column."""
        rows = self.rows.setdefault((benchmark, each.series), {})
        new = dict.fromkeys(at for at in each.at if at not in rows)
        rows.update(zip(new, range(len(self.work), len(self.work) + len(new)), strict=True))
        self.work.extend(repeat(each.work or 0.0, len(new)))
        column.extend(repeat(math.nan, len(self.work) - len(column)))
        for at, seconds in each.times:
            column[rows[at]] = seconds


def observed_in(logs: Sequence[RunLog], benchmarks: Sequence[RecordedBenchmark]) -> Observed:
    """Return what was measured.

    Launches of the same request are numbered in their order; those of another request continue the count.
    """
    found = Observed()
    for benchmark in benchmarks:
        launches = launches_of(logs, benchmark.name)
        for number, log in enumerate(launches):
            if number == len(found.columns):
                found.columns.append(array("d"))
            for each in filter(attrgetter("at"), benchmark.observables(log)):
                found.add(benchmark.name, each, found.columns[number])
        _refuse_mixed(launches, found, benchmark.name)
    for column in found.columns:
        column.extend(repeat(math.nan, len(found.work) - len(column)))
    return found


def _refuse_mixed(launches: Sequence[RunLog], found: Observed, benchmark: str) -> None:
    """Refuse launches of a benchmark that measured the same in different ways or under different conditions."""
    numbers = {id(log): number for number, log in enumerate(launches)}
    groups = [[numbers[id(log)] for log in series.logs] for series in series_of(launches, way_key)]
    if len(groups) == 1:
        return

    def measured(row: int, group: Sequence[int]) -> bool:
        columns = (found.columns[number] for number in group)
        return any(row < len(column) and not math.isnan(column[row]) for column in columns)

    own = (row for (name, _), rows in found.rows.items() if name == benchmark for row in rows.values())
    by_row = ([launches[group[0]] for group in groups if measured(row, group)] for row in own)
    if mixed := next((logs for logs in by_row if len(logs) > 1), None):
        refuse_unlike(mixed)


def refuse_unlike(logs: Sequence[RunLog], remedy: str = "", among: Collection[str] = ()) -> None:
    """Raise UserError: these launches are not of one series; what differs (``among`` these conditions), and what to do
    instead.
    """
    files = dict.fromkeys(escape_controls(log.file or "a side") for log in logs)
    ways = [way_of(log.plan) for log in logs]
    options = options_apart([log.plan for log in logs])
    if differing(ways) and any(options):
        ways = [{"options": each} for each in options]
    known = [{**way, **conditions(log)} for way, log in zip(ways, logs, strict=True)]
    texts = {name: list(dict.fromkeys(_shown(each, name) for each in known)) for name in among or differing(known)}
    names = [f"{name} ({join_words(its, 'or')})" for name, its in texts.items() if len(its) > 1]
    names = names or list(texts)
    own = f"keep each machine and each setting in a file of its own; volley show {' '.join(files)} shows them"
    raise UserError(
        f"{join_few(files)} {'have' if len(files) > 1 else 'has'} launches that do not belong together; they differ in "
        f"{join_few(map(escape_controls, names), MAX_NAMED)}: {remedy or f'{own} side by side'}"
    )


def launches_of(logs: Sequence[RunLog], benchmark: str) -> list[RunLog]:
    """Return the launches of a benchmark in the order of the columns of :class:`Observed`."""
    own = [log for log in logs if log.run and log.run.plan.benchmark == benchmark]
    return [log for series in series_of(own) for log in series.logs]


def series_of(
    logs: Iterable[RunLog], request: Callable[[RunLog], Hashable] | None = None, *, any_placement: bool = False
) -> list[LaunchSeries]:
    """Group the launches of the same request under the same conditions, in order of appearance.

    Args:
        logs: the launches; one without a ``run`` record is a series of its own.
        request: returns what launches of one series have in common besides their conditions; default: their request.
        any_placement: launches on other cores belong together too.
    """
    of = request or (lambda log: log.run and request_of(log.run.plan))
    found = []
    for same in grouped(logs, lambda log: of(log) if log.run else id(log)).values():
        known = [(log, conditions(log)) for log in same]
        # A launch that does not record the state of the node fits any one state.
        ignored = {name for name in OF_THE_NODE if len({each[name] for _, each in known if each.get(name)}) <= 1}
        ignored |= {"placement"} if any_placement else set()
        series: dict[Hashable, list[tuple[RunLog, Conditions]]] = {}
        for log, its in known:
            alike = frozenset((name, value) for name, value in its.items() if name not in ignored)
            series.setdefault(alike, []).append((log, its))
        names = differing([those[0][1] for those in series.values()]) if len(series) > 1 else ()
        for those in series.values():
            here = {name: _shown(those[0][1], name) for name in names}
            found.append(LaunchSeries(tuple(log for log, _ in those), here))
    return found


def count_missing(logs: Collection[RunLog]) -> None:
    """Write into the last launch of each request how many of the launches that the command names are missing, and how
    many a budget had no time for; a launch without a ``run`` record was made.  After a run that was killed between two
    launches (``Writer.hold``) at least one is missing.
    """
    unknown = sum(log.run is None for log in logs)
    for series in series_of((log for log in logs if log.run), any_placement=True):
        last, missing = series.logs[-1], launches_named(series.plan) - len(series.logs) - unknown
        by_volley = any(log.times or (log.run and "budget_left_s" in log.run.plan.launch) for log in series.logs)
        killed = by_volley and last.end is not None and last.times is None
        missing = max(missing, int(killed))
        ended = not killed and budget_named(series.plan) is not None and _budget_ended(series)
        last.launches_without_time = max(0, missing) if ended else 0
        last.missing_launches = 0 if ended else max(0, missing)


_ABOUT = 1.5
"""Of the mean time of a launch: what a launch would have needed at most, where one did not begin for lack of time."""


def _budget_ended(series: LaunchSeries) -> bool:
    """Return whether there was no time for another launch; true in doubt."""
    last, left_s = series.logs[-1], series.logs[-1].run and series.logs[-1].run.plan.launch.get("budget_left_s")
    if last.end is None or last.end.status == "stopped":
        return False
    if not isinstance(left_s, float | int) or last.times is None or {*last.statuses} == {"skipped"}:
        return True
    spent = [log.times.exit_s + (log.times.gap_s or 0.0) for log in series.logs if log.times]
    return left_s - last.times.exit_s < _ABOUT * sum(spent) / len(spent)
