"""The engine as seen from the front: what it is made of, and a running job of it as a stream of records."""

from __future__ import annotations

import contextlib
import os
import re
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

from volley import locate
from volley.errors import MachineError, UserError
from volley.launch import headstart
from volley.records import Plan, Record
from volley.records_io import RecordError, decode_line, decoder

_SAYS = "volley-engine: "
_MOST_LINES = 400
_LONGEST_TAG = 20
"""Characters that a launcher may put before a line, such as ``[1,0]<stderr>: ``."""
_RELEASE_S = 20.0
_GRACE_S = 5.0
"""How long a launcher that was asked to stop may take, before it is killed: mpirun and srun give their ranks up to
1 s and 2 s between SIGTERM and SIGKILL."""
_ESCAPES = re.compile(r"\x1b(\][^\x07\x1b]*(\x07|\x1b\\)|\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
"""ECMA-48: operating system commands with their string, control sequences, and the two-character escapes."""
_CONTROLS = re.compile(r"[^\t\x20-\x7e\xa0-\U0010ffff]|[\ud800-\udfff]")


class TransportAbout(msgspec.Struct, frozen=True):
    """A transport that an engine carries."""

    name: str
    summary: str
    mpi: bool
    memory: str
    test: bool = False
    halos: bool = False
    """It carries the halos of ``jacobi``."""


class SectionAbout(msgspec.Struct, frozen=True):
    """A matrix between the GPUs of a node that an engine measures."""

    name: str
    ends: str
    """``gpus``, or which way there is between the host and each of them."""
    test: bool = False


class About(msgspec.Struct, frozen=True):
    """What an engine says of itself without starting MPI."""

    version: str
    mpi_built: str
    transports: tuple[TransportAbout, ...]
    cuda_built: str | None = None
    cuda_architectures: tuple[str, ...] = ()
    sections: tuple[SectionAbout, ...] = ()


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
        out, err = asked.communicate()
        try:
            return msgspec.json.decode(out, type=About)
        except msgspec.MsgspecError:
            said = clean(err) or f"it ended with status {asked.returncode} and said nothing"
            raise MachineError(f"the engine {engine} does not start: {said}") from None

    return answer


def find() -> Path:
    """Return the path of the engine; see :func:`volley.locate.engine_path`."""
    return Path(locate.engine_path())


def clean(text: bytes) -> str:
    """Return what a program printed as text without NULs, escape sequences and other control characters."""
    decoded = _ESCAPES.sub("", text.decode("utf-8", "replace"))
    return "\n".join(_CONTROLS.sub("", line).rstrip() for line in decoded.splitlines()).strip()


@dataclass(frozen=True)
class Ending:
    """How a job ended."""

    status: int
    """The launcher's exit status; negative: it was ended by that signal."""
    sentences: tuple[str, ...]
    """What the engine's ranks said on stderr, each once, without their prefix."""
    others: tuple[str, ...]
    """What else was printed, by MPI or the launcher; the last lines, where there were many."""
    stopped_by: int | None
    """The signal that asked volley to stop (Ctrl-C is SIGINT); ``None`` when nobody did."""
    program: str = "the launcher"
    """Whose status that is."""

    def reason(self) -> str:
        """Say why the job ended in one sentence, as well as anybody knows."""
        if self.sentences:
            return "; ".join(self.sentences)
        if self.status < 0:
            return f"{self.program} was ended by {_signal_name(-self.status)}"
        name = _signal_name(self.status - 128)
        return f"the job ended with status {self.status}{f' ({name})' if name else ''}"


def _signal_name(number: int) -> str:
    """The name of a signal; nothing for a number that is none (a shell reports one as 128 + its number)."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return ""


class Running:
    """A job of the engine: give it a plan, iterate over its ``records``, then ask for its ``ending``.

    Without a plan its ranks start, find each other and wait, and none of them measures anything.  So what is done
    between the start and :meth:`records` takes the time that MPI and CUDA need anyway, and disturbs no measurement.

    A signal (Ctrl-C, SIGTERM, SIGHUP) asks the job to stop, a second one kills it; the iteration goes on until
    the last record that was written has been read, so that nothing that was measured is lost.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        own_session: bool = True,
        most_lines: int = _MOST_LINES,
    ) -> None:
        """Start the job.

        Args:
            command: the launcher's command line, or the engine alone where a foreign launcher made this process a rank.
            environment: the whole environment of the command.
            own_session: keep the terminal's signals from the job, so that Ctrl-C reaches it through volley only.
                Off inside a foreign launcher, which ends its ranks as a process group.
            most_lines: how much of MPI's and the launcher's text is kept, the last lines of it.

        Raises:
            MachineError: if the command does not start.
        """
        self.losses: list[str] = []
        """Sentences about lines that should have been records and are not."""
        self._stopped_by: int | None = None
        self._sentences: dict[str, None] = {}
        self._others: deque[str] = deque(maxlen=most_lines)
        self._own_session = own_session
        self._program = "the engine" if Path(command[0]).name in (locate.NAME, locate.NODE_NAME) else "the launcher"
        self._process: subprocess.Popen[bytes] | headstart.Ahead | None = None
        self._handlers = _take_signals(self._on_signal)
        try:
            self._process = _popen(command, environment, own_session)
        except OSError as error:
            _give_signals_back(self._handlers)
            raise MachineError(f"cannot start {command[0]}: {error.strerror}") from None
        if self._stopped_by is not None:
            self._process.terminate()
        self._stdout = _stream(self._process.stdout)
        self._listener = threading.Thread(target=self._listen, args=(_stream(self._process.stderr),), daemon=True)
        self._listener.start()
        self._stdin = _stream(self._process.stdin)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None) -> None:
        assert self._process is not None
        if kind is not None:
            self._kill()
        self._stdin.close()  # a job that was given no plan waits for one
        self._process.wait()
        self._listener.join(timeout=_GRACE_S)
        _give_signals_back(self._handlers)
        self._stdout.close()

    @property
    def ending(self) -> Ending:
        """How it ended; ask after leaving the ``with`` block."""
        assert self._process is not None
        status, said = self._process.wait(), (tuple(self._sentences), tuple(self._others))
        return Ending(status, *said, self._stopped_by, self._program)

    # -------------------------------------------------------------------------------------- what it says

    def records(self, plan: Plan) -> Iterator[tuple[bytes, Record]]:
        """Hand the plan over, and yield each line and its record as they arrive, to the last."""
        decoder()  # is made before anything is measured
        _feed(self._stdin, msgspec.json.encode(plan))
        while line := self._stdout.readline():
            try:
                record = decode_line(line)
            except RecordError as error:
                self._not_a_record(line, error)
            else:
                yield line, record

    def _not_a_record(self, line: bytes, error: RecordError) -> None:
        """Text on stdout is somebody's message (hydra prints there); what looks like a record is a loss to be said."""
        if not line.startswith(b"{"):
            self._hear(line)
        elif line.endswith(b"\n"):  # without it the line was cut, with the job
            self.losses.append(f"a line from the engine is no record: {error}")

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

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._stopped_by is not None:
            self._kill()
            return
        self._stopped_by = number
        if self._process is not None:
            self._process.terminate()
        timer = threading.Timer(_GRACE_S, self._kill)
        timer.daemon = True
        timer.start()

    def _kill(self) -> None:
        """End the job for good: its whole session where it is ours."""
        if self._process is None or self._process.poll() is not None:
            return
        if self._own_session:
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()


def _popen(
    command: Sequence[str], environment: Mapping[str, str], own_session: bool
) -> subprocess.Popen[bytes] | headstart.Ahead:
    global _joined  # noqa: PLW0603  whether this process has joined the foreign job is a fact of the whole process
    process = headstart.start(command, environment, own_session=own_session)
    _joined = _joined or not own_session
    return process


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # all three are pipes
    return stream


def _feed(stdin: IO[bytes], plan: bytes) -> None:
    # A job that ends without reading says why by its exit status and on stderr.
    with contextlib.suppress(BrokenPipeError), stdin:
        stdin.write(plan + b"\n")


Handler = Callable[[int, "FrameType | None"], Any]


def _take_signals(handler: Handler) -> dict[signal.Signals, Any]:
    """Let ``handler`` have the signals that ask volley to stop; those that are ignored (``nohup``) stay ignored.

    None can be had outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return {number: signal.signal(number, handler) for number in wanted if signal.getsignal(number) != signal.SIG_IGN}


def _give_signals_back(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


# ------------------------------------------------------------------------------------ the ranks of a foreign job

_joined = False


def note_joined() -> None:
    """Take note that a child of this process has joined the foreign job: the other ranks have met it."""
    global _joined  # noqa: PLW0603  the same fact as above
    _joined = True


def release() -> None:
    """Let the other ranks of a foreign job go, if nothing has been started for them to meet.

    They are in MPI_Init, waiting for the first rank, which found something to complain about: hydra and srun would let
    them wait for ever.  An engine without a plan makes all ranks leave together, with exit code 2.
    """
    if _joined:
        return
    try:
        command = [str(find()), "--plan", os.devnull]
        subprocess.run(
            command, close_fds=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=_RELEASE_S, check=False
        )
    except (UserError, OSError, subprocess.TimeoutExpired):
        return  # nobody follows an engine that does not start
