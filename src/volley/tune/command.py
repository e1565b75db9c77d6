"""``volley tune``: launch settings in turn with the default, write what was proven, and show it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from volley import benchmarks
from volley.errors import EXIT_GOOD, EXIT_MACHINE, MachineError, UserError
from volley.machine.signals import Stop
from volley.records.run_log import place_name
from volley.records.saved_runs import state_folder
from volley.records.writer import Writer, open_writer
from volley.run.benchmark import Benchmark
from volley.run.launches import LaunchCount
from volley.run.outcome import RunOutcome, stopped
from volley.run.progress import Progress
from volley.run.render import render_reports
from volley.run.session import Session, prepare
from volley.statistics.launches import MIN_LAUNCHES
from volley.text import count, escape_controls, join_few
from volley.tune import candidates, files, page
from volley.tune.candidates import Candidate
from volley.tune.options import TuneOptions
from volley.tune.search import (
    KEPT,
    LaunchFailedError,
    Search,
    Times,
    confirm_launches,
    confirming_rounds,
    fewest_launches,
    screen_launches,
    screening_rounds,
)
from volley.units import format_duration, format_sig, round_up

TRIALS = 3
"""Launches of the default that show how long one takes, after one that brings libraries into memory."""
SPARE = 1.25
"""The time that is asked for is longer by this factor than what the trials show: launches differ."""


@dataclass
class SettingLauncher:
    """Launches the benchmark with a setting, and keeps the records."""

    benchmark: Benchmark
    asked: Any
    writer: Writer
    stop: Stop
    until: float
    """When the time is over, as ``time.monotonic`` says it."""
    progress: Progress = field(default_factory=lambda: Progress(quiet=True))
    sessions: dict[Candidate | None, Session] = field(default_factory=dict)
    places: frozenset[tuple[str, str]] = frozenset()
    """What the default measures."""
    launched: int = 0
    launch_s: float = 0.0
    """What a launch took in the mean."""

    def __call__(self, candidate: Candidate | None) -> Times:
        begun = time.monotonic()
        with _variables(candidate.variables if candidate else {}):
            times = self._times(candidate)
        took_s = time.monotonic() - begun
        self.launched += 1
        self.launch_s += (took_s - self.launch_s) / self.launched
        if lacking := [place_name(*each) for each in sorted(self.places - times.keys())]:
            raise LaunchFailedError(f"no result of {join_few(lacking, 3)}")
        return times

    def _times(self, candidate: Candidate | None) -> Times:
        """Return the times of one launch.

        Raises:
            LaunchFailedError: if it was not good.
            KeyboardInterrupt: if the user stopped it.
        """
        refused = ""
        try:
            if candidate not in self.sessions:
                self.sessions[candidate] = _prepared(self.benchmark, self.asked, self.stop)
            session = self.sessions[candidate]
            before = len(session.logs)
            session.run(self.writer, self.progress)
        except UserError as error:
            refused = str(error)
        if self.stop.signal is not None:
            raise KeyboardInterrupt
        if refused:
            raise LaunchFailedError(refused)
        outcome, logs = session.outcomes[-1], session.logs[before:]
        if outcome.code != EXIT_GOOD or not logs:
            wrong = [each.reason for log in logs for each in log.records if getattr(each, "status", "") == "failed"]
            reasons = [f"wrong data: {reason}" for reason in wrong[:1] if reason]
            if outcome.code == EXIT_MACHINE:
                reasons += [
                    each.reason for log in logs for each in log.transports if not each.available and each.reason
                ]
            raise LaunchFailedError([*reasons, *reversed(outcome.lines), "no reason"][0].removeprefix("volley: "))
        found = (each for log in logs for each in self.benchmark.observables(log) if not each.part)
        return {(each.series, at): seconds for each in found for at, seconds in each.times}

    @property
    def launches_left(self) -> float:
        return max(0.0, self.until - time.monotonic()) / self.launch_s


@contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process, which the ranks inherit as from the shell of a user."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _prepared(benchmark: Benchmark, asked: Any, stop: Stop) -> Session:
    """Return a session of the first of several launches, which are short; each run of it makes that one again."""
    session = prepare(benchmark, asked, stop)
    return replace(session, jobs=replace(session.jobs, next_job=None))


def run(options: TuneOptions) -> int:
    benchmark, asked = benchmarks.read(options.words())
    asked = replace(asked, job=replace(options.job, launches=MIN_LAUNCHES), output=replace(asked.output, quiet=True))
    until = time.monotonic() + options.budget
    folder = options.folder or state_folder() / time.strftime("tune-%Y%m%dT%H%M%S")
    if (folder / "records.jsonl").exists():
        raise UserError(f"{escape_controls(str(folder))} has the records of another search: name a new folder")
    tuning = None
    with Stop() as stop:
        default = _prepared(benchmark, asked, stop)  # a wrong option is named before there is a folder
        new = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot create the folder {escape_controls(str(folder))}: {error.strerror}") from None
        writer = open_writer(folder / "records.jsonl", "tune")
        launcher = SettingLauncher(benchmark, asked, writer, stop, until, sessions={None: default})
        try:
            with suppress(KeyboardInterrupt), closing(writer):
                tuning = _search(options, launcher, folder)
        except UserError:
            if launcher.sessions.keys() == {None}:  # refused before a setting was launched: -o can name it again
                (folder / "records.jsonl").unlink(missing_ok=True)
                if new:
                    folder.rmdir()
            raise
        ended = (
            stopped(stop.signal, measured=launcher.launched > 0) if stop.signal is not None else RunOutcome(EXIT_GOOD)
        )
    if tuning and (tuning.proofs or ended.code == EXIT_GOOD):
        render_reports([page.report(tuning, full=options.output.full)], options.output.format, sys.stdout)
    if lost := writer.lost():
        ended = RunOutcome(max(ended.code, EXIT_MACHINE), (*ended.lines, f"volley: {lost}"))
    records = None if options.output.quiet else writer.last_line()
    for line in filter(None, (*ended.lines, records)):
        print(escape_controls(line), file=sys.stderr)
    return ended.code


def _search(options: TuneOptions, launcher: SettingLauncher, folder: Path) -> page.Tuning:
    quiet, shown = options.output.quiet, options.output.format
    try:
        with Progress(shown, LaunchCount(TRIALS + 1, TRIALS + 1), quiet=quiet) as launcher.progress:
            launcher(None)  # libraries and files come into memory
            launcher.launched, launcher.launch_s = 0, 0.0
            while launcher.launched < TRIALS and (time.monotonic() < launcher.until or not launcher.launched):
                launcher.places = frozenset(launcher(None))
    except LaunchFailedError as error:
        raise MachineError(f"the benchmark fails without any setting: {error}") from None
    session = launcher.sessions[None]
    library, plan = session.stack.library, session.jobs.planned[0].plan
    operations = set(getattr(plan.options, "operations", ()))
    libraries = candidates.libraries_of(session.stack, plan.transports or ["host"])  # a replay is MPI
    settings = candidates.candidates(libraries, operations)
    if "MPICH" in libraries:
        settings = [each for each in settings if candidates.known_to(candidates.library_bytes(library), each)]
    if not settings:
        raise MachineError(f"volley knows no settings of {session.stack.describe()} for this benchmark")
    longer = take_longer(options, launcher, len(settings))
    screening = screening_rounds(len(settings), launcher.launches_left)
    screen = screen_launches(len(settings), screening)
    most = confirming_rounds(min(len(settings), KEPT), launcher.launches_left - screen)
    launches = screen + confirm_launches(len(settings), most)
    left_s = max(launcher.until - time.monotonic(), 0.0)
    if not quiet:
        takes = format_duration(min(launches * launcher.launch_s, left_s))
        each_s = format_sig(launcher.launch_s, 2)
        what = f"{count(len(settings), 'setting')} to try in at most {launches} launches of {each_s} s"
        print(f"volley: {what}: this takes about {takes}{longer}", file=sys.stderr)
    search: Search[Candidate] = Search(
        launcher, lambda: time.monotonic() < launcher.until and launcher.stop.signal is None
    )
    # What a launch says besides its results has been said.
    with Progress(shown, LaunchCount(1, launches, left_s), quiet=quiet, notes=False) as launcher.progress:
        survivors = search.screen(settings, screening)
        rounds = min(most, confirming_rounds(len(survivors), launcher.launches_left))
        proofs = search.confirm(survivors, rounds)
        made = files.compose(proofs, folder, plan.world_size, library)
        if made and made not in proofs:
            rounds = min(most, confirming_rounds(1, launcher.launches_left * confirm_launches(1, 1) / 2))
            proofs |= search.confirm([made], rounds)
    about = (options.words()[0], session.stack.describe(), plan.world_size, launcher.launched)
    cut = "it was stopped" if launcher.stop.signal is not None else "" if search.going_on() else page.TIME_OVER
    tuning = page.Tuning(*about, settings, proofs, search.failed, folder, cut_short=cut)
    _write(tuning)
    return tuning


def take_longer(options: TuneOptions, launcher: SettingLauncher, settings: int) -> str:
    """Give the search the time that it needs here, where the user named none; return what to say of it."""
    launches = fewest_launches(settings)
    if launches <= launcher.launches_left:
        return ""
    whole_s = (launches + TRIALS + 1) * launcher.launch_s * SPARE
    less = "a trace of fewer calls" if options.benchmark[:1] == ("replay",) else "fewer sizes"
    if "budget" in options.given:
        fit, each_s = count(int(launcher.launches_left), "launch"), format_sig(launcher.launch_s, 2)
        raise UserError(
            f"--budget {options.budget:g} leaves time for {fit} of {each_s} s, and {count(settings, 'setting')} need "
            f"{launches}: write --budget {round_up(whole_s)}, or measure {less}"
        )
    launcher.until = time.monotonic() + whole_s
    return f" and not {options.budget:g} s; {less} shorten it"


def _write(tuning: page.Tuning) -> None:
    """Write the files of the setting that was proven, and remove those of one that was not."""
    chosen, folder = tuning.chosen, tuning.folder
    names = {str(folder / name) for name in (files.COLL_TUNED, files.MPICH)}
    for path in names - set(chosen.variables.values() if chosen else ()):
        with suppress(FileNotFoundError):
            Path(path).unlink()
    if chosen:
        files.write_settings(folder, chosen.variables, page.comments(tuning))
