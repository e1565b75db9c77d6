"""The parts of a report that all benchmarks share: the heading, and notes on errors, missing parts and the machine."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from volley.machine.transports import NOTHING_FOR_GPUS
from volley.machine.variables import tuned
from volley.records.command_again import budget_named, command_again, launches_named
from volley.records.launch_series import MAX_NAMED, LaunchSeries
from volley.records.record_types import Rank, Run, Transport
from volley.records.run_log import RunLog
from volley.report.cells import kinds_of, launches_of, percent_above
from volley.report.model import Note, finding
from volley.run.machine_notes import machine_notes
from volley.run.path_report import path_findings, path_lines
from volley.statistics.estimates import Estimate
from volley.statistics.launches import FEASIBLE, FIRST_LOOK
from volley.text import count, grouped, join_few, join_words, mpi_name, of_several
from volley.units import format_cpulist, format_duration, numbered

MAX_RANKS = 8
"""The heading names the cores and GPUs of at most this many ranks of a node; it counts the others."""

MAX_NODES = 8
"""Of more nodes headings and rows name only the first, and count the others."""

MAX_SETTINGS = 6
"""The heading names at most this many variables of the environment; it counts the others."""

_BINDERS = {"engine": "bound by volley", "launcher": "bound by the launcher", "nobody": "not bound"}


def heading(series: LaunchSeries, command: str, *more: str) -> list[str]:
    """Return the heading of a series: what was measured (``more``: what else of it), then one line for each node.

    The options of a plan may have a property ``unusual``: what of them is said here.
    """
    run = series.run
    if run is None:
        return ["The record that describes the run is missing: machine and MPI are unknown."]
    unusual = getattr(run.plan.options, "unusual", "")
    parts = [f"volley {command}", *([unusual] if unusual else []), *more]
    if run.mpi:
        interface = f" ({run.mpi.interface})" if run.mpi.interface else ""
        parts.append(mpi_name(run.mpi.library) + interface)
        parts += ["MPI_THREAD_MULTIPLE"] if run.mpi.thread_multiple else []
    launcher = run.plan.launch.get("launcher")
    if isinstance(launcher, str) and launcher != "none":
        parts.append(f"launched by {launcher}")
    parts.append(count_launches(len(series.logs)))
    lines = [" · ".join([*parts, run.started_at]), *_places(run.ranks)]
    if settings := _tuned(run, series.transports.values()):
        more_settings = f" and {len(settings) - MAX_SETTINGS} more" if len(settings) > MAX_SETTINGS else ""
        lines.append(f"{'; '.join(settings[:MAX_SETTINGS])}{more_settings} in the environment")
    lines += path_lines(series)
    if series.differing:
        here = join_few((f"{name} (here {value})" for name, value in series.differing.items()), MAX_NAMED)
        lines.append(f"separate from other launches of the same request, which differ in {here}")
    return lines


def _tuned(run: Run, transports: Iterable[Transport]) -> list[str]:
    """Return the variables of the environment that may have changed the performance of what was measured.

    What volley itself passes to mpirun is a part of the software that it names, and not of the environment.
    """
    measured = [each for each in transports if each.available]
    libraries = {each.transport.partition("/")[0] for each in measured} | {"MPI" for each in measured if each.mpi}
    command = run.plan.launch.get("command")
    begins = {"--mca": "OMPI_MCA_", "-genv": ""}
    words = pairwise(map(str, command if isinstance(command, list) else ()))
    own = {f"{begins[option]}{name}" for option, name in words if option in begins}
    others = {name: value for name, value in run.environment.items() if name not in own}
    return tuned(others, libraries, run.mpi.library if run.mpi else "")


def count_launches(number: int) -> str:
    return "one launch" if number == 1 else count(number, "launch")


def hosts_of(ranks: Iterable[Rank]) -> list[str]:
    """Return the names of the hosts; of more than ``MAX_NODES`` the first and the number of the others, as one name."""
    hosts = list(dict.fromkeys(rank.host for rank in ranks))
    return hosts if len(hosts) <= MAX_NODES else [f"{hosts[0]} and {len(hosts) - 1} more"]


def _places(ranks: list[Rank]) -> Iterator[str]:
    """Yield one line for each node: its processor and GPUs, and the cores and the GPU of each of its ranks."""
    nodes = grouped(ranks, lambda rank: (rank.node, rank.host))
    for number, ((_, host), here) in enumerate(nodes.items()):
        if number == 1 and len(nodes) > MAX_NODES:
            others = list(nodes)[1:]
            yield f"{others[0][1]} to {others[-1][1]}: {count(len(others), 'more node')} of {len(ranks)} ranks in all"
            return
        gpus = {rank.device.name for rank in here if rank.device}
        alike_gpus = f", {gpus.pop()}" if len(gpus) == 1 else ""
        places: dict[str, list[int]] = {}
        for rank in here[:MAX_RANKS]:
            cores = f"core{'' if len(rank.cores) == 1 else 's'} {format_cpulist(rank.cores) or 'unknown'}"
            gpu = f" with GPU {rank.device.index}" if rank.device else ""
            kind = f" ({rank.device.name})" if rank.device and not alike_gpus else ""
            places.setdefault(f"{cores}{gpu}{kind}", []).append(rank.rank)
        alike = [f"{numbered('rank', they)} on {place}" for place, they in places.items()]
        alike += [count(len(here) - MAX_RANKS, "more rank")] if len(here) > MAX_RANKS else []
        binding = join_words(sorted({_BINDERS[rank.bound_by] for rank in here}))
        yield f"{host} ({here[0].cpu}{alike_gpus}): {join_words(alike)}, {binding}"


def over_launches(launches: int, series: LaunchSeries) -> str:
    """Return what an interval is over, and in which time."""
    if series.span_s is None:
        return count(launches, "launch")
    time = format_duration(series.span_s) if series.span_s >= 1 else "less than 1 s"
    cut = launches - sum(log.end is not None for log in series.logs)
    return f"{count(launches, 'launch')}{f', {cut} of them incomplete, the rest' * (cut > 0)} in {time}"


@dataclass(frozen=True)
class Account:
    """What became of all points, or pairs, that were asked for."""

    verified: int = 0
    unverified: int = 0
    failed: int = 0
    skipped: int = 0
    empty: int = 0
    """Without data, so that there is nothing to compare."""

    @classmethod
    def of(cls, points: Iterable[Any]) -> Account:
        """Count points by ``status`` and ``verified``, which is ``None`` without data; not those of a transport that
        sends nothing (``sends``)."""
        counts: dict[str, int] = defaultdict(int)
        for point in points:
            if point.status in ("failed", "skipped"):
                counts[point.status] += 1
            elif point.sends:
                counts[{True: "verified", False: "unverified", None: "empty"}[point.verified]] += 1
        return cls(**counts)

    @property
    def all_verified(self) -> str:
        """What a legend says where all is verified, else nothing."""
        return "all verified" if self.verified and not self.failed and not self.unverified else ""

    def words(self, what: str = "point") -> str:
        """``all 85 points verified byte for byte; 11 skipped``; ``6 of 61 points FAILED, 55 verified byte for byte``"""
        measured = self.verified + self.unverified + self.failed + self.empty
        checked = f"{self.verified or 'none'} verified{' byte for byte' * bool(self.verified)}"
        if self.failed:
            text = f"{self.failed} of {count(measured, what)} FAILED, {checked}"
        elif self.unverified or not self.verified:
            text = f"{count(measured, what)}, {checked}"
        else:
            text = f"{'all ' * (measured > 1)}{count(measured, what)} verified byte for byte"
        text += " (0 B: nothing to compare)" * bool(self.empty)
        return text + (f"; {self.skipped} skipped" if self.skipped else "")


def bounds_legend(results: Sequence[Any], series: LaunchSeries, observations: str = "samples") -> Iterator[str]:
    """Say what the column ± is, or what takes its place (``report.cells.with_bounds``)."""
    kinds, launches = kinds_of(results), launches_of(results)
    several = [result for result in results if result.time and result.launches > 1]
    if "ci" in kinds:
        fewer = "; –: measured in fewer than six launches" * (kinds != {"ci"})
        yield f"±: 95 % confidence interval (CI) of the median over {over_launches(launches, series)}{fewer}"
        return
    ranges = ["95 % confidence interval (CI) of the median within one launch"] * ("within" in kinds)
    if any(result.time and result.time.kind == "range" and result.launches == 1 for result in results):
        ranges.append(f"smallest to largest of the {observations} of one launch")
    if several:
        up_to = "up to " * any(result.launches < launches for result in several)
        over = " over launches" * bool(ranges)
        ranges.append(f"smallest to largest of {up_to}{launches} launches; a 95 % CI{over} needs {FIRST_LOOK}")
    if ranges:
        yield f"range: {', or '.join(ranges)}"


def nothing_sent(points: Iterable[Any]) -> list[str]:
    """Return the line of the legend on the rates of points without bytes, if there are such points."""
    return ["–: no bytes are sent"] * any(point.time and not point.rate for point in points)


def not_mpi(transport: Transport | None) -> str:
    if transport is None or transport.mpi:
        return ""
    return " (sends nothing)" if transport.memory == "none" else " (not MPI)"


def compared_fewer(in_flight: int, window: int | None, named: str) -> str:
    """Say that the pass that compares every message had fewer of them in flight than the samples; 0: no pass."""
    if in_flight:
        return f"the full check used {count(in_flight, 'message')} in flight instead of {window}: {named}"
    return f"only the last message of each sample was checked, because memory has no room for more: {named}"


def notes_of(
    series: LaunchSeries,
    measured: Collection[str],
    failed: Iterable[str] = (),
    missing: Iterable[str] = (),
    doubts: Iterable[Note] = (),
    *,
    unverified: str = "",
) -> Iterator[Note]:
    """Yield the notes of a report, without findings and without what ``incomplete`` says of any report.

    Args:
        series: the launches.
        measured: what there are numbers of, transports or whatever else.
        failed: what delivered wrong data.
        missing: what else was not measured, and why.
        doubts: reasons to doubt the numbers; those of the machine come before.
        unverified: what was verified although ``--no-verify`` was given; by default nothing was.
    """
    yield from (Note("error", f"FAILED: {text}") for text in failed)
    yield from (Note("missing", text) for text in (*_not_measured(series, measured), *missing))
    yield from path_findings(series)
    for number, note in enumerate(machine_notes(series)):
        yield note if number or note.verdict else replace(note, verdict="NOISY", first=True)
    yield from doubts
    if measured and series.plan and not series.plan.verify:
        yield Note("warning", f"{unverified or 'nothing was'} verified, because --no-verify was given")


def one_launch_note(series: LaunchSeries, measured: Collection[str]) -> Iterator[Note]:
    """Advise more launches where one measured something, and a budget left out no points: else a note on these does."""
    one = len(series.logs) == 1 and not series.logs[0].out_of_time
    if one and measured and series.plan and series.plan.sampling.mode == "adaptive":
        more = command_again(series.plan.benchmark, series.plan, launches=FIRST_LOOK)
        yield Note("finding", f"one launch cannot show how launches vary: measure that with {more}")


def noisy(series: LaunchSeries, times: Mapping[str, Estimate]) -> Iterator[Note]:
    """Sum up the named times of which the interval, or the range of three launches and more, is wider than was asked
    for, with the command for more launches."""
    plan, more = series.plan, max(FIRST_LOOK, 2 * len(series.logs))
    aim = plan.sampling.ci if plan else 1.0
    shown = {name: max(each.high / each.median - 1, 1 - each.low / each.median) for name, each in times.items()}
    wide = {name: width for name, width in shown.items() if times[name].interval and width > aim}
    if not plan or not wide:
        return
    worst = max(wide, key=wide.__getitem__)
    within = " within one launch" * (times[worst].kind == "within")
    most = f"up to {percent_above(wide[worst], aim)}{f' ({worst})' * (len(wide) > 1)}"
    text = f"{join_few(wide)} {'varies' if len(wide) == 1 else 'vary'} by more than ±{aim * 100:g} %{within}, {most}"
    again = command_again(plan.benchmark, plan, launches=more) if more <= FEASIBLE else ""
    yield finding("NOISY", text, again, "warning")


_LINE = re.compile(r"line (\d+): ")


def incomplete(series: LaunchSeries, *, why_is_below: bool) -> Iterator[Note]:
    """Report launches with unreadable lines, and launches that were aborted or ended early.

    ``why_is_below``: the session that measured them says below its report why they ended.
    """
    launches = len(series.logs) + sum(log.missing_launches for log in series.logs)
    for number, log in enumerate(series.logs, start=1):
        which = f"launch {number} of {launches}" if launches > 1 else "this run"
        for why, lines in grouped(log.problems, lambda problem: _LINE.sub("", problem)).items():
            numbers = format_cpulist(int(found[1]) for line in lines if (found := _LINE.match(line)))
            where = f"line{'s' if len(lines) > 1 else ''} {numbers}: " if numbers else ""
            yield Note("error", f"UNREADABLE in {which}: {where}{why}")
        if log.running:
            yield Note("missing", f"running now: {which} has {_points([log])} so far")
    ended = grouped(enumerate(series.logs, start=1), lambda each: _ended_early(each[1], without_why=why_is_below))
    for why, those in ended.items():
        if not why:
            continue
        which, they, how = "this run", "it", why
        if launches > 1:
            which = f"launch {format_cpulist([number for number, _ in those])} of {launches}"
        if len(those) > 1:
            which, they, how = which.replace("launch", "launches"), "they", re.sub("^was ", "were ", why)
        measured = f"; {they} had measured {_points([log for _, log in those])}" * why.startswith(_ABORTED)
        yield Note("error", f"INCOMPLETE: {which} {how}{measured}")
    of = f" of {launches}" if launches_named(series.plan) > len(series.logs) else ""
    for number, log in enumerate(series.logs, start=1):  # of several files, too
        if log.missing_launches and not (log.running or _ended_early(log, without_why=why_is_below)):
            yield Note("error", f"INCOMPLETE: the run was stopped after launch {number}{of}")


_ABORTED = "was aborted before the last record"


def _points(logs: Iterable[RunLog]) -> str:
    return count(sum(status != "skipped" for log in logs for status in log.statuses), "point")


def _ended_early(log: RunLog, *, without_why: bool) -> str:
    """Return how a launch ended early; nothing of one that did not, or has not ended."""
    if log.end is None:
        said = log.times.failed.removeprefix("the run was aborted: ") if log.times and not without_why else ""
        return "" if log.running else f"{_ABORTED}{f': {said}' if said else ''}"
    why = f": {log.end.reason}" if log.end.reason else ""
    if log.end.status == "stopped":
        return f"was stopped before the last point{why}"
    return f"ended early{'' if without_why else why}" if why else ""


def _not_measured(series: LaunchSeries, measured: Collection[str]) -> Iterator[str]:
    """Report that a budget had no time for all launches of ``--launches``; the unavailable transports, which share a
    note if they have one reason; and those, not ``measured``, that were tried only by a message of a process to itself.
    """
    plan, asked, without_time = series.plan, launches_named(series.plan), series.logs[-1].launches_without_time
    if plan and without_time and (budget_s := budget_named(plan)):
        text = f"the run made {asked - without_time} of {asked} launches within the budget of {budget_s:g} s"
        again = command_again(plan.benchmark, plan, launches=asked)
        yield f"{text}: {again} makes all of them" if asked <= FEASIBLE else text
    lost = (transport for transport in series.transports.values() if not transport.available)
    by_reason = grouped(lost, lambda transport: transport.reason or "no reason is recorded")
    for reason, transports in by_reason.items():
        if reason in NOTHING_FOR_GPUS and plan and plan.benchmark != "probe":
            skipped = count(len(transports), "GPU transport")
            yield f"N{reason[1:]}: {skipped} skipped (volley transports lists them)"
            continue
        names = join_words(transport.transport for transport in transports)
        what = f"{names} ({transports[0].summary}) is" if len(transports) == 1 else f"{names} are"
        yield f"{what} unavailable: {of_several(reason) if len(transports) > 1 else reason}"
    tried = series.launch.get("tried_alone")
    for name, transport in series.transports.items():
        if isinstance(tried, list) and name in tried and transport.available and name not in measured:
            yield (
                f"{name} is listed as available because a process could send GPU memory to itself. This is weaker "
                "evidence than a message between two ranks; inside a launcher, a failed message would end the job"
            )
