"""Keeping records: every run leaves a file behind, and a full disk loses nothing that was measured."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from volley.errors import UserError
from volley.text import harmless


class Keeper:
    """A records file, opened before anything is measured and written line by line.

    A write that fails is remembered and ends the writing; the run goes on, because its records are in memory too.
    """

    def __init__(self, path: Path | None, descriptor: int, note: str | None = None) -> None:
        self.path = path
        """Where the records are; ``None`` where no place could be found for them."""
        self.note = note
        """What to say about the place, if it is not the one that was expected."""
        self.trouble: str | None = None if path else note
        """Why records are missing from the file."""
        self._descriptor = descriptor
        self._written = 0

    def write(self, line: bytes) -> None:
        """Append one whole line; an earlier file of that name is emptied by the first."""
        if self.trouble:
            return
        try:
            if not self._written:
                _empty(self._descriptor)
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self._written += len(line)
        except OSError as error:
            taken = f"{harmless(str(self.path))} took {self._written} bytes of records and no more"
            self.trouble = f"{taken}: {error.strerror}"
            self._drop_cut_line()

    def _drop_cut_line(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._written)

    def close(self) -> None:
        """Close the file; one that nothing was written to does not stay behind."""
        if self.path is None:
            return
        made_for_nothing = not self._written and os.fstat(self._descriptor).st_size == 0
        os.close(self._descriptor)
        if made_for_nothing and self.path.is_file():
            with contextlib.suppress(OSError):
                self.path.unlink()

    def last_line(self) -> str | None:
        """Say where the records are; ``None`` where there were none to keep."""
        if self._written:
            return f"records: {harmless(str(self.path))}"
        return "no records were kept" if self.trouble else None


def _empty(descriptor: int) -> None:
    """Forget what the file held; pipes and devices hold nothing."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)


def keep(output: Path | None, benchmark: str) -> Keeper:
    """Open the file for a run's records: ``output``, or a new one in the user's state folder.

    Raises:
        UserError: if ``output`` cannot be written.
    """
    if output is not None:
        try:
            return Keeper(output, os.open(output, os.O_WRONLY | os.O_CREAT, 0o666))
        except OSError as error:
            raise UserError(
                f"cannot write records to {harmless(str(output))}: {error.strerror}; name another file with -o, "
                "or leave -o out to keep them in ~/.local/state/volley"
            ) from None
    refusals = []
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path, descriptor = _new_file(folder, benchmark)
        except OSError as error:
            refusals.append(f"{harmless(str(folder))}: {error.strerror}")
            continue
        return Keeper(path, descriptor, _moved(refusals))
    return Keeper(None, -1, f"no folder takes them ({'; '.join(refusals)}); name a file with -o")


def _moved(refusals: list[str]) -> str | None:
    return f"records are kept elsewhere, because of {'; '.join(refusals)}" if refusals else None


def _folders() -> Iterator[Path]:
    """The folders for records, best first: the state folder of the XDG specification, then a temporary one."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        yield Path(state, "volley")
    with contextlib.suppress(RuntimeError):  # nobody knows where home is
        yield Path.home() / ".local" / "state" / "volley"
    from tempfile import mkdtemp  # noqa: PLC0415  start-up: hardly ever needed

    with contextlib.suppress(OSError):
        # A folder of one's own, as others could prepare a file of a known name in a shared one.
        yield Path(mkdtemp(prefix="volley-"))


def _new_file(folder: Path, benchmark: str) -> tuple[Path, int]:
    """Make a file named by local time and benchmark; a number is added where another run began in the same second."""
    stem = f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{benchmark}"
    for number in range(1, 1000):
        path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        with contextlib.suppress(FileExistsError):
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    raise FileExistsError(17, "a thousand runs began in this second", str(folder))
