"""Starting a program of the table, and what came of it: always a record, whatever went wrong."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, ClassVar, Literal

from programs import HERE, VOLLEY, BenchError, Starter

from volley.benchmarks import BENCHMARKS
from volley.errors import UserError
from volley.launch import engine
from volley.records.record_types import Run
from volley.records.records_file import read_runs

from .readers import Reader, Reading
from .results import figures

LAUNCH_TIMEOUT_S = 240
TERM_S = 5
"""What a launcher gets to end its ranks before it is killed."""


@dataclass(frozen=True)
class Command:
    """One program and its words."""

    key: str
    """What rows call it."""
    program: str
    """Its file in the folder of programs."""
    words: str
    """Separated by spaces."""
    read: Reader
    start: Literal["ranks", "unbound", "alone", "on cores"] = "ranks"
    """``ranks``: two, by the launcher, in the environment and on the cores of volley's own; ``unbound``: the same, on
    whatever cores; ``alone``: as it is; ``on cores``: alone, with the first core of each rank as its last words."""
    begins: str | None = None
    """What the first line of its work begins with; then ``work s`` is the time from that line to its end."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables added to the environment."""


@dataclass(frozen=True)
class Ours:
    """A command line of volley."""

    words: str
    """The benchmark and its options, separated by spaces."""
    environment: Mapping[str, str] = field(default_factory=dict)
    key: ClassVar = "volley"


@dataclass(frozen=True)
class Outcome:
    """What a launch came to."""

    wall_s: float
    reading: Reading
    reason: str | None = None
    """Why it failed; figures that it gave before still count."""


@dataclass(frozen=True)
class Place:
    """Where programs are and how ranks are started."""

    programs: Path
    starter: Starter
    run: Run
    """volley's account of the machine."""
    keep: Path | None = None
    """Folder for volley's own records, whole."""

    def launch(self, command: Command | Ours, name: str = "volley") -> Outcome:
        """Start a program and wait for its end; ``name`` is that of volley's records where they are kept."""
        return self._volley(command, name) if isinstance(command, Ours) else self._peer(command)

    def _volley(self, command: Ours, name: str) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            records = (self.keep or Path(folder)) / f"{name}.jsonl"
            benchmark, *words = command.words.split()
            tokens = [*VOLLEY, benchmark, "--format", "json", *words, "--force", "-o", str(records)]
            ended = finished(tokens, {**os.environ, **command.environment})
            reason = ended.reason(-1)
            try:
                found = figures(read_runs(records, BENCHMARKS))
            except (OSError, UserError) as error:
                return Outcome(ended.wall_s, Reading(), reason or str(error))
        return Outcome(ended.wall_s, Reading(found, self.run.engine.version), reason)

    def _peer(self, command: Command) -> Outcome:
        program = self.programs / command.program
        if not os.access(program, os.X_OK):
            return Outcome(0.0, Reading(), "there is no such program in the folder")
        tokens, environment = [str(program), *command.words.split()], {**os.environ, **command.environment}
        if command.start == "on cores":
            tokens += [str(rank.cores[0]) for rank in self.run.ranks]
        if command.start == "ranks":
            places = " ".join(",".join(map(str, rank.cores)) for rank in self.run.ranks)
            tokens = [str(HERE / "on_cores.sh"), places, *tokens]
        if command.start in ("ranks", "unbound"):
            tokens = [*self.starter.words, *tokens]
            environment |= self.starter.environment
        if command.begins:  # its lines come when it prints them
            tokens = ["stdbuf", "-oL", *tokens]
        ended = finished(tokens, environment, command.begins)
        reason = ended.reason(0)
        if reason:  # where somebody keeps the programs is nobody's business
            reason = reason.replace(f"{self.programs}/", "")
        try:
            reading = command.read(ended.output)
        except ValueError as error:
            return Outcome(ended.wall_s, Reading(), reason or f"its output: {error}")
        if ended.work_s is not None:
            reading.figures["work s"] = ended.work_s
        if not reading.figures and reason is None:
            reason = "it printed nothing that is known"
        return Outcome(ended.wall_s, reading, reason)


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    wall_s: float
    output: str
    errors: list[str]
    """Lines of standard error that say something."""
    how: str | None
    """How it ended, where that was not well."""
    work_s: float | None = None
    """From the line where its work began to its end."""

    def reason(self, line: int) -> str | None:
        """Return why it failed, with the line of standard error that tells most: a program's first, volley's last."""
        if self.how is None:
            return None
        return f"{self.how}: {self.errors[line]}" if self.errors else self.how


def finished(tokens: Sequence[str], environment: dict[str, str], begins: str | None = None) -> Ended:
    """Run a command to its end; ``begins`` is what the line begins with where its work does."""
    started = time.perf_counter()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        tokens, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        assert process.stdout
        output = _Output(process.stdout, begins)
        process.stdout = None  # the thread reads it
        try:
            _, errors = process.communicate(timeout=LAUNCH_TIMEOUT_S)
            how = _how(process.returncode)
        except subprocess.TimeoutExpired:
            errors, how = _stopped(process), f"it took longer than {LAUNCH_TIMEOUT_S} s"
        ended = time.perf_counter()
        output.join()
    said = [line.strip() for line in engine.clean(errors).splitlines() if any(map(str.isalpha, line))]
    work_s = ended - output.began if output.began else None
    return Ended(ended - started, b"".join(output.lines).decode("utf-8", "replace"), said, how, work_s)


class _Output(threading.Thread):
    """Reads what a command prints, and when the line came that begins with ``begins``."""

    def __init__(self, stream: IO[bytes], begins: str | None) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._begins = begins
        self.lines: list[bytes] = []
        self.began: float | None = None
        self.start()

    def run(self) -> None:
        """Read to the end."""
        with self._stream:
            for line in self._stream:
                self.lines.append(line)
                if self._begins and self.began is None and line.startswith(self._begins.encode()):
                    self.began = time.perf_counter()


def _how(status: int) -> str | None:
    if status == 0:
        return None
    return f"it ended by {signal.Signals(-status).name}" if status < 0 else f"it ended with status {status}"


def _stopped(process: subprocess.Popen[bytes]) -> bytes:
    """End a launcher that takes too long, its ranks with it, and return what it printed on standard error."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, number)
        try:
            return process.communicate(timeout=TERM_S)[1]
        except subprocess.TimeoutExpired:
            continue
    raise BenchError(f"process {process.pid} cannot be ended")
