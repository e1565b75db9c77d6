"""A session: one command that measures, from the parsed options to the exit code.

A session is a loop over immutable jobs; one flag stops it.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from volley.command.commandline import load
from volley.command.options import FORMATS, BenchmarkOptions
from volley.document import readable_json
from volley.errors import EXIT_FAILED, EXIT_GOOD, EXIT_MACHINE, MachineError, UserError
from volley.launch import engine_path, inside_launcher, preflight
from volley.launch.allocation import allocation
from volley.launch.engine import EngineProcess, ask_about
from volley.launch.launchers import PAIR, LaunchSpec, cores
from volley.launch.preflight import Preflight, Trials
from volley.launch.start import (
    Start,
    become,
    patience,
    start_by_launcher,
    start_inside_launcher,
    volley_with_jsrun,
)
from volley.machine.hardware import sharing_cores
from volley.machine.mpi_choice import choose_mpi
from volley.machine.mpi_stack import Stack, assemble
from volley.machine.mpi_words import limit_in
from volley.machine.nvidia_driver import gpu_count, has_driver
from volley.machine.paths import LaunchPaths
from volley.machine.signals import Stop
from volley.machine.transports import have_threads
from volley.records.command_again import asked
from volley.records.launch_series import count_missing
from volley.records.plan import Plan
from volley.records.record_types import End, Run
from volley.records.records_file import LineReader, encode_line
from volley.records.run_log import RunLog
from volley.records.writer import Writer, open_writer
from volley.run.benchmark import Benchmark
from volley.run.jobs import JobContext, choose_transports, needs_trial
from volley.run.launches import Jobs
from volley.run.node_state import NodeState
from volley.run.outcome import RunOutcome, judge, stopped, worst
from volley.run.progress import Progress, describe, summarize
from volley.run.same_cores import announced
from volley.text import count, escape_controls, join_words, utf8
from volley.units import format_duration

TRIALS_SHARE = 1 / 3
"""Of the time that a run has: what is tried before the first launch may use so much of it."""
PATHS_WORTH_S = 5.0
"""A run with less time does without the launch that shows the path of messages, which takes 0.3 s on one host."""
WORTH_SAYING_S, WORTH_ADVICE_S = 2.0, 10.0
"""The user is told the time of a run from the first on, and how it gets shorter from the second on."""

_CRASHED = re.compile(r"ended by SIG\w+ in .*?\btransport ([^ ,]+)(?: \((?:([a-z-]+)|[^)]*)\))?,")
"""What the engine says of a rank that a library ended: the transport, and the operation."""

_ONE_PROCESS = LaunchSpec(engine=(), ranks=1, gpus=True)

Part = tuple[Benchmark, BenchmarkOptions]


def measure(*parts: Part) -> int:
    """Run benchmarks one after the other, save and show their results together, and return the exit code.

    Args:
        parts: the benchmarks with their options.  The last part decides about file and format; if an earlier one cannot
            be prepared, a message says so.
    """
    begun = time.monotonic()
    benchmark, options = parts[-1]
    dry_run = options.job.dry_run
    if benchmark.local and not dry_run and (by_jsrun := volley_with_jsrun(options.job, _ONE_PROCESS)):
        become(by_jsrun)  # it cannot be prepared on a node without GPUs
    with Stop() as stop:
        sessions, outcomes = _prepared(parts, stop)
        if stop.signal is not None:
            print("volley: stopped", file=sys.stderr)
            return 128 + stop.signal
        by_jsrun = sessions[-1].by_jsrun()
        if dry_run:
            return worst([session.show_only(by_jsrun) for session in sessions])
        if by_jsrun:
            become(by_jsrun)
        writer = _run(sessions, outcomes, stop, begun)
    return _show(sessions, outcomes, writer)


def _prepared(parts: Sequence[Part], stop: Stop) -> tuple[list[Session], list[RunOutcome]]:
    """Return the sessions, and why an earlier part has none; if ``stop`` is set, neither is of use."""
    sessions: list[Session] = []
    outcomes: list[RunOutcome] = []
    for part in parts:
        try:
            sessions.append(prepare(*part, stop))
        except UserError as error:
            if part is parts[-1] and stop.signal is None:
                raise
            outcomes.append(RunOutcome(EXIT_GOOD, (f"volley: {error}",)))
    return sessions, outcomes


def _run(sessions: Sequence[Session], outcomes: list[RunOutcome], stop: Stop, begun: float) -> Writer:
    """Run the sessions; the time of the first one counts from ``begun`` on, that of the others from their own start."""
    chosen = sessions[-1].options.output
    command, quiet = sessions[-1].benchmark.command, chosen.quiet
    with closing(open_writer(chosen.output, command, force=chosen.force, name=chosen.name)) as writer:
        for session in sessions:
            with Progress(chosen.format, session.jobs.count, begun=begun, quiet=quiet) as progress:
                if session is sessions[0] and (note := time_note(sessions)):
                    progress.note(note)
                session.run(writer, progress, begun)
                while session.leaves_out_what_crashed(progress):
                    session.run(writer, progress, begun)
                if chosen.verbose and (times := summarize(session.logs)):
                    progress.note(times)
            begun = time.monotonic()
            outcomes += session.outcomes
            if stop.signal is not None:
                measured = any(log.statuses for each in sessions for log in each.logs)
                outcomes.append(stopped(stop.signal, measured=measured, said=stop.said))
                break
    if lost := writer.lost():
        outcomes.append(RunOutcome(EXIT_MACHINE, (f"volley: {lost}",)))
    return writer


def time_note(sessions: Sequence[Session]) -> str | None:
    """Return what the user is told about the time of all sessions together, if that is worth it."""
    whole_s = sum(each.jobs.expected_s(each.context, each.benchmark.forecast) for each in sessions)
    if whole_s < WORTH_SAYING_S:
        return None
    advice = sessions[-1].jobs.advice if whole_s >= WORTH_ADVICE_S else None
    # A run without a limit takes several times as long where other programs use its cores.
    idle = " on an idle machine" * any(math.isinf(each.jobs.budget_s) for each in sessions)
    return f"this takes about {format_duration(whole_s)}{idle}{f'; {advice}' if advice else ''}"


def _show(sessions: Sequence[Session], outcomes: Sequence[RunOutcome], writer: Writer) -> int:
    chosen = sessions[-1].options.output
    logs = [log for session in sessions for log in session.logs]
    count_missing(logs)
    try:
        # Of a run that was stopped before anything was measured there is nothing to show.
        if any(log.statuses for log in logs) or (any(log.run for log in logs) and sessions[0].stop.signal is None):
            from volley.report.model import Details  # noqa: PLC0415  start-up: already loaded
            from volley.run.render import render  # noqa: PLC0415  start-up: already loaded

            render(
                logs,
                [session.benchmark for session in sessions],
                chosen.format,
                sys.stdout,
                details=Details(chosen.full, writer.command()),
                quiet=chosen.quiet,
                why_is_below=True,
            )
            sys.stdout.flush()
    finally:  # also if the report could not be written
        code = _print_outcomes(outcomes, writer, quiet=chosen.quiet)
    return code


def _print_outcomes(outcomes: Sequence[RunOutcome], writer: Writer, *, quiet: bool) -> int:
    """Print the messages of all outcomes and the path of the records on stderr; return the exit code."""
    told = [outcome for outcome in outcomes if outcome.code != EXIT_GOOD or not quiet]
    lines = dict.fromkeys(line for outcome in told for text in outcome.lines for line in text.splitlines())
    if not quiet and (last := writer.last_line()):
        lines[last] = None
    for line in lines:
        print(escape_controls(line), file=sys.stderr)  # it may hold words of a launcher, and names of files
    return worst(outcome.code for outcome in outcomes)


def prepare(benchmark: Benchmark, options: BenchmarkOptions, stop: Stop) -> Session:
    """Check the options against engine and machine and describe the jobs; this starts only ``volley-engine --about``.

    If ``stop`` is set, the result is of no use, or an error is raised.
    """
    position = inside_launcher.rank_info(os.environ) if benchmark.joins(options.job) else None
    path = Path(engine_path.engine_path())
    mpi = None if benchmark.local else choose_mpi(options.job.mpi, os.environ, position.launcher if position else "")
    with ask_about(path, mpi.library if mpi else "", stop, options.job.watchdog) as answer:
        _load_pages(benchmark, options.output.format)  # while the engine loads the MPI library
        about = answer()
    granted = allocation(os.environ)
    # The user's words for the launcher may name a file of hosts.
    here = not (position or granted or options.job.hosts or options.job.launcher_arg)
    if here and options.job.gpus and not gpu_count() and not options.job.dry_run:
        numbers = ",".join(map(str, options.job.gpus))
        raise MachineError(f"--gpus {numbers}: no NVIDIA GPU can be used here; volley doctor looks for the cause")
    context = JobContext(about, position, granted, on_this_host=here)
    jobs = benchmark.jobs(options, context)
    if benchmark.local and about.cuda_built is None:
        hint = f"; {benchmark.hint}" if benchmark.hint else ""
        raise MachineError(f"this engine was built without CUDA and sees no GPU{hint}")
    stack = assemble(mpi, about.mpi, about.cuda_built) if mpi else Stack(cuda_built=about.cuda_built)
    session = Session(benchmark, options, jobs, context, path, stack, stop)
    for job in jobs.planned:
        session.start_of(job.plan)
    return session


@dataclass
class Session:
    benchmark: Benchmark
    options: BenchmarkOptions
    jobs: Jobs
    context: JobContext
    path: Path
    stack: Stack
    stop: Stop
    starts: dict[int, Start] = field(default_factory=dict)
    """By the number of ranks: of several jobs with as many, the first decides."""
    logs: list[RunLog] = field(default_factory=list)
    outcomes: list[RunOutcome] = field(default_factory=list)
    ended: float | None = None
    """When the last launch ended, as ``time.monotonic`` says it."""
    tried: Preflight | None = None
    """What the preflight found, if there was one: a session that is run again does not repeat it."""
    asks_path: bool = True
    """Whether a launch of its own may show the path of the messages."""
    of_check: msgspec.Struct | None = None
    """What check it is a part of: the records of one that ended early say so, too."""
    crashed: dict[str, str] = field(default_factory=dict)
    """Transports, or their operations, that ended a launch, with the reason."""
    paths: LaunchPaths | None = None
    """What a launch showed that sent messages of its own; ``None``: there has been none."""

    def __post_init__(self) -> None:
        self.node = NodeState(wanted=self.jobs.hardware, all_gpus=self.benchmark.local)

    def start_of(self, plan: Plan) -> Start:
        """Return how the ranks of a plan are started; a UserError if they cannot be."""
        if plan.world_size not in self.starts:
            self.starts[plan.world_size] = self._new_start(plan)
        return self.starts[plan.world_size]

    def _new_start(self, plan: Plan) -> Start:
        job, threads = self.options.job, have_threads(plan.transports)
        if self.benchmark.local:
            environment = inside_launcher.scrubbed(os.environ)
            return Start("none", (str(self.path), "--plan", "-"), {}, environment, patience=patience(gpus=True))
        if self.context.position:
            return start_inside_launcher(job, self.path, self.stack, self.context.position, threads=threads)
        return start_by_launcher(
            job,
            self.path,
            self.stack,
            self.ranks(plan),
            granted=self.context.allocation,
            here=self.context.on_this_host,
            share_cores=self.benchmark.computes,
            threads=threads,
            budget_s=self.budget_s,
        )

    @property
    def budget_s(self) -> float | None:
        """The time that the user gave the run; ``None``: none, or a benchmark that measures nothing."""
        return getattr(getattr(self.options, "sampling", None), "budget", None)

    def ranks(self, plan: Plan) -> LaunchSpec:
        """Return the ranks of a plan, without the program that they run."""
        on_gpus = [each for each in self.context.about.of(plan.transports) if each.memory == "device"]
        return LaunchSpec(
            *((), plan.world_size, self.stack.family, self.stack.mpiexec),
            gpus=bool(on_gpus),
            device_buffers=any(each.mpi for each in on_gpus),
            mca=self.stack.mca,
            variables=self.stack.environment,
            whole_start=self.benchmark.times_start(self.options),
        )

    def by_jsrun(self) -> tuple[str, ...]:
        """Return the command line with which jsrun starts volley for the largest job; empty if it need not."""
        largest = max((job.plan for job in self.jobs.planned), key=lambda plan: plan.world_size)
        return volley_with_jsrun(self.options.job, self.ranks(largest))

    def _complete(self, plan: Plan) -> Plan:
        """Return a plan with what is known of its launch."""
        start = self.start_of(plan)
        granted = self.context.allocation
        launch: dict[str, Any] = {**start.facts(self.stack), "allocation": granted.facts() if granted else None}
        launch["asked"] = asked(self.options.typed)
        if (kept := self.options.output).name or kept.tag:
            launch["kept_as"] = {"name": kept.name, "tags": kept.tag}
        if self.of_check:
            launch["of_check"] = msgspec.to_builtins(self.of_check)
        risky = self.context.about.risky(plan.transports)
        if self.paths is not None:
            launch |= msgspec.to_builtins(self.paths)
        excluded = self.crashed
        if self.tried and risky:
            excluded = {**self.tried.excluded, **self.crashed}
            if start.inside_launcher:
                launch["tried_alone"] = risky
            if self.tried.protocols:
                launch["stack"] = {**launch["stack"], "ucx_protocols": msgspec.to_builtins(self.tried.protocols)}
        return plan.changed(excluded=excluded, launch=utf8(launch))

    def show_only(self, again: Sequence[str]) -> int:
        """Print each plan, and on stderr the command line that would run it: ``again``, if volley would become it."""
        for note in filter(None, (self.jobs.note, time_note([self]))):
            print(f"volley: {note}", file=sys.stderr)
        for plan in (self._complete(job.plan) for job in self.jobs.planned):
            sys.stdout.write(readable_json(plan))
            sys.stdout.flush()
            line = shlex.join(again) if again else self.start_of(plan).line()
            print(escape_controls(line), file=sys.stderr)
        return EXIT_GOOD

    def run(self, writer: Writer, progress: Progress, begun: float | None = None) -> None:
        """Run one job after another until none is left or one ends the session.

        ``begun`` is when its time began, as ``time.monotonic`` says it: now, if it is ``None``.
        """
        begun = time.monotonic() if begun is None else begun
        with announced() if self.context.on_this_host else nullcontext() as others:
            if not self.logs:  # else it is run again, as tune does
                once = others if not writer.launches else None  # of several sessions the first one says it
                for note in filter(None, (*self._notes(writer), once)):
                    progress.note(note)
            trials_begin = time.monotonic()
            if self.tried is None:
                self.tried = self._preflight(progress)
            if self.paths is None and self.asks_path:
                self.paths = self._paths(progress)
            if self.budget_s is None:  # nobody waits for an end: a trial that hangs leaves time to measure
                begun += max(time.monotonic() - trials_begin - self.jobs.budget_s * TRIALS_SHARE, 0.0)
            for job in self.jobs.each(self.context, self.logs, lambda: time.monotonic() - begun, progress.note):
                if self.stop.signal is not None:
                    writer.held = b""
                    return
                if job.note:
                    progress.note(job.note)
                try:
                    plan = self._complete(job.plan)
                    if self.budget_s:
                        plan.launch["budget_left_s"] = round(self.jobs.budget_s - (time.monotonic() - begun), 3)
                    outcome = self._launch(plan, writer, progress)
                except UserError as error:  # earlier results are still shown
                    outcome = RunOutcome(error.exit_code, (f"volley: {error}",), ends_session=True)
                self.outcomes.append(outcome)
                if outcome.ends_session:
                    return

    def leaves_out_what_crashed(self, progress: Progress) -> bool:
        """Return whether the last launch was ended by a transport or an operation of it, and there are others: when it
        is run again, the session measures these."""
        why = next((each.why for each in self.outcomes[-1:] if each.ends_session), "")
        found, plan = _CRASHED.search(why), self.jobs.planned[0].plan
        if found is None or self.context.position or self.stop.signal is not None:
            return False
        name, operations = " ".join(filter(None, found.groups())), getattr(plan.options, "operations", ())
        several = len(plan.transports) > 1 or (found[2] and len(operations) > 1)
        if name in self.crashed or not several:
            return False
        self.crashed[name] = "an earlier launch was " + found[0].rstrip(",")
        progress.note(f"MPI crashed in {name}: measuring without it")
        return True

    def _notes(self, writer: Writer) -> Iterator[str | None]:
        """Yield what the user is told before the first launch."""
        yield writer.note if writer.path else None
        yield self.jobs.note
        if (granted := self.context.allocation) and granted.unread and not self.options.job.hosts:
            yield f"{granted.unread}; ranks start on this host alone, and --hosts names others"
        if any(start.oversubscribed for start in self.starts.values()):
            places = count(cores(), "core") if self.context.on_this_host else "fewer cores"
            yield sharing_cores(max(self.starts), places)
        removed = {name for start in self.starts.values() for name in start.removed}
        if removed and inside_launcher.rank_info(os.environ):
            names = join_words(sorted(removed))
            yield f"not passed on to the ranks, as variables of a surrounding job: {names}"

    def _preflight(self, progress: Progress) -> Preflight | None:
        """Test in a separate job whether MPI accepts device memory: an MPI that does not crashes."""
        plans = [job.plan for job in self.jobs.planned if job.plan.world_size >= PAIR]
        plan = next((plan for plan in plans if self.context.about.risky(plan.transports)), None)
        if plan is None or not has_driver() or not needs_trial(plan, self.context):
            return None
        risky, trial, start = self.context.about.risky(plan.transports), self.jobs.trial, self.start_of(plan)
        trials = Trials(start, self.stack, self.stop, plan.watchdog_s, progress.note)
        if start.inside_launcher:
            progress.note("testing MPI on device memory: a separate process sends to itself")
            apart = replace(start, environment=inside_launcher.scrubbed(start.environment), inside_launcher=False)
            found = preflight.to_itself(risky, replace(trials, start=apart))
            reason = (
                f"volley {self.benchmark.command} on device pointers may end the job, and inside a launcher it cannot "
                "be tried first: start volley without a launcher"
            )
            return Preflight({**dict.fromkeys(risky if trial else (), reason), **found.excluded})
        progress.note("testing MPI on device memory in a separate job")
        found = preflight.between_two(plan.changed(transports=risky), trials)
        left = [name for name in risky if name not in found.excluded]
        if trial and left and self.stop.signal is None:
            more = preflight.rehearsed([each.changed(transports=left) for each in trial], trials)
            found.excluded.update(more.excluded)
        return found

    def _paths(self, progress: Progress) -> LaunchPaths | None:
        """Ask what carries the messages, where that may be one thing or another, and where the run is long enough."""
        plans = [job.plan for job in self.jobs.planned if job.plan.world_size >= PAIR and job.plan.transports]
        if not plans or self.benchmark.local or self.start_of(plans[0]).inside_launcher:
            return None
        plan = plans[0]
        several = not self.context.on_this_host or bool(self.ranks(plan).gpus and self.context.sees_gpus)
        expected_s = self.jobs.expected_s(self.context, self.benchmark.forecast)
        if (self.budget_s or math.inf) < PATHS_WORTH_S or (not several and expected_s < PATHS_WORTH_S):
            return None
        from volley.launch import path_launch  # noqa: PLC0415  start-up: many runs are short

        trials = Trials(self.start_of(plan), self.stack, self.stop, plan.watchdog_s, progress.note)
        excluded = [*(self.tried.excluded if self.tried else ())]
        most_s = (self.budget_s or math.inf) * TRIALS_SHARE
        return path_launch.found(plan, self.context.about, excluded, trials, most_s)

    def _launch(self, plan: Plan, writer: Writer, progress: Progress) -> RunOutcome:
        """Run one job; each record goes to the file, to memory and to the progress display as it arrives."""
        start = self.start_of(plan)
        on_gpus = self.benchmark.local or self.ranks(plan).gpus
        writer.launches += 1
        log = RunLog(file=str(writer.path or ""), number=writer.launches)

        def keep(*records: Any, write: Callable[[bytes], None] = writer.write) -> None:
            """Save records of the front end among the engine's."""
            for record in records if log.run else ():
                write(encode_line(record))
                log.add(record)

        with EngineProcess(start, self.stop, progress.note) as process:
            self.logs.append(log)
            # This overlaps with the start of MPI and CUDA; no rank measures before it gets the plan.
            read = LineReader((self.benchmark,))
            self.node.read_before(plan.world_size, on_gpus=on_gpus)
            _load_pages(self.benchmark, self.options.output.format)
            progress.begin(self.benchmark.forecast(plan), plan.world_size)
            for line, record in process.records(plan, read):
                if isinstance(record, End):
                    process.expect_end(plan.watchdog_s)
                    keep(*self.node.after(log.run, on_gpus=on_gpus))
                writer.write(line)
                log.add(record)
                if isinstance(record, Run):
                    keep(*self.node.before(record))
                progress.on_record(record)
        log.problems += process.losses
        times = process.times(self.ended)
        self.ended = process.ended
        outcome = self._outcome(plan, log, process, start)
        failed = outcome.why if outcome.code == EXIT_FAILED and self.stop.signal is None else ""
        met = limit_in(process.ending.others)
        keep(msgspec.structs.replace(times, failed=utf8(failed), limit=met), write=writer.hold)
        if self.options.output.verbose and (steps := describe(log)):
            progress.note(steps)
        if log.run is None and (self.stop.signal is not None or len(self.logs) > 1):  # it had not begun
            self.logs.pop()
            writer.held = b""
        if self.stop.signal is not None:
            return RunOutcome(EXIT_GOOD, ends_session=True)  # the exit code is that of the signal
        if log.end is None:  # aborted: the state of the GPUs may explain why
            keep(*self.node.after(log.run, on_gpus=on_gpus))
        return outcome

    def _outcome(self, plan: Plan, log: RunLog, process: EngineProcess, start: Start) -> RunOutcome:
        """Judge a launch that nobody stopped."""
        words = self.options.named_transports
        named = [set(choose_transports((word,), self.context)).intersection(plan.transports) for word in words]
        earlier = any("ok" in each.statuses for each in self.logs if each is not log)
        job = self.options.job
        return judge(
            *(log, process.ending, self.benchmark, named, start.hint),
            operations=self.options.named_operations,
            measured_before=earlier,
            job=job,
        )


def _load_pages(benchmark: Benchmark, format_name: str) -> None:
    """Import the report modules before the ranks measure: a later import would disturb them."""
    for name in ("run.render", *(f"report.{FORMATS[each]}" for each in (format_name,) if each in FORMATS)):
        import_module(f"volley.{name}")
    for each in (benchmark.results, benchmark.report):
        load(each.name)
