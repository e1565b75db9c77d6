"""Write a records file, line by line while the run goes on."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from volley.errors import UserError
from volley.files import cannot_write, refuse_existing
from volley.records.saved_runs import folders_to_write, keep_name, saved_runs
from volley.text import escape_controls


class Writer:
    """A records file, opened before the first launch and written line by line.

    After a failed write nothing more is written.  The run continues, because its records are also in memory.
    """

    def __init__(self, path: Path | None, descriptor: int, note: str | None = None, *, created: bool = False) -> None:
        self.path = path
        """The path of the file; ``None`` if no file could be opened."""
        self.note = note
        """A message about the path, if it is not the default."""
        self.trouble: str | None = None if path else note
        """Why records are missing from the file; ``None`` if all are written."""
        self.launches = 0
        self.descriptor = descriptor
        self.held = b""
        """Lost if the run is stopped before the launch that should follow."""
        self._created = created
        self._written = 0

    def hold(self, line: bytes) -> None:
        """Append the last line of a launch before the next line, or at the end: in the file of a run that was killed
        between two launches it is missing."""
        self.held = line

    def write(self, line: bytes) -> None:
        """Append one complete line; the first call truncates an existing file of that name."""
        line, self.held = self.held + line, b""
        if self.trouble:
            return
        try:
            if not self._written:
                _cut(self.descriptor, 0)
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
            self._written += len(line)
        except OSError as error:
            part = f"cannot write more than {self._written} bytes of records to {escape_controls(str(self.path))}"
            self.trouble = f"{part}: {error.strerror}"
            _cut(self.descriptor, self._written)  # drop the last line, which may be a part

    def close(self) -> None:
        """Close the file; delete it if this process created it and wrote nothing."""
        if self.path is None:
            return
        if self.held:
            self.write(b"")
        try:
            os.close(self.descriptor)
        except OSError as error:  # NFS says only now that the disk or the quota is full (close(2))
            reason = f"cannot write all records to {escape_controls(str(self.path))}: {error.strerror}"
            self.trouble = self.trouble or reason
        if self._created and not self._written:
            with contextlib.suppress(OSError):
                self.path.unlink()
                if self.note:  # in a folder made for it
                    self.path.parent.rmdir()

    def command(self) -> str:
        """Return the command line that shows these records again; the short one for the last saved run."""
        if self.path is None:
            return "volley show FILE"
        shown = () if [run.path for run in saved_runs()[:1]] == [self.path] else (str(self.path),)
        return shlex.join(("volley", "show", *shown))

    def lost(self) -> str | None:
        """Return a sentence about what is not in the file; ``None`` if nothing is missing."""
        results = "later results" if self._written else "the results above"
        return f"{self.trouble}; {results} are not saved" if self.trouble else None

    def last_line(self) -> str | None:
        """Return the line that names the records file; ``None`` if there were no records."""
        if self._written:
            return f"records: {escape_controls(str(self.path))}"
        return "no records were saved" if self.trouble else None


def _cut(descriptor: int, length: int) -> None:
    """Truncate the file; pipes and devices cannot be truncated."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, length)


def open_writer(output: Path | None, benchmark: str, *, force: bool = False, name: str = "") -> Writer:
    """Open the file for a run's records: ``output``, or a new one in the user's state folder.

    Only with ``force`` the file may have content.  ``name`` is what the user calls the run; another run of this name is
    an error, and so is a folder that cannot keep the name, or a disk without room for records.
    """
    writer = _open_named(output, force=force) if output else _open_new(benchmark)
    if name and writer.path and writer.path.is_file():
        with _closed_after_error(writer):
            try:
                keep_name(name, writer.path)
            except OSError as error:
                where = f"--name {name} cannot be kept in {escape_controls(str(error.filename))}: {error.strerror}"
                raise UserError(f"{where}; leave --name out, or set XDG_STATE_HOME to another folder") from None
    return writer


def _open_named(output: Path, *, force: bool) -> Writer:
    try:
        created = not os.path.lexists(output)
        writer = Writer(output, os.open(output, os.O_WRONLY | os.O_CREAT, 0o666), created=created)
        with _closed_after_error(writer):
            is_file = stat.S_ISREG(os.fstat(writer.descriptor).st_mode)
            if is_file:
                _lock(writer.descriptor, output)
            refuse_existing(output, force=force)
            if is_file:
                _find_room(writer.descriptor)
    except OSError as error:
        raise cannot_write(output, "records", error) from None
    return writer


def _open_new(benchmark: str) -> Writer:
    refusals: list[str] = []
    for folder in folders_to_write():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path, descriptor = _new_file(folder, benchmark)
            moved = f"records go to another folder: cannot write to {'; '.join(refusals)}" if refusals else None
            writer = Writer(path, descriptor, moved, created=True)
            with contextlib.suppress(OSError):  # a file system without locks; who lists the runs has one for a moment
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            with _closed_after_error(writer):
                _find_room(descriptor)
        except OSError as error:
            refusals.append(f"{escape_controls(str(folder))}: {error.strerror}")
            continue
        return writer
    return Writer(None, -1, f"no folder for records is writable ({'; '.join(refusals)}); name a file with -o")


@contextlib.contextmanager
def _closed_after_error(writer: Writer) -> Iterator[None]:
    try:
        yield
    except (OSError, UserError):
        writer.close()
        raise


_ROOM_BYTES = 1 << 18
"""Of a short run."""


def _find_room(descriptor: int) -> None:
    """Raise OSError where there is no room for records: told now, not after all launches."""
    size = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, size, _ROOM_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # others: a file system that cannot tell
            raise
    finally:
        _cut(descriptor, size)


def _lock(descriptor: int, output: Path) -> None:
    """Keep other runs out of the file until it is closed, also by the end of this process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"another volley is writing its records to {escape_controls(str(output))}: wait for it, or name another "
            "file with -o"
        ) from None
    except OSError:  # a file system without locks
        pass


def _new_file(folder: Path, benchmark: str) -> tuple[Path, int]:
    """Create a file named by local time and benchmark, with a number if another run began in the same second."""
    stem = f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{benchmark}"
    for number in range(1, 1000):
        path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        with contextlib.suppress(FileExistsError):
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    raise FileExistsError(17, "a thousand runs began in this second", str(folder))
