"""Run code that may crash or hang in a separate process, and report what happened; capture facts in this way."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from shlex import join
from typing import Any, BinaryIO, TypeVar

import msgspec

from volley.errors import MachineError, UserError
from volley.machine.facts import FACTS_VERSION, Facts, Probe
from volley.machine.signals import NO_PROCESS, ChildGuard, deferred, signal_name
from volley.machine.variables import captured
from volley.text import clean

T = TypeVar("T")

LIMIT_S = 60.0
"""How long a probe may take, unless asked."""
GRACE_S = 8.0
"""Between SIGTERM and SIGKILL: a probe that started a job gives its launcher five seconds (volley.launch.engine)."""
_EXIT_S = 1.0
"""How long a process may take to exit after its answer, and to disappear after SIGKILL.  A process that a driver holds
in the kernel does not disappear; it is left behind."""
_LONGEST_WAIT_S = 2e6
"""poll(2) counts milliseconds in 32 bits; this is three weeks."""
_LONGEST_TEXT = 2000
"""Characters kept of what a failed probe printed."""


class Skip(Exception):  # noqa: N818  not an error: the probe decided that there is nothing to try
    """A probe cannot be tried here; the message says why."""


@dataclass(frozen=True)
class Attempt:
    """A probe: its field in the facts, the call as a person would repeat it, and what does it."""

    name: str
    call: str
    work: Callable[[], Any]
    times: float = 1.0
    """How many limits it may take: some run several jobs."""


def capture(
    attempts: Sequence[Attempt],
    limit_s: float = LIMIT_S,
    watch: Callable[[str], None] = lambda _: None,
    *,
    own_session: bool = True,
) -> Facts:
    """Run the probes; return what happened.

    Args:
        attempts: the probes; those of the document that are missing here are noted as skipped.
        limit_s: seconds that a probe may take before it is ended.
        watch: receives the call of each probe before it begins.
        own_session: off inside a foreign launcher (see :func:`isolated`).
    """
    from volley import __version__  # noqa: PLC0415  start-up: reads the distribution's metadata
    from volley.machine import packages  # noqa: PLC0415  start-up: a run captures no facts

    types = {field.name: field.type for field in msgspec.structs.fields(Facts)}
    probes = [name for name, kind in types.items() if getattr(kind, "__origin__", None) is Probe]
    found: dict[str, Any] = {name: Probe(call=name, skipped="it was not requested") for name in probes}
    for each in attempts:
        watch(each.call)
        (kind,) = types[each.name].__args__  # T of Probe[T]
        found[each.name] = isolated(each.call, each.work, kind, limit_s * each.times, own_session=own_session)
    facts = Facts(
        facts=FACTS_VERSION,
        volley=__version__,
        captured_at=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        environment=dict(captured(os.environ)),
        installer=join(packages.installer()),
        requirement=packages.requirement(),
        **found,
    )
    return without_home(facts, os.path.expanduser("~"))  # noqa: PTH111  an unknown user has none: Path raises


def without_home(facts: Facts, home: str) -> Facts:
    """Write ``~`` for the user's home folder: facts are given to others.  A folder that only begins like it stays."""
    if len(home) < 2:
        return facts
    folder = re.escape(msgspec.json.encode(home.rstrip("/"))[1:-1])
    # A path ends before what separates paths or words, and begins after it.
    document = re.sub(rb"""(?<![^\s:;,='"(])""" + folder + rb"""(?![^/\s:;,'"\\)])""", b"~", msgspec.json.encode(facts))
    return msgspec.json.decode(document, type=Facts)


def isolated(
    call: str, work: Callable[[], T], kind: Any, limit_s: float, *, own_session: bool = True, grace_s: float = GRACE_S
) -> Probe[T]:
    """Run ``work`` in a forked process; return what it found, or how it ended.

    Args:
        call: what is tried, for people.
        work: returns the value; raises :class:`Skip` where there is nothing to try.
        kind: the type of the value, for decoding.
        limit_s: after so long it is asked to stop, and then killed with all that it started.
        own_session: off inside a foreign launcher, which ends its ranks as a process group and talks to them through
            descriptors that they inherited.
        grace_s: between asking it to stop and killing it.
    """
    read, ours = os.pipe()
    with (
        os.fdopen(read, "rb") as answers,
        tempfile.TemporaryFile() as printed,
        contextlib.closing(ChildGuard()) as guard,
    ):
        pid = 0
        status: int | None = None
        try:
            with deferred():
                with warnings.catch_warnings():
                    # Of a fork beside threads: the child takes no lock.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    try:
                        pid = os.fork()  # nothing is imported again
                    except BlockingIOError:
                        raise MachineError(NO_PROCESS) from None
                if pid == 0:
                    _run(work, guard, ours, printed.fileno(), own_session)
                os.close(ours)
            line = _answer(answers, limit_s)
            late = line is None
            if late:
                os.kill(pid, signal.SIGTERM)
                line = _answer(answers, grace_s)
            status = _wait(pid, _EXIT_S)
        except BaseException:  # Ctrl-C: a probe that started a job ends it first
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
                    status = _wait(pid, grace_s)
            raise
        finally:
            if pid:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)  # what is left of its session's first group
                if status is None:
                    os.kill(pid, signal.SIGKILL)
                    status = _wait(pid, _EXIT_S)
        printed.seek(0)
        answer: dict[str, Any] = msgspec.json.decode(line) if line else {}
        value = None if answer.get("value") is None else msgspec.convert(answer["value"], type=kind)
        error = answer.get("error") or (f"no answer within {limit_s:g} s" if late else None)
        if value is None and error is None and "skipped" not in answer:
            name = signal_name(-status) if status and status < 0 else None
            error = f"it crashed: {name}" if name else f"it ended with status {status} and said nothing"
        return Probe(
            call=call,
            value=value,
            error=error,
            skipped=answer.get("skipped"),
            own=answer.get("own", False),
            remedy=answer.get("remedy", ""),
            said=clean(printed.read())[-_LONGEST_TEXT:] if error else "",
        )


def _run(work: Callable[[], Any], guard: ChildGuard, answers: int, printed: int, own_session: bool) -> None:
    """Do the work and end this process; whatever is printed goes to ``printed``, the answer is one line of JSON."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        guard.register()
        if own_session:
            os.setsid()
            # A pipe of the caller's stays open for as long as anybody has it: a job may wait for the end of its input.
            for descriptor in [int(entry.name) for entry in os.scandir("/proc/self/fd")]:
                if descriptor > 2 and descriptor not in (answers, printed):
                    with contextlib.suppress(OSError):
                        os.close(descriptor)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        try:
            answer = {"value": work()}
        except Skip as skip:
            answer = {"skipped": str(skip)}
        except UserError as error:
            answer = {"error": error.reason, "remedy": error.remedy}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "own": True}
        with os.fdopen(answers, "wb") as file:
            file.write(msgspec.json.encode(answer) + b"\n")
        os._exit(0)
    finally:
        os._exit(1)


def _answer(answers: BinaryIO, limit_s: float) -> bytes | None:
    """Read one line; ``None`` where it did not come in time, empty where the process ended without one."""
    if not select.select([answers], [], [], min(limit_s, _LONGEST_WAIT_S))[0]:
        return None
    line = answers.readline()  # it is written at once
    return line if line.endswith(b"\n") else b""


def _wait(pid: int, limit_s: float) -> int | None:
    """Wait for a process to end; return its exit status, negative for a signal, or ``None`` where it still runs."""
    until = time.monotonic() + limit_s
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.002)
