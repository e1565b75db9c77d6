"""A process of its own for each probe, so that a crash or a hang is a finding and doctor goes on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import IO, Any, TypeVar

import msgspec

from volley.doctor.facts import Probe
from volley.engine import clean
from volley.errors import UserError

T = TypeVar("T")

GRACE_S = 8.0
"""Between SIGTERM and SIGKILL: a probe that started a job gives its launcher five seconds (``engine.Running``)."""
_LONGEST_WAIT_S = 2e6
"""poll(2) counts milliseconds in 32 bits; this is three weeks."""
_MOST_SAID = 2000
"""Characters kept of what a failed probe printed."""


class Skip(Exception):  # noqa: N818  not an error: the probe decided that there is nothing to try
    """A probe cannot be tried here; the message says why."""


class _Answer(msgspec.Struct):
    """What comes back through the pipe."""

    value: Any = None
    error: str | None = None
    skipped: str | None = None


def isolated(call: str, work: Callable[[], T], kind: Any, limit_s: float, *, own_session: bool = True) -> Probe[T]:
    """Run ``work`` in a forked process; return what it found, or how it ended.

    Args:
        call: what is tried, for people.
        work: returns the value; raises :class:`Skip` where there is nothing to try.
        kind: the type of the value, for decoding.
        limit_s: after so long it is asked to stop, and then killed with all that it started.
        own_session: off inside a foreign launcher, which ends its ranks as a process group.
    """
    began = time.monotonic()
    context = multiprocessing.get_context("fork")  # nothing is imported again, and no thread runs here
    ours, theirs = context.Pipe(duplex=False)
    with tempfile.TemporaryFile() as said:
        process = context.Process(target=_child, args=(work, theirs, said.fileno(), own_session))
        process.start()
        theirs.close()
        try:
            answer, late = _listen(ours, process, limit_s)
        except BaseException:  # Ctrl-C: a probe that started a job ends it first
            process.terminate()
            process.join(GRACE_S)
            raise
        finally:
            _end(process)
        error = answer.error or (f"no answer within {limit_s:g} s" if late else None)
        value = None if answer.value is None else msgspec.convert(answer.value, type=kind)
        if value is None and error is None and answer.skipped is None:
            error = _how_it_ended(process.exitcode)
        return Probe(
            call=call,
            value=value,
            error=error,
            skipped=answer.skipped,
            exit=process.exitcode if error else None,
            said=_tail(said) if error else "",
            elapsed_s=round(time.monotonic() - began, 3),
        )


def _child(work: Callable[[], Any], answers: Connection, said: int, own_session: bool) -> None:
    """Do the work; whatever is printed goes to ``said``."""
    if own_session:
        os.setsid()
    for descriptor in (1, 2):
        os.dup2(said, descriptor)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    try:
        answer = _Answer(value=work())
    except Skip as skip:
        answer = _Answer(skipped=str(skip))
    except UserError as error:
        answer = _Answer(error=str(error))
    except Exception as error:
        answer = _Answer(error=f"{type(error).__name__}: {error}")
    answers.send_bytes(msgspec.json.encode(answer))
    answers.close()


def _listen(answers: Connection, process: Any, limit_s: float) -> tuple[_Answer, bool]:
    """Wait for the answer; past the limit ask the process to stop, and take what it still says."""
    late = not answers.poll(min(limit_s, _LONGEST_WAIT_S))
    if late:
        process.terminate()
    if not late or answers.poll(GRACE_S):
        with contextlib.suppress(EOFError, ConnectionError):
            return msgspec.json.decode(answers.recv_bytes(), type=_Answer), late
    return _Answer(), late


def _end(process: Any) -> None:
    """Take the process and everything in its session's first group away."""
    process.join(1)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.is_alive():
        process.kill()
    process.join()


def _how_it_ended(status: int | None) -> str:
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return f"it crashed: {signal.Signals(-status).name}"
    return f"it ended with status {status} and said nothing"


def _tail(said: IO[bytes]) -> str:
    said.seek(0)
    return clean(said.read())[-_MOST_SAID:]
