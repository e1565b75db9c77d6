"""The engine as the front end sees it: its ``--about`` facts, and a running job whose records arrive one by one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Protocol

import msgspec

from volley.errors import MachineError, UserError
from volley.machine.signals import ChildGuard, restore_handlers, signal_name
from volley.run import engine_path
from volley.run.launch_times import Stopwatch
from volley.run.plan import Plan
from volley.run.run_log import RecordError
from volley.text import clean

_PREFIX = "volley-engine: "
USUAL_LINES = 400
_EXPLAINED = {
    "OSC UCX component priority set inside component query failed": "volley: Open MPI sends one-sided messages without "
    "UCX, which has no device for them here",
}
"""What MPI says of each window and rank although nothing is wrong, and what it means."""
_LONGEST_TAG = 20
"""Characters that a launcher may write before a line, such as ``[1,0]<stderr>: ``."""
_RELEASE_S = 20.0
_ABOUT_S = 60.0
"""An engine that does not answer ``--about`` within this time hangs in a library that it loads."""
_GRACE_S = 5.0
"""The time between SIGTERM and SIGKILL for a launcher: mpirun and srun themselves give their ranks up to 1 s and 2 s
between these signals."""

_CLEANUP_S = 2.0
"""A launcher whose ranks were killed may take this time to remove its temporary files."""

_START_S = 240.0
"""A launcher may take this time, and that of the watchdog, until a rank writes the first record.  On one node this
takes a second; thousands of ranks that load their libraries from one file system take minutes, and srun repeats its
request where another step still has the resources."""

_END_S = 20.0
"""A launcher may take this time to end after the watchdog of its ranks would have ended them."""


class TransportAbout(msgspec.Struct, frozen=True):
    """A transport of the engine, from ``--about``."""

    name: str
    summary: str
    mpi: bool
    memory: str
    device_pointers: bool = False
    """MPI gets device pointers, which ends the job where MPI is not CUDA-aware."""
    usual: bool = True
    """Every run has it that names no transports."""
    test: bool = False
    halos: bool = False
    """The transport can also exchange halos."""


class About(msgspec.Struct, frozen=True):
    """The answer of ``volley-engine --about``, which does not start MPI."""

    version: str = ""
    mpi_built: str = ""
    transports: tuple[TransportAbout, ...] = ()
    cuda_built: str | None = None
    cuda_architectures: tuple[str, ...] = ()


@contextlib.contextmanager
def ask_about(engine: Path) -> Iterator[Callable[[], About]]:
    """Start ``volley-engine --about`` and yield a function that waits for the answer.

    The engine loads its MPI library before it answers; the caller can do other work in the meantime.  An engine that
    has not answered at the end of the context, for example because of Ctrl-C, is killed.

    Raises:
        MachineError: if the engine does not start; the message contains the text of the dynamic loader.
    """
    try:
        asked = subprocess.Popen(
            [str(engine), "--about"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise MachineError(f"the engine {engine} does not start: {error.strerror}") from None

    def answer() -> About:
        try:
            out, err = asked.communicate(timeout=_ABOUT_S)
        except subprocess.TimeoutExpired:
            raise MachineError(f"the engine {engine} does not start: no answer within {_ABOUT_S:g} s") from None
        try:
            return msgspec.json.decode(out, type=About)
        except msgspec.MsgspecError:
            text = clean(err) or f"it ended with status {asked.returncode} and no message"
            raise MachineError(f"the engine {engine} does not start: {text}") from None

    with asked:
        try:
            yield answer
        finally:
            asked.kill()


@dataclass(frozen=True)
class Ending:
    """How a job ended."""

    status: int
    """The launcher's exit status; negative: the number of the signal that killed it."""
    sentences: tuple[str, ...]
    """The messages of the engine's ranks on stderr, each once, without their prefix."""
    others: tuple[str, ...]
    """All other text, from MPI or the launcher; only the last lines if there are many."""
    program: str = "the launcher"
    """The program that returned the status."""

    def reason(self) -> str:
        """Return the most likely reason for the end of the job, as one sentence."""
        if self.sentences:
            return "; ".join(self.sentences)
        if self.status < 0:
            return f"{self.program} was killed by {signal_name(-self.status) or f'signal {-self.status}'}"
        name = signal_name(self.status - 128)
        return f"the job ended with status {self.status}{f' ({name})' if name else ''}"


# ------------------------------------------------------------------------------------------------------- signals


class Stoppable(Protocol):
    """A child process that signals end."""

    def stop(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""


class Stop:
    """The flag that stops a session: Ctrl-C, SIGTERM or SIGHUP sets it, in every phase.

    The first signal asks the running job to stop; the second signal kills it.  Use it as a context manager around
    all measurements.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        """The signal that asked volley to stop; ``None`` if there was none."""
        self._process: Stoppable | None = None
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        """Install the handlers, in the main thread only; a signal that is ignored (``nohup``) stays ignored."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        restore_handlers(self._handlers)

    def watch(self, process: Stoppable | None) -> None:
        """Forward the signals to this process from now on."""
        self._process = process
        if process and self.signal is not None:
            process.stop()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        again, self.signal = self.signal is not None, self.signal or number
        if self._process and again:
            self._process.kill()
        elif self._process:
            self._process.stop()


class EngineProcess:
    """A running job of the engine: send it a plan, iterate over its ``records``, then read its ``ending``.

    Until the plan arrives, the ranks initialise MPI and CUDA and then wait.  Work between the start and
    :meth:`records` therefore overlaps with that initialisation and disturbs no measurement.

    A job that is asked to stop ends by itself.  The iteration continues until the last record is read, so that no
    result is lost.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        stop: Stop,
        *,
        own_session: bool = True,
        own_scratch: bool = False,
        max_lines: int = USUAL_LINES,
    ) -> None:
        """Start the job.

        Args:
            command: the launcher's command line, or the engine's if a foreign launcher started this process as a rank.
            environment: the complete environment of the command.
            stop: the flag that stops the job.
            own_session: start the job in its own session, so that Ctrl-C reaches it only through volley.  False inside
                a foreign launcher, which ends its ranks as a process group.
            own_scratch: give the job a folder of its own for temporary files, ``TMPDIR``, for ranks on this host only.
                Open MPI names its folder there by the process number of mpirun: one that a killed mpirun left, or that
                of a container with the same ``/tmp``, would keep an mpirun with the same number from starting.
            max_lines: how many of the last lines of MPI's and the launcher's text are kept.

        Raises:
            MachineError: if the command does not start.
        """
        self.losses: list[str] = []
        """Messages about lines that should be records but cannot be decoded."""
        self._sentences: dict[str, None] = {}
        self._others: deque[str] = deque(maxlen=max_lines)
        self._own_session = own_session
        self._time_limit: threading.Timer | None = None
        engines = (engine_path.NAME, engine_path.LOCAL_NAME)
        self._program = "the engine" if Path(command[0]).name in engines else "the launcher"
        self._stop = stop
        self._scratch = _scratch_path(environment) if own_scratch else ""
        self._guard = ChildGuard(self._scratch)
        self.stopwatch = Stopwatch()
        self.ended = 0.0
        """When the launcher ended, as ``time.monotonic`` says it; valid after the ``with`` block."""
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**environment, **_make_scratch(self._scratch)},
                close_fds=own_session,  # inside a launcher, PMI works through a descriptor inherited from it
                start_new_session=own_session,
                preexec_fn=self._guard.register,  # noqa: PLW1509  it takes no lock
            )
        except (OSError, subprocess.SubprocessError) as error:
            self._end_guard()
            raise MachineError(f"cannot start {command[0]}: {getattr(error, 'strerror', error)}") from None
        stop.watch(self)
        pipes = self._process.stdin, self._process.stdout, self._process.stderr
        self._stdin, self._stdout, stderr = (pipe for pipe in pipes if pipe is not None)
        self._listener = threading.Thread(target=self._listen, args=(stderr,), daemon=True)
        try:
            self._listener.start()
        except RuntimeError:
            self._process.kill()
            self._end_guard()
            raise MachineError("this user cannot start more threads: ulimit -u sets the limit") from None
        if not own_session:
            note_joined()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.kill()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()  # a job without a plan waits for one
        self._process.wait()
        self.ended = time.monotonic()
        self._lift_limit()
        self._end_guard()
        self._listener.join(timeout=_GRACE_S)
        self._stop.watch(None)
        self._stdout.close()

    def _end_guard(self) -> None:
        self._guard.close()
        if self._scratch:  # the launcher has removed what is in it, unless it was killed
            shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def ending(self) -> Ending:
        """How the job ended; valid after the ``with`` block."""
        return Ending(self._process.wait(), tuple(self._sentences), tuple(self._others), self._program)

    # -------------------------------------------------------------------------------------------- output

    def lines(self, plan: Plan, watchdog_s: float | None = None) -> Iterator[bytes]:
        """Send the plan and yield each line of standard output that begins like a record.

        The job is killed if there is no such line within ``_START_S`` and the time of the watchdog, which begins with
        the first record; ``watchdog_s`` is this time if it is not that of the plan.
        """
        within_s = (plan.watchdog_s if watchdog_s is None else watchdog_s) + _START_S
        sentence = f"no measurement had begun {within_s:g} s after the start of {self._program}"
        self._limit(within_s, f"{sentence}; killed it; a larger --watchdog waits longer")
        begun = False
        # A job that ends before it reads the plan explains itself by its exit status and on stderr.
        with contextlib.suppress(BrokenPipeError), self._stdin:
            self._stdin.write(msgspec.json.encode(plan) + b"\n")
        while line := self._stdout.readline():
            if line.startswith(b"{"):
                if not begun:
                    self._lift_limit()
                begun = True
                yield line
            else:  # a message of another program: hydra prints to stdout
                self._keep_text(line)

    def records(self, plan: Plan, read: Callable[[bytes], Any]) -> Iterator[tuple[bytes, Any]]:
        """Send the plan and yield each line together with the record that ``read`` decodes from it."""
        for line in self.lines(plan):
            try:
                record = read(line)
            except RecordError as error:
                if line.endswith(b"\n"):  # a line without a line feed was cut when the job ended
                    self.losses.append(f"a line from the engine is not a record: {error}")
            else:
                self.stopwatch.on_record(record)
                yield line, record

    def expect_end(self, watchdog_s: float) -> None:
        """Kill the job if it still runs ``_END_S`` after the time that its ranks may take to end, in s.

        Call this after the last record.  The watchdog of a rank ends MPI_Finalize; a launcher has no watchdog.
        """
        within_s = watchdog_s + _END_S
        self._limit(within_s, f"{self._program} had not ended {within_s:g} s after the last record; killed it")

    def _limit(self, within_s: float, sentence: str) -> None:
        """Kill the job if it still runs after this time, for the reason in the sentence."""

        def kill() -> None:
            if self._process.poll() is None:
                self._sentences[sentence] = None
                self.kill()

        self._time_limit = _timer(within_s, kill)
        with contextlib.suppress(RuntimeError):  # no further thread: no limit
            self._time_limit.start()

    def _lift_limit(self) -> None:
        if self._time_limit:
            self._time_limit.cancel()

    def _listen(self, stderr: IO[bytes]) -> None:
        with stderr:
            for line in stderr:
                self._keep_text(line)

    def _keep_text(self, line: bytes) -> None:
        """Keep a line of text, the engine's messages separate from all others."""
        text = clean(line)
        before, prefix, sentence = text.partition(_PREFIX)
        if prefix and len(before) <= _LONGEST_TAG:
            self._sentences[sentence] = None
        elif known := next((meaning for said, meaning in _EXPLAINED.items() if said in text), None):
            if known not in self._others:
                self._others.append(known)
        elif text:
            self._others.append(text)

    # ---------------------------------------------------------------------------------------------- end

    def stop(self) -> None:
        """Ask the job to stop, and kill it if it still runs after ``_GRACE_S``."""
        self._process.terminate()
        _later(_GRACE_S, self.kill)

    def kill(self) -> None:
        """Kill the job: every process of its session if it has its own, because launchers use process groups.

        The launcher itself is killed last, if it does not end by itself after it has removed its temporary files.
        """
        if self._process.poll() is not None:
            return
        if not self._own_session:
            self._process.kill()
            return
        for pid in _session(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.terminate()
        _later(_CLEANUP_S, self._process.kill)


def _scratch_path(environment: Mapping[str, str]) -> str:
    """Return a new name for a folder of temporary files, where Open MPI would make its own."""
    places = (environment.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return str(Path(next(filter(None, places), "/tmp")).absolute() / f"volley-{os.urandom(8).hex()}")  # noqa: S108


def _make_scratch(path: str) -> dict[str, str]:
    """Make this folder and return the variable that names it; none if there shall be no folder, or can be none."""
    if not path:
        return {}
    try:
        Path(path).mkdir(0o700)
    except OSError:
        return {}
    return {"TMPDIR": path}


def _timer(after_s: float, act: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(after_s, act)
    timer.daemon = True
    return timer


def _later(after_s: float, act: Callable[[], None]) -> None:
    try:
        _timer(after_s, act).start()
    except RuntimeError:  # no further thread
        act()


def _session(leader: int) -> list[int]:
    """Return the process ids of a session, except its leader."""
    found = []
    for entry in os.scandir("/proc"):
        with contextlib.suppress(ValueError, OSError):
            pid = int(entry.name)
            if pid != leader and os.getsid(pid) == leader:
                found.append(pid)
    return found


# ------------------------------------------------------------------------------------ the ranks of a foreign job

_joined = False


def note_joined() -> None:
    """Remember that a child of this process joined the foreign job as rank 0."""
    global _joined  # noqa: PLW0603  the state belongs to the whole process
    _joined = True


def release() -> None:
    """End the other ranks of a foreign job if rank 0 failed before it started an engine.

    The other ranks wait for rank 0 in MPI_Init; hydra and srun would let them wait for ever.  This function starts an
    engine with an empty plan as rank 0: all ranks then leave together, with exit code 2.
    """
    if _joined:
        return
    try:
        command = [engine_path.engine_path(), "--plan", os.devnull]
        subprocess.run(
            command, close_fds=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=_RELEASE_S, check=False
        )
    except (UserError, OSError, subprocess.TimeoutExpired):
        return  # without an engine, the other ranks did not start one either
