"""The engine as the front end sees it: its ``--about`` facts, and a running job whose records arrive one by one."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from volley.errors import MachineError
from volley.launch import engine_path, inside_launcher
from volley.launch.start import Start
from volley.machine import ucx_protocols
from volley.machine.mpi_stack import MpiAbout
from volley.machine.mpi_words import first_cause, limit_in
from volley.machine.signals import GRACE_S, Child, Stop, signal_name
from volley.machine.transports import without_fault
from volley.records.plan import Plan
from volley.records.record_types import End, LaunchTimes, Run, Transport
from volley.records.run_log import RecordError
from volley.text import clean, count

_PREFIX = "volley-engine: "
_USUAL_LINES, _LINES_OF_TALK = 400, 10_000
"""So many of the last lines of text are kept.  UCX's tables have ten to twenty lines for each operation, connection and
rank."""
_SAYS_NOTHING = (
    "OSC UCX component priority set inside component query failed",
    "plm:ssh: Warning: setpgid(",
)
"""What Open MPI says where nothing is wrong: of each window and rank where UCX has no device, and of an ssh that has
already made a process group of its own (EACCES of setpgid(2))."""
_WAITS = ("step creation temporarily disabled", "Cancelled pending job step")
_BUSY = "; another step has the resources of this job: leave its shell, or share them with --launcher-arg=--overlap"
"""What srun says while it waits for something that may never come, or when it is ended, and what ends that."""
_FEW_SENTENCES = 4
"""So many messages of ranks are in a reason: a thousand ranks may say the same."""
_LONGEST_TAG = 20
"""Characters that a launcher may write before a line, such as ``[1,0]<stderr>: ``."""
_ABOUT_S = 60.0
"""An engine that does not answer ``--about`` within this time hangs in a library that it loads."""
_LOADED_S = 3.0
"""An engine may take this time, and that of the watchdog, for the same."""
_SAY_EVERY_S = 10.0
"""While a launcher is waited for, this is said at most so often."""

_LOOK_EVERY_S = 5.0
"""Without a record for this time, the front end looks whether the ranks are alive; each look may disturb them."""
_LOOK_AT_START_S = 1.0
"""The same before the first record, when nothing is measured: most jobs have begun within this time."""

_SHORT_WAIT_S = 0.01
"""Who waited less than this for a core since the last look was not kept from running by other programs."""

_ENDED_S = 0.5
"""The end of a launcher is noticed within this time, also if a process that it left has its pipes."""


class TransportAbout(msgspec.Struct, frozen=True):
    name: str
    summary: str
    mpi: bool
    memory: str
    device_pointers: bool = False
    """MPI gets device pointers, which ends the job where MPI is not CUDA-aware."""
    usual: bool = True
    """Every run has it that names no transports."""
    halos: bool = False


class FaultAbout(msgspec.Struct, frozen=True):
    """A fault on purpose: the transport ``host+flip`` is ``host`` with the fault ``flip``."""

    name: str
    summary: str


class About(msgspec.Struct, frozen=True):
    version: str = ""
    mpi: MpiAbout | None = None
    """The MPI library that it was asked about."""
    transports: tuple[TransportAbout, ...] = ()
    faults: tuple[FaultAbout, ...] = ()
    cuda_built: str | None = None
    cuda_architectures: tuple[str, ...] = ()

    def of(self, names: Iterable[str]) -> list[TransportAbout]:
        wanted = set(map(without_fault, names))
        return [each for each in self.transports if each.name in wanted]

    def risky(self, names: Iterable[str]) -> list[str]:
        """Return those of these transports that may end the job, in their order."""
        return [name for name in names if any(each.device_pointers for each in self.of([name]))]


@contextlib.contextmanager
def ask_about(
    engine: Path, library: str = "", stop: Stop | None = None, watchdog_s: float = _ABOUT_S
) -> Iterator[Callable[[], About]]:
    """Start ``volley-engine --about`` and yield a function that waits for the answer.

    The engine loads the MPI ``library``, if one is given, before it answers; the caller can do other work in the
    meantime.  An engine that has not answered at the end of the context is killed, and so it is when ``stop`` is set.
    """
    pipe, command = subprocess.PIPE, [str(engine), "--about", *(("--mpi-library", library) if library else ())]
    child = Child(command, os.environ, own_session=False, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    within_s = min(watchdog_s + _LOADED_S, _ABOUT_S)
    until = time.monotonic() + within_s

    def answer() -> About:
        try:
            out, err = child.process.communicate(timeout=max(until - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            raise MachineError(f"the engine {engine} does not start: no answer within {within_s:g} s") from None
        try:
            return msgspec.json.decode(out, type=About)
        except msgspec.MsgspecError:
            text = clean(err)
            if text.startswith(_PREFIX):  # the MPI library is not usable
                raise MachineError(text.removeprefix(_PREFIX)) from None
            text = text or f"it ended with status {child.process.returncode} and no message"
            raise MachineError(f"the engine {engine} does not start: {text}") from None

    stop = stop or Stop()
    with child, child.process:
        stop.watch(child, 0.0)
        try:
            yield answer
        finally:
            child.kill()
            stop.watch(None)


@dataclass(frozen=True)
class Ending:
    status: int
    """The launcher's exit status; negative: the number of the signal that killed it."""
    sentences: tuple[str, ...]
    """The messages of the engine's ranks on stderr, each once, without their prefix."""
    others: tuple[str, ...]
    """All other text, from MPI or the launcher; only the last lines if there are many."""
    program: str = "the launcher"
    killed: str = ""

    def reason(self) -> str:
        """Return the most likely reason for the end of the job, as one sentence."""
        if self.sentences or self.killed:
            few, more = self.sentences[:_FEW_SENTENCES], len(self.sentences) - _FEW_SENTENCES
            others = f"and {count(more, 'more message')} of ranks" if more > 0 else ""
            return "; ".join(filter(None, (*few, others, self.killed)))
        if self.status < 0:
            return f"{self.program} was killed by {signal_name(-self.status) or f'signal {-self.status}'}"
        name = signal_name(self.status - 128)
        met = limit_in(self.others)
        limit = f": it met a limit that {met} shows: raise it, or start fewer ranks" if met else ""
        return f"the job ended with status {self.status}{f' ({name})' if name else ''}{limit}"


class EngineProcess:
    """A running job of the engine: send it a plan, iterate over its ``records``, then read its ``ending``.

    Until the plan arrives, the ranks initialise MPI and CUDA and then wait.  Work between the start and
    :meth:`records` therefore overlaps with that initialisation and disturbs no measurement.

    A job that is asked to stop ends by itself.  The iteration continues until the last record is read, so that no
    result is lost.
    """

    def __init__(
        self, start: Start, stop: Stop, note: Callable[[str], None] = lambda _text: None, *, talks: bool = False
    ) -> None:
        """Start the job.

        Args:
            start: the command and its environment.
            stop: the flag that stops the job.
            note: shows what is waited for, and what the launcher printed, if that takes long.
            talks: libraries were asked to say what they choose; of this text people see only what explains a failure.
        """
        self.losses: list[str] = []
        """Messages about lines that should be records but cannot be decoded."""
        self._sentences: dict[str, None] = {}
        self._talks = talks
        self._others: deque[str] = deque(maxlen=_LINES_OF_TALK if talks else _USUAL_LINES)
        self._unshown = 0
        self._killed = ""
        self._before: tuple[str, ...] | None = None
        """What was printed before the job was killed: what follows says what that did."""
        self._longer = ""
        self._ranks_here = False  # so that their end can be seen
        self._look_every_s = min(_LOOK_AT_START_S, _LOOK_EVERY_S)
        self._own_session = not start.inside_launcher  # a foreign launcher ends its ranks as a process group
        self._patience = start.patience
        self._note = note
        self._program = "the engine" if Path(start.tokens[0]).name == engine_path.NAME else "the launcher"
        self._stop = stop
        self._begun = time.monotonic()
        self._arrived: dict[type, float] = {}
        """When the first record of each type came, in seconds from the start of the launcher."""
        self.ended = 0.0
        """When the launcher ended, as ``time.monotonic`` says it; valid after the ``with`` block."""
        self._child = Child(
            start.tokens,
            start.environment,
            own_session=self._own_session,
            own_scratch=start.on_this_host,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=self._own_session,  # inside a launcher, PMI works through a descriptor inherited from it
        )
        self._process = self._child.process
        stop.watch(self, GRACE_S)
        pipes = self._process.stdin, self._process.stdout, self._process.stderr
        self._stdin, self._stdout, self._stderr = (pipe for pipe in pipes if pipe is not None)
        self._unsent = memoryview(b"")
        self._lines: deque[bytes] = deque()
        self._selector = selectors.DefaultSelector()
        for pipe, keep in ((self._stdout, self._lines.append), (self._stderr, self._keep_text)):
            self._selector.register(pipe, selectors.EVENT_READ, _line_reader(keep))
        self._limit(self._patience.start_s, "", "")
        if start.inside_launcher:
            inside_launcher.note_joined()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.kill()
        self._close_input()  # a job without a plan waits for one
        while self._process.poll() is None:
            if self._selector.get_map():
                self._move(min(self._left_s(), _ENDED_S))
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(self._left_s())
            self._do_what_is_due()
        self.ended = time.monotonic()
        self._stop.watch(None)
        self._child.kill_left()
        while self._selector.select(0):  # what is left in the pipes
            self._move(0)
        self._selector.close()
        for pipe in (self._stdout, self._stderr):
            pipe.close()
        self._child.close()

    @property
    def ending(self) -> Ending:
        """How the job ended; valid after the ``with`` block."""
        waited = any(words in line for words in _WAITS for line in self._others)
        return Ending(
            *(self._process.wait(), tuple(self._sentences)),
            *(tuple(self._others) if self._before is None else self._before, self._program),
            killed=self._killed and self._killed + (_BUSY if waited else self._longer),
        )

    def times(self, earlier: float | None) -> LaunchTimes:
        """Return when the records arrived; valid as ``ended`` is.  The launcher of the launch before ended at
        ``earlier``."""
        return LaunchTimes(
            gap_s=None if earlier is None else self._begun - earlier,
            run_s=self._arrived.get(Run),
            transports_s=self._arrived.get(Transport),
            end_s=self._arrived.get(End),
            exit_s=self.ended - self._begun,
        )

    # -------------------------------------------------------------------------------------------- output

    def lines(self, plan: Plan, watchdog_s: float | None = None) -> Iterator[bytes]:
        """Send the plan and yield each line of standard output that begins like a record.

        The job is killed if there is no such line within the time limit of a start; the watchdog of the ranks begins
        with the first record.  ``watchdog_s`` is its time if it is not that of the plan.
        """
        within_s = self._patience.until_first_record_s(plan.watchdog_s if watchdog_s is None else watchdog_s)
        missed_s = self._patience.missed_s
        before = "".join(f", and {each:g} s after a start before it" for each in missed_s)
        sentence = f"no measurement had begun {within_s:g} s after the start of {self._program}{before}; killed it"
        awaited = f"the start of {count(plan.world_size, 'rank')}"
        option = "--budget" if within_s + sum(missed_s) == self._patience.most_s else "--watchdog"
        self._limit(within_s, sentence, awaited, f"; a larger {option} waits longer")
        self._unsent = memoryview(msgspec.json.encode(plan) + b"\n")
        os.set_blocking(self._stdin.fileno(), False)
        self._selector.register(self._stdin, selectors.EVENT_WRITE)
        begun = False
        while self._lines or self._stdout in self._selector.get_map():
            if not self._lines:
                self._move(self._left_s())
                self._do_what_is_due()
                continue
            line = self._lines.popleft()
            if not line.startswith(b"{"):  # a message of another program: hydra prints to stdout
                self._keep_text(line)
                continue
            if not begun:
                begun = True
                self._look_every_s = _LOOK_EVERY_S
                self._patience.seen_s.append(time.monotonic() - self._limit_from)
                self._limit(math.inf, "", "")
                # Ranks on this host alone may have ended already; those of srun are in no session of this process.
                self._ranks_here = bool(self._child.scratch) or self._has_ranks()
            self._look_at = time.monotonic() + self._look_every_s
            yield line
        if (self._killed or "").startswith(sentence):
            self._patience.missed_s.append(within_s)

    def records(self, plan: Plan, read: Callable[[bytes], Any]) -> Iterator[tuple[bytes, Any]]:
        for line in self.lines(plan):
            try:
                record = read(line)
            except RecordError as error:
                if line.endswith(b"\n"):  # a line without a line feed was cut when the job ended
                    self.losses.append(f"a line from the engine is not a record: {error}")
            else:
                self._arrived.setdefault(type(record), time.monotonic() - self._begun)
                yield line, record

    def expect_end(self, watchdog_s: float) -> None:
        """Kill the job if it still runs after the time that its ranks and its launcher may take to end, in s.

        Call this after the last record.  The watchdog of a rank ends MPI_Finalize; a launcher has no watchdog.
        """
        self._child.core_wait_s()  # what it waited before does not count
        within_s = watchdog_s + self._patience.end_s
        sentence = f"{self._program} had not ended {within_s:g} s after the last record; killed it"
        self._limit(within_s, sentence, f"the end of {self._program}")

    def _limit(self, within_s: float, sentence: str, awaited: str, advice: str = "") -> None:
        """Kill the job if it still runs after this time, for the reason in the sentence; say what is ``awaited``.

        ``advice`` is for a job that has printed nothing, which may explain more.
        """
        self._limit_from, self._within_s = time.monotonic(), within_s
        self._late, self._advice, self._awaited = sentence, advice, awaited
        self._say_at = self._limit_from + min(_SAY_EVERY_S, within_s / 2) if awaited else math.inf
        self._look_at = self._limit_from + self._look_every_s

    def _left_s(self) -> float:
        """Return the time until something is due: to say what is waited for, to look at the ranks, to kill the job."""
        due = min(self._limit_from + self._within_s, self._say_at, self._look_at)
        return max(due - time.monotonic(), 0.0)

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + self._look_every_s
            self._look(now)
        if now >= self._say_at:
            self._say_at = now + _SAY_EVERY_S
            self._note(f"waiting for {self._awaited}: {now - self._limit_from:.0f} s of at most {self._within_s:.0f} s")
            for line in self._for_people(list(self._others)[max(len(self._others) - self._unshown, 0) :]):
                self._note(f"{self._program} says: {line}")
            self._unshown = 0
        is_late = now >= self._limit_from + self._within_s and not self._lines and self._process.poll() is None
        if is_late and not self._waited_for_a_core():
            self._killed = self._killed or self._late
            if self._before is None:
                self._before = tuple(self._others)
                self._longer = self._advice * (not self._before)
            self._limit(math.inf, "", "")
            self.kill()

    def _waited_for_a_core(self) -> bool:
        """Add the time that the job was ready to run and had no core to its limit; return whether there was any.

        The longest wait of a thread counts, not the sum: so a job that never ends is killed on a busy machine, too.
        """
        waited_s = self._child.core_wait_s()
        if waited_s < _SHORT_WAIT_S:
            return False
        self._within_s += waited_s
        return True

    def _look(self, now: float) -> None:
        """Limit the time of a launcher whose ranks have ended: one has said why, or none of those here is left."""
        end_s = self._patience.end_s
        if self._process.poll() is not None:
            self._child.kill_left()  # a process that it left has the pipes
            return
        self._ranks_here = self._ranks_here or self._has_ranks(ended=True)
        have_ended = self._sentences or (self._ranks_here and not self._has_ranks())
        if have_ended and now + end_s < self._limit_from + self._within_s:
            self._child.core_wait_s()  # as in expect_end
            sentence = f"{self._program} had not ended {end_s:g} s after its ranks; killed it"
            self._limit(end_s, sentence, f"the end of {self._program} after that of its ranks")

    def _has_ranks(self, *, ended: bool = False) -> bool:
        return self._own_session and engine_path.NAME in self._child.processes(ended=ended).values()

    def _move(self, timeout_s: float) -> None:
        """Write to and read from the pipes that are ready within this time."""
        for key, _ in self._selector.select(None if timeout_s == math.inf else timeout_s):
            if key.fileobj is not self._stdin:
                if not key.data(key.fd):
                    self._selector.unregister(key.fileobj)
                continue
            try:
                self._unsent = self._unsent[os.write(key.fd, self._unsent) :]
            except BrokenPipeError:  # a job that ends before it reads the plan explains that on stderr
                self._unsent = memoryview(b"")
            if not self._unsent:
                self._close_input()

    def _close_input(self) -> None:
        if not self._stdin.closed:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._stdin)
            self._stdin.close()

    def _keep_text(self, line: bytes) -> None:
        """Keep a line of text, the engine's messages separate from all others."""
        text = clean(line)
        before, prefix, sentence = text.partition(_PREFIX)
        if prefix and len(before) <= _LONGEST_TAG:
            self._sentences[sentence] = None
            self._look_at = 0.0  # a rank writes this when it ends
            return
        if text and not any(words in text for words in _SAYS_NOTHING):
            self._others.append(text)
            self._unshown += 1

    # ---------------------------------------------------------------------------------------------- end

    def terminate(self) -> None:
        """Ask the job to stop, and keep what was printed before: it may say why a user stopped it."""
        self._stop.said = tuple(self._for_people(self._others))
        self._process.terminate()

    def _for_people(self, lines: Sequence[str]) -> list[str]:
        if self._talks:
            return [*filter(None, [first_cause(lines)])]
        return [line for line in lines if not ucx_protocols.is_line(line)]

    def kill(self) -> None:
        self._child.kill()


def _line_reader(keep: Callable[[bytes], None]) -> Callable[[int], bool]:
    """Return a function that reads what there is in a pipe and keeps whole lines; at its end it keeps the rest, and
    returns false."""
    parts: list[bytes] = []

    def read(pipe: int) -> bool:
        data = os.read(pipe, 1 << 16)
        first, *others = data.split(b"\n")
        parts.append(first)
        for part in others:
            keep(b"".join(parts) + b"\n")
            parts[:] = [part]
        if not data and (rest := b"".join(parts)):
            keep(rest)
        return bool(data)

    return read
