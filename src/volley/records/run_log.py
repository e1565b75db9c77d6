"""The records of one run, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from volley.command.commandline import Options
from volley.errors import UserError
from volley.machine.hardware import Gpu, Hardware, Settings
from volley.machine.line_rate import LineRate, between
from volley.machine.transports import ROUTES
from volley.records.plan import OUT_OF_TIME, Plan
from volley.records.record_types import End, LaunchTimes, NotMeasured, Rank, Run, Status, Transport
from volley.text import count, join_words

Of = TypeVar("Of")


class RecordError(UserError):
    """A line that is not a valid record of this version; the message gives the error."""


@dataclass
class RunLog:
    """All records of one run, in the order of the file."""

    run: Run | None = None
    """``run.plan.options`` is a struct of the benchmark's own type."""
    transports: list[Transport] = field(default_factory=list)
    records: list[Any] = field(default_factory=list)
    end: End | None = None
    settings: Settings | None = None
    """The settings of the front end's own node; ``None`` if none of the ranks is there, and in older records."""
    hardware: list[Hardware] = field(default_factory=list)
    """The state of the GPUs before and after the run, read by the front end; empty if it read none."""
    times: LaunchTimes | None = None
    """Where the time of the launch went; ``None`` in records of an engine alone, and in older ones."""
    unmeasured: list[NotMeasured] = field(default_factory=list)
    """Of the last launch of a check: what this could not measure."""
    problems: list[str] = field(default_factory=list)
    """Messages about invalid lines, with line numbers if they come from a file."""
    file: str = ""
    number: int = 1
    """Its place among the launches of that file."""
    running: bool = False
    """True for the last launch of a file that a volley is still writing."""
    missing_launches: int = 0
    """How many more launches of this request should have followed: of the last launch of a run that was stopped."""
    launches_without_time: int = 0
    """How many more a budget had no time for: of the last launch of a run."""

    @property
    def complete(self) -> bool:
        """True if the run has its first and its last record and every line is valid."""
        return self.run is not None and self.end is not None and not self.problems

    def gpus(self, when: Literal["before", "after"]) -> list[Gpu]:
        return [gpu for record in self.hardware if record.when == when for gpu in record.gpus]

    def of(self, kind: type[Of]) -> list[Of]:
        return [record for record in self.records if isinstance(record, kind)]

    def line_rate(self, transport: str, ranks: Sequence[Rank]) -> LineRate | None:
        """Return the line rate of a transport between two ranks; ``None`` where it is not known."""
        route = ROUTES.get(transport.partition("/")[0])
        devices = [rank.device for rank in ranks if rank.device]
        if route is None or len(devices) != 2 or len({rank.host for rank in ranks}) != 1:
            return None
        return between(route, (devices[0].uuid, devices[1].uuid), self.hardware)

    @property
    def statuses(self) -> list[Status]:
        """The status of each measurement, from a record (``status``) or from its parts (``statuses``)."""
        each = (getattr(record, "statuses", [getattr(record, "status", None)]) for record in self.records)
        return [status for statuses in each for status in statuses if status]

    def add(self, record: Any, where: str = "") -> None:
        """Append a record of this run.

        A record that is out of place is a problem, said after ``where``.  It is added anyway, unless it would replace
        an earlier one.
        """
        kind = record.__struct_config__.tag
        problem = ""
        if isinstance(record, LaunchTimes):  # the end of the launcher follows that of the run
            self.times = record
            return
        if self.end is not None and not isinstance(record, NotMeasured):
            problem = f"a record '{kind}' after the end of its run"
        elif self.run is None and not isinstance(record, Run):
            problem = "a record before any record 'run', with which each launch begins"
        if isinstance(record, Run | End) and getattr(self, kind) is not None:
            problem = f"a second {kind} record in one run"
        elif isinstance(record, Run | End | Settings):
            setattr(self, kind, record)
        else:
            lists: dict[Any, list[Any]] = {Transport: self.transports, Hardware: self.hardware}
            lists[NotMeasured] = self.unmeasured
            lists.get(type(record), self.records).append(record)
        if problem:
            self.problems.append(where + problem)

    @property
    def out_of_time(self) -> bool:
        """True if a budget left out a point."""
        points = (each for record in self.records for each in (record, *getattr(record, "cells", ())))
        return any(getattr(each, "reason", None) == OUT_OF_TIME for each in points)

    @property
    def plan(self) -> Plan | None:
        return self.run.plan if self.run else None

    @property
    def of_check(self) -> bool:
        """True if ``volley check`` launched it: its plan says so, or has the rounds of a check, in older records."""
        return self.of_all_ranks or bool(self.plan and self.plan.launch.get("of_check"))

    @property
    def of_all_ranks(self) -> bool:
        """True if it is the launch of a check in which all ranks exchange messages, in rounds."""
        return bool(self.plan and getattr(self.plan.options, "rounds", ()))

    @property
    def good(self) -> bool:
        """True if the run is complete, measured all that it should, no point failed, and no launch is missing."""
        whole = self.complete and self.end is not None and self.end.status == "complete"
        return whole and not self.missing_launches and "failed" not in self.statuses


def not_whole(logs: Sequence[RunLog]) -> str:
    """Say what is not there of launches: ``2 launches that ended early``; empty if all of them are whole."""
    lines = [problem for log in logs for problem in log.problems]
    cut = sum(not log.problems and (log.end is None or log.end.status == "stopped") for log in logs)
    missing = sum(log.missing_launches for log in logs)
    damaged = f"{count(len(lines), 'line')} damaged or out of place ({lines[0]})" if lines else ""
    early = f"{count(cut, 'launch')} that ended early" if cut else ""
    return join_words(filter(None, (damaged, early, f"{count(missing, 'launch')} missing" if missing else "")))


@dataclass(frozen=True, slots=True)
class Observable:
    """Times that one launch measured, with labels under which every other launch has the same quantities."""

    series: str
    """What is measured at several places of a sweep: ``aware``."""
    at: Sequence[str]
    """Where in the sweep, for each time: ``64 KiB``, ``0 → 1``; empty where the series is one time."""
    seconds: Sequence[float]
    """Positive: the medians of the launch."""
    work: float | None = None
    """What is done in each of these times, where a rate is more usual: bytes moved, or lattice updates."""
    part: bool = False
    """It is a part of another one's times: a setting is not judged by it."""

    @property
    def times(self) -> Iterator[tuple[str, float]]:
        """Each place with its time."""
        return zip(self.at, self.seconds, strict=True)


def place_name(series: str, place: str) -> str:
    """Name a point or part of a series: ``host at 8 B``, ``host, pingpong, loaded at 8 B, 0 → 1``, ``replay``."""
    return f"{series}{',' if ' at ' in series else ' at'} {place}" if place else series


class RecordedBenchmark(Protocol):
    """What the readers of records need of a benchmark; ``volley.run.benchmark.Benchmark`` explains it."""

    @property
    def name(self) -> str: ...
    @property
    def options(self) -> type[Options]: ...
    @property
    def plan(self) -> str: ...
    @property
    def records(self) -> tuple[str, ...]: ...
    @property
    def observables(self) -> Callable[[RunLog], Iterable[Observable]]: ...
