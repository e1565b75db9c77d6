"""The folders of a set-up inside its prefix, a log for each step, a lock, the progress, and what runs commands."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, NoReturn, TextIO

from volley.errors import EXIT_FAILED, EXIT_MACHINE, EXIT_USAGE, MachineError, UserError
from volley.machine.signals import Child, restore_handlers
from volley.text import escape_controls
from volley.units import format_duration

MIB = 1 << 20
TAIL_LINES = 20
TICK_S = 0.5
"""How often progress looks at a running process."""
SAYS = "volley: "
"""How a script's own complaint begins; at the end of a log it is the reason of the failure."""


class StepError(UserError):
    """A step failed: the message says which, why, and where its log is; ``tail`` is the end of that log."""

    def __init__(
        self, sentence: str, tail: Sequence[str] = (), exit_code: int = EXIT_FAILED, status: int | None = None
    ) -> None:
        """Take the sentence, the last lines of the log, the exit code of volley, and that of the command."""
        super().__init__(sentence)
        self.exit_code = exit_code
        self.status = status
        self.tail = [escape_controls(line) for line in tail]


class Folders:
    """The places of one set-up; nothing outside the prefix is written to."""

    def __init__(self, prefix: Path, elsewhere: Path | None = None) -> None:
        """Take the prefix, and where logs go if the prefix is an environment that belongs to its packages."""
        self.prefix = prefix
        self.own = elsewhere or prefix / ".volley-setup"
        """Everything that is not the installed software itself."""
        self.logs, self.temporary = self.own / "logs", self.own / "tmp"

    def new_log(self, name: str) -> Path:
        """Return the path of a log, which is empty."""
        log = self.logs / f"{name}.log"
        log.write_bytes(b"")
        return log

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folders, and keep other set-ups out of the prefix.

        SIGTERM and a closed terminal end the running step, as Ctrl-C does; a signal that is ignored (``nohup``) stays
        ignored.
        """

        def stop(number: int, _: object) -> NoReturn:
            raise SystemExit(128 + number)

        try:
            for folder in (self.logs, self.temporary):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(
                f"cannot write to {self.prefix} ({error.strerror}); choose a folder of your own: --prefix ~/mpi"
            ) from None
        with (self.own / "lock").open("w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UserError(
                    f"another volley setup is working in {self.prefix}; wait until it ends, or choose another --prefix"
                ) from None
            heard = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
            before = {number: signal.signal(number, stop) for number in heard}
            try:
                yield
            finally:
                restore_handlers(before)


def writable(prefix: Path, need_bytes: int) -> None:
    """Check that a prefix can be made or written to, and that its file system has room.

    Nothing is created: the nearest folder that exists answers for those below it.
    """
    there = next(path for path in (prefix, *prefix.parents) if path.exists())
    if not there.is_dir():
        raise MachineError(f"cannot create {prefix}: {there} is not a folder; choose another --prefix")
    if not os.access(there, os.W_OK | os.X_OK):
        raise MachineError(f"no permission to write to {there}; choose a folder of your own: --prefix ~/mpi")
    free = shutil.disk_usage(there).free
    if free < need_bytes:
        raise MachineError(
            f"{there} has {free // MIB} MiB free and this needs {need_bytes // MIB} MiB; "
            "make room, or choose a --prefix on another file system"
        )


def run_logged(
    tokens: Sequence[str],
    log: Path,
    *,
    title: str,
    environment: Mapping[str, str],
    folder: Path,
    tick: Callable[[str], None] = lambda _: None,
    limit_s: float = float("inf"),
) -> None:
    """Run one command in a folder with this environment alone; its output goes to the log.

    Messages call it ``title``.  ``tick`` gets the last line of the log twice a second; after ``limit_s`` it is ended.
    """
    quiet, out = subprocess.DEVNULL, subprocess.STDOUT
    with (
        log.open("ab") as output,
        Child(tokens, environment, cwd=folder, stdin=quiet, stdout=output, stderr=out) as child,
    ):
        process, begun = child.process, time.monotonic()
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(min(TICK_S, limit_s))
            tick(next(iter(tail(log, 1)), ""))
            if time.monotonic() - begun > limit_s:
                raise StepError(f"{title} did not end within {limit_s:g} s: it hangs; full log: {log}", tail(log))
    if process.returncode:
        reason, code = complaint(tail(log, 3), process.returncode)
        raise StepError(f"{title} failed{reason}; full log: {log}", tail(log), code, process.returncode)


def complaint(said: Sequence[str], returncode: int) -> tuple[str, int]:
    """Return why a command failed, from the last lines that it printed, and the exit code of volley."""
    own = [line.removeprefix(SAYS) for line in said if line.startswith(SAYS)]
    known = own and returncode in (EXIT_USAGE, EXIT_MACHINE)
    reason = f": {own[-1]}" if own else f" with exit code {returncode}"
    return escape_controls(reason), returncode if known else EXIT_FAILED


def tail(log: Path, lines: int = TAIL_LINES) -> list[str]:
    """Return the last lines of a log; a long log is not read from its beginning."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 800 * lines))
        text = file.read().replace(b"\0", b"").decode(errors="replace")  # Open MPI's errors hold NUL bytes
    return [line for line in text.splitlines() if line.strip()][-lines:]


def shown(tokens: Sequence[str]) -> str:
    return escape_controls(join(tokens))


if TYPE_CHECKING:
    from rich.status import Status


def say(out: TextIO, *lines: str) -> None:
    out.writelines(f"{line}\n" for line in lines)
    out.flush()


@contextmanager
def progress(out: TextIO, title: str) -> Iterator[Callable[[str], None]]:
    """Say that a step begins and how it ended; yield the function that shows the last line of the step's log."""
    begun, ended = time.monotonic(), "FAILED after"
    status: Status | None = None
    if out.isatty():
        from rich.console import Console  # noqa: PLC0415  start-up: only on a terminal
        from rich.text import Text  # noqa: PLC0415

        status = Console(file=out, highlight=False, markup=False, emoji=False).status(Text(title))  # a str is markup
        status.start()
    else:
        say(out, f"{title} …")

    def tick(line: str) -> None:
        if status is None:
            return
        elapsed = format_duration(time.monotonic() - begun)
        said = Text(f"{title} · {elapsed} · {escape_controls(line).strip()}", no_wrap=True, overflow="ellipsis")
        said.truncate(max(20, status.console.width - 4))
        status.update(said)

    try:
        yield tick
        ended = "done in"
    finally:
        if status is not None:
            status.stop()
        say(out, f"{title}: {ended} {format_duration(time.monotonic() - begun)}")
