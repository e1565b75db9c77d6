"""Where a set-up works: its folders inside the prefix, its logs, its processes."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import IO

from volley.errors import MachineError, UserError
from volley.setup.problems import StepError
from volley.text import harmless

TAIL_LINES = 20
"""Lines of a log that are shown when its step fails."""
TICK_S = 0.5
"""How often progress looks at a running process."""

_NOT_INHERITED = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DESTDIR", "LD_PRELOAD", "CONFIG_SITE")
"""Variables that would send a build somewhere else, or change it unseen."""
BUILD_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")
"""The user's own choices for compilers; a step is repeated when they change."""


@dataclass(frozen=True)
class Folders:
    """The places of one set-up; nothing outside the prefix is written to."""

    prefix: Path
    elsewhere: Path | None = None
    """For logs and the like, where the prefix is not ours to write them to."""

    @property
    def own(self) -> Path:
        """Everything that is not the installed software itself."""
        return self.elsewhere or self.prefix / ".volley-setup"

    @property
    def downloads(self) -> Path:
        return self.own / "downloads"

    @property
    def build(self) -> Path:
        return self.own / "build"

    @property
    def logs(self) -> Path:
        return self.own / "logs"

    @property
    def stamps(self) -> Path:
        return self.own / "stamps"

    @property
    def temporary(self) -> Path:
        return self.own / "tmp"

    @property
    def cuda(self) -> Path:
        """A CUDA toolkit put together from links, where the one found is not laid out as the builds want it."""
        return self.own / "cuda"

    @property
    def cuda_wheels(self) -> Path:
        """CUDA's wheels: installed software, since the runtime is loaded from there."""
        return self.prefix / "lib" / "cuda-wheels"

    def make(self) -> None:
        """Create the folders.

        Raises:
            MachineError: if the prefix cannot be written to.
        """
        try:
            for folder in (self.downloads, self.build, self.logs, self.stamps, self.temporary):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(
                f"cannot write to {self.prefix} ({error.strerror}); choose a folder of your own: --prefix ~/mpi"
            ) from None

    def lock(self) -> IO[str]:
        """Hold the prefix until the file returned is closed.

        Raises:
            UserError: if another set-up holds it.
        """
        file = (self.own / "lock").open("w", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise UserError(
                f"another volley setup is at work in {self.prefix}; wait for it, or take another --prefix"
            ) from None
        return file


@dataclass
class Work:
    """One step at work: its log, and who is told how it goes on."""

    folders: Folders
    log: Path
    environment: Mapping[str, str]
    tick: Callable[[str], None] = lambda _: None
    """Called twice a second with the last line of the log."""

    def note(self, line: str) -> None:
        """Write one line into the log."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        self.tick(line)

    def run(self, tokens: Sequence[str], folder: Path, extra: Mapping[str, str] | None = None, hint: str = "") -> None:
        """Run one command to its end, its output in the log.

        Args:
            tokens: the program and its arguments.
            folder: where to run it.
            extra: variables beyond those of the step.
            hint: what to try should it fail.

        Raises:
            StepError: if it fails, with the end of the log.
            MachineError: if there is no such program.
        """
        self.note(f"$ {join(tokens)}")
        environment = {**self.environment, "TMPDIR": str(self.folders.temporary), **(extra or {})}
        with self.log.open("ab") as log:
            try:
                process = subprocess.Popen(
                    tokens, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
            except OSError as error:
                raise MachineError(f"cannot run {harmless(tokens[0])}: {error.strerror}") from None
            try:
                code = self._wait(process)
            except BaseException:
                process.terminate()
                process.wait()
                raise
        if code:
            short = join(tokens[:3]) + (" …" if len(tokens) > 3 else "")
            raise self.failure(f"{short} failed with exit code {code}" + (f"; {hint}" if hint else ""))

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(TICK_S)
            self.tick(next(iter(self.tail(1)), ""))

    def tail(self, lines: int = TAIL_LINES) -> list[str]:
        """Return the last lines of the log; a long log is not read from its beginning."""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 200 * 4 * lines))
            return file.read().decode(errors="replace").splitlines()[-lines:]

    def failure(self, sentence: str) -> StepError:
        """Return the error of this step: the sentence, the end of the log, and where all of it stands."""
        return StepError(f"{sentence}; the whole log: {self.log}", self.tail())


def build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a user's environment without what would lead a build astray; messages are untranslated."""
    kept = {name: value for name, value in environment.items() if name not in _NOT_INHERITED}
    return {**kept, "LC_ALL": "C"}


def program(name: str, environment: Mapping[str, str]) -> str | None:
    """Return the path of a program on the environment's own PATH."""
    return shutil.which(name, path=environment.get("PATH"))
