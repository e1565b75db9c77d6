"""The engine as seen from the front: what it is made of, and a running job of it whose records arrive one by one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any

import msgspec

from volley.errors import MachineError, UserError
from volley.machine.signals import signal_name
from volley.run import engine_path
from volley.run.plan import Plan
from volley.run.run_log import RecordError
from volley.text import clean

_SAYS = "volley-engine: "
_MOST_LINES = 400
_LONGEST_TAG = 20
"""Characters that a launcher may put before a line, such as ``[1,0]<stderr>: ``."""
_RELEASE_S = 20.0
_ABOUT_S = 60.0
"""An engine that says nothing of itself for so long hangs in the libraries that it loads."""
_GRACE_S = 5.0
"""How long a launcher that was asked to stop may take, before it is killed: mpirun and srun give their ranks up to
1 s and 2 s between SIGTERM and SIGKILL."""


class TransportAbout(msgspec.Struct, frozen=True):
    """A transport that an engine carries."""

    name: str
    summary: str
    mpi: bool
    memory: str
    test: bool = False
    halos: bool = False
    """It carries halos, too."""


class About(msgspec.Struct, frozen=True):
    """What an engine says of itself without starting MPI."""

    version: str = ""
    mpi_built: str = ""
    transports: tuple[TransportAbout, ...] = ()
    cuda_built: str | None = None
    cuda_architectures: tuple[str, ...] = ()


def ask_about(engine: Path) -> Callable[[], About]:
    """Ask an engine what it is made of; call what comes back for the answer.

    The engine loads its MPI to answer, which takes a while that need not be waited out.

    Raises:
        MachineError: if it does not start; the message holds the loader's own words.
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
            asked.kill()
            asked.communicate()
            raise MachineError(f"the engine {engine} does not start: no answer within {_ABOUT_S:g} s") from None
        try:
            return msgspec.json.decode(out, type=About)
        except msgspec.MsgspecError:
            said = clean(err) or f"it ended with status {asked.returncode} and said nothing"
            raise MachineError(f"the engine {engine} does not start: {said}") from None

    return answer


@dataclass(frozen=True)
class Ending:
    """How a job ended."""

    status: int
    """The launcher's exit status; negative: it was ended by that signal."""
    sentences: tuple[str, ...]
    """What the engine's ranks said on stderr, each once, without their prefix."""
    others: tuple[str, ...]
    """What else was printed, by MPI or the launcher; the last lines, where there were many."""
    program: str = "the launcher"
    """Whose status that is."""

    def reason(self) -> str:
        """Say why the job ended in one sentence, as well as anybody knows."""
        if self.sentences:
            return "; ".join(self.sentences)
        if self.status < 0:
            return f"{self.program} was ended by {signal_name(-self.status) or f'signal {-self.status}'}"
        name = signal_name(self.status - 128)
        return f"the job ended with status {self.status}{f' ({name})' if name else ''}"


# ------------------------------------------------------------------------------------------------- being stopped


class Stop:
    """The one flag that stops a session: Ctrl-C, SIGTERM or SIGHUP sets it, in every phase.

    The first signal asks the job that runs to stop, a second one kills it.  Use it as a context manager around
    everything that measures.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        """The signal that asked volley to stop; ``None`` while nobody has."""
        self._process: EngineProcess | None = None
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        """Take the signals; those that are ignored (``nohup``) stay so, and none can be had beside the main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: it was not Python's

    def watch(self, process: EngineProcess | None) -> None:
        """Hand the signals on to this job from now on."""
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
    """A job of the engine: give it a plan, iterate over its ``records``, then ask for its ``ending``.

    Without a plan its ranks start, find each other and wait, and none of them measures anything.  So what is done
    between the start and :meth:`records` takes the time that MPI and CUDA need anyway, and disturbs no measurement.

    A job that is asked to stop ends by itself; the iteration goes on until the last record that was written has been
    read, so that nothing that was measured is lost.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        stop: Stop,
        *,
        own_session: bool = True,
        most_lines: int = _MOST_LINES,
    ) -> None:
        """Start the job.

        Args:
            command: the launcher's command line, or the engine alone where a foreign launcher made this process a rank.
            environment: the whole environment of the command.
            stop: who asks the job to stop.
            own_session: keep the terminal's signals from the job, so that Ctrl-C reaches it through volley only.
                Off inside a foreign launcher, which ends its ranks as a process group.
            most_lines: how much of MPI's and the launcher's text is kept, the last lines of it.

        Raises:
            MachineError: if the command does not start.
        """
        self.losses: list[str] = []
        """Sentences about lines that should have been records and are not."""
        self._sentences: dict[str, None] = {}
        self._others: deque[str] = deque(maxlen=most_lines)
        self._own_session = own_session
        engines = (engine_path.NAME, engine_path.LOCAL_NAME)
        self._program = "the engine" if Path(command[0]).name in engines else "the launcher"
        self._stop = stop
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                close_fds=own_session,  # inside a launcher, PMI works through a descriptor inherited from it
                start_new_session=own_session,
            )
        except OSError as error:
            raise MachineError(f"cannot start {command[0]}: {error.strerror}") from None
        stop.watch(self)
        self._stdin, self._stdout, stderr = map(
            _pipe, (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        self._listener = threading.Thread(target=self._listen, args=(stderr,), daemon=True)
        self._listener.start()
        if not own_session:
            note_joined()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.kill()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()  # a job that was given no plan waits for one
        self._process.wait()
        self._listener.join(timeout=_GRACE_S)
        self._stop.watch(None)
        self._stdout.close()

    @property
    def ending(self) -> Ending:
        """How it ended; ask after leaving the ``with`` block."""
        return Ending(self._process.wait(), tuple(self._sentences), tuple(self._others), self._program)

    # -------------------------------------------------------------------------------------- what it says

    def lines(self, plan: Plan) -> Iterator[bytes]:
        """Hand the plan over, and yield each line of standard output that looks like a record."""
        # A job that ends without reading says why by its exit status and on stderr.
        with contextlib.suppress(BrokenPipeError), self._stdin:
            self._stdin.write(msgspec.json.encode(plan) + b"\n")
        while line := self._stdout.readline():
            if line.startswith(b"{"):
                yield line
            else:  # text on stdout is somebody's message (hydra prints there)
                self._hear(line)

    def records(self, plan: Plan, read: Callable[[bytes], Any]) -> Iterator[tuple[bytes, Any]]:
        """Hand the plan over, and yield each line and what ``read`` makes of it as they arrive, to the last."""
        for line in self.lines(plan):
            try:
                record = read(line)
            except RecordError as error:
                if line.endswith(b"\n"):  # without it the line was cut, with the job
                    self.losses.append(f"a line from the engine is no record: {error}")
            else:
                yield line, record

    def _listen(self, stderr: IO[bytes]) -> None:
        with stderr:
            for line in stderr:
                self._hear(line)

    def _hear(self, line: bytes) -> None:
        """Keep a line of text, the engine's own sentences apart from everybody else's."""
        text = clean(line)
        before, says, sentence = text.partition(_SAYS)
        if says and len(before) <= _LONGEST_TAG:
            self._sentences[sentence] = None
        elif text:
            self._others.append(text)

    # ------------------------------------------------------------------------------------ how it is stopped

    def stop(self) -> None:
        """Ask the job to stop, and kill it where it does not."""
        self._process.terminate()
        timer = threading.Timer(_GRACE_S, self.kill)
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        """End the job for good: its whole session where it is ours, as launchers give ranks process groups."""
        if self._process.poll() is not None:
            return
        if self._own_session:
            for pid in _session(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.kill()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # all three are pipes
    return pipe


def _session(leader: int) -> list[int]:
    """Return the processes of a session, but for its leader."""
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
    """Take note that a child of this process has joined the foreign job: the other ranks have met it."""
    global _joined  # noqa: PLW0603  whether this process has joined the foreign job is a fact of the whole process
    _joined = True


def release() -> None:
    """Let the other ranks of a foreign job go, if nothing has been started for them to meet.

    They are in MPI_Init, waiting for the first rank, which found something to complain about: hydra and srun would let
    them wait for ever.  An engine without a plan makes all ranks leave together, with exit code 2.
    """
    if _joined:
        return
    try:
        command = [engine_path.engine_path(), "--plan", os.devnull]
        subprocess.run(
            command, close_fds=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=_RELEASE_S, check=False
        )
    except (UserError, OSError, subprocess.TimeoutExpired):
        return  # nobody follows an engine that does not start
