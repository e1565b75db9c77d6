"""Where the sources of the components come from: tarballs, checkouts, distribution source packages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from volley.errors import UserError
from volley.text import harmless, several

COMPONENTS = ("gdrcopy", "ucx", "openmpi")
"""In the order in which each needs those before it."""

SPOKEN = {"gdrcopy": "GDRCopy", "ucx": "UCX", "openmpi": "Open MPI"}

Kind = Literal["url", "tarball", "dsc", "directory", "debian"]

FORMS = (
    "NAME=URL, NAME=TARBALL, NAME=DIRECTORY (a checkout), NAME=FILE.dsc or NAME=deb:PACKAGE[@SUITE], "
    "the first two also with #sha256=SUM"
)


@dataclass(frozen=True)
class Source:
    """Where one component comes from."""

    name: str
    """One of ``COMPONENTS``."""
    kind: Kind
    where: str
    """A URL, an absolute path, or Debian's ``PACKAGE`` or ``PACKAGE@SUITE``."""
    sha256: str | None = None
    """Of the tarball, 64 hexadecimal digits."""

    def __str__(self) -> str:
        """Return it as ``--source`` takes it."""
        prefix = "deb:" if self.kind == "debian" else ""
        return f"{self.name}={prefix}{self.where}" + (f"#sha256={self.sha256}" if self.sha256 else "")


# Releases of the projects themselves. The sums are those of Spack's recipes (github.com/spack/spack-packages:
# gdrcopy, ucx, openmpi); GDRCopy's was also computed from the project's repository: git archive v2.5.1 | gzip -n.
DEFAULTS = {
    source.name: source
    for source in (
        Source(
            "gdrcopy",
            "url",
            "https://github.com/NVIDIA/gdrcopy/archive/v2.5.1.tar.gz",
            "c6d5ebb7dabb89d798f27609511735595004da73af28d93ac041bb5290c4cbec",
        ),
        Source(
            "ucx",
            "url",
            "https://github.com/openucx/ucx/releases/download/v1.22.0/ucx-1.22.0.tar.gz",
            "258941cddd14ca60d38c0d31b9b09ec1052c901086841011a498da8b55a3cb24",
        ),
        Source(
            "openmpi",
            "url",
            "https://download.open-mpi.org/release/open-mpi/v5.0/openmpi-5.0.8.tar.bz2",
            "53131e1a57e7270f645707f8b0b65ba56048f5b5ac3f68faabed3eb0d710e449",
        ),
    )
}


def parse(text: str) -> Source:
    """Read one ``--source``.

    Raises:
        UserError: if it names no component, or nothing that there is.
    """
    name, _, where = text.partition("=")
    where, _, sum_ = where.partition("#sha256=")
    if name not in COMPONENTS or not where:
        raise UserError(f"--source {harmless(text)}: write {FORMS}; NAME is {several(COMPONENTS, 'or')}")
    if "#sha256=" in text and not re.fullmatch(r"[0-9a-fA-F]{64}", sum_):
        raise UserError(f"--source {harmless(text)}: a sha256 sum has 64 hexadecimal digits (sha256sum FILE prints it)")
    kind, where = _kind(where, text)
    if sum_ and kind not in ("url", "tarball"):
        raise UserError(f"--source {harmless(text)}: only a tarball has a sha256 sum; leave it out")
    return Source(name, kind, where, sum_.lower() or None)


def _kind(where: str, text: str) -> tuple[Kind, str]:
    """Tell what a source is by how it is written, and by what lies there."""
    if re.match(r"(https?|ftp|file)://", where):
        return "url", where
    if where.startswith("deb:"):
        package = where.removeprefix("deb:")
        if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+(@[a-z0-9-]+)?", package):
            raise UserError(
                f"--source {harmless(text)}: write deb:PACKAGE or deb:PACKAGE@SUITE, such as deb:ucx@bookworm"
            )
        return "debian", package
    path = Path(where).expanduser().absolute()
    if path.is_dir():
        return "directory", str(path)
    if path.is_file():
        return ("dsc" if path.suffix == ".dsc" else "tarball"), str(path)
    raise UserError(f"--source {harmless(text)}: there is no {harmless(where)}; write {FORMS}")


def chosen(given: Sequence[str], without: Sequence[str] = ()) -> list[Source]:
    """Return the sources of the components to build: those given, and the defaults of the rest.

    Raises:
        UserError: if a source is given twice, or for a component that is left out.
    """
    for name in without:
        if name != "gdrcopy":
            raise UserError(f"--without {harmless(name)}: only gdrcopy can be left out")
    by_name: dict[str, Source] = {}
    for source in map(parse, given):
        if source.name in by_name or source.name in without:
            raise UserError(f"--source {source.name} is given twice, or left out by --without; keep one of them")
        by_name[source.name] = source
    return [by_name.get(name, DEFAULTS[name]) for name in COMPONENTS if name not in without]


def identity(source: Source) -> str:
    """Return what tells one source from another: a step is repeated when this changes.

    A tarball is its sum, a checkout the names, sizes and times of its files (git's own folder does not count).
    """
    path = Path(source.where)
    if source.kind in ("tarball", "dsc"):
        return f"{source.kind} {sha256_of(path)}"
    if source.kind == "directory":
        digest = hashlib.sha256()
        for file in sorted(path.rglob("*")):
            if ".git" not in file.relative_to(path).parts and not file.is_dir():
                facts = file.lstat()
                digest.update(f"{file.relative_to(path)}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode())
        return f"directory {digest.hexdigest()}"
    return str(source)


def sha256_of(path: Path) -> str:
    """Return the sha256 sum of a file in hexadecimal digits."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
