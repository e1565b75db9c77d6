"""The sources of the components: tarballs, checkouts, source packages of the distribution."""

from __future__ import annotations

import hashlib
import http.client
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from volley.errors import EXIT_FAILED, MachineError, UserError
from volley.run import option_values
from volley.text import escape_controls, join_words

SPOKEN = {"gdrcopy": "GDRCopy", "ucx": "UCX", "openmpi": "Open MPI"}
"""The components, in the order in which each needs those before it."""

FORMS = (
    "NAME=URL, NAME=TARBALL, NAME=DIRECTORY (a checkout), NAME=FILE.dsc or NAME=deb:PACKAGE[@SUITE], "
    "the first two also with #sha256=SUM"
)
NETWORK_TIMEOUT_S = 30.0
"""A server that sends nothing for this long counts as unreachable."""


class ChecksumError(UserError):
    """A file does not have the checksum that it should have."""

    exit_code: int = EXIT_FAILED


@dataclass(frozen=True)
class Source:
    """Where one component comes from."""

    name: str
    """A key of ``SPOKEN``."""
    kind: Literal["url", "tarball", "dsc", "directory", "debian"]
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
RELEASES = {
    "gdrcopy": Source(
        "gdrcopy",
        "url",
        "https://github.com/NVIDIA/gdrcopy/archive/v2.5.1.tar.gz",
        "c6d5ebb7dabb89d798f27609511735595004da73af28d93ac041bb5290c4cbec",
    ),
    "ucx": Source(
        "ucx",
        "url",
        "https://github.com/openucx/ucx/releases/download/v1.22.0/ucx-1.22.0.tar.gz",
        "258941cddd14ca60d38c0d31b9b09ec1052c901086841011a498da8b55a3cb24",
    ),
    "openmpi": Source(
        "openmpi",
        "url",
        "https://download.open-mpi.org/release/open-mpi/v5.0/openmpi-5.0.8.tar.bz2",
        "53131e1a57e7270f645707f8b0b65ba56048f5b5ac3f68faabed3eb0d710e449",
    ),
}


def chosen(given: Sequence[str], without: Sequence[str] = ()) -> list[Source]:
    """Return the sources of the components to build: those given, and the releases of the rest.

    Raises:
        UserError: if a source cannot be understood, is given twice, or is for a component that is left out.
    """
    for name in without:
        if name != "gdrcopy":
            raise UserError(f"--without {escape_controls(name)}: only gdrcopy can be left out")
    by_name: dict[str, Source] = {}
    for source in map(parse, given):
        if source.name in by_name or source.name in without:
            raise UserError(f"--source {source.name} is given twice, or left out by --without; keep one of them")
        by_name[source.name] = source
    return [by_name.get(name, RELEASES[name]) for name in SPOKEN if name not in without]


def parse(text: str) -> Source:
    """Read one ``--source``.

    Raises:
        UserError: if it names no component, or a file that does not exist.
    """
    option = f"--source {escape_controls(text)}"
    name, _, where = text.partition("=")
    where, mark, sum_ = where.partition("#sha256=")
    if name not in SPOKEN or not where:
        raise UserError(f"{option}: write {FORMS}; NAME is {join_words(SPOKEN, 'or')}")
    if mark and not re.fullmatch(r"[0-9a-fA-F]{64}", sum_):
        raise UserError(f"{option}: a sha256 sum has 64 hexadecimal digits (sha256sum FILE prints it)")
    if re.match(r"(https?|ftp|file)://", where):
        source = Source(name, "url", where, sum_.lower() or None)
        _refuse_unprotected(source, where)
        return source
    path = option_values.absolute("--source", where)
    if path.is_file() and path.suffix != ".dsc" and not where.startswith("deb:"):
        return Source(name, "tarball", str(path), sum_.lower() or None)
    if mark:
        raise UserError(f"{option}: only a tarball has a sha256 sum; leave it out")
    if where.startswith("deb:"):
        package = where.removeprefix("deb:")
        if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+(@[a-z0-9-]+)?", package):
            raise UserError(f"{option}: write deb:PACKAGE or deb:PACKAGE@SUITE, such as deb:ucx@bookworm")
        return Source(name, "debian", package)
    if path.is_dir():
        return Source(name, "directory", str(path))
    if path.is_file():
        return Source(name, "dsc", str(path))
    raise UserError(f"{option}: there is no {escape_controls(where)}; write {FORMS}")


def _refuse_unprotected(source: Source, url: str) -> None:
    """Refuse a URL whose file others can change on its way, unless its sum is known.

    Raises:
        UserError: if it is so.
    """
    if source.sha256 is None and url.startswith(("http:", "ftp:")):
        raise UserError(
            f"--source {escape_controls(f'{source.name}={source.where}')}: nothing protects {escape_controls(url)} "
            "from changes on its way, and volley would build it: write https://, or add #sha256=SUM"
        )


def identity(source: Source) -> str:
    """Return what tells one source from another: a component is built again when this changes.

    A file is its sum, a checkout the names, sizes and times of its files (git's own folder does not count).

    Raises:
        ChecksumError: if a tarball is not the one that ``#sha256=`` names.
    """
    path = Path(source.where)
    if source.kind in ("tarball", "dsc"):
        return check_sum(path, source.sha256, source.where)
    if source.kind != "directory":
        return str(source)
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        if ".git" not in file.relative_to(path).parts and not file.is_dir():
            facts = file.lstat()
            digest.update(f"{file.relative_to(path)}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def check_sum(file: Path, expected: str | None, called: str) -> str:
    """Compare a file with its sum, where one is given, and return the sum that it has.

    Raises:
        ChecksumError: if they differ.
    """
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    found = digest.hexdigest()
    if expected and found != expected:
        raise ChecksumError(
            f"wrong checksum: {escape_controls(called)} has sha256 {found} and should have {expected}; nothing was "
            f"unpacked (the file is {file}); get it again, or correct the sum"
        )
    return found


def download(source: Source, to: Path) -> str:
    """Get a tarball from the network and check its sum; only then does the file get its name.

    A file that is already there is only checked.  Returns what there is to note in the log.

    Raises:
        MachineError: if there is no network or no such file, or if the transfer ended early.
        UserError: if a redirection leads where the file could be changed on its way.
        ChecksumError: if it is another file than the one that was meant.
    """
    if to.exists():
        check_sum(to, source.sha256, source.where)
        return f"{source.where} was downloaded before: {to}\n"
    partial = to.with_name(to.name + ".part")
    host = escape_controls(source.where.split("/")[2] or source.where)  # urlsplit refuses some of them
    hint = f"give the source yourself: --source {source.name}=TARBALL, a checkout's folder, or deb:PACKAGE"
    try:
        with (
            urllib.request.urlopen(source.where, timeout=NETWORK_TIMEOUT_S) as answer,  # noqa: S310  the user's own URL
            partial.open("wb") as file,
        ):
            _refuse_unprotected(source, answer.url)  # where redirections led
            shutil.copyfileobj(answer, file, 1 << 20)
            promised = answer.headers.get("Content-Length") or str(file.tell())
            if promised != str(file.tell()):  # http.client lets a body pass that is too short
                raise http.client.IncompleteRead(b"")
    except urllib.error.HTTPError as error:
        raise MachineError(f"{host} answers {error.code} {error.reason} for {source.where}; {hint}") from None
    except http.client.IncompleteRead:
        raise MachineError(f"the download of {source.where} ended too early; run the same command again") from None
    except (ValueError, urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
        # ValueError: of a URL that is none, or of a redirection to one.
        reason = escape_controls(str(getattr(error, "reason", error))) or type(error).__name__
        raise MachineError(f"cannot reach {host} ({reason}): is there a network? {hint}") from None
    found = check_sum(partial, source.sha256, source.where)
    partial.replace(to)
    return f"downloaded {source.where}; to be sure of this file the next time, add #sha256={found}\n"
