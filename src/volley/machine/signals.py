"""Child processes and the signals that end them: a child with a guard, the stop of a session, names of signals."""

from __future__ import annotations

import contextlib
import math
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Protocol

from volley.errors import MachineError

NO_PROCESS = "cannot start more processes: ulimit -u limits a user, pids.max a control group (docker run --pids-limit)"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def restore_handlers(before: Mapping[signal.Signals, Any]) -> None:
    """Give each signal the handler that ``signal.signal`` returned when it was replaced.

    ``None`` is a handler that a C library installed before Python started: Python cannot give it back, so the signal
    has its default action.
    """
    for number, handler in before.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _replace_handlers(handler: Callable[[int, FrameType | None], None]) -> dict[signal.Signals, Any]:
    """Give the signals that ask this process to end a handler; return the handlers that they had.

    A signal that is ignored (``nohup``) stays ignored, and one that a :class:`Stop` reads stays with it.  Only the main
    thread can replace handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    kept = (signal.SIG_IGN, _read_elsewhere)
    return {number: signal.signal(number, handler) for number in ENDING if signal.getsignal(number) not in kept}


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Handle signals that ask this process to end only when the context ends.

    A handler may raise an exception at any moment; within the start of a child, that would leave a child of which
    nobody knows.  Signals are not blocked, because the child would inherit that.
    """
    arrived: list[int] = []
    before = _replace_handlers(lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        restore_handlers(before)
        if arrived:
            signal.raise_signal(arrived[0])


class Stoppable(Protocol):
    """A child process that signals end."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""


def _read_elsewhere(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the thread of a :class:`Stop` reads the signal.  Python reports only signals that have a handler."""


class Stop:
    """The flag that stops a session: Ctrl-C, SIGTERM or SIGHUP sets it, in every phase.

    The first signal asks the running child to end; the second signal kills it, and so does a child's own time limit.
    Use it as a context manager around everything that starts a child.

    A thread does that.  A handler of Python runs in the main thread between two instructions: if the signal arrives
    just before the main thread waits for a child that is silent, the handler would run when the child writes again,
    which may be never; and an exception that it raises is lost inside a callback, for example of the import system.
    But Python writes the number of each signal to a pipe at once (``signal.set_wakeup_fd``), where the thread waits.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        """The signal that asked volley to stop; ``None`` if there was none."""
        self.said: tuple[str, ...] = ()
        """What the running job had printed before it was asked to end."""
        self._since = 0.0
        self._process: Stoppable | None = None
        self._grace_s = math.inf
        self._handlers: dict[signal.Signals, Any] = {}
        self._wakeup_before = -1
        self._pipe: tuple[int, int] | None = None
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Stop:
        """Begin to listen, in the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            return self
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        try:
            self._thread.start()
        except RuntimeError:
            raise MachineError(NO_PROCESS) from None
        self._wakeup_before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        self._handlers = _replace_handlers(_read_elsewhere)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pipe is None:
            return
        restore_handlers(self._handlers)
        signal.set_wakeup_fd(self._wakeup_before)
        os.write(self._pipe[1], _END)
        self._thread.join()
        for end in self._pipe:
            os.close(end)
        self._pipe = None

    def watch(self, process: Stoppable | None, grace_s: float = math.inf) -> None:
        """End this child from now on: a signal asks it to end, ``grace_s`` seconds later it is killed."""
        self._process, self._grace_s = process, grace_s
        if process and self.signal is not None and self._pipe:
            os.write(self._pipe[1], _LOOK)

    def _listen(self) -> None:
        assert self._pipe is not None
        asked: Stoppable | None = None
        kill_at = math.inf
        while True:
            left_s = kill_at - time.monotonic()
            ready = select.select([self._pipe[0]], [], [], None if left_s == math.inf else max(left_s, 0.0))[0]
            read = os.read(self._pipe[0], _MANY) if ready else _LOOK
            if _END in read:
                return
            again = [self._is_another(number) for number in read if number in ENDING]
            process = self._process
            if process is None or self.signal is None:
                kill_at = math.inf
            elif process is not asked:
                asked, kill_at = process, time.monotonic() + self._grace_s
                process.terminate()
            elif any(again) or not ready:
                kill_at = math.inf
                process.kill()

    def _is_another(self, number: int) -> bool:
        """Note a signal; true if it is a further one.  ``timeout`` sends the same one twice, to process and group."""
        if self.signal is None:
            self.signal, self._since = number, time.monotonic()
            return False
        return time.monotonic() - self._since > _AT_ONCE_S


_END, _LOOK, _MANY = b"\xff", b"\xfe", 4096
"""What else is written to the pipe of a :class:`Stop`: no signal has such a number."""
_AT_ONCE_S = 0.1


def signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def typed_name(number: int) -> str:
    """Return what the user calls a signal that ended volley."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


_WHEN_INPUT_ENDS = """
read -r child
read -r _
[ -z "$child" ] || kill -TERM "$child"
[ -n "$1" ] || exit
until [ $((tenths += 1)) -gt 100 ] || ! kill -0 "$child"; do sleep 0.1; done
rm -rf "$1"
"""


class ChildGuard:
    """A small shell that sends SIGTERM to a child, once, when this process ends in any way.

    Launchers end their ranks on SIGTERM, on all nodes, and remove their temporary files; a second SIGTERM makes mpirun
    leave these files.  ``PR_SET_PDEATHSIG`` is no alternative: Linux sends that signal when a thread of the parent
    ends, and again when the next one ends.

    The shell waits for the end of a pipe that only this process can write to.  Close it once the child has ended.
    The child itself tells its number: this process may end at any moment after it has started the child.
    """

    def __init__(self, scratch: str = "") -> None:
        """Start the shell, before the child.  Without a further process, the child is not guarded.

        ``scratch`` is a folder for the child's temporary files.  It is removed once the child has ended, or ten seconds
        after SIGTERM.
        """
        self._shell: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WHEN_INPUT_ENDS, "sh", scratch],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal does not reach it
            )

    def register(self) -> None:
        """Watch over the process that calls this: the child, between fork and exec (``preexec_fn`` of a ``Popen``)."""
        if self._shell and self._shell.stdin:
            with contextlib.suppress(OSError):  # somebody has ended the shell
                os.write(self._shell.stdin.fileno(), b"%d\n" % os.getpid())
            self._shell.stdin.close()  # else the pipe would not end with the parent

    def close(self) -> None:
        if self._shell:
            self._shell.kill()
            self._shell.communicate()


@contextlib.contextmanager
def temporary_folder(within: Path | None = None) -> Iterator[str]:
    """A folder for temporary files that is removed when the context ends, or this process in any way.

    Raises:
        OSError: it cannot be made.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(within or tempfile.gettempdir(), f"volley-{os.urandom(8).hex()}")
        with deferred():  # a signal leaves no shell without an owner
            stack.callback(ChildGuard(str(folder)).close)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(0o700)
        yield str(folder)


GRACE_S = 5.0
"""The time between SIGTERM and SIGKILL: mpirun and srun themselves give their ranks up to 1 s and 2 s between these
signals."""
_CLEANUP_S = 2.0
"""A launcher whose ranks were killed may take this time to remove its temporary files."""
_LEFT_S = 5.0
"""Processes that a child left are waited for this long after SIGKILL: a driver may hold one in the kernel."""


class _CoreWait(NamedTuple):
    """How long a thread has been ready to run and had no core."""

    wait_s: float
    counters: str
    """What Linux counted then."""
    at_s: float


class Child:
    """A running command that ends with this process, usually in a session of its own.

    In its own session, Ctrl-C in a terminal reaches it only through this process, and all of its processes can be ended
    together.  As a context manager it ends them on every exception, also that of a signal.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        own_session: bool = True,
        own_scratch: bool = False,
        **streams: Any,
    ) -> None:
        """Start the command; with ``own_scratch``, in a folder of its own for temporary files, ``TMPDIR``.

        Open MPI names its folder there by the process number of mpirun: one that a killed mpirun left, or that of a
        container with the same ``/tmp``, would keep an mpirun with the same number from starting.
        """
        places = (environment.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
        folder = Path(next(filter(None, places), "/tmp"), f"volley-{os.urandom(8).hex()}").absolute()  # noqa: S108
        self.scratch = str(folder) if own_scratch else ""
        self._guard = ChildGuard(self.scratch)
        self._own_session = own_session
        self._core_waits: dict[str, _CoreWait] = {}
        """Of each thread of its processes, by its number, when ``core_wait_s`` was called last."""
        self._started = False
        try:
            variables = dict(environment)
            if own_scratch:
                with contextlib.suppress(OSError):
                    folder.mkdir(0o700)
                    variables["TMPDIR"] = self.scratch
            with deferred():
                self.process = subprocess.Popen(
                    list(command),
                    bufsize=0,
                    env=variables,
                    start_new_session=own_session,
                    preexec_fn=self._guard.register,  # noqa: PLW1509  it takes no lock
                    **streams,
                )
                self._started = True
        except (OSError, subprocess.SubprocessError) as error:
            self.close()
            raise MachineError(f"cannot start {command[0]}: {getattr(error, 'strerror', error)}") from None
        except BaseException:  # a signal that arrived meanwhile
            if self._started:
                self.end()
            self.close()
            raise

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.end()
        self.close()

    def terminate(self) -> None:
        """Ask it to end, with its processes that have made no group of their own."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if self._own_session else os.kill)(self.process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill it: all of its processes if it has a session of its own, because launchers use process groups.

        The command itself is killed last, if it does not end by itself after it has removed its temporary files.
        """
        if self.process.poll() is not None:
            return
        if self._own_session:
            self._kill_all(self.processes().keys() - {self.process.pid})
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_CLEANUP_S)
        self.process.kill()

    def end(self) -> None:
        self.terminate()
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            (os.killpg if self._own_session else os.kill)(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def kill_left(self) -> None:
        """Kill what it left in its session, and wait until that has ended."""
        until = time.monotonic() + _LEFT_S
        while self._own_session and (left := self.processes()) and time.monotonic() < until:
            self._kill_all(left)
            time.sleep(0.01)

    def close(self) -> None:
        self._guard.close()
        if self.scratch:  # the command has removed what is in it, unless it was killed
            shutil.rmtree(self.scratch, ignore_errors=True)

    def processes(self, *, ended: bool = False) -> dict[int, str]:
        """Return the processes of its session that have not ended, with the names of their programs.

        Those that these have started are among them, whatever their session is: Hydra gives each rank one of its own.
        ``ended``: also those that have ended, and whose exit status nobody has asked for.
        """
        names: dict[int, str] = {}
        started: dict[int, list[int]] = {}
        members: list[int] = []
        for entry in os.scandir("/proc"):
            with contextlib.suppress(ValueError, OSError):
                pid = int(entry.name)
                name, _, rest = Path(entry, "stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")
                state, parent, _, session, *_ = rest.split()  # proc(5)
                if state in "ZX" and not ended:
                    continue
                names[pid] = name.partition(" (")[2]
                started.setdefault(int(parent), []).append(pid)
                if int(session) == self.process.pid:
                    members.append(pid)
        for pid in members:
            members += [child for child in started.get(pid, ()) if child not in members]
        return {pid: names[pid] for pid in members}

    def core_wait_s(self) -> float:
        """Return the longest time for which one of its threads has waited for a core since the last call.

        Linux counts a wait when it ends, which may take seconds: a thread that is ready now and has not run since the
        last call counts as waiting since then.
        Source: ``/proc/PID/task/TID/schedstat`` (Linux, Documentation/scheduler/sched-stats.rst).
        """
        before, found, longest_s = self._core_waits, dict[str, _CoreWait](), 0.0
        for pid in self.processes():
            with contextlib.suppress(ValueError, OSError, IndexError):  # it has ended, or Linux does not say
                for thread in Path("/proc", str(pid), "task").iterdir():
                    counters, now_s = (thread / "schedstat").read_text("ascii"), time.monotonic()
                    last, wait_s = before.get(thread.name), int(counters.split()[1]) * 1e-9
                    is_ready = (thread / "stat").read_bytes().rpartition(b") ")[2].startswith(b"R")
                    if last and last.counters == counters:
                        wait_s = last.wait_s + (now_s - last.at_s if is_ready else 0.0)
                    found[thread.name] = _CoreWait(wait_s, counters, now_s)
                    longest_s = max(longest_s, wait_s - (last.wait_s if last else 0.0))
        self._core_waits = found
        return longest_s

    @staticmethod
    def _kill_all(members: Iterable[int]) -> None:
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
