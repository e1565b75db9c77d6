"""What steps are made of.  An action is data: it can be shown, told from another, and done."""

from __future__ import annotations

import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from typing import Protocol

from volley.errors import MachineError, UserError
from volley.setup.problems import ChecksumError
from volley.setup.sources import sha256_of
from volley.setup.work import Work
from volley.text import harmless

if sys.version_info >= (3, 12):
    import tarfile
else:
    from backports import tarfile  # type: ignore[import-untyped]  # the filters, which Python has since 3.11.4 only

NETWORK_TIMEOUT_S = 30.0
"""A server that says nothing for so long is taken for unreachable."""


class Action(Protocol):
    """One thing to do."""

    def line(self) -> str:
        """Say it in one line, a command as one would type it; for people and for telling steps apart, never run."""
        ...

    def do(self, work: Work) -> None:
        """Do it; raise what stopped it."""
        ...


@dataclass(frozen=True)
class Run:
    """Run a program."""

    tokens: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""
    """What to try should it fail."""

    def line(self) -> str:
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return f"cd {join([str(self.folder)])} && {join([*variables, *self.tokens])}"

    def do(self, work: Work) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        work.run(self.tokens, self.folder, self.environment, self.hint)


@dataclass(frozen=True)
class Download:
    """Get a file from the network, and check its sum; only then has it its name."""

    name: str
    """The component, for the hint."""
    url: str
    to: Path
    sha256: str | None

    def line(self) -> str:
        return f"download {self.url} to {self.to}" + (f", sha256 {self.sha256}" if self.sha256 else "")

    def do(self, work: Work) -> None:
        work.note(self.line())
        partial = self.to.with_name(self.to.name + ".part")
        try:
            with (
                urllib.request.urlopen(self.url, timeout=NETWORK_TIMEOUT_S) as answer,  # noqa: S310  the user's own URL
                partial.open("wb") as file,
            ):
                shutil.copyfileobj(answer, file, 1 << 20)
        except urllib.error.HTTPError as error:
            raise MachineError(
                f"{self._host} answers {error.code} {error.reason} for {self.url}; {self._hint}"
            ) from None
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            reason = harmless(str(getattr(error, "reason", error)))
            raise MachineError(f"cannot reach {self._host} ({reason}): is there a network? {self._hint}") from None
        if not self.sha256:
            work.note(f"no sum was given; add #sha256={sha256_of(partial)} to the source to hold on to this file")
        check_sum(partial, self.sha256, self.url)
        partial.replace(self.to)

    @property
    def _host(self) -> str:
        return harmless(urllib.parse.urlsplit(self.url).netloc or self.url)

    @property
    def _hint(self) -> str:
        return f"give the source yourself: --source {self.name}=TARBALL, a checkout's folder, or deb:PACKAGE"


@dataclass(frozen=True)
class Check:
    """Compare a file with the sum that it should have."""

    file: Path
    sha256: str

    def line(self) -> str:
        return f"check that {self.file} has sha256 {self.sha256}"

    def do(self, work: Work) -> None:
        work.note(self.line())
        check_sum(self.file, self.sha256, str(self.file))


def check_sum(file: Path, expected: str | None, called: str) -> None:
    """Compare a file with its sum; no sum, no check.

    Raises:
        ChecksumError: if they differ; the file is kept under the name that it has, and nothing was unpacked.
    """
    if expected and (found := sha256_of(file)) != expected:
        raise ChecksumError(
            f"wrong checksum: {called} has sha256 {found} and should have {expected}; nothing was unpacked "
            f"(the file is {file}); get it again, or correct the sum"
        )


@dataclass(frozen=True)
class Unpack:
    """Unpack a tarball; its one top folder becomes ``into``."""

    archive: Path
    into: Path

    def line(self) -> str:
        return f"unpack {self.archive} as {self.into}"

    def do(self, work: Work) -> None:
        work.note(self.line())
        scratch = self.into.with_name(self.into.name + ".unpacking")
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            with tarfile.open(self.archive) as tar:
                tar.extractall(scratch, filter="data")
        except (tarfile.TarError, EOFError, OSError) as error:
            raise MachineError(f"cannot unpack {self.archive}: {harmless(str(error))}") from None
        tops = list(scratch.iterdir())
        top = tops[0] if len(tops) == 1 and tops[0].is_dir() else scratch
        top.rename(self.into)
        shutil.rmtree(scratch, ignore_errors=True)


@dataclass(frozen=True)
class UnpackDebian:
    """Unpack a Debian source package: ``dpkg-source`` checks its sums."""

    description: Path
    """The ``.dsc`` file, or a folder that holds one."""
    into: Path
    patched: bool
    """With the distribution's patches."""

    def line(self) -> str:
        return join(self._words(self.description))

    def do(self, work: Work) -> None:
        found = [self.description] if self.description.is_file() else sorted(self.description.glob("*.dsc"))
        if len(found) != 1:
            raise MachineError(f"{self.description} holds {len(found)} .dsc files instead of one; remove that folder")
        work.run(self._words(found[0]), self.into.parent)

    def _words(self, description: Path) -> list[str]:
        skip = [] if self.patched else ["--skip-patches"]
        return ["dpkg-source", *skip, "--extract", str(description), str(self.into)]


@dataclass(frozen=True)
class CopyTree:
    """Copy a checkout, because a build writes into its sources."""

    directory: Path
    into: Path

    def line(self) -> str:
        return join(["cp", "-a", str(self.directory), str(self.into)])

    def do(self, work: Work) -> None:
        work.note(self.line())
        if self.directory in self.into.parents:
            raise UserError(f"--prefix lies inside the source {self.directory}; choose another prefix")
        shutil.copytree(self.directory, self.into, symlinks=True)


@dataclass(frozen=True)
class Autogen:
    """Make ``configure`` where a source has none: checkouts and Debian's packages do not."""

    folder: Path

    def line(self) -> str:
        return f"cd {join([str(self.folder)])} && ./autogen.sh or ./autogen.pl, if there is no ./configure"

    def do(self, work: Work) -> None:
        if (self.folder / "configure").exists():
            return
        script = next((name for name in ("autogen.pl", "autogen.sh") if (self.folder / name).exists()), None)
        if script is None:
            raise MachineError(f"{self.folder} has neither configure nor autogen.sh; is the --source the right one?")
        work.run([f"./{script}"], self.folder)


@dataclass(frozen=True)
class InstallWheels:
    """Install wheels, and nothing that they require, into a folder of their own."""

    target: Path
    wheels: tuple[str, ...]

    def line(self) -> str:
        return join(["python", *self._words])

    def do(self, work: Work) -> None:
        hint = "is there a network? Give a CUDA that is here: --cuda DIR"
        work.run([sys.executable, *self._words], work.folders.own, hint=hint)

    @property
    def _words(self) -> tuple[str, ...]:
        pip = ("-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--upgrade")
        return (*pip, "--target", str(self.target), *self.wheels)


@dataclass(frozen=True)
class Write:
    """Write a small text file."""

    file: Path
    text: str

    def line(self) -> str:
        return f"write {self.file}: {self.text.strip()}"

    def do(self, work: Work) -> None:
        work.note(self.line())
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.text, encoding="utf-8")


@dataclass(frozen=True)
class MakeFolders:
    """Create folders that a program expects."""

    folders: tuple[Path, ...]

    def line(self) -> str:
        return join(["mkdir", "-p", *map(str, self.folders)])

    def do(self, work: Work) -> None:
        work.note(self.line())
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
