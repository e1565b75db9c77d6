"""The outcome of a launch, or of a session that a signal stopped: an exit code and messages."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from volley.command.options import JobOptions
from volley.errors import EXIT_FAILED, EXIT_GOOD, EXIT_MACHINE, EXIT_UNDECIDED, EXIT_USAGE
from volley.launch.engine import Ending
from volley.machine import ucx_protocols
from volley.machine.mpi_words import SETTING, blames_setting, lost_host, names_setting, reason_in
from volley.machine.signals import typed_name
from volley.records.plan import OUT_OF_TIME
from volley.records.run_log import RunLog
from volley.run.benchmark import Benchmark
from volley.text import escape_controls, join_words

CODE = f" (exit code {EXIT_MACHINE})"
"""Follows what was asked for and not measured."""

_LOADER = 127
"""The exit status of ld.so if a library is missing; the status is 1 if a library has another version."""

_SHOWN_LINES = 15
"""Lines of MPI's and the launcher's text that are shown if a run was aborted and the engine gave no reason."""


@dataclass(frozen=True)
class RunOutcome:
    code: int
    lines: tuple[str, ...] = ()
    ends_session: bool = False
    """No further launch: the session was stopped, or the next launch would fail in the same way."""

    @property
    def why(self) -> str:
        """The sentence that says what happened, without what doctor can do about it."""
        sentences = [line.removeprefix("volley: ").removesuffix(CODE) for line in self.lines]
        return next((each for each in reversed(sentences) if not each.startswith("volley doctor ")), "")


def worst(codes: Iterable[int]) -> int:
    """Return the most serious exit code, in this order: stopped, usage error, failure, undecided, machine error."""
    order = (EXIT_GOOD, EXIT_MACHINE, EXIT_UNDECIDED, EXIT_FAILED, EXIT_USAGE)
    return max(codes, key=lambda code: order.index(code) if code in order else len(order), default=EXIT_GOOD)


def doctor_of(job: JobOptions | None) -> str:
    """Return the command line of doctor that looks at the hosts and the MPI of a job."""
    hosts = ("--hosts", ",".join(dict.fromkeys(job.hosts))) if job and job.hosts else ()
    return shlex.join(["volley", "doctor", *hosts, *(("--mpi", job.mpi) if job and job.mpi else ())])


def stopped(number: int, *, measured: bool, said: Sequence[str] = ()) -> RunOutcome:
    """Return the outcome of a session stopped by a signal; the exit code is the shell's, e.g. 130 after Ctrl-C.

    ``measured``: a measurement was finished before; ``said``: what MPI and the launcher had printed.
    """
    kept = "; the records of all finished measurements are complete" if measured else " before anything was measured"
    return RunOutcome(128 + number, (*_last(said), f"volley: stopped by {typed_name(number)}{kept}"), ends_session=True)


def judge(
    log: RunLog,
    ending: Ending,
    benchmark: Benchmark,
    named: Iterable[Set[str]],
    hint: str | None,
    *,
    operations: Iterable[Set[str]] = (),
    measured_before: bool = False,
    job: JobOptions | None = None,
) -> RunOutcome:
    """Return the outcome of a launch, from its records or, without records, from its exit status and stderr.

    ``named`` are the transports that each name in ``--transport`` stands for: one of them must be available, and have
    an operation.  Of each of ``operations`` one must be measured.  ``hint`` is another way to start such a job.
    ``measured_before``: an earlier launch of the run measured points.  ``job`` has the hosts and the MPI that doctor
    must look at.
    """
    if log.end is None:
        return _aborted(log, ending, benchmark, hint, job, began=log.run is not None or measured_before)
    if log.end.status == "failed" or "failed" in log.statuses or log.problems:  # the report names lines with problems
        # The first rank ends the records; another one that finds the same thing ends the job before that.
        cannot = ending.status == EXIT_MACHINE and not log.statuses
        said = (f"volley: {escape_controls(log.end.reason)}",) if log.end.reason else ()
        return RunOutcome(EXIT_MACHINE if cannot else EXIT_FAILED, said)
    if ending.status not in (EXIT_GOOD, EXIT_MACHINE):
        why = f"all points were measured, but {ending.reason()}"
        return RunOutcome(EXIT_FAILED, _with_launcher_text(why, ending, doctor_of(job)))
    if measured_before and {*log.statuses} == {"skipped"}:  # there was no time for another launch
        return RunOutcome(EXIT_GOOD, ends_session=True)
    if benchmark.records and "ok" not in log.statuses:
        why = "every point was skipped" if "skipped" in log.statuses else "no measurement was possible on this machine"
        return RunOutcome(EXIT_MACHINE, (f"volley: {why}",), ends_session=True)
    missing = {each.transport for each in log.transports if not each.available}
    lacking = [each for each in named if (each and each <= missing) or _lacks(log, each)]
    lacking += [each for each in operations if _lacks(log, each)]
    names = dict.fromkeys(join_words(sorted(each), "or") for each in lacking)  # the report says why
    why = f"volley: asked for and not measured: {join_words(names)}{CODE}"
    lost = lacking or ending.status == EXIT_MACHINE
    return RunOutcome(EXIT_MACHINE, (why,) if lacking else ()) if lost else RunOutcome(EXIT_GOOD, ending.others)


def _lacks(log: RunLog, names: Set[str]) -> bool:
    """Return whether no point of these transports or operations can be measured, whatever the time."""
    points = [
        each for each in log.records if getattr(each, "operation", None) and {each.transport, each.operation} & names
    ]
    return bool(points) and all(each.status == "skipped" and each.reason != OUT_OF_TIME for each in points)


def _aborted(
    log: RunLog, ending: Ending, benchmark: Benchmark, hint: str | None, job: JobOptions | None, *, began: bool
) -> RunOutcome:
    """Return the outcome of a run without an end record: it did not begin, the engine rejected it, or it was killed."""
    doctor = doctor_of(job)
    if ending.status in (EXIT_USAGE, EXIT_MACHINE) and not log.statuses and ending.sentences:
        lines = [f"volley: {sentence}" for sentence in ending.sentences]
        if hint and ending.status == EXIT_USAGE:
            lines.append(f"volley: {hint}")
        return RunOutcome(ending.status, tuple(lines), ends_session=True)
    # Only the local engine starts without a previous --about, so it may fail in the dynamic loader.
    no_start = ending.status == _LOADER or (ending.status > 0 and not ending.sentences)
    if benchmark.local and log.run is None and no_start:
        text = "; ".join(ending.others or ending.sentences) or f"status {ending.status}"
        line = f"volley: the engine does not start: {escape_controls(text)}"
        return RunOutcome(EXIT_MACHINE, (line,), ends_session=True)
    several = log.run and len({rank.host for rank in log.run.ranks}) > 1
    lost = lost_host(ending.others) if several and not ending.sentences else ""
    what = "the run was aborted" if began else "the run did not begin"
    why = f"{what}: {ending.reason()}{f'; lost: {lost}' if lost else ''}"
    explained = _with_launcher_text(why, ending, doctor)
    if log.run is None and doctor not in explained[-1]:
        words = shlex.join(f"--launcher-arg={each}" for each in job.launcher_arg) if job else ""
        explained = (*explained, f"volley: {doctor} {f'tries without {words}' if words else 'looks for the cause'}")
    return RunOutcome(EXIT_FAILED if began else EXIT_MACHINE, explained, ends_session=True)


def _with_launcher_text(sentence: str, ending: Ending, doctor: str) -> tuple[str, ...]:
    """Return the message, preceded by the launcher's text if the engine gave no reason; name settings that it names."""
    if ending.sentences:
        return (f"volley: {escape_controls(sentence)}",)
    said = reason_in(ending.others, sentence)
    named = [f"{name}={value}" for name, value in os.environ.items() if SETTING.match(name)]
    asks = ((setting, *setting.split("=", 1)) for setting in named)
    named = [each for each, *its in asks if names_setting(said, *its) or blames_setting(ending.others, *its)]
    if named:
        sentence = f"{sentence}: {said}; in this shell: {join_words(named)}; {doctor} tries without"
    elif said not in sentence:
        sentence = f"{sentence}: {said}"
    return (*_last(ending.others), f"volley: {escape_controls(sentence)}")


def _last(said: Sequence[str]) -> tuple[str, ...]:
    """Return the last lines; the tables of UCX, which the preflight asks for, are no reason for an end."""
    return tuple([line for line in said if not ucx_protocols.is_line(line)][-_SHOWN_LINES:])
