"""How a launch ended, as an exit code and as sentences."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass

from volley.engine import Ending
from volley.errors import EXIT_FAILED, EXIT_GOOD, EXIT_MACHINE, EXIT_REQUEST
from volley.planning import Request
from volley.records import End
from volley.records_io import RunLog
from volley.text import harmless

_LOADER = 127
"""The exit status of ld.so where a library is missing; 1 where it is of another version."""

_SHOWN_LINES = 15
"""Lines of MPI's and the launcher's own text that are shown when a run broke off for a reason nobody else gave."""


@dataclass(frozen=True)
class Outcome:
    """How one launch ended."""

    code: int
    lines: tuple[str, ...] = ()
    """What to say on stderr."""
    ends_session: bool = False
    """No use in launching again: it was stopped, or it would end the same way."""


def worst(codes: Iterable[int]) -> int:
    """Return the exit code that says most: a stop, a request without sense, a failure, a machine that cannot."""
    order = (EXIT_GOOD, EXIT_MACHINE, EXIT_FAILED, EXIT_REQUEST)
    return max(codes, key=lambda code: order.index(code) if code in order else len(order), default=EXIT_GOOD)


def judge(log: RunLog, ending: Ending, request: Request, instead: str | None) -> Outcome:
    """Say how a launch ended, from its records first and from exit status and stderr where there are none.

    Args:
        log: its records.
        ending: its exit status and text.
        request: what was asked for.
        instead: how to start such a job in another way; ``None`` where there is none better.
    """
    if ending.stopped_by is not None:
        return stopped(ending.stopped_by)
    if log.end is None:
        return _broken_off(log, ending, request, instead)
    if log.end.status == "failed" or "failed" in log.statuses:
        return Outcome(EXIT_FAILED, _of_the_end(log.end))
    if log.problems:
        return Outcome(EXIT_FAILED)  # the report names the lines
    if ending.status not in (EXIT_GOOD, EXIT_MACHINE):
        return Outcome(EXIT_FAILED, _explained(f"all was measured, but {ending.reason()}", ending))
    return _whole(log, ending, request)


def _whole(log: RunLog, ending: Ending, request: Request) -> Outcome:
    """A run that came to its end without a failure; it may have measured less than was asked for."""
    if request.benchmark != "probe" and "ok" not in log.statuses:
        return Outcome(EXIT_MACHINE, ("volley: nothing could be measured here",), ends_session=True)
    if ending.status == EXIT_MACHINE or _lacks(log, request):
        return Outcome(EXIT_MACHINE)
    return Outcome(EXIT_GOOD, ending.others)


def _of_the_end(end: End) -> tuple[str, ...]:
    """What ended the run before its time, where the records tell."""
    return (f"volley: {harmless(end.reason)}",) if end.reason else ()


def stopped(number: int) -> Outcome:
    """The exit code is the shell's for that signal: 130 after Ctrl-C."""
    by = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    said = f"volley: stopped by {by}; what was measured before is complete line by line"
    return Outcome(128 + number, (said,), ends_session=True)


def _broken_off(log: RunLog, ending: Ending, request: Request, instead: str | None) -> Outcome:
    """A run without its last record: refused by the engine, or ended by force."""
    measured = bool(log.statuses)
    if ending.status in (EXIT_REQUEST, EXIT_MACHINE) and not measured and ending.sentences:
        lines = [f"volley: {sentence}" for sentence in ending.sentences]
        if instead and ending.status == EXIT_REQUEST:
            lines.append(f"volley: {instead}")
        return Outcome(ending.status, tuple(lines), ends_session=True)
    if request.benchmark == "node" and log.run is None and _never_ran(ending):
        said = "; ".join(ending.others or ending.sentences) or f"status {ending.status}"
        return Outcome(EXIT_MACHINE, (f"volley: the engine does not start: {harmless(said)}",), ends_session=True)
    return Outcome(EXIT_FAILED, _explained(f"the run broke off: {ending.reason()}", ending), ends_session=True)


def _never_ran(ending: Ending) -> bool:
    """True when the loader ended an engine.  That of a node is the only one that was not asked ``--about`` before."""
    return ending.status == _LOADER or (ending.status > 0 and not ending.sentences)


def _explained(sentence: str, ending: Ending) -> tuple[str, ...]:
    """The sentence, after the launcher's own text where the engine gave no reason."""
    theirs = () if ending.sentences else ending.others[-_SHOWN_LINES:]
    return (*theirs, f"volley: {harmless(sentence)}")


def _lacks(log: RunLog, request: Request) -> bool:
    """True when a transport that was asked for by name cannot be used here; the report says why."""
    return any(not each.available and each.transport in request.transports for each in log.transports)
