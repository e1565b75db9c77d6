"""A session: one request, from checking it to the exit code."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from volley import engine, trial
from volley.errors import EXIT_GOOD, EXIT_MACHINE, UserError
from volley.keeping import Keeper, keep
from volley.launch import inside
from volley.run.launchers.allocation import allocation
from volley.launch.start import Start, join, start_alone, start_own
from volley.outcome import Outcome, judge, stopped, worst
from volley.planning import (
    PAIR,
    Request,
    check_counts,
    check_matrix_time,
    check_sees_gpus,
    choose_exchanges,
    choose_transports,
    count_ranks,
    in_a_hurry,
    make_plan,
    scaled,
)
from volley.records import End, Hardware, Plan, Run
from volley.records_io import RunLog, encode_line
from volley.report import check_format, load, load_beside, render
from volley.report.encodable import discard_output
from volley.report.progress import Progress
from volley.stack import Stack, assemble, has_driver, nvml, read_facts
from volley.text import ascii_json, count, harmless

__all__ = ["Request", "measure", "overview", "transports"]

OVERVIEW_BUDGET_S = 60.0
"""How long plain ``volley`` may measure, unless asked."""


def measure(request: Request) -> int:
    """Measure what was asked for, keep and show it, and return the exit code.

    Raises:
        UserError: if the request makes no sense, or this machine cannot do it; nothing was measured then.
    """
    session = prepare(request)
    if request.scaling:
        session = _scaling(request, session)
    if request.dry_run:
        return session.show_only()
    return session.run()


def transports(request: Request) -> int:
    """Try which transports a job on this machine can use, and show them; all, unless some are named."""
    return measure(replace(request, benchmark="probe", sizes=(), transports=request.transports or ("all",)))


def overview(request: Request) -> int:
    """Do what this machine can do within a time budget; the report says what it could not, and sums up."""
    budget_s = request.budget_s or OVERVIEW_BUDGET_S
    return measure(replace(request, benchmark="pingpong", budget_s=budget_s))


def _scaling(request: Request, last: Session) -> Session:
    """Put the sessions of the smaller grids before that of the whole grid."""
    if last.start.joins and last.plan.world_size > 1:
        raise UserError(
            f"--scaling {request.scaling}: a launcher started this job with {count(last.plan.world_size, 'rank')}, and "
            "scaling takes jobs of other sizes too; start volley plainly"
        )
    first, *others = [prepare(each) for each in scaled(request, last.plan.world_size)]
    first.others = others
    return first


def prepare(request: Request) -> Session:
    """Check the request against the engine and the machine, and put the job together; nothing is started yet but
    the engine's ``--about``."""
    check_counts(request)
    check_format(request.format, request.benchmark)
    path = engine.find()
    if request.benchmark == "node":
        return _of_node(request, path)
    answer = engine.ask_about(path)
    load_beside()
    try:
        stack = assemble(path, read_facts(path))
    finally:
        about = answer()
    chosen = choose_exchanges if request.benchmark == "jacobi" else choose_transports
    names = chosen(request.transports, about)
    place = inside.position(os.environ) if request.launcher == "auto" else None
    granted = allocation(os.environ)
    ranks = count_ranks(request, place, granted.ranks if granted else None)
    note = check_matrix_time(request, len(names), ranks) if request.benchmark == "matrix" else None
    on_gpus = [each for each in about.transports if each.name in names and each.memory == "device"]
    if place:
        start = join(request, path, stack, place)
    else:
        start = start_own(request, path, stack, ranks, granted=granted, on_gpus=on_gpus)
    launch = {**start.facts(stack), "allocation": granted.facts() if granted else None}
    return Session(request, make_plan(request, names, ranks, launch), start, stack, bool(on_gpus), note)


def _of_node(request: Request, path: Path) -> Session:
    """One process has all GPUs: the engine is started alone, without a launcher, and starts no MPI.

    There are no transports to choose among, so it is not asked for them: what it was built with stands beside it.
    Neither mpirun nor a CUDA-aware UCX belongs to its stack.
    """
    built = read_facts(path)
    check_sees_gpus(built.cuda_version)
    stack = Stack(built, mpiexec=None)
    start = start_alone(request)
    plan = make_plan(request, (), 1, start.facts(stack))
    # NVML and CUDA wait for each other in the driver: who wants to know soon gets no account of the GPUs.
    return Session(request, plan, start, stack, uses_devices=not in_a_hurry(request))


# ------------------------------------------------------------------------------------------------- the session


@dataclass
class Session:
    """A request that was checked, and what comes of it."""

    request: Request
    plan: Plan
    start: Start
    stack: Stack
    uses_devices: bool = False
    """Transports on GPU memory were asked for."""
    note: str | None = None
    """What to say before anything is measured."""
    logs: list[RunLog] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    others: list[Session] = field(default_factory=list)
    """What is measured afterwards, kept in the same file and shown in the same report."""

    def show_only(self) -> int:
        """Print the plan, and on stderr the command line that would measure it."""
        print(ascii_json(msgspec.json.format(msgspec.json.encode(self.plan), indent=2)))
        sys.stdout.flush()
        print(harmless(self.start.line()), file=sys.stderr)
        if self.note:
            print(f"volley: {self.note}", file=sys.stderr)
        for other in self.others:
            other.show_only()
        return EXIT_GOOD

    def run(self) -> int:
        """Launch, keep, show; return the exit code."""
        keeper = keep(self.request.output, self.plan.benchmark)
        try:
            self._launch_all(keeper)
            for other in self.others:
                other.logs, other.outcomes = self.logs, self.outcomes
                other._launch_all(keeper)
        except KeyboardInterrupt:  # between launches; during one its job is asked to stop, and its records are read
            self.outcomes.append(stopped(signal.SIGINT))
        finally:
            keeper.close()
        try:
            if any(log.run or log.statuses for log in self.logs):
                render(self.logs, self.request.format, sys.stdout)
                sys.stdout.flush()
        except BrokenPipeError:  # who read it has seen enough; what became of the measurement is told all the same
            discard_output()
        finally:  # also where nobody reads the report, or it finds no room
            code = self._say(keeper)
        return code

    def _try_first(self, progress: Progress) -> None:
        """Leave out of the plan what crashes, having tried it in a job of its own."""
        if trial.RISKY not in self.plan.transports or not has_driver() or self.plan.world_size < PAIR:
            return
        if self.start.joins:
            progress.note("trying MPI on device memory: a process of its own sends to itself")
            out = trial.alone(self.start.tokens, inside.scrubbed(self.start.environment), self.stack)
            launch = {**self.plan.launch, "tried_alone": [trial.RISKY]}
            self.plan = msgspec.structs.replace(self.plan, excluded=out, launch=launch)
            return
        progress.note("trying MPI on device memory in a job of its own")
        tried = trial.attempt(self.plan, self.start.tokens, self.start.environment, self.stack)
        launch = self.plan.launch
        if tried.protocols:
            known = {"ucx_protocols": msgspec.to_builtins(tried.protocols)}
            launch = {**launch, "stack": {**launch["stack"], **known}}
        self.plan = msgspec.structs.replace(self.plan, excluded=tried.excluded, launch=launch)

    def _launch_all(self, keeper: Keeper) -> None:
        with Progress(self.request.format, launches=self.request.launches) as progress:
            if keeper.note and keeper.path:
                progress.note(keeper.note)
            if self.note:
                progress.note(self.note)
            self._try_first(progress)
            for _ in range(self.request.launches):
                outcome = self._launch(keeper, progress)
                self.outcomes.append(outcome)
                if outcome.ends_session:
                    return
            if self.plan.benchmark == "matrix" and self.request.retest:
                self._measure_again(keeper, progress)

    def _measure_again(self, keeper: Keeper, progress: Progress) -> None:
        """Measure the pairs of a matrix that are slower than their like again, in launches of their own."""
        from volley import retest  # noqa: PLC0415  start-up: a ping-pong does without

        whole, rounds = self.plan, 0
        while all(log.complete for log in self.logs) and (plan := retest.next_plan(whole, self.logs)):
            spent_s = sum(log.end.elapsed_s for log in self.logs if log.end)
            left_s = None if whole.budget_s is None else whole.budget_s - spent_s
            if left_s is not None and left_s <= 0:
                progress.note("the time budget leaves none to measure pairs again that stand out")
                return
            if self.start.joins:
                progress.note(
                    "a launcher started this job, so pairs that stand out cannot be measured again in a second one"
                )
                return
            what = "those that stand out" if rounds == 0 else "those that are not decided"
            pairs = count(len(plan.matrix.pairs), "pair")
            progress.note(f"measuring {pairs} again, {count(plan.matrix.repeats, 'time')}: {what} and others")
            self.plan = msgspec.structs.replace(plan, budget_s=left_s)
            self.outcomes.append(self._launch(keeper, progress))
            rounds += 1
            if self.outcomes[-1].ends_session:
                return

    def _launch(self, keeper: Keeper, progress: Progress) -> Outcome:
        """Run the job once; its records go to the file, to memory and to the screen as they come."""
        log = RunLog()
        self.logs.append(log)
        start = self.start
        with engine.Running(start.tokens, start.environment, own_session=not start.joins) as running:
            before = self._while_it_starts(progress)
            for line, record in running.records(self.plan):
                if isinstance(record, End):
                    _keep_hardware(self._hardware("after", log.run), log, keeper)
                keeper.write(line)
                log.take(record)
                if isinstance(record, Run):
                    mine = None if record.plan.benchmark == "node" else _uuids(record)
                    _keep_hardware(nvml.of(before, mine) if before and mine is not None else before, log, keeper)
                    if note := _other_library(record):
                        progress.note(note)
                progress.on_record(record)
        log.problems += running.losses
        if log.end is None:  # broken off: what became of the GPUs is worth knowing all the same
            _keep_hardware(self._hardware("after", log.run), log, keeper)
        return judge(log, running.ending, self.request, start.instead)

    def _while_it_starts(self, progress: Progress) -> Hardware | None:
        """Do what takes time and is needed later: read the GPUs, load what makes the report and what draws.

        MPI and CUDA take longer to start than this.  However quick they are, no rank measures before it has the plan,
        and that is handed over afterwards.
        """
        load_beside()  # NVML's answers are waited for
        before = self._hardware("before")
        load()
        progress.begin(self.plan)
        return before

    def _hardware(self, when: nvml.When, run: Run | None = None) -> Hardware | None:
        """Read the GPUs of this node: all of them before it is known which ones the ranks use."""
        if not self.uses_devices or not has_driver() or (when == "after" and run is None):
            return None
        return nvml.read(when, _uuids(run) if run and run.plan.benchmark != "node" else None)

    def _say(self, keeper: Keeper) -> int:
        """Say on stderr how it ended, last of all where the records are; return the exit code."""
        codes = [outcome.code for outcome in self.outcomes]
        lines = [line for outcome in self.outcomes for line in outcome.lines]
        if keeper.trouble:
            lines.append(f"volley: {keeper.trouble}; what is shown above was kept in memory only")
            codes.append(EXIT_MACHINE)
        for line in (*lines, keeper.last_line()):
            if line is not None:
                print(line, file=sys.stderr)
        return worst(codes)


def _uuids(run: Run) -> set[str]:
    """The GPUs that the ranks use."""
    return {rank.device.uuid for rank in run.ranks if rank.device}


def _keep_hardware(hardware: Hardware | None, log: RunLog, keeper: Keeper) -> None:
    """Put a record of the front's own between the engine's; a run without GPUs has nothing to say."""
    if hardware is None or log.run is None or not _uuids(log.run):
        return
    keeper.write(encode_line(hardware))
    log.take(hardware)


def _other_library(run: Run) -> str | None:
    """Say when the MPI that answers is of another major or minor version than the one of the build."""
    if run.mpi is None or run.engine.mpi_built is None:
        return None
    version = run.engine.mpi_built.split()[-1]
    if ".".join(version.split(".")[:2]) in run.mpi.library:
        return None
    return f"the engine was built against {run.engine.mpi_built} and runs with {run.mpi.library}"
