"""How a launch ended, as an exit code and as sentences."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from volley.errors import EXIT_FAILED, EXIT_GOOD, EXIT_MACHINE, EXIT_USAGE
from volley.run.benchmark import Benchmark
from volley.run.engine import Ending
from volley.run.records import End
from volley.run.run_log import RunLog
from volley.text import escape_controls

_LOADER = 127
"""The exit status of ld.so where a library is missing; 1 where it is of another version."""

_SHOWN_LINES = 15
"""Lines of MPI's and the launcher's own text that are shown when a run was aborted for a reason nobody else gave."""


@dataclass(frozen=True)
class RunOutcome:
    """How one launch ended."""

    code: int
    lines: tuple[str, ...] = ()
    """What to say on stderr."""
    ends_session: bool = False
    """No use in launching again: it was stopped, or it would end the same way."""


def worst(codes: Iterable[int]) -> int:
    """Return the exit code that says most: a stop, a usage error, a failure, a machine that cannot."""
    order = (EXIT_GOOD, EXIT_MACHINE, EXIT_FAILED, EXIT_USAGE)
    return max(codes, key=lambda code: order.index(code) if code in order else len(order), default=EXIT_GOOD)


def stopped(number: int) -> RunOutcome:
    """The exit code is the shell's for that signal: 130 after Ctrl-C."""
    by = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    said = f"volley: stopped by {by}; what was measured before is complete line by line"
    return RunOutcome(128 + number, (said,), ends_session=True)


def judge(log: RunLog, ending: Ending, benchmark: Benchmark, named: Collection[str], hint: str | None) -> RunOutcome:
    """Say how a launch ended, from its records first and from exit status and stderr where there are none.

    Args:
        log: its records.
        ending: its exit status and text.
        benchmark: what was measured.
        named: transports that were asked for by name.
        hint: how to start such a job in another way; ``None`` where there is none better.
    """
    if log.end is None:
        return _aborted(log, ending, benchmark, hint)
    if log.end.status == "failed" or "failed" in log.statuses or log.problems:  # the report names lines with problems
        return RunOutcome(EXIT_FAILED, _of_the_end(log.end))
    if ending.status not in (EXIT_GOOD, EXIT_MACHINE):
        return RunOutcome(EXIT_FAILED, _explained(f"all was measured, but {ending.reason()}", ending))
    if benchmark.record_types and "ok" not in log.statuses:
        return RunOutcome(EXIT_MACHINE, ("volley: nothing could be measured here",), ends_session=True)
    if ending.status == EXIT_MACHINE or any(not each.available and each.transport in named for each in log.transports):
        return RunOutcome(EXIT_MACHINE)  # the report says why a transport cannot be used
    return RunOutcome(EXIT_GOOD, ending.others)


def _of_the_end(end: End) -> tuple[str, ...]:
    """What ended the run before its time, where the records tell."""
    return (f"volley: {escape_controls(end.reason)}",) if end.reason else ()


def _aborted(log: RunLog, ending: Ending, benchmark: Benchmark, hint: str | None) -> RunOutcome:
    """A run without its last record: refused by the engine, or ended by force."""
    if ending.status in (EXIT_USAGE, EXIT_MACHINE) and not log.statuses and ending.sentences:
        lines = [f"volley: {sentence}" for sentence in ending.sentences]
        if hint and ending.status == EXIT_USAGE:
            lines.append(f"volley: {hint}")
        return RunOutcome(ending.status, tuple(lines), ends_session=True)
    # A local engine is the only one that was not asked --about before: the loader may end it.
    if (
        benchmark.local
        and log.run is None
        and (ending.status == _LOADER or (ending.status > 0 and not ending.sentences))
    ):
        said = "; ".join(ending.others or ending.sentences) or f"status {ending.status}"
        line = f"volley: the engine does not start: {escape_controls(said)}"
        return RunOutcome(EXIT_MACHINE, (line,), ends_session=True)
    return RunOutcome(EXIT_FAILED, _explained(f"the run was aborted: {ending.reason()}", ending), ends_session=True)


def _explained(sentence: str, ending: Ending) -> tuple[str, ...]:
    """The sentence, after the launcher's own text where the engine gave no reason."""
    theirs = () if ending.sentences else ending.others[-_SHOWN_LINES:]
    return (*theirs, f"volley: {escape_controls(sentence)}")
