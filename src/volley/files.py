"""Files that somebody named: read up to a bound, because some never end, and written whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from pathlib import Path

from volley.errors import MachineError, UserError
from volley.text import escape_controls

_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def read_bounded(source: str, max_bytes: int) -> bytes:
    """Return the content of a file, or of standard input for ``-``; that of a gzip file is unpacked."""
    name = "standard input" if source == "-" else escape_controls(source) or "''"
    pieces, left = [], max_bytes
    try:
        with nullcontext(sys.stdin.buffer) if source == "-" else Path(source).open("rb") as file:
            while left >= 0 and (piece := file.read(_PIECE)):
                pieces.append(piece)
                left -= len(piece)
    except IsADirectoryError:
        why = "it is a folder, not a file" if source else "no file has such a name"
        raise UserError(f"cannot read {name}: {why}") from None
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}") from None
    except ValueError:  # a name with a NUL
        raise UserError(f"cannot read {name}: no file has such a name") from None
    content = b"".join(pieces)
    if left >= 0 and content.startswith(_GZIP):
        content = _unpacked(content, max_bytes + 1, name)
    if len(content) > max_bytes:
        raise UserError(f"cannot read {name}: it holds more than {max_bytes >> 20} MiB")
    return content


_KINDS = {
    "trace": (rb"PK\x03\x04.{26}info\.npy", "is a trace of an application: write volley explain"),
    "facts": (rb'\s*\{\s*"facts":', "has the facts of a machine: write volley doctor --from"),
    "records": (rb'\s*\{\s*"record":', "has the records of a run: write volley show"),
}
"""What volley writes: how it begins, and what to say where another command gets it."""


def mistaken(content: bytes, name: str, own: str) -> str:
    """Return the sentence about a file that another command reads than the one for ``own``; empty if it is none."""
    shown = "-" if name == "standard input" else shlex.quote(name)
    others = (about for kind, about in _KINDS.items() if kind != own)
    return next((f"{name} {text} {shown}" for begin, text in others if re.match(begin, content, re.DOTALL)), "")


def _unpacked(content: bytes, max_bytes: int, name: str) -> bytes:
    """Unpack a gzip file up to a bound: a small one may hold terabytes."""
    import gzip  # noqa: PLC0415  start-up: few files are packed
    import zlib  # noqa: PLC0415

    try:
        with gzip.open(io.BytesIO(content)) as file:
            return file.read(max_bytes)
    except (OSError, EOFError, zlib.error):
        raise UserError(f"cannot read {name}: its gzip data is truncated or damaged") from None


def refuse_input(output: Path, inputs: Iterable[str]) -> None:
    """Refuse to write to a file that is read, also by another path or name of it."""
    for each in inputs:
        with suppress(OSError, ValueError):  # one of them does not exist
            if output.samefile(each):
                name = escape_controls(str(output))
                raise UserError(f"-o {name} would overwrite the input {escape_controls(each)}: name another file")


def refuse_existing(output: Path, *, force: bool) -> None:
    """Refuse a file with content unless ``force`` allows to replace it."""
    if not force and output.is_file() and output.stat().st_size:
        raise UserError(f"{escape_controls(str(output))} exists: name another file, or replace it with --force")


def write_file(output: Path, content: bytes, what: str = "") -> None:
    """Write a file: all of it or nothing, so that a former file stays where there is no room for its successor.

    Args:
        output: the file, which may exist; what a link leads to is replaced. A device or a pipe gets the bytes directly.
        content: all of its bytes.
        what: what they are, for the message.
    """
    target = Path(os.path.realpath(output))
    try:
        new, folder = not output.exists(), target.parent
        if os.access(folder, os.W_OK) and (new or (target.is_file() and os.access(target, os.W_OK))):
            _replace(target, content)
        else:
            output.write_bytes(content)
    except OSError as error:
        raise cannot_write(output, what, error) from None


def refuse_unwritable(output: Path, what: str) -> None:
    """Refuse a file that ``write_file`` could not write, before the work whose result it will hold.

    An existing file is not changed, and no new file stays.  Arguments and errors are those of ``write_file``.
    """
    target = Path(os.path.realpath(output))
    try:
        is_new = not target.exists()
        if is_new or target.is_file() or target.is_dir():  # to open a pipe would wait for its reader
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o666))
        if is_new:
            target.unlink()
    except OSError as error:
        raise cannot_write(output, what, error) from None


def cannot_write(output: Path, what: str, error: OSError) -> UserError:
    """Return the error of a file that cannot be written; one without room is an error of the machine."""
    problem = f"cannot write {what}{' to ' if what else ''}{escape_controls(str(output))}: {error.strerror}"
    if error.errno in NO_ROOM:
        return MachineError(f"{problem}; make room, or name a file elsewhere")
    return UserError(f"{problem}; name another file")


def _replace(target: Path, content: bytes) -> None:
    """Write a file beside the target, then rename it over the target, whose permissions it takes.

    At no moment does it allow more than the target did: the umask only takes permissions away from those it is made
    with.
    """
    part = target.with_name(f".volley-{os.urandom(8).hex()}")
    former = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    mode = 0o666 if former is None else former
    try:
        with open(part, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
            file.write(content)
        if former is not None:
            part.chmod(former)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
